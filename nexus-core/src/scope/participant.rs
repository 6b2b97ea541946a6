//! What one participant may use and touch.

use std::path::PathBuf;

use super::{PathAccess, PathDenial, ToolPattern};

/// What one participant may use and touch.
#[derive(Clone, Debug)]
pub struct ParticipantScope {
    tools: Vec<ToolPattern>,
}

impl ParticipantScope {
    /// Every tool, on every path. It is what a host gets that offers tools without a session of its own.
    pub fn unrestricted() -> Self {
        Self { tools: vec![ToolPattern::every()] }
    }

    /// Whether the tool of this name may be used.
    pub fn allows_tool(&self, name: &str) -> bool {
        self.tools.iter().any(|pattern| pattern.matches(name))
    }

    /// The path to use for `path`, if the participant may do this there.
    ///
    /// # Errors
    ///
    /// [`PathDenial`] if not.
    pub fn check_path(&self, path: &str, access: PathAccess) -> Result<PathBuf, PathDenial> {
        let _ = access;
        Ok(PathBuf::from(path))
    }
}
