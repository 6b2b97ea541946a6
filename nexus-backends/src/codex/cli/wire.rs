//! Messages of `codex app-server`: JSON-RPC without the version field, one object per line.
//!
//! Source: the schema that `codex app-server generate-json-schema` of 0.169.0 prints, and observations with that
//! version. Unused fields are omitted; unknown fields are ignored.

use std::collections::BTreeMap;

use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;

use crate::cli::number;

/// One line of output.
#[derive(Debug, Deserialize)]
pub(super) struct Line {
    /// Id that pairs a response with its request. A request from the program has an id, too.
    #[serde(default)]
    pub(super) id: Option<Value>,
    #[serde(default)]
    pub(super) method: Option<String>,
    #[serde(default)]
    pub(super) params: Value,
    #[serde(default)]
    pub(super) result: Option<Value>,
    #[serde(default)]
    pub(super) error: Option<RpcError>,
}

/// Error response to a request.
#[derive(Debug, Deserialize)]
pub(super) struct RpcError {
    #[serde(default)]
    pub(super) message: String,
    #[serde(default)]
    pub(super) data: Value,
}

/// Response to `thread/start` and `thread/resume`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThreadOpened {
    pub(super) thread: Thread,
    #[serde(default)]
    pub(super) model: Option<String>,
    #[serde(default)]
    pub(super) sandbox: Option<Sandbox>,
    #[serde(default)]
    pub(super) active_permission_profile: Option<PermissionProfile>,
}

/// Response to `config/read`: the result of all configurations that the program finds.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ConfigRead {
    #[serde(default)]
    pub(super) config: Config,
    /// Layers of the configuration, the strongest first.
    #[serde(default)]
    pub(super) layers: Vec<ConfigLayer>,
}

/// One layer of the configuration.
#[derive(Debug, Deserialize)]
pub(super) struct ConfigLayer {
    /// Settings of the layer, as written.
    #[serde(default)]
    pub(super) config: Value,
}

/// Used fields of a configuration.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Config {
    /// MCP servers, by name.
    #[serde(default)]
    pub(super) mcp_servers: BTreeMap<String, IgnoredAny>,
    /// All other settings.
    #[serde(flatten)]
    pub(super) rest: Value,
}

/// Response to `mcpServerStatus/list`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServerList {
    pub(super) data: Vec<ServerStatus>,
    /// Set if the list continues on another page.
    #[serde(default)]
    pub(super) next_cursor: Option<String>,
}

/// MCP server of a conversation.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServerStatus {
    pub(super) name: String,
    /// State of the connection, such as `connected`, `failed` or `disabled`.
    #[serde(default)]
    pub(super) runtime_status: Option<String>,
    /// Tools, by the server's own names.
    #[serde(default)]
    pub(super) tools: BTreeMap<String, IgnoredAny>,
    #[serde(default)]
    pub(super) tools_error: Option<String>,
}

/// A conversation.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Thread {
    pub(super) id: String,
    /// Path of the conversation's record.
    #[serde(default)]
    pub(super) path: Option<std::path::PathBuf>,
    #[serde(default)]
    pub(super) cli_version: Option<String>,
}

/// Sandbox of a conversation, as the program reports it.
#[derive(Debug, Deserialize)]
pub(super) struct Sandbox {
    #[serde(rename = "type")]
    pub(super) kind: String,
}

/// Permission profile from which the sandbox was created.
#[derive(Debug, Deserialize)]
pub(super) struct PermissionProfile {
    pub(super) id: String,
}

/// Response to `turn/start`, and parameters of `turn/started` and `turn/completed`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TurnNotification {
    #[serde(default)]
    pub(super) thread_id: Option<String>,
    pub(super) turn: Turn,
}

/// A turn.
#[derive(Debug, Deserialize)]
pub(super) struct Turn {
    pub(super) id: String,
    /// `completed`, `interrupted`, `failed` or `inProgress`.
    #[serde(default)]
    pub(super) status: String,
    #[serde(default)]
    pub(super) error: Option<Problem>,
}

/// Error of a turn.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Problem {
    #[serde(default)]
    pub(super) message: String,
    /// Error word, or an object with a word and a status. The program's record spells the field in snake case.
    #[serde(default, alias = "codex_error_info")]
    pub(super) codex_error_info: Value,
    #[serde(default, alias = "additional_details")]
    pub(super) additional_details: Option<String>,
}

/// Parameters of `error`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ErrorNotification {
    pub(super) error: Problem,
    #[serde(default)]
    pub(super) thread_id: Option<String>,
    #[serde(default)]
    pub(super) will_retry: bool,
}

