//! Progress of the follow-ups of completed tasks.

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError, atomic::AtomicBool},
};

use crate::store::{FollowUp, TaskId};

/// A follow-up of the completion of a task by its last settled attempt.
type DoneFollowUp = (TaskId, u32, FollowUp);

/// Progress of the follow-ups of completed tasks in this process.
#[derive(Debug, Default)]
pub(super) struct FollowUpProgress {
    /// True once a call here ran agents: from then on this process does follow-ups.
    pub(super) has_begun: AtomicBool,
    done: Mutex<HashSet<DoneFollowUp>>,
}

impl FollowUpProgress {
    /// Follow-ups that were done, but could not be removed from the status yet.
    pub(super) fn done(&self) -> MutexGuard<'_, HashSet<DoneFollowUp>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
