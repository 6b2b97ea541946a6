//! Lines that Grok writes with `--output-format streaming-json`, with the vendor's names.
//!
//! Source: observed with grok 1.0.41. Unused fields are omitted, and unknown fields are ignored. A number of an
//! unexpected type costs only that number, not the line. A line is parsed in two steps, first its name, because most
//! lines are short and have the same name.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::cli::number;

/// Lines without an event: plans, and the shortening of long conversations. Source: the program's own guide
/// (`docs/user-guide/14`); no recording has one.
const HARMLESS: [&str; 6] = [
    "plan",
    "auto_compact_started",
    "auto_compact_failed",
    "auto_compact_cancelled",
    "auto_continue_completed",
    "image_compressed",
];

/// Returns true if a line with this name cannot contain a call.
pub(super) fn is_harmless(kind: &str) -> bool {
    HARMLESS.contains(&kind)
}

/// Name of a line.
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

/// `available_commands`: sent before the first model call, and again whenever it may have changed, for example after a
/// server was connected. `tools` includes the tools of servers.
#[derive(Debug, Deserialize)]
pub(super) struct AvailableCommands {
    /// `None` if the line has no list.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) tools: Option<Vec<String>>,
}

/// `tool_call`: a call with complete arguments.
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

/// `tool_call_update`: progress or end of a call.
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

/// `usage`: end of one model response. The numbers are missing if the server sent none.
#[derive(Debug, Deserialize)]
pub(super) struct ResponseEnd {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) usage: Option<Tokens>,
}

/// Token counts. Input excludes cached tokens; output includes reasoning.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Tokens {
    #[serde(deserialize_with = "number::count")]
    pub(super) input_tokens: Option<u64>,
    #[serde(deserialize_with = "number::count")]
    pub(super) cache_read_input_tokens: Option<u64>,
    #[serde(deserialize_with = "number::count")]
    pub(super) cache_creation_input_tokens: Option<u64>,
    #[serde(deserialize_with = "number::count")]
    pub(super) output_tokens: Option<u64>,
    #[serde(deserialize_with = "number::count")]
    pub(super) reasoning_tokens: Option<u64>,
}

/// `end`: the turn ended, successfully or not.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct End {
    pub(super) stop_reason: String,
    #[serde(default)]
    pub(super) structured_output: Option<Value>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) structured_output_error: Option<String>,
    #[serde(flatten)]
    pub(super) spent: Spent,
}

/// `error`: the turn ended with an error message of the vendor.
#[derive(Debug, Deserialize)]
pub(super) struct Error {
    pub(super) message: String,
    #[serde(flatten)]
    pub(super) spent: Spent,
}

/// Usage of the whole turn, at its end.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Spent {
    #[serde(deserialize_with = "lenient")]
    pub(super) usage: Option<Tokens>,
    #[serde(rename = "modelUsage", deserialize_with = "lenient")]
    pub(super) model_usage: Map<String, Value>,
    /// Cost of the turn. Ten billion ticks are one US dollar.
    #[serde(deserialize_with = "number::count")]
    pub(super) total_cost_usd_ticks: Option<u64>,
    #[serde(deserialize_with = "number::amount")]
    pub(super) total_cost_usd: Option<f64>,
}

/// JSON after `Internal error:` in a message.
#[derive(Debug, Deserialize)]
pub(super) struct InternalError {
    pub(super) message: String,
    pub(super) http_status: Option<u16>,
    pub(super) error_kind: Option<String>,
}

/// Deserialises a field; a value of an unexpected type becomes the default.
fn lenient<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).unwrap_or_default())
}
