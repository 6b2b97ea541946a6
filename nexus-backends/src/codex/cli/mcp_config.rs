//! The caller's tools in the program's configuration, and their names in the program.
//!
//! The configuration names them as a server on loopback, which must run before a conversation opens. Every model gets
//! its tools, and no call of them waits for an approval, because no host could give it. Source: the requests of codex
//! 0.169.0 to a loopback model with each of these keys.

use nexus_core::{ErrorKind, ToolCallStatus, harness::Failure};
use serde_json::{Map, Value, json};

use super::wire::{ConfigRead, RpcError, ServerList, ServerStatus};
use crate::cli::caller_tools;
use crate::cli::caller_tools::{CallerTools, SERVER};

/// Namespace of the tools, as the model sees it.
pub(super) const NAMESPACE: &str = "mcp__nexus";

/// Time limit of the program's connection to the server, in seconds. Source: our own bound; on an idle machine the
/// connection takes 0.1 seconds.
const CONNECT_SECONDS: u64 = 60;

/// Time limit of a call, in seconds. Source: our own bound of a month, so that the turn's limits end a call, not the
/// program, whose default is 60.
const CALL_SECONDS: u64 = 30 * 24 * 3600;

/// Longest result that reaches the model uncut, in the program's tokens of four bytes: 1 MiB. Source: our own bound. By
/// default the program removes the middle of a result above 10,000 tokens, or 2,500 for an unlisted model. The setting
/// also applies to the program's own commands if their model is unlisted; these get 10,000 tokens.
pub(in crate::codex) const RESULT_TOKENS: u64 = 1 << 18;

/// Longest tool name that a model sees unchanged. It sees the beginning of a longer name and a hash. Source: observed
/// with codex 0.169.0, which allows 128 characters including the namespace.
const MAX_NAME_CHARS: usize = 128 - NAMESPACE.len() - "__".len();

/// Beginnings of the program's response to a call of an unknown tool: a function, or a free-text tool.
const UNSUPPORTED: [&str; 2] = ["unsupported call: ", "unsupported custom tool call: "];

/// Returns the configuration section of the caller's tools.
pub(super) fn configuration(tools: &CallerTools) -> Value {
    let names: Vec<_> = tools.definitions().iter().map(|tool| tool.name.as_str()).collect();
    json!({
        "tool_output_token_limit": RESULT_TOKENS,
        "mcp_servers": {
            SERVER: {
                "url": tools.url(),
                "bearer_token_env_var": caller_tools::TOKEN_VARIABLE,
                "required": true,
                "startup_timeout_sec": CONNECT_SECONDS,
                "tool_timeout_sec": CALL_SECONDS,
                "enabled_tools": names,
                "default_tools_approval_mode": "approve",
                // Otherwise a model finds the tools only by a search, or only from within a script.
                "omit_tools_from": ["deferred", "code_mode"],
                "supports_parallel_tool_calls": true,
            },
        },
    })
}

/// Returns a warning for the caller about tool names that the model sees changed.
pub(super) fn renamed(tools: &CallerTools) -> Option<String> {
    let names = || tools.definitions().iter().map(|tool| tool.name.as_str());
    let is_shared = |name: &str| names().filter(|other| plain(other) == plain(name)).count() > 1;
    let is_renamed =
        |name: &&str| plain(name) != **name || name.chars().count() > MAX_NAME_CHARS || is_shared(name);
    let renamed: Vec<_> = names().filter(is_renamed).map(|name| format!("{name:?}")).collect();
    (!renamed.is_empty()).then(|| {
        let renamed = renamed.join(", ");
        format!(
            "codex shows the model other names for {renamed}: it accepts letters, digits and '_', at most \
            {MAX_NAME_CHARS}"
        )
    })
}

/// Returns a name as the model sees it, provided that it is unique and not too long.
fn plain(name: &str) -> String {
    name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect()
}

/// Returns a configuration for the conversation that disables every server in `read` except the caller's. `None` if
/// `read` names no other server.
pub(super) fn switched_off(tools: Option<&CallerTools>, read: Result<Value, RpcError>) -> Option<Value> {
    // A server that cannot be read stays enabled. The later check of connected servers finds it.
    let read = read.ok().and_then(|read| serde_json::from_value::<ConfigRead>(read).ok()).unwrap_or_default();
    let names = read.config.mcp_servers.into_keys().filter(|name| !is_callers(tools, name));
    let off: Map<_, _> = names.map(|name| (name, json!({ "enabled": false }))).collect();
    (!off.is_empty()).then(|| json!({ "mcp_servers": off }))
}

