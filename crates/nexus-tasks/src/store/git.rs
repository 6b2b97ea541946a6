//! Git for the repositories of tasks.

use std::sync::{Arc, OnceLock};

use nexus_trees::Git;

use crate::task_error::TaskError;

/// Git, located at its first use. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedGit(Arc<OnceLock<Git>>);

impl SharedGit {
    pub(super) fn find(&self) -> Result<Git, TaskError> {
        if let Some(git) = self.0.get() {
            return Ok(git.clone());
        }
        // Not `get_or_init`: a failure must not be stored, because a person may install git meanwhile.
        let git = Git::find()?;
        Ok(self.0.get_or_init(|| git).clone())
    }
}
