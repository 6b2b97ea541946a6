//! A program: its tools, its hooks, and its settings.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    error::{ProjectError, ProjectErrorKind},
    hook::{HookEvent, UseOfFiles},
    role::HarnessMap,
};

const KNOWN: &str = include_str!("../../harnesses.json");

/// A program that works on projects and has hooks.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Harness {
    harness: String,
    classes: serde_json::Value,
    pub(super) hooks: Hooks,
}

/// Format of the program's hooks and their answers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Hooks {
    /// The program's settings file, relative to the project.
    pub(super) file: String,
    /// The program's names of the events. It does not report events that are missing here.
    pub(super) events: BTreeMap<String, EventName>,
    /// Tools that change the files in their arguments.
    pub(super) edits: BTreeSet<String>,
    /// Tools that change no file.
    pub(super) reads: BTreeSet<String>,
    /// Arguments that contain the path of a file.
    pub(super) path_arguments: Vec<String>,
    /// Arguments that contain a patch, whose lines name files.
    pub(super) patch_arguments: Vec<String>,
}

/// A program's name of an event.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventName {
    pub(super) name: String,
    /// Matcher of the event in the program's settings.
    #[serde(default)]
    pub(super) matcher: Option<String>,
    /// True if the program does not pass answers to the event on to its model.
    #[serde(default)]
    pub(super) is_unheard: bool,
}

impl Harness {
    /// Returns all known programs.
    ///
    /// # Errors
    ///
    /// The list in Nexus cannot be read, which a test rules out.
    pub fn all() -> Result<Vec<Self>, ProjectError> {
        serde_json::from_str(KNOWN).map_err(|error| {
            let message = format!("the list of programs cannot be read: {error}");
            ProjectError::new(ProjectErrorKind::Failed, message, "report this")
        })
    }

    /// Returns the program of this name.
    ///
    /// # Errors
    ///
    /// [`ProjectErrorKind::Unknown`], with the known names.
    pub fn find(name: &str) -> Result<Self, ProjectError> {
        let all = Self::all()?;
        let known: Vec<_> = all.iter().map(|known| known.harness.clone()).collect();
        all.into_iter().find(|known| known.harness == name).ok_or_else(|| {
            let message = format!("the hooks of {name:?} are unknown");
            ProjectError::unknown(message, format!("name one of {}", known.join(", ")))
        })
    }

    /// Returns a program that combines all known ones, for a call from an unknown program. It counts a tool as changing
    /// files if any program has such a tool.
    pub(crate) fn any() -> Result<Self, ProjectError> {
        let merged = Self::all()?.into_iter().reduce(|mut any, other| {
            let hooks = other.hooks;
            any.hooks.edits.extend(hooks.edits);
            any.hooks.reads.extend(hooks.reads);
            any.hooks.path_arguments.extend(hooks.path_arguments);
            any.hooks.patch_arguments.extend(hooks.patch_arguments);
            any
        });
        merged.ok_or_else(|| {
            let message = "the list of programs is empty";
            ProjectError::new(ProjectErrorKind::Failed, message, "report this")
        })
    }

    /// Returns a tool's use of files.
    pub(crate) fn use_of_files(&self, tool: &str) -> UseOfFiles {
        match (self.hooks.edits.contains(tool), self.hooks.reads.contains(tool)) {
            (true, _) => UseOfFiles::Edits,
            (false, true) => UseOfFiles::Reads,
            (false, false) => UseOfFiles::Unknown,
        }
    }

    /// Returns an example call of a tool that changes a file, in the form in which the program reports it before a call.
    pub fn example_of_an_edit(&self, folder: &Path) -> Value {
        let tool = self.hooks.edits.first().map_or("", String::as_str);
        let path = folder.join("example.txt");
        let arguments: Map<_, _> =
            self.hooks.path_arguments.iter().map(|name| (name.clone(), json!(path))).collect();
        json!({ "session_id": "example", "cwd": folder, "tool_name": tool, "tool_input": arguments })
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.harness
    }

    /// Returns the program's tools, by class.
    ///
    /// # Errors
    ///
    /// The list lacks a class, which a test rules out.
    pub fn map(&self) -> Result<HarnessMap, ProjectError> {
        // Go through JSON, so that the map is checked like one from a file.
        let written = serde_json::json!({ "harness": self.harness, "classes": self.classes });
        serde_json::from_value(written)
            .map_err(|error| ProjectError::new(ProjectErrorKind::Failed, error.to_string(), "report this"))
    }

    /// Returns true if the program does not pass answers to an event on to its model.
    pub fn is_unheard(&self, event: HookEvent) -> bool {
        self.hooks.events.get(event.as_str()).is_some_and(|event| event.is_unheard)
    }

    /// Returns the events that the program reports.
    pub fn events(&self) -> impl Iterator<Item = HookEvent> + '_ {
        HookEvent::ALL.into_iter().filter(|event| self.hooks.events.contains_key(event.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_of_the_list_has_a_whole_map_and_all_events() {
        let all = Harness::all().unwrap();
        assert!(all.len() >= 3);
        for harness in all {
            harness.map().unwrap();
            assert!(harness.hooks.events.len() >= 6, "{}", harness.name());
            for event in harness.hooks.events.keys() {
                assert!(HookEvent::ALL.iter().any(|known| known.as_str() == event), "{event}");
            }
        }
    }
}
