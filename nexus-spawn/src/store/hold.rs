//! The right to run a step of a task.

use std::fs::File;

/// The right to run a step of one task, until it is dropped: of all threads and processes, one has it. The operating system takes
/// it back from a process that dies.
#[derive(Debug)]
pub struct StepHold {
    file: File,
}

impl StepHold {
    pub(super) fn of(file: File) -> Self {
        Self { file }
    }
}

impl Drop for StepHold {
    fn drop(&mut self) {
        // Closing would not do while a process that was just forked has a copy of the handle.
        let _ = self.file.unlock();
    }
}
