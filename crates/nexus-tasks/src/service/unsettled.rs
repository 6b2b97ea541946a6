//! Records of attempts that are not settled.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{
    step_record::StepRecord,
    store::{Task, TaskId},
};

/// Records of attempts that could not be settled, for example on a full disk. The work of their agents is not repeated.
#[derive(Debug, Default)]
pub(super) struct UnsettledRecords {
    records: Mutex<HashMap<TaskId, StepRecord>>,
}

impl UnsettledRecords {
    /// Returns the record of this attempt.
    pub(super) fn of(&self, task: &Task, attempt: u32) -> Option<StepRecord> {
        self.lock().get(task.id()).filter(|record| record.attempt == attempt).cloned()
    }

    /// Stores the record of a task's attempt in place of the one before.
    pub(super) fn store(&self, task: &Task, record: StepRecord) {
        self.lock().insert(task.id().clone(), record);
    }

    /// Drops the record of a task.
    pub(super) fn remove(&self, task: &Task) {
        self.lock().remove(task.id());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, StepRecord>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
