//! Progress of what follows the completion of tasks.

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError, atomic::AtomicBool},
};

use crate::store::{FollowUp, TaskId};

/// A follow-up of the completion of a task by its last settled attempt.
type DoneFollowUp = (TaskId, u32, FollowUp);

/// Progress of what follows completions in this process.
#[derive(Debug, Default)]
pub(super) struct FollowUpProgress {
    /// Whether a call here ran agents, so that what follows completions is done here.
    pub(super) has_begun: AtomicBool,
    done: Mutex<HashSet<DoneFollowUp>>,
}

impl FollowUpProgress {
    /// Follow-ups that were done and could not be removed from the status yet.
    pub(super) fn done(&self) -> MutexGuard<'_, HashSet<DoneFollowUp>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
