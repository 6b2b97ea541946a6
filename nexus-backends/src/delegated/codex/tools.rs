//! The caller's tools, as the program is told about them and as it names them.
//!
//! They are a server in its configuration, reached over loopback. It must be there before a conversation opens, its
//! tools stand in the model's list whatever the model, and no call of them waits for an approval that nobody could
//! give. Source: what codex 0.169.0 offers a loopback model with each of these keys.

use nexus_core::{ErrorKind, ToolCallStatus};
use serde_json::{Value, json};

use super::wire::{RpcError, ServerList};
use crate::delegated::caller_tools::{self, CallerTools, SERVER};
use crate::turn::Failure;

/// The namespace of the tools, in the model's words.
pub(super) const NAMESPACE: &str = "mcp__nexus";

/// How long the program may take to connect, in seconds. Source: our own bound; on an idle machine it takes 0.1.
const CONNECT_SECONDS: u64 = 60;

/// How long a call may take, in seconds. Source: our own bound, a month: the turn's limits end a call, not the
/// program, whose default is 60.
const CALL_SECONDS: u64 = 30 * 24 * 3600;

/// The longest result that reaches the model whole, in the program's tokens of four bytes: 1 MiB. Source: our own
/// bound; by default it cuts the middle out of anything beyond 10,000 tokens, or 2,500 for a model that it does not
/// list. It holds for its own commands too where their model is not listed, which so get 10,000.
const RESULT_TOKENS: u64 = 1 << 18;

/// The longest name that a model is shown as it is: of a longer one it sees the beginning and a hash. Source: observed
/// with codex 0.169.0, which allows 128 characters with the namespace.
const MAX_NAME_CHARS: usize = 128 - NAMESPACE.len() - "__".len();

/// What the program begins its refusal of a call with that it has no tool for.
const UNSUPPORTED: &str = "unsupported call: ";

/// What the configuration says about them.
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
                // Else a model finds them only by searching, or only from within a script.
                "omit_tools_from": ["deferred", "code_mode"],
                "supports_parallel_tool_calls": true,
            },
        },
    })
}

/// What the caller should know about names: which of them the model does not see as they are.
pub(super) fn renamed(tools: &CallerTools) -> Option<String> {
    let names = || tools.definitions().iter().map(|tool| tool.name.as_str());
    let is_shared = |name: &str| names().filter(|other| plain(other) == plain(name)).count() > 1;
    let is_renamed =
        |name: &&str| plain(name) != **name || name.chars().count() > MAX_NAME_CHARS || is_shared(name);
    let renamed: Vec<_> = names().filter(is_renamed).map(|name| format!("{name:?}")).collect();
    (!renamed.is_empty()).then(|| {
        let renamed = renamed.join(", ");
        format!(
            "codex shows the model other names for {renamed}: it takes letters, digits and '_', {MAX_NAME_CHARS} at most"
        )
    })
}

/// A name as the model sees it, if it is neither too long nor anybody else's.
fn plain(name: &str) -> String {
    name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect()
}

/// Why the turn cannot begin, by what the program says it has connected; `None` if every tool is there.
pub(super) fn unready(tools: &CallerTools, listed: Result<Value, RpcError>) -> Option<Failure> {
    let listed = match listed.map(serde_json::from_value::<ServerList>) {
        Ok(Ok(listed)) => listed,
        Ok(Err(error)) => {
            return Some(
                unavailable(tools, |_| false, "its list of servers cannot be read").with_source(error),
            );
        }
        Err(error) => return Some(unavailable(tools, |_| false, &error.message)),
    };
    let server = listed.data.iter().find(|server| server.name == SERVER);
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

/// The failure of a conversation that did not open because the tools are not there; `None` if that is not why.
pub(super) fn not_connected(tools: &CallerTools, refusal: &RpcError) -> Option<Failure> {
    // Source: observed with codex 0.169.0, with a server that refuses the connection, the token or the handshake.
    let is_why = refusal.message.contains("required MCP servers failed to initialize");
    is_why.then(|| unavailable(tools, |_| false, &refusal.message))
}

fn unavailable(tools: &CallerTools, is_connected: impl Fn(&str) -> bool, reason: &str) -> Failure {
    let missing = tools.missing(is_connected).join(", ");
    Failure::new(ErrorKind::ToolsUnavailable, format!("codex has not connected {missing}: {reason}"))
}

/// Whether `name` is one of the caller's.
pub(super) fn has(tools: &CallerTools, name: &str) -> bool {
    tools.definitions().iter().any(|tool| tool.name == name)
}

/// Whether the program reports, under a server's name, a helper of its own for resources. It adds these three wherever
/// there is a server, and nothing takes them away; all they reach is that server, and the caller's has no resources.
/// Reading is reported under the server that was asked, listing under the program's own name.
pub(super) fn is_helper(server: &str, name: &str) -> bool {
    matches!((server, name), ("codex", "list_mcp_resources" | "list_mcp_resource_templates"))
        || matches!((server, name), (SERVER, "read_mcp_resource"))
}

/// What became of a call that the program did not pass on, by what it told the model.
pub(super) fn refusal(output: &str) -> ToolCallStatus {
    if output.starts_with(UNSUPPORTED) { ToolCallStatus::Denied } else { ToolCallStatus::Failed }
}
