//! Classes of a program's tools, and the tools that remain for a role.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use nexus_core::ToolAccess;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Capability, ToolClass};

/// The tools of a program, by class. It lists every class: an empty list means that the program has no tool of the
/// class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, try_from = "Written")]
pub struct HarnessMap {
    /// The program.
    pub harness: String,
    /// The names of its tools, by class.
    classes: BTreeMap<ToolClass, BTreeSet<String>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Written {
    harness: String,
    classes: BTreeMap<ToolClass, BTreeSet<String>>,
}

/// A map leaves a class out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HarnessMapError {
    /// The program.
    pub harness: String,
    /// The classes that are missing.
    pub missing: Vec<ToolClass>,
}

impl fmt::Display for HarnessMapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let missing: Vec<_> = self.missing.iter().map(|class| class.as_str()).collect();
        write!(
            f,
            "the map of {:?} lacks {}: name its tools, or an empty list if it has none",
            self.harness,
            missing.join(", ")
        )
    }
}

impl std::error::Error for HarnessMapError {}

impl TryFrom<Written> for HarnessMap {
    type Error = HarnessMapError;

    fn try_from(written: Written) -> Result<Self, HarnessMapError> {
        Self::new(written.harness, written.classes)
    }
}

impl HarnessMap {
    /// Creates the map of a program.
    ///
    /// # Errors
    ///
    /// [`HarnessMapError`]: a class is missing.
    pub fn new(
        harness: impl Into<String>,
        classes: BTreeMap<ToolClass, BTreeSet<String>>,
    ) -> Result<Self, HarnessMapError> {
        let harness = harness.into();
        let missing: Vec<_> =
            ToolClass::ALL.into_iter().filter(|class| !classes.contains_key(class)).collect();
        if missing.is_empty() {
            Ok(Self { harness, classes })
        } else {
            Err(HarnessMapError { harness, missing })
        }
    }

    /// Returns the map of Nexus's own tools: for files, checks and tasks.
    pub fn of_nexus() -> Self {
        let classes = ToolClass::ALL.into_iter().map(|class| {
            let tools: &[&str] = match class {
                ToolClass::FileCreation | ToolClass::FileModification => &["write_file"],
                ToolClass::PartialEdit => &["edit_file"],
                ToolClass::FileDeletion => &["delete_file"],
                ToolClass::TaskCreation => &["task_add"],
                ToolClass::TaskState => &["task_update", "task_close"],
                ToolClass::Command => &["run_tests", "run_probe"],
                ToolClass::StructuredEdit
                | ToolClass::TaskMetadata
                | ToolClass::Subprocess
                | ToolClass::Interactive => &[],
            };
            (class, tools.iter().map(|&tool| tool.to_owned()).collect())
        });
        Self { harness: "nexus".to_owned(), classes: classes.collect() }
    }

    /// Returns the tools that these capabilities remove.
    pub fn taken_by<'c>(&self, capabilities: impl IntoIterator<Item = &'c Capability>) -> BTreeSet<&str> {
        let classes = capabilities.into_iter().flat_map(|capability| capability.classes());
        classes.filter_map(|class| self.classes.get(class)).flatten().map(String::as_str).collect()
    }
}

/// Access and tools of a role in a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleTools {
    /// Widest access level at which the program's own tools include none of the removed ones.
    pub access: ToolAccess,
    /// Names of the removed tools.
    pub taken: BTreeSet<String>,
}

impl RoleTools {
    /// Returns the access of a role with these restrictions and additional ones. Nothing removes a restriction.
    pub fn of(capabilities: &BTreeSet<Capability>, additions: &[Capability], map: &HarnessMap) -> Self {
        let all: BTreeSet<_> = capabilities.iter().chain(additions).copied().collect();
        // An access level allows the program's own tools as a group. The level that may read may also run commands that
        // read. So a role without commands gets no such level.
        let access = if all.contains(&Capability::NoShellExec) {
            ToolAccess::ScopedOnly
        } else if all.contains(&Capability::NoFileEdit) {
            ToolAccess::ReadOnly
        } else {
            ToolAccess::WorkspaceWrite
        };
        let taken = map.taken_by(&all).into_iter().map(str::to_owned).collect();
        Self { access, taken }
    }

    /// Returns the remaining tools among `tools`.
    pub fn left<'t>(&self, tools: impl IntoIterator<Item = &'t str>) -> Vec<&'t str> {
        tools.into_iter().filter(|tool| !self.taken.contains(*tool)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Role, *};

    #[test]
    fn a_map_that_leaves_a_class_out_is_refused_and_names_it() {
        let mut text = serde_json::to_value(HarnessMap::of_nexus()).unwrap();
        assert_eq!(serde_json::from_value::<HarnessMap>(text.clone()).unwrap(), HarnessMap::of_nexus());
        text["classes"].as_object_mut().unwrap().remove("subprocess");
        let error = serde_json::from_value::<HarnessMap>(text).unwrap_err().to_string();
        assert!(error.contains("subprocess") && error.contains("empty list"), "{error}");
    }

    #[test]
    fn additions_take_away_and_never_give_back() {
        let map = HarnessMap::of_nexus();
        for role in Role::catalog() {
            let bare = RoleTools::of(&role.capabilities, &[], &map);
            for count in 0..=Capability::ALL.len() {
                let more = RoleTools::of(&role.capabilities, &Capability::ALL[..count], &map);
                assert!(more.taken.is_superset(&bare.taken), "{}", role.name);
                assert!(more.access <= bare.access, "{}", role.name);
            }
        }
    }

    #[test]
    fn a_role_that_edits_nothing_has_no_tool_that_does() {
        let map = HarnessMap::of_nexus();
        let tools = ["read_file", "write_file", "edit_file", "delete_file", "run_tests", "task_add"];
        let left = |name: &str, additions: &[Capability]| {
            RoleTools::of(&Role::find(name).unwrap().capabilities, additions, &map).left(tools)
        };
        assert_eq!(left("reviewer", &[]), ["read_file", "run_tests"]);
        assert_eq!(left("reviewer", &[Capability::NoShellExec]), ["read_file"]);
        assert_eq!(
            left("engineer", &[]),
            ["read_file", "write_file", "edit_file", "delete_file", "run_tests"]
        );
    }
}
