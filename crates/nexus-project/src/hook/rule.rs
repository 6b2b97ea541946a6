//! The rule of [`HookEvent::PreToolUse`](super::HookEvent::PreToolUse): files of the project may change only for a task.
//!
//! This takes no lock, because the files of the state are replaced in one step.

use std::path::{Path, PathBuf};

use nexus_files::shell_word;

use super::{
    event::{HookInput, HookReply, HookTool, UseOfFiles},
    path::{plain, real},
};
use crate::{
    error::{ProjectError, ProjectErrorKind},
    folder::{FOLDER, KNOWLEDGE, ProjectFolder},
    state::{Document, Pending, ProjectTasks, UPDATE},
};

/// Reason for rejecting an edit without a task.
const NO_TASK: &str = "Files of this project may be edited only for a task, but no task exists. First call \
                       task_add with the work and its acceptance, for example title \"Fix the date parser\", \
                       acceptance \"the test of leap years passes\". Then call task_update with status \
                       in_progress, and make the same edit again.";

impl ProjectFolder {
    /// Returns the reply before a tool runs: a rejection if the rule does not allow it.
    pub(super) fn before_tool(&self, input: &HookInput) -> HookReply {
        let Some(tool) = &input.tool else { return self.nameless_tool("it does not name the tool") };
        if tool.use_of_files != UseOfFiles::Edits || !self.is_work(tool, &input.working_directory) {
            return HookReply::default();
        }
        match self.has_tasks() {
            Ok(true) => HookReply::default(),
            Ok(false) => HookReply::refused(NO_TASK.to_owned()),
            Err(Unreadable { path, error }) => HookReply::refused(format!(
                "Files of this project may be edited only for a task, but its tasks cannot be read: {}. {}",
                error.message,
                self.fix(&path, &error)
            )),
        }
    }

    /// Returns the reply for an unknown tool if the input of the hook cannot be read: a rejection.
    pub(super) fn nameless_tool(&self, problem: &str) -> HookReply {
        HookReply::refused(format!(
            "This call is not made, because the input of the Nexus hook does not name the tool ({problem}), \
             and files of this project may be edited only for a task. Make the same call again with valid \
             Unicode text. If that does not help, ask the person to run `nexus doctor` in {}, which checks \
             the installed hooks.",
            shell_word(self.root())
        ))
    }

    /// Returns the reply for a tool that changes files if the input of the hook cannot be read: a rejection.
    pub(super) fn unreadable_edit(&self, tool: &str, problem: &str) -> HookReply {
        HookReply::refused(format!(
            "This call of {tool} is not made, because the input of the Nexus hook cannot be read \
             ({problem}), so the files that it changes are unknown. Make the same call again with valid \
             Unicode text. If that does not help, ask the person to run `nexus doctor` in {}, which checks \
             the installed hooks.",
            shell_word(self.root())
        ))
    }

    /// Returns true if a tool changes files that need a task: all files except the records of the project's
    /// knowledge.
    fn is_work(&self, tool: &HookTool, working_directory: &Path) -> bool {
        let needs_a_task = |path: &PathBuf| {
            let path = working_directory.join(path);
            // A tool may resolve `..` by the text, or let the operating system do it, which follows links first. Check both.
            let Some(walked) = real(&path) else { return true };
            let Some(resolved) = real(&plain(&path)) else { return true };
            [plain(&path), resolved, walked].iter().any(|place| self.needs_a_task(place))
        };
        tool.paths.is_empty() || tool.paths.iter().any(needs_a_task)
    }

    /// Returns true if a path without `..` is in the project and outside of the folders of its knowledge.
    fn needs_a_task(&self, path: &Path) -> bool {
        let roots = [Some(plain(self.root())), real(self.root())];
        let inside = roots.iter().flatten().find_map(|root| path.strip_prefix(root).ok());
        let Some(inside) = inside else { return false };
        let is_below = |folder: &&str| {
            let below = inside.strip_prefix(FOLDER).and_then(|inside| inside.strip_prefix(folder));
            below.is_ok_and(|name| name.components().next().is_some())
        };
        !KNOWLEDGE.iter().any(is_below) || has_other_names(path)
    }

    /// Returns true if tasks exist. First completes an interrupted change.
    fn has_tasks(&self) -> Result<bool, Unreadable> {
        let read = |name| {
            let path = self.state_path(name);
            move |error| Unreadable { path, error }
        };
        let pending = Pending::read(&self.state_path(Pending::NAME)).map_err(read(Pending::NAME))?;
        if pending.is_some_and(|pending| pending.cycle.tasks.is_some()) {
            return Ok(false);
        }
        self.has_valid_tasks().map_err(read(ProjectTasks::NAME))
    }

    /// Returns a sentence with the command that makes the state readable again.
    fn fix(&self, path: &Path, error: &ProjectError) -> String {
        let folder = self.root().join(FOLDER);
        let state = folder.join("state");
        let is_folder = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_dir());
        match error.kind {
            ProjectErrorKind::PermissionDenied => {
                format!("Run `chmod -R u+rwX {}`, then make the same edit again.", shell_word(&folder))
            }
            _ if !is_folder(&folder) => format!("Run {}, then `nexus project init`.", aside(&folder)),
            _ if state.symlink_metadata().is_ok() && !is_folder(&state) => {
                format!("Run {}, then `nexus project init`.", aside(&state))
            }
            ProjectErrorKind::Damaged if error.advice == UPDATE => {
                "Ask the person to update Nexus.".to_owned()
            }
            ProjectErrorKind::Damaged => {
                format!("Run {}, add a task with task_add, then make the same edit again.", aside(path))
            }
            _ => "Run `nexus project status`, which reports the fault.".to_owned(),
        }
    }
}

/// An unreadable file of the state.
struct Unreadable {
    path: PathBuf,
    error: ProjectError,
}

/// Returns true if a file has further names (hard links). Any of them may be inside the project.
fn has_other_names(path: &Path) -> bool {
    #[cfg(unix)]
    return path
        .symlink_metadata()
        .is_ok_and(|found| found.is_file() && std::os::unix::fs::MetadataExt::nlink(&found) > 1);
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

/// Returns the command that moves a file or folder out of the way.
fn aside(path: &Path) -> String {
    let mut moved = path.as_os_str().to_owned();
    moved.push(".damaged");
    format!("`mv {} {}`", shell_word(path), shell_word(&moved))
}
