//! The harness's own tools: the tools of each access level, the possible effects of a call, and denied calls.

use std::collections::BTreeSet;

use nexus_core::{ApprovalAction, Effects, ToolAccess, ToolContent};
use serde_json::Value;

use super::mcp_config;
use super::wire::Block;
use crate::cli::caller_tools::CallerTools;

/// Tool through which the CLI receives an answer that must have a shape. Its call is the answer, not a tool call.
pub(super) const STRUCTURED_OUTPUT: &str = "StructuredOutput";

/// Read-only tools, which a `ReadOnly` turn gets.
pub(super) const READERS: [&str; 3] = ["Read", "Glob", "Grep"];

/// Tools that an `Unrestricted` turn may call anywhere. A version ignores names of tools that it lacks. A tool that is
/// missing here is sandboxed as in `WorkspaceWrite`.
///
/// The list is needed because the CLI rejects `bypassPermissions` for root. Source: observed with claude 2.1.197 and
/// 2.1.329.
pub(super) const EVERYTHING: [&str; 29] = [
    "Agent",
    "Bash",
    "BashOutput",
    "CronCreate",
    "CronDelete",
    "CronList",
    "Edit",
    "EnterWorktree",
    "ExitWorktree",
    "Glob",
    "Grep",
    "KillShell",
    "ListAgents",
    "Monitor",
    "NotebookEdit",
    "Read",
    "ReportFindings",
    "ScheduleWakeup",
    "SendMessage",
    "Skill",
    "Task",
    "TaskCreate",
    "TaskOutput",
    "TaskStop",
    "TaskUpdate",
    "WebFetch",
    "WebSearch",
    "Workflow",
    "Write",
];

/// Returns the complete list of the harness's own tools at a level; `None` if the level has no fixed list. Without a
/// fixed list, a version offers all tools it has. No level allows the tools of a server other than the caller's.
fn whole_list(access: ToolAccess) -> Option<&'static [&'static str]> {
    match access {
        ToolAccess::ScopedOnly => Some(&[]),
        ToolAccess::ReadOnly => Some(&READERS),
        _ => None,
    }
}

/// Returns true if a fixed list of tools alone enforces the level.
pub(super) fn is_list(access: ToolAccess) -> bool {
    whole_list(access).is_some()
}

/// Returns the first tool of `offered` that a turn at this level must not have.
pub(super) fn forbidden<'o>(
    access: ToolAccess,
    offered: &'o [String],
    callers: Option<&CallerTools>,
) -> Option<&'o str> {
    let own = whole_list(access)?;
    let is_allowed = |tool: &&str| match mcp_config::caller_name(tool) {
        Some(name) => callers.is_some_and(|callers| mcp_config::has(callers, name)),
        None => *tool == STRUCTURED_OUTPUT || own.contains(tool),
    };
    offered.iter().map(String::as_str).find(|tool| !is_allowed(tool))
}

/// Returns the possible effects of a call. Starting a sub-agent has no effect itself, because the CLI reports each call
/// of a sub-agent.
pub(super) fn effects(tool: &str) -> Effects {
    match tool {
        "Agent" | "Task" | "TaskCreate" | "TaskGet" | "TaskList" | "TaskUpdate" | "TodoWrite"
        | "ToolSearch" | "ListAgents" | "ReportFindings" => Effects::None,
        "Read" | "Glob" | "Grep" | "LS" | "WebFetch" | "WebSearch" | "TaskOutput" | "BashOutput"
        | "Monitor" => Effects::Read,
        "Bash" | "Edit" | "MultiEdit" | "Write" | "NotebookEdit" | "EnterWorktree" | "ExitWorktree" => {
            Effects::Wrote
        }
        _ => Effects::Unknown,
    }
}

/// Returns the action of a call for which the CLI requests permission.
pub(super) fn action(tool: &str) -> ApprovalAction {
    match tool {
        "Read" | "Glob" | "Grep" | "LS" => ApprovalAction::Read,
        "Edit" | "MultiEdit" | "Write" | "NotebookEdit" => ApprovalAction::Write,
        "Bash" | "Monitor" => ApprovalAction::Execute,
        "WebFetch" | "WebSearch" => ApprovalAction::Fetch,
        _ => ApprovalAction::Other,
    }
}

/// Returns true if the model has the tool. If the list may be incomplete, only a known tool of the harness or a tool of
/// a server counts as missing.
pub(super) fn is_offered(tool: &str, access: ToolAccess, offered: &BTreeSet<String>) -> bool {
    // The list uses the tool's old name.
    let name = if tool == "Agent" { "Task" } else { tool };
    let can_be_missing =
        whole_list(access).is_some() || EVERYTHING.contains(&tool) || mcp_config::is_served(tool);
    offered.contains(name) || offered.contains(tool) || !can_be_missing
}

