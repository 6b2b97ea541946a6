//! Tools of Grok's harness: the tools of each access level, and the possible effects of a call.
//!
//! Source: observed with grok 1.0.41. `--tools` fails open: an unknown name or an empty list gives the model a shell.
//! So a list is never trusted: the CLI's report of its tools is compared with the intended list.

use nexus_core::{Effects, ToolAccess};
use serde_json::Value;

use super::mcp_config;
use crate::cli::caller_tools::CallerTools;

/// Read-only tools, under the names that `--tools` and the output use.
const READING: [&str; 4] = ["read_file", "list_dir", "grep", "todo_write"];

/// Tools with which the model finds and calls tools of servers. `--tools` always includes them; only
/// `--disallowed-tools` removes them.
const OF_SERVERS: [&str; 2] = [SEARCH, USE];

/// Tool that finds tools of servers by words.
pub(super) const SEARCH: &str = "search_tool";
/// Tool that calls a tool of a server.
const USE: &str = "use_tool";

/// Tools that no turn gets: searches with separate billing, images, feedback to the vendor, and a scheduler that would
/// outlive the turn.
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

/// All other tools of the harness, by their ids for `--disallowed-tools`. `task`, which starts sub-agents, is disabled
/// by the configuration. To disallow it as well would forbid background commands.
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

/// Returns the value of `--tools`, if the level has one.
pub(super) fn allowed(access: ToolAccess) -> Option<String> {
    match access {
        ToolAccess::ReadOnly => Some(READING.join(",")),
        ToolAccess::WorkspaceWrite | ToolAccess::Unrestricted => None,
        // An empty list would allow every tool. So allow two existing tools, which `disallowed` removes if the caller
        // has no tools. An unknown level cannot occur, because the capabilities reject it; it would get this narrowest
        // list.
        _ => Some(OF_SERVERS.join(",")),
    }
}

/// Returns the value of `--disallowed-tools`, for a turn with or without caller tools.
pub(super) fn disallowed(access: ToolAccess, has_callers: bool) -> String {
    let of_servers: &[&str] = if has_callers { &[] } else { &OF_SERVERS };
    let names: Vec<&str> = match access {
        ToolAccess::ReadOnly => [of_servers, &NEVER, &WORKING].concat(),
        ToolAccess::WorkspaceWrite | ToolAccess::Unrestricted => NEVER.to_vec(),
        _ => [&READING[..], of_servers, &NEVER, &WORKING].concat(),
    };
    names.join(",")
}

/// Returns rules for `--deny` in addition to those of folders. At a level with only caller tools, they keep the
/// harness's tools from reading, writing and executing with any list of tools. The rule for `Read` names
/// every path but not the tool, because [`SEARCH`] counts as a read without a path. Without it, [`USE`] could send any
/// JSON file to a tool.
pub(super) fn denied(access: ToolAccess) -> &'static [&'static str] {
    match access {
        ToolAccess::ReadOnly | ToolAccess::WorkspaceWrite | ToolAccess::Unrestricted => &[],
        _ => &["Read(**)", "Edit", "Bash", "Grep", "WebFetch", "WebSearch"],
    }
}

/// Returns true if a list of tools alone enforces the level.
pub(super) fn is_list(access: ToolAccess) -> bool {
    !matches!(access, ToolAccess::WorkspaceWrite | ToolAccess::Unrestricted)
}

/// Returns the first tool of `reported` that a turn at this level must not have.
pub(super) fn first_excess<'r>(
    access: ToolAccess,
    callers: Option<&CallerTools>,
    reported: &'r [String],
) -> Option<&'r str> {
    let is_callers = |name: &str| {
        let defined =
            |own: &str| callers.is_some_and(|tools| tools.definitions().iter().any(|tool| tool.name == own));
        (callers.is_some() && OF_SERVERS.contains(&name)) || mcp_config::own_name(name).is_some_and(defined)
    };
    let is_meant = |name: &str| match access {
        ToolAccess::ReadOnly => READING.contains(&name) || is_callers(name),
        // These levels are not enforced by the list of tools.
        ToolAccess::WorkspaceWrite | ToolAccess::Unrestricted => true,
        _ => is_callers(name),
    };
    reported.iter().map(String::as_str).find(|name| !is_meant(name))
}

/// Call of a caller's tool, with the caller's name of the tool.
#[derive(Debug, PartialEq)]
pub(super) struct CallersCall {
    pub(super) name: String,
    pub(super) arguments: Value,
}

/// Returns the call of the caller's tool, if the model called one by `called` with `input`.
///
/// If the arguments are in a file, only the CLI knows them. The arguments of the returned call are then the name of the
/// file.
pub(super) fn callers_call(called: &str, input: &Value) -> Option<CallersCall> {
    if let Some(name) = mcp_config::own_name(called) {
        return Some(CallersCall { name: name.to_owned(), arguments: as_sent(input.clone()) });
    }
    let name = mcp_config::own_name(input.get("tool_name")?.as_str()?).filter(|_| called == USE)?;
    let arguments = match input.get("tool_input") {
        Some(inline) => as_sent(inline.clone()),
        None => input.clone(),
    };
    Some(CallersCall { name: name.to_owned(), arguments })
}

