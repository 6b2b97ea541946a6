//! One run of a hook. Its input may be damaged, and its program may be unknown.

use std::path::Path;

use serde_json::Value;

use super::{
    event::{HookEvent, HookReply, UseOfFiles},
    input,
};
use crate::{folder::ProjectFolder, harness::Harness};

/// Arguments and input of one run of a hook.
#[derive(Clone, Debug)]
pub struct HookCall<'a> {
    /// The program's name, if the command line has one.
    pub harness: Option<&'a str>,
    /// The event.
    pub event: HookEvent,
    /// Standard input, or the reason why it could not be read.
    pub input: Result<&'a [u8], String>,
    /// The folder in which the hook was started.
    pub working_directory: &'a Path,
}

/// Output of a hook.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookOutput {
    /// Answer for standard output. `None`: the program continues as without a hook.
    pub answer: Option<Value>,
    /// Errors for standard error.
    pub complaints: Vec<String>,
}

impl HookCall<'_> {
    /// Returns the answer. `find` returns the project of a folder; `None` if no hook applies there; and an error if the
    /// named project cannot be used.
    ///
    /// A tool that changes files is rejected if the rule for it cannot be applied. Every other failure is a complaint, and
    /// the program continues.
    pub fn answer(&self, find: impl Fn(&Path) -> Result<Option<ProjectFolder>, String>) -> HookOutput {
        let mut output = HookOutput::default();
        let named = match self.harness {
            Some(name) => Harness::find(name).map_err(|error| error.to_string()),
            None => Err("--harness is missing: name the program".to_owned()),
        };
        let harness = match named {
            Ok(harness) => harness,
            Err(problem) => {
                output.complaints.push(problem);
                if self.event != HookEvent::PreToolUse {
                    return output;
                }
                match Harness::any() {
                    Ok(harness) => harness,
                    Err(error) => {
                        output.complaints.push(error.to_string());
                        return output;
                    }
                }
            }
        };
        let is_known = output.complaints.is_empty();
        let read = self.input.clone().and_then(input::read);
        // A program that does not report its folder works in the folder of its hooks. If the input is damaged, the reported
        // folder may be damaged, too, so use the folder of the hooks first.
        let project = match &read {
            Ok(value) => find(&self.working_directory.join(harness.read(value).working_directory)),
            Err(_) => match find(self.working_directory) {
                Ok(None) => find(&self.working_directory.join(self.left("cwd").unwrap_or_default())),
                found => found,
            },
        };
        let reply = match (project, read) {
            (Ok(None), Ok(_)) => HookReply::default(),
            (Ok(None), Err(problem)) => {
                output.complaints.push(format!("the input cannot be read: {problem}"));
                HookReply::default()
            }
            (Ok(Some(project)), Ok(value)) => {
                let mut input = harness.read(&value);
                input.working_directory = self.working_directory.join(&input.working_directory);
                match is_known {
                    true => project.on_hook(&harness, self.event, &input).unwrap_or_else(|error| {
                        output.complaints.push(error.to_string());
                        // Pass the reason to the model, because it can fix the problem.
                        HookReply {
                            context: Some(format!("The state of this project cannot be used: {error}.")),
                            ..HookReply::default()
                        }
                    }),
                    // For an unknown program, only apply the rule; store nothing.
                    false => project.before_tool(&input),
                }
            }
            (Ok(Some(project)), Err(problem)) => {
                output.complaints.push(format!("the input cannot be read: {problem}"));
                self.unreadable(&harness, &project, &problem)
            }
            (Err(problem), read) => {
                output.complaints.push(problem.clone());
                let tool = read.ok().and_then(|value| harness.read(&value).tool);
                self.without_project(tool.map(|tool| tool.use_of_files), &problem)
            }
        };
        output.complaints.extend(reply.skipped.iter().cloned());
        output.answer = harness.answer(self.event, &reply);
        output
    }

    /// Returns a text member of an input that cannot be parsed as a whole.
    fn left(&self, name: &str) -> Option<String> {
        input::strings(self.input.as_deref().ok()?).remove(name)?
    }

    fn unreadable(&self, harness: &Harness, project: &ProjectFolder, problem: &str) -> HookReply {
        if self.event != HookEvent::PreToolUse {
            return HookReply {
                context: Some(format!("Nexus could not read this event: {problem}.")),
                ..HookReply::default()
            };
        }
        let Some(tool) = self.left("tool_name").or_else(|| self.left("toolName")) else {
            return project.nameless_tool(problem);
        };
        match harness.use_of_files(&tool) {
            UseOfFiles::Edits => project.unreadable_edit(&tool, problem),
            // No rule rejects these tools, with any arguments.
            UseOfFiles::Reads | UseOfFiles::Unknown => HookReply::default(),
        }
    }

    /// Returns the answer for a named project that cannot be used.
    fn without_project(&self, use_of_files: Option<UseOfFiles>, problem: &str) -> HookReply {
        if self.event != HookEvent::PreToolUse
            || matches!(use_of_files, Some(UseOfFiles::Reads | UseOfFiles::Unknown))
        {
            return HookReply::default();
        }
        HookReply::refused(format!(
            "This call is not made, because the project of the Nexus hook cannot be used: {problem}. Ask the \
             person to run `nexus project install {}` in the project, which writes the hooks again.",
            self.harness.unwrap_or("PROGRAM")
        ))
    }
}
