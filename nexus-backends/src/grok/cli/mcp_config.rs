//! The caller's tools as the CLI's only MCP server: its configuration entry, the hook that delays the prompt until the
//! server is connected, and the names of its tools.
//!
//! The model does not get the tools themselves. It gets `search_tool`, which finds them and their schemas by words, and
//! `use_tool`, which calls one. It may also call `nexus__NAME` as a function. The CLI reports the server and its number
//! of tools to the model once, before the first prompt after the connection.
//!
//! **Token.** It is in the configuration file, which the CLI reads when it starts; the hook before the prompt replaces
//! that file. So no variable contains the token, and no tool of the model finds it in a file.
//!
//! **Readiness.** The CLI waits two seconds for its servers, and then calls its model without them. The hook waits
//! longer, for the line in which the CLI reports the connection, and stops the prompt if the connection failed. The
//! model's output is accepted only after the CLI has listed every tool.
//!
//! Source: observed with grok 1.0.41.

use std::time::Duration;

use nexus_core::ToolDefinition;

use crate::cli::caller_tools::{CallerTools, SERVER};

/// Separator between the server's name and the tool's.
pub(super) const SEPARATOR: &str = "__";

/// Maximum length of a tool's name with the server's name, in bytes.
const LONGEST_NAME_BYTES: usize = 256;

/// Time limit of a call in a turn without a deadline.
const A_WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Time that a call may exceed the turn's deadline, so that Nexus ends the call, not the CLI.
const SPARE_TIME: Duration = Duration::from_secs(60);

/// Rule that allows every call of a server's tool. The CLI has no other server. Without the rule, a call of an unknown
/// tool would wait for an approval, which ends the turn.
pub(super) const ALLOW_RULE: &str = "MCPTool(*)";

/// Returns the name under which the CLI offers a tool.
pub(super) fn offered_name(name: &str) -> String {
    format!("{SERVER}{SEPARATOR}{name}")
}

/// Returns the caller's name of an offered tool.
pub(super) fn own_name(offered: &str) -> Option<&str> {
    offered.strip_prefix(SERVER)?.strip_prefix(SEPARATOR)
}

/// Returns the names among `tools` that the CLI would silently leave out.
pub(super) fn nameless(tools: &[ToolDefinition]) -> Vec<&str> {
    let is_taken = |name: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        name.bytes().all(is_plain)
            && !name.is_empty()
            && !name.starts_with('_')
            && !name.contains(SEPARATOR)
            && offered_name(name).len() <= LONGEST_NAME_BYTES
    };
    tools.iter().map(|tool| tool.name.as_str()).filter(|name| !is_taken(name)).collect()
}

/// Returns the server's configuration entry, with its token, for a turn with this deadline.
pub(super) fn entry(tools: &CallerTools, deadline: Option<Duration>) -> String {
    let longest_call = deadline.map_or(A_WEEK, |deadline| deadline.saturating_add(SPARE_TIME));
    format!(
        "[mcp_servers.{SERVER}]\nurl = \"{}\"\nheaders = {{ Authorization = \"Bearer {}\" }}\n\
         tool_timeout_sec = {}\nstartup_timeout_sec = 60\n",
        tools.url(),
        tools.token().expose(),
        longest_call.as_secs().min(u64::from(u32::MAX)),
    )
}

/// Returns the part of a hook that waits until the CLI reports the server's connection in this session. Ignores the
/// first `known_bytes` of the event log, which are older than the process. Without a report, the hook continues after
/// at least ten seconds; the CLI's list of tools then decides.
pub(super) fn waiting(session: &str, known_bytes: u64) -> String {
    let from = known_bytes.saturating_add(1);
    format!(
        r#"; logged() {{ tail -c +{from} -- "$GROK_HOME"/sessions/*/{session}/events.jsonl 2>/dev/null | grep -q "$1"; }}; n=0; until logged mcp_init_completed; do [ "$n" -lt 1000 ] || exit 0; sleep 0.01 || sleep 1; n=$((n+1)); done; logged '"mcp_server_connected","server_name":"{SERVER}"' || exit 2"#
    )
}

#[cfg(test)]
mod tests {
    use std::{path::Path, process::Command, sync::Arc};

    use nexus_core::{NoTools, ParticipantScope, Session};
    use serde_json::json;

    use super::*;

    fn named(names: &[&str]) -> Vec<ToolDefinition> {
        names.iter().map(|name| ToolDefinition::new(*name, "", json!({ "type": "object" }))).collect()
    }

    #[test]
    fn a_name_is_the_callers_again() {
        assert_eq!(own_name(&offered_name("add")), Some("add"));
        assert_eq!(own_name("other__add"), None);
        assert_eq!(own_name("search_tool"), None);
    }

    #[test]
    fn names_that_the_cli_leaves_out_are_known() {
        let (longest, too_long) = ("x".repeat(249), "x".repeat(250));
        let taken = ["add", "a-b", "a_", "-a", "A9", "read_file", longest.as_str()];
        assert!(nameless(&named(&taken)).is_empty());
        let left_out = ["", "_a", "a__b", "a.b", "a b", "a/b", "ü", too_long.as_str()];
        assert_eq!(nameless(&named(&left_out)), left_out);
    }

    #[test]
    fn no_call_is_ended_before_the_turn() {
        let session = Session::mint("caller", ParticipantScope::unrestricted(), Arc::new(NoTools));
        let tools = CallerTools::new(Arc::clone(&session), "http://127.0.0.1:1/mcp".into());
        let bounded = entry(&tools, Some(Duration::from_secs(7_200)));
        assert!(bounded.contains("tool_timeout_sec = 7260\n"), "{bounded}");
        assert!(bounded.contains(&format!("\"Bearer {}\"", session.token().expose())));
        assert!(entry(&tools, None).contains("tool_timeout_sec = 604800\n"));
        assert!(entry(&tools, Some(Duration::MAX)).contains("tool_timeout_sec = 4294967295\n"));
    }

    /// How a hook that waits ends, before a record.
    fn waited(folder: &Path, record: &str, known_bytes: u64) -> Option<i32> {
        let session = folder.join("sessions/%2Fw/s");
        std::fs::create_dir_all(&session).unwrap();
        std::fs::write(session.join("events.jsonl"), record).unwrap();
        let hook = format!("true{}", waiting("s", known_bytes));
        let mut shell = Command::new("sh");
        shell.args(["-c", &hook]).env("GROK_HOME", folder).status().unwrap().code()
    }

    #[test]
    fn the_prompt_is_held_back_until_the_server_is_connected() {
        let folder = tempfile::tempdir().unwrap();
        let connected = r#"{"ts":"x","type":"mcp_server_connected","server_name":"nexus"}"#;
        let completed = r#"{"ts":"x","type":"mcp_init_completed"}"#;
        assert_eq!(waited(folder.path(), &format!("{connected}\n{completed}\n"), 0), Some(0));
        let failed = r#"{"ts":"x","type":"mcp_server_failed","server_name":"nexus"}"#;
        assert_eq!(waited(folder.path(), &format!("{failed}\n{completed}\n"), 0), Some(2));
        // What an earlier process wrote does not count.
        let earlier = format!("{connected}\n{completed}\n");
        let record = format!("{earlier}{failed}\n{completed}\n");
        assert_eq!(waited(folder.path(), &record, earlier.len() as u64), Some(2));
    }
}