/// Beginnings of the results of denied calls. Only the `result` line has a structured list; from 2.1.223 on, a
/// `permission_denied` line precedes the result.
///
/// Source: transcripts full_dontask, full_plan, mcp_perm_none; observed with claude 2.1.197.
const REFUSALS: [&str; 6] = [
    "Cannot write to ",
    "Permission to use ",
    "Claude requested permissions to ",
    "This command requires approval",
    "This Bash command contains multiple operations. The following part requires approval",
    "Output redirection to ",
];

/// Text after the command in the result of a blocked shell command. Source: transcript full_plan.
const BLOCKED: &str = " was blocked. For security, Claude Code may only ";

/// Returns true if this result of a call is a denial.
pub(super) fn is_refusal(answer: &Block) -> bool {
    let text = match &answer.content {
        Value::String(text) => text.as_str(),
        Value::Array(parts) => parts.first().and_then(|part| part.get("text")?.as_str()).unwrap_or_default(),
        _ => "",
    };
    // Check the first line only: the command's own output follows the CLI's first line.
    let first_line = text.lines().next().unwrap_or_default();
    REFUSALS.iter().any(|refusal| text.starts_with(refusal)) || first_line.contains(BLOCKED)
}

/// Returns true if the CLI replaced a server's result by a file name and the beginning of the result. A successful
/// result of a server is a list of blocks; plain text is the CLI's own. Source: transcript mcp_tool_big_90000.
pub(super) fn is_cut(answer: &Block) -> bool {
    let is_note = |text: &str| text.starts_with("<persisted-output>");
    !answer.is_error && answer.content.as_str().is_some_and(is_note)
}

/// Returns the content of a call's result.
pub(super) fn output(answer: &Block) -> Vec<ToolContent> {
    match &answer.content {
        Value::Null => Vec::new(),
        Value::String(text) => vec![ToolContent::text(text)],
        Value::Array(parts) => parts.iter().map(part).collect(),
        other => vec![ToolContent::Json { value: other.clone() }],
    }
}

fn part(value: &Value) -> ToolContent {
    let block: Block = serde_json::from_value(value.clone()).unwrap_or_default();
    let field = |name: &str| block.source.get(name).and_then(Value::as_str).map(str::to_owned);
    match (block.kind.as_str(), field("media_type"), field("data")) {
        ("text", _, _) => ToolContent::text(block.text),
        ("image", Some(media_type), Some(data)) => ToolContent::Image { media_type, data },
        _ => ToolContent::Json { value: value.clone() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claude::cli::tests::callers;

    #[test]
    fn a_scoped_turn_has_no_tool_but_the_one_for_its_answer() {
        let offered = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(forbidden(ToolAccess::ScopedOnly, &offered(&["StructuredOutput"]), None), None);
        assert_eq!(forbidden(ToolAccess::ScopedOnly, &offered(&["Read"]), None), Some("Read"));
        assert_eq!(forbidden(ToolAccess::ReadOnly, &offered(&["Read", "Bash"]), None), Some("Bash"));
        assert_eq!(forbidden(ToolAccess::WorkspaceWrite, &offered(&["Bash"]), None), None);
    }

    #[test]
    fn of_the_servers_tools_a_turn_has_the_callers() {
        let callers = callers(&["add"]);
        for access in [ToolAccess::ScopedOnly, ToolAccess::ReadOnly] {
            let judge = |name: &str| {
                let offered = ["StructuredOutput", name].map(str::to_owned);
                forbidden(access, &offered, Some(&callers)).map(str::to_owned)
            };
            assert_eq!(judge("mcp__nexus__add"), None, "{access:?}");
            for name in ["mcp__nexus__sub", "mcp__nexus__", "mcp__other__add", "mcp__"] {
                assert_eq!(judge(name).as_deref(), Some(name), "{access:?}");
            }
            assert!(forbidden(access, &["mcp__nexus__add".to_owned()], None).is_some());
        }
    }

    #[test]
    fn a_tool_that_nobody_listed_is_not_there_where_the_list_is_whole() {
        let offered = BTreeSet::from(["Task".to_owned()]);
        let is_there = |tool: &str, access| is_offered(tool, access, &offered);
        assert!(
            is_there("Novelty", ToolAccess::Unrestricted) && !is_there("Novelty", ToolAccess::ScopedOnly)
        );
        assert!(!is_there("mcp__other__add", ToolAccess::Unrestricted));
        assert!(!is_there("Bash", ToolAccess::Unrestricted) && is_there("Agent", ToolAccess::Unrestricted));
    }
}
