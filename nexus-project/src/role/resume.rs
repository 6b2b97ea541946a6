//! Which agent goes on with a task.

use super::{ResumeTier, Role};
use crate::state::{OwnerReusePolicy, Task, Tasks};

/// The agent of an earlier task that goes on with this one. `None`: a new one does it, which is also what comes of a resume that is not
/// possible.
///
/// The policy of the task counts before the tier of its owner; an owner that is no role of the catalog begins anew.
pub(crate) fn agent_for(tasks: &Tasks, task: &Task) -> Option<String> {
    let owner = task.owner.as_deref()?;
    let policy = task.owner_reuse_policy.or_else(|| {
        Some(match Role::find(owner)?.resume_tier {
            ResumeTier::Persistent => OwnerReusePolicy::Resume,
            ResumeTier::Bounded => OwnerReusePolicy::ResumeIfSameArtifact,
            ResumeTier::Ephemeral => OwnerReusePolicy::Fresh,
        })
    })?;
    // The task of this owner that was begun last.
    let is_earlier = |earlier: &&Task| {
        earlier.id != task.id && earlier.agent.is_some() && earlier.owner.as_deref() == Some(owner)
    };
    let earlier =
        tasks.tasks.iter().filter(is_earlier).max_by_key(|earlier| (earlier.changed_at, earlier.id))?;
    match policy {
        OwnerReusePolicy::Fresh => None,
        OwnerReusePolicy::Resume => earlier.agent.clone(),
        OwnerReusePolicy::ResumeIfSameArtifact => {
            let worked_on =
                if earlier.files_touched.is_empty() { &earlier.files } else { &earlier.files_touched };
            let is_same = !task.files.is_empty() && task.files.is_subset(worked_on);
            let others = tasks.tasks.iter().filter(|other| {
                other.agent != earlier.agent && other.changed_at >= earlier.changed_at && other.id != task.id
            });
            let is_touched =
                others.flat_map(|other| &other.files_touched).any(|file| task.files.contains(file));
            if is_same && !is_touched { earlier.agent.clone() } else { None }
        }
    }
}