/// Returns the reason why the turn cannot begin, by the program's list of connected servers. `None` if every tool of
/// the caller is connected, and no other server.
pub(super) fn unready(tools: Option<&CallerTools>, listed: Result<Value, RpcError>) -> Option<Failure> {
    let unknown = |reason: &str| match tools {
        Some(tools) => unavailable(tools, |_| false, reason),
        None => {
            let reason = format!("codex does not report its connected servers: {reason}; nothing was sent");
            Failure::new(ErrorKind::Unsupported, reason)
        }
    };
    let listed = match listed.map(serde_json::from_value::<ServerList>) {
        Ok(Ok(listed)) if listed.next_cursor.is_none() => listed.data,
        Ok(Ok(_)) => return Some(unknown("its list of servers has too many pages")),
        Ok(Err(error)) => return Some(unknown("its list of servers cannot be read").with_source(error)),
        Err(error) => return Some(unknown(&error.message)),
    };
    let foreign: Vec<_> = listed.iter().filter(|server| is_foreign(tools, server)).collect();
    if !foreign.is_empty() {
        let names: Vec<_> = foreign.iter().map(|server| format!("{:?}", server.name)).collect();
        let reason = format!(
            "codex has MCP servers that the caller did not configure: {}; nothing was sent. Remove them from \
             the machine's configuration, such as /etc/codex/config.toml, or from .codex/config.toml in the \
             working directory",
            names.join(", ")
        );
        return Some(Failure::new(ErrorKind::Unsupported, reason));
    }
    let tools = tools?;
    let server = listed.iter().find(|server| server.name == SERVER);
    let is_connected = |name: &str| server.is_some_and(|server| server.tools.contains_key(name));
    if tools.missing(is_connected).is_empty() {
        return None;
    }
    let state = match server {
        Some(server) => {
            server.tools_error.as_deref().or(server.runtime_status.as_deref()).unwrap_or("connected")
        }
        None => "unknown to it",
    };
    Some(unavailable(tools, is_connected, &format!("the server is {state}")))
}

fn is_callers(tools: Option<&CallerTools>, server: &str) -> bool {
    tools.is_some() && server == SERVER
}

/// Returns true if a server is neither the caller's nor disabled.
fn is_foreign(tools: Option<&CallerTools>, server: &ServerStatus) -> bool {
    let is_off = server.runtime_status.as_deref() == Some("disabled") && server.tools.is_empty();
    !is_off && !is_callers(tools, &server.name)
}

/// Returns the failure of a conversation that did not open because the tools are not connected; `None` if it has
/// another reason.
pub(super) fn not_connected(tools: &CallerTools, refusal: &RpcError) -> Option<Failure> {
    // Source: observed with codex 0.169.0, with a server that refuses the connection, the token or the handshake.
    let is_why = refusal.message.contains("required MCP servers failed to initialize");
    is_why.then(|| unavailable(tools, |_| false, &refusal.message))
}

fn unavailable(tools: &CallerTools, is_connected: impl Fn(&str) -> bool, reason: &str) -> Failure {
    let missing = tools.missing(is_connected).join(", ");
    Failure::new(ErrorKind::ToolsUnavailable, format!("codex has not connected {missing}: {reason}"))
}

/// Returns true if `name` is a tool of the caller.
pub(super) fn has(tools: &CallerTools, name: &str) -> bool {
    tools.definitions().iter().any(|tool| tool.name == name)
}

/// The program's own helpers for MCP resources. It adds them whenever a server exists, and no setting removes them.
/// The helpers reach only that server, and the caller's server has no resources.
const HELPERS: [&str; 3] = ["list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource"];

/// Returns true if `name` names a helper of [`HELPERS`].
pub(super) fn is_helper(name: &str) -> bool {
    HELPERS.contains(&name)
}

/// Returns true if a reported call belongs to a helper. The program reports a helper under the name of the
/// requested server or, without one, under its own.
pub(super) fn is_call_of_helper(server: &str, name: &str) -> bool {
    matches!(server, "codex" | SERVER) && is_helper(name)
}

/// Returns the failure of a turn in which a tool of the caller has the name of a helper: their calls could not be
/// distinguished.
pub(super) fn taken_names(tools: &CallerTools) -> Option<Failure> {
    let names = tools.definitions().iter().map(|tool| tool.name.as_str()).filter(|name| is_helper(name));
    let names: Vec<_> = names.map(|name| format!("{name:?}")).collect();
    let reason =
        || format!("codex has its own tools with the names {}; rename the caller's tools", names.join(", "));
    (!names.is_empty()).then(|| Failure::new(ErrorKind::Unsupported, reason()))
}

/// Returns the status of a call that the program did not forward, from its response to the model.
pub(super) fn refusal(output: &str) -> ToolCallStatus {
    if is_unsupported(output) { ToolCallStatus::Denied } else { ToolCallStatus::Failed }
}

/// Returns true if the program answered the model that the tool does not exist.
pub(super) fn is_unsupported(output: &str) -> bool {
    UNSUPPORTED.iter().any(|words| output.starts_with(words))
}
