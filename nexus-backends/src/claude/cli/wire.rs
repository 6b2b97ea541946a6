//! Output lines of `claude -p --input-format stream-json --output-format stream-json`, with the vendor's names.
//!
//! Any field may be missing or have an unexpected type. It is then empty, so a changed field costs only that field, not
//! the line. `translate` interprets the lines.
//!
//! Source: observed with claude 2.1.197 and 2.1.329.

use std::{borrow::Cow, path::PathBuf};

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::cli::number;

/// Fields that distinguish the kinds of lines.
#[derive(Debug, Deserialize)]
pub(super) struct Head<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) subtype: Option<Cow<'a, str>>,
}

/// `stream_event`: a forwarded event of the model's API.
#[derive(Debug, Deserialize)]
pub(super) struct StreamLine<'a> {
    #[serde(borrow)]
    pub(super) event: StreamEvent<'a>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) parent_tool_use_id: Option<String>,
}

/// The event of a [`StreamLine`].
#[derive(Debug, Deserialize)]
pub(super) struct StreamEvent<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) delta: Option<Delta<'a>>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) message: Option<StartedMessage>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) usage: Option<ApiUsage>,
}

/// Addition to a block, or to the message as a whole.
#[derive(Debug, Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Cow<'a, str>,
    // Borrowed from the line, because deltas are most of the output: about 16,000 lines for an answer of 1 MiB.
    #[serde(borrow, default)]
    pub(super) text: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) thinking: Cow<'a, str>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) stop_reason: Option<String>,
}

/// The message of a `message_start`.
#[derive(Debug, Deserialize)]
pub(super) struct StartedMessage {
    pub(super) id: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) usage: Option<ApiUsage>,
}

/// Tokens of one model call. Input counts exclude both cache counts; output includes thinking.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct ApiUsage {
    #[serde(default, deserialize_with = "number::count")]
    pub(super) input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "number::count")]
    pub(super) cache_creation_input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "number::count")]
    pub(super) cache_read_input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "number::count")]
    pub(super) output_tokens: Option<u64>,
}

/// `assistant`: one finished block of a message.
#[derive(Debug, Deserialize)]
pub(super) struct AssistantLine {
    pub(super) message: AssistantMessage,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) parent_tool_use_id: Option<String>,
    /// Error class of a message that the CLI composed itself.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) error: Option<String>,
}

/// The message of an [`AssistantLine`].
#[derive(Debug, Deserialize)]
pub(super) struct AssistantMessage {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) id: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) model: Option<String>,
    /// `None` if it cannot be read.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) content: Option<Vec<Value>>,
    /// Set only if the response was not streamed.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) stop_reason: Option<String>,
    // Has the counts of the start, unless the response was not streamed. `message_delta` has the final ones.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) usage: Option<ApiUsage>,
}

impl AssistantMessage {
    /// Returns true if the CLI composed the message: an error text, or the reply to a command.
    pub(super) fn is_synthetic(&self) -> bool {
        self.model.as_deref() == Some("<synthetic>")
    }
}

/// Content block of an `assistant` or `user` line.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Block {
    #[serde(rename = "type", deserialize_with = "lenient")]
    pub(super) kind: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) text: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) thinking: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) id: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) name: String,
    // May contain defaults that the model did not send, such as `replace_all`.
    #[serde(deserialize_with = "lenient")]
    pub(super) input: Value,
    #[serde(deserialize_with = "lenient")]
    pub(super) tool_use_id: String,
    // Plain text, or a list of blocks.
    #[serde(deserialize_with = "lenient")]
    pub(super) content: Value,
    #[serde(deserialize_with = "lenient")]
    pub(super) is_error: bool,
    #[serde(deserialize_with = "lenient")]
    pub(super) source: Map<String, Value>,
}

/// `user`: tool results, and messages from the CLI to the model between two calls.
#[derive(Debug, Deserialize)]
pub(super) struct UserLine {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) parent_tool_use_id: Option<String>,
    /// True for an echo of a message that Nexus sent.
    #[serde(default, rename = "isReplay", deserialize_with = "lenient")]
    pub(super) is_replay: bool,
    /// Id of the echoed message.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) uuid: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) message: UserMessage,
}

/// The message of a [`UserLine`].
#[derive(Debug, Default, Deserialize)]
pub(super) struct UserMessage {
    /// List of blocks, or plain text.
    #[serde(default)]
    pub(super) content: Value,
}

