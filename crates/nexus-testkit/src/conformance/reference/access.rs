//! Rules of each access level for the tools of the harness.

use std::path::{Component, Path, PathBuf};

use nexus_core::{Effects, ToolAccess};

use crate::sim::ToolCall;

/// The sandbox of one turn.
#[derive(Debug)]
pub(super) struct Sandbox {
    pub(super) access: ToolAccess,
    pub(super) directory: PathBuf,
    pub(super) roots: Vec<PathBuf>,
}

impl Sandbox {
    /// The harness's tools that the model is offered.
    pub(super) fn tools(&self) -> &'static [&'static str] {
        match self.access {
            ToolAccess::ReadOnly => &["read_file"],
            ToolAccess::WorkspaceWrite => &["read_file", "write_file"],
            ToolAccess::Unrestricted => &["read_file", "write_file", "shell"],
            _ => &[],
        }
    }

    /// Reason why the sandbox rejects `call`, if it does. Rules like these cannot confine a shell, so a shell is offered only at
    /// [`ToolAccess::Unrestricted`].
    pub(super) fn objection(&self, call: &ToolCall) -> Option<String> {
        if !self.tools().contains(&name(call)) {
            return Some(format!("there is no tool named {:?}", name(call)));
        }
        match call {
            ToolCall::WriteFile { path, .. } if !self.holds(Path::new(path)) => {
                Some(format!("{path} is outside the workspace"))
            }
            _ => None,
        }
    }

    /// Resolves `path` from the working directory.
    pub(super) fn resolve(&self, path: &Path) -> PathBuf {
        self.directory.join(path)
    }

    fn holds(&self, path: &Path) -> bool {
        if self.access == ToolAccess::Unrestricted {
            return true;
        }
        let climbs = path.components().any(|component| component == Component::ParentDir);
        let path = self.resolve(path);
        let real_parent = path.parent().and_then(|parent| parent.canonicalize().ok());
        let inside = |root: &PathBuf| {
            let root = root.canonicalize().ok();
            root.zip(real_parent.as_ref()).is_some_and(|(root, parent)| parent.starts_with(root))
        };
        !climbs && !path.is_symlink() && (inside(&self.directory) || self.roots.iter().any(inside))
    }
}

/// The name by which the model calls the tool.
pub(super) fn name(call: &ToolCall) -> &str {
    match call {
        ToolCall::Shell { .. } => "shell",
        ToolCall::WriteFile { .. } => "write_file",
        ToolCall::ReadFile { .. } => "read_file",
        ToolCall::Mcp { tool, .. } => tool,
        ToolCall::Function { name, .. }
        | ToolCall::RawFunction { name, .. }
        | ToolCall::Custom { name, .. } => name,
    }
}

/// Returns the possible effects of a call of a harness tool.
pub(super) fn effects(call: &ToolCall) -> Effects {
    match call {
        ToolCall::ReadFile { .. } => Effects::Read,
        ToolCall::Shell { .. } | ToolCall::WriteFile { .. } => Effects::Wrote,
        _ => Effects::Unknown,
    }
}
