//! Bounds, cancellation and progress of a task's creation.

use std::{fmt, sync::Arc};

use nexus_core::CancelToken;
use nexus_trees::{TreeOptions, TreeReading};

/// Maximum number of files of a project, and maximum number of bytes of them, that a creation reads without consent. Source: our own bound, about ten seconds on a
/// slow disk.
pub(super) const READ_BOUND: (usize, u64) = (50_000, 200 << 20);

/// Cancellation and progress of a creation. By default it has neither.
#[derive(Clone, Default)]
pub struct TaskCreation {
    /// Cancels the creation. The parts of the task that exist are removed.
    pub cancel: CancelToken,
    /// Called with each step of the creation.
    pub on_progress: Option<Arc<dyn Fn(CreationProgress) + Send + Sync>>,
}

/// Next step of a task's creation.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreationProgress {
    /// These files of the project are read next.
    Reading(TreeReading),
    /// The project's tests run next, by this command.
    Testing(Vec<String>),
}

impl TaskCreation {
    pub(super) fn say(&self, progress: CreationProgress) {
        if let Some(call) = &self.on_progress {
            call(progress);
        }
    }

    pub(super) fn tree_options(
        &self,
        include_uncommitted: bool,
        read_bound: Option<(usize, u64)>,
    ) -> TreeOptions {
        let mut options = TreeOptions::new();
        if include_uncommitted {
            options = options.include_uncommitted();
        }
        if let Some((files, bytes)) = read_bound {
            options = options.with_read_bound(files, bytes);
        }
        let this = self.clone();
        options.on_reading(move |reading| this.say(CreationProgress::Reading(reading.clone())))
    }
}

impl fmt::Debug for TaskCreation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskCreation").field("cancel", &self.cancel).finish_non_exhaustive()
    }
}
