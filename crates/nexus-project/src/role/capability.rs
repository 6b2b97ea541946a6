//! Restrictions of a role, independent of any program.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Restriction of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// The role must not change files.
    NoFileEdit,
    /// The role must not add tasks.
    NoTaskCreate,
    /// The role must not change tasks.
    NoTaskUpdate,
    /// The role must not run commands.
    NoShellExec,
}

impl Capability {
    /// All restrictions.
    pub const ALL: [Self; 4] = [Self::NoFileEdit, Self::NoTaskCreate, Self::NoTaskUpdate, Self::NoShellExec];

    /// Returns the word in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoFileEdit => "no_file_edit",
            Self::NoTaskCreate => "no_task_create",
            Self::NoTaskUpdate => "no_task_update",
            Self::NoShellExec => "no_shell_exec",
        }
    }

    /// Returns the classes of tools that the restriction removes.
    pub fn classes(self) -> &'static [ToolClass] {
        use ToolClass as Class;
        match self {
            Self::NoFileEdit => &[
                Class::FileCreation,
                Class::FileModification,
                Class::FileDeletion,
                Class::PartialEdit,
                Class::StructuredEdit,
            ],
            Self::NoTaskCreate => &[Class::TaskCreation],
            Self::NoTaskUpdate => &[Class::TaskState, Class::TaskMetadata],
            Self::NoShellExec => &[Class::Command, Class::Subprocess, Class::Interactive],
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Class of a tool that a role may be denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolClass {
    /// Creates files.
    FileCreation,
    /// Writes files as a whole.
    FileModification,
    /// Removes files.
    FileDeletion,
    /// Changes parts of files.
    PartialEdit,
    /// Changes parts of documents that have cells or nodes.
    StructuredEdit,
    /// Adds tasks.
    TaskCreation,
    /// Changes the status of tasks.
    TaskState,
    /// Changes the text of tasks.
    TaskMetadata,
    /// Runs a command.
    Command,
    /// Starts a process that runs in the background.
    Subprocess,
    /// Writes to a process that waits for input.
    Interactive,
}

impl ToolClass {
    /// All classes.
    pub const ALL: [Self; 11] = [
        Self::FileCreation,
        Self::FileModification,
        Self::FileDeletion,
        Self::PartialEdit,
        Self::StructuredEdit,
        Self::TaskCreation,
        Self::TaskState,
        Self::TaskMetadata,
        Self::Command,
        Self::Subprocess,
        Self::Interactive,
    ];

    /// Returns the word in maps of tools.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FileCreation => "file_creation",
            Self::FileModification => "file_modification",
            Self::FileDeletion => "file_deletion",
            Self::PartialEdit => "partial_edit",
            Self::StructuredEdit => "structured_edit",
            Self::TaskCreation => "task_creation",
            Self::TaskState => "task_state",
            Self::TaskMetadata => "task_metadata",
            Self::Command => "command",
            Self::Subprocess => "subprocess",
            Self::Interactive => "interactive",
        }
    }
}
