//! Choice of the agent that resumes a task.

use std::{collections::BTreeSet, path::Path};

use nexus_core::turn::{ToolCallRecord, ToolCallStatus};

use super::{Capability, HarnessMap, ResumeTier, Role};
use crate::state::{OwnerReusePolicy, ProjectTask, ProjectTasks};

/// Names of arguments in which tools pass the path of the file that they change.
const PATHS: [&str; 3] = ["path", "file_path", "notebook_path"];

/// Returns the files that a turn changed, by the record of its calls. A file counts if a changing tool of the map named it,
/// and the call was not refused or reverted. The paths are relative to `root`, the turn's working directory; files outside
/// of it are left out. The record does not show the changes of a command.
pub fn files_touched(calls: &[ToolCallRecord], map: &HarnessMap, root: &Path) -> BTreeSet<String> {
    let edits = map.taken_by([&Capability::NoFileEdit]);
    let done = calls.iter().filter(|call| {
        edits.contains(&*call.name) && call.status == ToolCallStatus::Succeeded && !call.is_undone
    });
    let named = done.filter_map(|call| {
        let arguments = call.arguments.as_ref()?;
        PATHS.iter().find_map(|name| arguments.get(name)?.as_str())
    });
    let inside =
        named.filter_map(|path| root.join(path).strip_prefix(root).ok()?.to_str().map(str::to_owned));
    inside.filter(|path| !path.is_empty() && !path.split('/').any(|part| part == "..")).collect()
}

/// Returns the agent of an earlier task that should resume with this one. `None`: a new agent does the task. This is also
/// the result if a resume is impossible.
///
/// The policy of the task takes precedence over the resume tier of its owner's role. An owner that is not in the catalogue
/// gets a new agent.
pub(crate) fn agent_for(tasks: &ProjectTasks, task: &ProjectTask) -> Option<String> {
    let owner = task.owner.as_deref()?;
    let policy = task.owner_reuse_policy.or_else(|| {
        Some(match Role::find(owner)?.resume_tier {
            ResumeTier::Persistent => OwnerReusePolicy::Resume,
            ResumeTier::Bounded => OwnerReusePolicy::ResumeIfSameArtifact,
            ResumeTier::Ephemeral => OwnerReusePolicy::Fresh,
        })
    })?;
    // Find the task of this owner that was begun last.
    let is_earlier = |earlier: &&ProjectTask| {
        earlier.id != task.id && earlier.agent.is_some() && earlier.owner.as_deref() == Some(owner)
    };
    let earlier =
        tasks.tasks.iter().filter(is_earlier).max_by_key(|earlier| (earlier.changed_at, earlier.id))?;
    match policy {
        OwnerReusePolicy::Fresh => None,
        OwnerReusePolicy::Resume => earlier.agent.clone(),
        OwnerReusePolicy::ResumeIfSameArtifact => {
            let worked_on =
                // The files that were changed are more precise than the planned ones, but not every program reports
                // them.
                if earlier.files_touched.is_empty() { &earlier.files } else { &earlier.files_touched };
            let is_same = !task.files.is_empty()
                && task.files.iter().all(|file| worked_on.iter().any(|worked| is_in(file, worked)));
            // Another agent may have changed these files since, so the knowledge of the earlier agent would be
            // outdated.
            let others = tasks.tasks.iter().filter(|other| {
                other.agent != earlier.agent && other.changed_at >= earlier.changed_at && other.id != task.id
            });
            let is_touched = others
                .flat_map(|other| &other.files_touched)
                .any(|touched| task.files.iter().any(|file| is_in(touched, file) || is_in(file, touched)));
            if is_same && !is_touched { earlier.agent.clone() } else { None }
        }
    }
}

/// Returns true if a file is the other path, or is inside it.
fn is_in(file: &str, folder: &str) -> bool {
    Path::new(file).starts_with(folder)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    #[test]
    fn what_a_turn_changed_is_what_its_edits_named_that_succeeded() {
        let call = |name: &str, path: &str, status: &str, is_undone: bool| -> Value {
            json!({
                "call": "1", "parent": null, "name": name, "origin": "caller", "arguments": { "path": path },
                "status": status, "output": [], "effects": "wrote", "is_undone": is_undone,
            })
        };
        let calls: Vec<ToolCallRecord> = [
            call("write_file", "src/a.rs", "succeeded", false),
            call("edit_file", "/work/b.rs", "succeeded", false),
            call("edit_file", "/elsewhere/c.rs", "succeeded", false),
            call("write_file", "../d.rs", "succeeded", false),
            call("write_file", "e.rs", "denied", false),
            call("write_file", "f.rs", "succeeded", true),
            call("read_file", "g.rs", "succeeded", false),
        ]
        .into_iter()
        .map(|call| from_value(call).unwrap())
        .collect();
        let touched = files_touched(&calls, &HarnessMap::of_nexus(), Path::new("/work"));
        assert_eq!(touched.into_iter().collect::<Vec<_>>(), ["b.rs", "src/a.rs"]);
    }
}