/// Returns arguments as the CLI sends them: an object, which may be encoded in a string, or null.
fn as_sent(arguments: Value) -> Value {
    let object = match arguments {
        Value::String(text) => serde_json::from_str(&text).unwrap_or_default(),
        other => other,
    };
    if object.is_object() { object } else { Value::Null }
}

/// Returns true if a call by this name belongs to a tool of a server, or may belong to one.
pub(super) fn is_of_a_server(name: &str) -> bool {
    name == USE || name.contains(mcp_config::SEPARATOR)
}

/// Returns the possible effects of a call of the harness's tool, from the kind that the CLI reports.
pub(super) fn effects(access: ToolAccess, name: &str, kind: Option<&str>) -> Effects {
    match (access, kind) {
        // The search itself has no effect.
        _ if name == SEARCH => Effects::None,
        // At this level no such tool should exist. The end of the call shows if anything happened.
        (ToolAccess::ScopedOnly, _) => Effects::Unknown,
        // The tool is named in a file, or belongs to a server other than the caller's.
        _ if is_of_a_server(name) => Effects::Unknown,
        (_, Some("read" | "list" | "search")) => Effects::Read,
        (ToolAccess::ReadOnly, _) => Effects::Read,
        (_, Some("execute" | "write" | "edit" | "delete" | "move")) => Effects::Wrote,
        _ if matches!(name, "todo_write" | "enter_plan_mode" | "exit_plan_mode") => Effects::None,
        _ => Effects::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nexus_core::{ParticipantScope, Session, Tool, Toolbox};
    use serde_json::json;

    use super::*;

    fn callers() -> CallerTools {
        let toolbox =
            Toolbox::new().with(Tool::without_arguments("noon", "Says when.", || async { "12:00" }));
        let session = Session::mint("caller", ParticipantScope::unrestricted(), Arc::new(toolbox));
        CallerTools::new(session, "http://127.0.0.1:1/mcp".into())
    }

    #[test]
    fn no_list_is_empty_and_no_tool_is_in_two() {
        for access in ToolAccess::ALL {
            assert!(allowed(access).is_none_or(|list| !list.is_empty()));
            assert!(!disallowed(access, true).is_empty());
        }
        let mut all = [&READING[..], &OF_SERVERS, &NEVER, &WORKING].concat();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn what_was_not_meant_is_found() {
        let reported = ["read_file", "run_terminal_command"].map(str::to_owned);
        let excess = |access| first_excess(access, None, &reported);
        assert_eq!(excess(ToolAccess::ScopedOnly), Some("read_file"));
        assert_eq!(excess(ToolAccess::ReadOnly), Some("run_terminal_command"));
        assert_eq!(excess(ToolAccess::Unrestricted), None);
        assert_eq!(first_excess(ToolAccess::ScopedOnly, None, &[]), None);
    }

    #[test]
    fn the_callers_tools_are_meant_and_no_others() {
        let callers = callers();
        for access in [ToolAccess::ScopedOnly, ToolAccess::ReadOnly] {
            let excess = |name: &str, callers: Option<&CallerTools>| {
                first_excess(access, callers, &["search_tool", "use_tool", name].map(str::to_owned))
                    .map(str::to_owned)
            };
            assert_eq!(excess("nexus__noon", Some(&callers)), None);
            assert_eq!(excess("nexus__midnight", Some(&callers)).as_deref(), Some("nexus__midnight"));
            assert_eq!(excess("other__noon", Some(&callers)).as_deref(), Some("other__noon"));
            assert_eq!(excess("nexus__noon", None).as_deref(), Some("search_tool"));
        }
    }

    #[test]
    fn what_another_server_does_is_unknown_at_every_level() {
        for access in ToolAccess::ALL {
            assert_eq!(effects(access, "search_tool", None), Effects::None);
            for name in ["use_tool", "left__leak"] {
                assert_eq!(effects(access, name, Some("read")), Effects::Unknown, "{access:?} {name}");
            }
        }
        assert_eq!(effects(ToolAccess::ReadOnly, "grep", Some("search")), Effects::Read);
        assert_eq!(effects(ToolAccess::ScopedOnly, "grep", Some("search")), Effects::Unknown);
    }

    #[test]
    fn a_call_is_told_as_the_caller_would_make_it() {
        let call =
            |called: &str, input: Value| callers_call(called, &input).map(|call| (call.name, call.arguments));
        let add = |arguments: Value| Some(("add".to_owned(), arguments));
        let by_use =
            |input: Value| call("use_tool", json!({ "tool_name": "nexus__add", "tool_input": input }));
        assert_eq!(by_use(json!({ "a": 1 })), add(json!({ "a": 1 })));
        assert_eq!(by_use(json!("{\"a\":1}")), add(json!({ "a": 1 })), "the CLI reads it so, too");
        assert_eq!(by_use(json!([1])), add(Value::Null));
        assert_eq!(call("nexus__add", json!({ "a": 1 })), add(json!({ "a": 1 })));
        let in_a_file = json!({ "tool_name": "nexus__add", "tool_input_file": "/x.json" });
        assert_eq!(call("use_tool", in_a_file.clone()), add(in_a_file));
        assert_eq!(call("use_tool", json!({ "file": "/x.json" })), None);
        assert_eq!(call("use_tool", json!({ "tool_name": "read_file", "tool_input": {} })), None);
        assert_eq!(call("search_tool", json!({ "tool_name": "nexus__add" })), None);
    }
}