/// Parameters of `item/started` and `item/completed`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ItemNotification {
    pub(super) item: Value,
    #[serde(default)]
    pub(super) thread_id: Option<String>,
}

/// Parameters of every delta.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Delta {
    pub(super) item_id: String,
    #[serde(default)]
    pub(super) delta: String,
    #[serde(default)]
    pub(super) thread_id: Option<String>,
    #[serde(default)]
    pub(super) summary_index: i64,
}

/// Parameters of `thread/tokenUsage/updated`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UsageNotification {
    #[serde(default)]
    pub(super) thread_id: Option<String>,
    #[serde(default)]
    pub(super) turn_id: Option<String>,
    pub(super) token_usage: ThreadUsage,
}

/// Tokens of the whole conversation, and of its last model call.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThreadUsage {
    pub(super) total: Tokens,
    pub(super) last: Tokens,
    #[serde(default, deserialize_with = "number::count")]
    pub(super) model_context_window: Option<u64>,
}

/// Tokens as the vendor counts them: input includes cached tokens, output includes reasoning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Tokens {
    pub(super) input_tokens: u64,
    pub(super) cached_input_tokens: u64,
    pub(super) cache_write_input_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) reasoning_output_tokens: u64,
}

/// Parameters of `account/rateLimits/updated`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RateLimitsNotification {
    pub(super) rate_limits: RateLimits,
}

/// Usage of the account's limits.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RateLimits {
    pub(super) primary: Option<RateWindow>,
    pub(super) secondary: Option<RateWindow>,
    pub(super) rate_limit_reached_type: Option<String>,
}

/// One time window of a limit.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RateWindow {
    pub(super) used_percent: f64,
    pub(super) window_duration_mins: Option<i64>,
    /// Unix seconds.
    pub(super) resets_at: Option<i64>,
}

/// Parameters of `warning`, `guardianWarning`, `configWarning` and `deprecationNotice`.
#[derive(Debug, Deserialize)]
pub(super) struct WarningNotification {
    #[serde(default, alias = "summary")]
    pub(super) message: String,
    #[serde(default)]
    pub(super) details: Option<String>,
}

/// Parameters of `model/rerouted`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReroutedNotification {
    pub(super) from_model: String,
    pub(super) to_model: String,
    #[serde(default)]
    pub(super) reason: String,
}

/// Item of a turn.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum Item {
    AgentMessage {
        id: String,
        #[serde(default)]
        text: String,
    },
    Reasoning {
        id: String,
        #[serde(default)]
        summary: Vec<String>,
        #[serde(default)]
        content: Vec<String>,
    },
    CommandExecution {
        id: String,
        #[serde(default)]
        command: String,
        #[serde(default)]
        cwd: Option<String>,
        #[serde(default)]
        source: Option<String>,
        #[serde(default)]
        status: String,
        // Empty until the command has ended.
        #[serde(default)]
        aggregated_output: Option<String>,
        #[serde(default)]
        exit_code: Option<i64>,
    },
    FileChange {
        id: String,
        #[serde(default)]
        changes: Value,
        #[serde(default)]
        status: String,
    },
    McpToolCall {
        id: String,
        #[serde(default)]
        server: String,
        #[serde(default)]
        tool: String,
        #[serde(default)]
        arguments: Value,
        #[serde(default)]
        status: String,
        #[serde(default)]
        result: Option<Value>,
        #[serde(default)]
        error: Option<Value>,
    },
    CollabAgentToolCall {
        id: String,
        #[serde(default)]
        tool: String,
        #[serde(default)]
        status: String,
        #[serde(default)]
        prompt: Option<String>,
        #[serde(default)]
        receiver_thread_ids: Vec<String>,
        #[serde(default)]
        agents_states: Value,
    },
    WebSearch {
        id: String,
        #[serde(default)]
        query: String,
        #[serde(default)]
        action: Value,
    },
    ImageView {
        id: String,
        #[serde(default)]
        path: Value,
    },
    ImageGeneration {
        id: String,
        #[serde(default)]
        status: String,
        #[serde(default)]
        revised_prompt: Option<String>,
        #[serde(default)]
        saved_path: Option<String>,
    },
    Sleep {
        id: String,
        #[serde(default)]
        duration_ms: Value,
    },
    ContextCompaction {},
    /// User message, reported when the next request to the model contains it.
    UserMessage {
        /// Id that the client gave the message, if it gave one.
        #[serde(default)]
        client_id: Option<String>,
    },
    /// Echoes of sent content, and markers whose meaning other lines contain.
    #[serde(
        rename = "hookPrompt",
        alias = "plan",
        alias = "enteredReviewMode",
        alias = "exitedReviewMode",
        alias = "functionCallOutput",
        alias = "subAgentActivity"
    )]
    Silent {},
}
