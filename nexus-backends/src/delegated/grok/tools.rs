//! The tools of Grok's harness: which a turn may have, and what a call of one may change.
//!
//! Source: observed with grok 1.0.41. `--tools` fails open: an unknown name or an empty list gives the model
//! a shell. So a list is never trusted: what the CLI reports is held against what was meant.

use nexus_core::{Effects, ToolAccess};

/// What only reads, by the names that both `--tools` and the wire use.
const READING: [&str; 4] = ["read_file", "list_dir", "grep", "todo_write"];

/// What `--tools` keeps whether or not it is named, unless it is disallowed.
const ALWAYS_KEPT: [&str; 2] = ["search_tool", "use_tool"];

/// What no turn is given: searches that are billed apart, pictures, feedback to the vendor, and a scheduler
/// that would outlive the turn.
const NEVER: [&str; 11] = [
    "web_search",
    "x_search",
    "image_gen",
    "image_edit",
    "image_to_video",
    "reference_to_video",
    "send_feedback",
    "scheduler_create",
    "scheduler_delete",
    "scheduler_list",
    "ask_user_question",
];

/// Every further tool of the harness, by the ids that `--disallowed-tools` takes. `task`, which starts
/// sub-agents, is off by the configuration; to disallow it as well would forbid commands in the background.
const WORKING: [&str; 13] = [
    "task",
    "run_terminal_cmd",
    "search_replace",
    "write",
    "kill_task",
    "get_task_output",
    "monitor",
    "workflow",
    "update_goal",
    "enter_plan_mode",
    "exit_plan_mode",
    "memory_search",
    "memory_get",
];

/// The value of `--tools`, if there is one.
pub(super) fn allowed(access: ToolAccess) -> Option<String> {
    match access {
        // Two names that exist, both disallowed below: an empty list would allow everything.
        ToolAccess::ScopedOnly => Some(ALWAYS_KEPT.join(",")),
        ToolAccess::ReadOnly => Some(READING.join(",")),
        ToolAccess::WorkspaceWrite | ToolAccess::Unrestricted => None,
    }
}

/// The value of `--disallowed-tools`.
pub(super) fn disallowed(access: ToolAccess) -> String {
    let names: Vec<&str> = match access {
        ToolAccess::ScopedOnly => [&READING[..], &ALWAYS_KEPT, &NEVER, &WORKING].concat(),
        ToolAccess::ReadOnly => [&ALWAYS_KEPT[..], &NEVER, &WORKING].concat(),
        ToolAccess::WorkspaceWrite | ToolAccess::Unrestricted => NEVER.to_vec(),
    };
    names.join(",")
}

/// The first of `reported` that a turn at this level must not have.
pub(super) fn first_excess(access: ToolAccess, reported: &[String]) -> Option<&str> {
    let is_meant = |name: &&String| match access {
        ToolAccess::ScopedOnly => false,
        ToolAccess::ReadOnly => READING.contains(&name.as_str()),
        // The fence of these is not the list of tools.
        ToolAccess::WorkspaceWrite | ToolAccess::Unrestricted => true,
    };
    reported.iter().find(|name| !is_meant(name)).map(String::as_str)
}

/// What a call of the tool may change, by the kind that the CLI reports.
pub(super) fn effects(access: ToolAccess, name: &str, kind: Option<&str>) -> Effects {
    match (access, kind) {
        // There is nothing that could be done: the call is answered with an error.
        (ToolAccess::ScopedOnly, _) => Effects::None,
        (_, Some("read" | "list" | "search")) | (ToolAccess::ReadOnly, _) => Effects::Read,
        (_, Some("execute" | "write" | "edit" | "delete" | "move")) => Effects::Wrote,
        _ if matches!(name, "todo_write" | "search_tool" | "enter_plan_mode" | "exit_plan_mode") => {
            Effects::None
        }
        _ => Effects::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_list_is_empty_and_no_tool_is_in_two() {
        for access in ToolAccess::ALL {
            assert!(allowed(access).is_none_or(|list| !list.is_empty()));
            assert!(!disallowed(access).is_empty());
        }
        let mut all = [&READING[..], &ALWAYS_KEPT, &NEVER, &WORKING].concat();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn what_was_not_meant_is_found() {
        let reported = ["read_file", "run_terminal_command"].map(str::to_owned);
        assert_eq!(first_excess(ToolAccess::ScopedOnly, &reported), Some("read_file"));
        assert_eq!(first_excess(ToolAccess::ReadOnly, &reported), Some("run_terminal_command"));
        assert_eq!(first_excess(ToolAccess::Unrestricted, &reported), None);
        assert_eq!(first_excess(ToolAccess::ScopedOnly, &[]), None);
    }
}
