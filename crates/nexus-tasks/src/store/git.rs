//! The git by which the repositories of tasks are worked on.

use std::sync::{Arc, OnceLock};

use nexus_trees::Git;

use crate::task_error::TaskError;

/// Git, looked for when it is needed first. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedGit(Arc<OnceLock<Git>>);

impl SharedGit {
    pub(super) fn find(&self) -> Result<Git, TaskError> {
        if let Some(git) = self.0.get() {
            return Ok(git.clone());
        }
        let git = Git::find()?;
        Ok(self.0.get_or_init(|| git).clone())
    }
}
