//! The lines that Grok writes with `--output-format streaming-json`, in the vendor's words.
//!
//! Source: observed with grok 1.0.41. Fields that nothing is made of are left out, and an unknown one is no
//! error. A line is read in two steps, its name first, since most lines are short and one name is most of
//! them.

use serde::Deserialize;
use serde_json::{Map, Value};

/// The name of a line.
#[derive(Debug, Deserialize)]
pub(super) struct Head {
    #[serde(rename = "type")]
    pub(super) kind: String,
}

/// `text` and `thought`.
#[derive(Debug, Deserialize)]
pub(super) struct Delta {
    pub(super) data: String,
}

/// `available_commands`: sent before the first model call, and again whenever it may have changed, as when a server
/// is connected: `tools` holds the tools of servers, too.
#[derive(Debug, Deserialize)]
pub(super) struct AvailableCommands {
    #[serde(default)]
    pub(super) tools: Vec<String>,
}

/// `tool_call`: complete with its arguments.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolCall {
    pub(super) tool_call_id: String,
    pub(super) tool_name: Option<String>,
    pub(super) title: Option<String>,
    pub(super) kind: Option<String>,
    #[serde(default)]
    pub(super) raw_input: Value,
}

/// `tool_call_update`: progress, or the end of a call.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolCallUpdate {
    pub(super) tool_call_id: String,
    pub(super) status: Option<String>,
    #[serde(default)]
    pub(super) content: Vec<Value>,
    #[serde(default)]
    pub(super) raw_output: Value,
}

/// `usage`: the end of one model response; without numbers if the server sent none.
#[derive(Debug, Deserialize)]
pub(super) struct ResponseEnd {
    pub(super) usage: Option<Tokens>,
}

/// Tokens, the cached part of the input apart, the reasoning part of the output inside.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Tokens {
    pub(super) input_tokens: Option<u64>,
    pub(super) cache_read_input_tokens: Option<u64>,
    pub(super) cache_creation_input_tokens: Option<u64>,
    pub(super) output_tokens: Option<u64>,
    pub(super) reasoning_tokens: Option<u64>,
}

/// `end`: the turn ended, well or not.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct End {
    pub(super) stop_reason: String,
    pub(super) structured_output: Option<Value>,
    pub(super) structured_output_error: Option<String>,
    #[serde(flatten)]
    pub(super) spent: Spent,
}

/// `error`: the turn ended with the vendor's sentence.
#[derive(Debug, Deserialize)]
pub(super) struct Error {
    pub(super) message: String,
    #[serde(flatten)]
    pub(super) spent: Spent,
}

/// What the whole turn used, at its end.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Spent {
    pub(super) usage: Option<Tokens>,
    #[serde(rename = "modelUsage", default)]
    pub(super) model_usage: Map<String, Value>,
    /// Ten billion to the US dollar.
    pub(super) total_cost_usd_ticks: Option<u64>,
    pub(super) total_cost_usd: Option<f64>,
}

/// The JSON that stands behind `Internal error:` in a message.
#[derive(Debug, Deserialize)]
pub(super) struct InternalError {
    pub(super) message: String,
    pub(super) http_status: Option<u16>,
    pub(super) error_kind: Option<String>,
}