/// Subtypes of `system` that only repeat other lines or have no meaning here, each with its recording. A subtype
/// without a recording is described in the vendor's documents.
const HARMLESS: [(&str, &str); 9] = [
    ("status", "agent_sub_partial"),
    ("thinking_tokens", "recommended_scoped"),
    ("task_progress", "agent_sub"),
    ("background_tasks_changed", "v2_1_329_bash_background"),
    ("hook_started", "hook_events"),
    ("hook_progress", ""),
    ("hook_response", "hook_events"),
    ("model_refusal_no_fallback", "fail_refusal"),
    ("session_state_changed", ""),
];

/// Returns true if a `system` line of this subtype can be skipped.
pub(super) fn is_harmless(subtype: &str) -> bool {
    HARMLESS.iter().any(|(known, _)| *known == subtype)
}

/// `system`, of any subtype.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SystemLine {
    #[serde(deserialize_with = "lenient")]
    pub(super) session_id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) model: Option<String>,
    /// `None` if the line has no list.
    #[serde(deserialize_with = "lenient")]
    pub(super) tools: Option<Vec<String>>,
    #[serde(deserialize_with = "lenient")]
    pub(super) claude_code_version: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) attempt: Option<u32>,
    // The CLI writes fractions of a millisecond.
    #[serde(deserialize_with = "lenient")]
    pub(super) retry_delay_ms: Option<f64>,
    // `null` if the connection was refused or reset before a response.
    #[serde(deserialize_with = "lenient")]
    pub(super) error_status: Option<u16>,
    #[serde(deserialize_with = "lenient")]
    pub(super) error: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) content: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) task_id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) tool_use_id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) patch: TaskPatch,
}

/// Changes of a background task.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TaskPatch {
    #[serde(deserialize_with = "lenient")]
    pub(super) status: Option<String>,
}

/// `result`: the end of the answer to one user message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResultLine {
    #[serde(deserialize_with = "lenient")]
    pub(super) subtype: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) is_error: bool,
    // Also `null` for a lost connection, an exhausted output limit and a missing login.
    #[serde(deserialize_with = "lenient")]
    pub(super) api_error_status: Option<u16>,
    // Present only with the subtype `success`. The other subtypes have `errors`.
    #[serde(deserialize_with = "lenient")]
    pub(super) result: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) errors: Vec<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) terminal_reason: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) stop_reason: Option<String>,
    // Zero if the CLI took the prompt for one of its commands and called no model.
    #[serde(deserialize_with = "number::count")]
    pub(super) num_turns: Option<u64>,
    #[serde(deserialize_with = "lenient")]
    pub(super) structured_output: Option<Value>,
    #[serde(deserialize_with = "lenient")]
    pub(super) session_id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) uuid: Option<String>,
    // Estimate from the CLI's own price list, accumulated over all answers of the process.
    #[serde(deserialize_with = "number::amount")]
    pub(super) total_cost_usd: Option<f64>,
    #[serde(rename = "modelUsage", deserialize_with = "lenient")]
    pub(super) model_usage: std::collections::BTreeMap<String, ModelUsage>,
    #[serde(deserialize_with = "lenient")]
    pub(super) permission_denials: Vec<PermissionDenial>,
}

impl ResultLine {
    /// Returns the size of the context of `model`, or of the only model in the line. A key can have a suffix in
    /// brackets, such as `[1m]`, that the name of the model lacks.
    pub(super) fn context_window(&self, model: Option<&str>) -> Option<u64> {
        let bare = |name: &str| name.split('[').next().map(str::to_owned);
        let mut named =
            self.model_usage.iter().filter(|(name, _)| model.is_some_and(|model| bare(name) == bare(model)));
        let only = || self.model_usage.values().next().filter(|_| self.model_usage.len() == 1);
        named.next().map(|(_, usage)| usage).or_else(only)?.context_window
    }
}

/// Usage of one model, including sub-agents and repeated calls.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ModelUsage {
    #[serde(deserialize_with = "number::count")]
    pub(super) input_tokens: Option<u64>,
    #[serde(deserialize_with = "number::count")]
    pub(super) output_tokens: Option<u64>,
    #[serde(deserialize_with = "number::count")]
    pub(super) cache_read_input_tokens: Option<u64>,
    #[serde(deserialize_with = "number::count")]
    pub(super) cache_creation_input_tokens: Option<u64>,
    /// Part of the output tokens. Reported from 2.1.329 on.
    #[serde(deserialize_with = "number::count")]
    pub(super) thinking_tokens: Option<u64>,
    /// Size of the model's context, in tokens.
    #[serde(deserialize_with = "number::count")]
    pub(super) context_window: Option<u64>,
}

