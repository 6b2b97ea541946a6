//! Which agent goes on with a task.

use crate::state::{OwnerReusePolicy, Task, TaskStatus, Tasks};

/// The agent of an earlier task that goes on with this one. `None`: a new one does it, which is also what comes of a resume that is not
/// possible.
pub(crate) fn agent_for(tasks: &Tasks, task: &Task) -> Option<String> {
    let _ = (tasks, task, OwnerReusePolicy::Fresh, TaskStatus::Pending);
    None
}