/// A denied call.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PermissionDenial {
    #[serde(deserialize_with = "lenient")]
    pub(super) tool_use_id: String,
}

/// `rate_limit_event`: state of a subscription's rate limit.
#[derive(Debug, Deserialize)]
pub(super) struct RateLimitLine {
    pub(super) rate_limit_info: RateLimitInfo,
}

/// The notification of a [`RateLimitLine`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RateLimitInfo {
    #[serde(deserialize_with = "lenient")]
    pub(super) status: String,
    /// Seconds since the Unix epoch.
    #[serde(deserialize_with = "lenient")]
    pub(super) resets_at: Option<u64>,
    #[serde(deserialize_with = "lenient")]
    pub(super) rate_limit_type: Option<String>,
    /// Used share of the limit, from 0 to 1.
    #[serde(deserialize_with = "lenient")]
    pub(super) utilization: Option<f64>,
}

/// `control_request`: a request from the CLI.
#[derive(Debug, Deserialize)]
pub(super) struct AskedLine {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) request_id: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) request: Asked,
}

/// Content of an [`AskedLine`].
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    #[serde(deserialize_with = "lenient")]
    pub(super) subtype: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) tool_use_id: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) tool_name: String,
    /// Arguments of the call.
    pub(super) input: Value,
    /// Path that caused the permission request, if the CLI found one. It may also be inside the turn's folders.
    #[serde(deserialize_with = "lenient")]
    pub(super) blocked_path: Option<PathBuf>,
}

/// `control_response`: the response to a control request of ours.
#[derive(Debug, Deserialize)]
pub(super) struct ControlLine {
    pub(super) response: ControlResponse,
}

/// Content of a [`ControlLine`].
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ControlResponse {
    #[serde(deserialize_with = "lenient")]
    pub(super) subtype: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) request_id: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) error: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) response: ControlAnswer,
}

/// Requested data: the account and the models for `initialize`, the errors for `mcp_set_servers`, the servers
/// for `mcp_status`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ControlAnswer {
    #[serde(deserialize_with = "lenient")]
    pub(super) account: Option<Account>,
    #[serde(deserialize_with = "lenient")]
    pub(super) models: Vec<ModelInfo>,
    /// Connection errors, keyed by the server's name.
    #[serde(deserialize_with = "lenient")]
    pub(super) errors: Map<String, Value>,
    #[serde(rename = "mcpServers", deserialize_with = "lenient")]
    pub(super) mcp_servers: Vec<ServerStatus>,
}

/// State of an MCP server.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ServerStatus {
    #[serde(deserialize_with = "lenient")]
    pub(super) name: String,
    /// `connected`, `pending` or `failed`, among others.
    #[serde(deserialize_with = "lenient")]
    pub(super) status: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) error: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) tools: Vec<ServerTool>,
}

/// Tool of a server, under the server's own name for it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ServerTool {
    #[serde(deserialize_with = "lenient")]
    pub(super) name: String,
}

/// Credential that the CLI found.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Account {
    #[serde(deserialize_with = "lenient")]
    pub(super) token_source: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) api_key_source: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) subscription_type: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) api_provider: Option<String>,
}

/// Entry of the CLI's model list.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ModelInfo {
    #[serde(deserialize_with = "lenient")]
    pub(super) value: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) resolved_model: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) supports_effort: Option<bool>,
    #[serde(deserialize_with = "lenient")]
    pub(super) supported_effort_levels: Vec<String>,
}

/// Deserialises a field; a value of an unexpected type becomes the default.
fn lenient<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    // Read the whole value first. An error in the middle of it would leave the deserialiser there and cost the line.
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_another_type_costs_that_field_alone() {
        let result: ResultLine =
            serde_json::from_str(r#"{"is_error":"yes","num_turns":3,"modelUsage":[],"result":"x"}"#).unwrap();
        assert_eq!(
            (result.is_error, result.num_turns, result.result.as_deref()),
            (false, Some(3), Some("x"))
        );
    }
}
