//! MCP as it is written: messages in, and the caller's tools and answers out. Pure.
//!
//! The types are those of `rmcp`; messages are read into less than its types ask for, so that a client that leaves
//! something out is answered all the same.
//!
//! Source: the MCP specification, revisions 2025-06-18 and 2025-11-25.

use std::sync::Arc;

use crate::wire_names::MAX_RESULT_CHARACTERS;
use nexus_core::{Effects, ToolContent, ToolDefinition, ToolResult, lenient_json};
use rmcp::model::{
    CallToolResult, ContentBlock, ErrorCode, ErrorData, Implementation, InitializeResult, ListToolsResult,
    MetaObject, ProtocolVersion, RequestId, ServerCapabilities, Tool, ToolAnnotations, ToolsCapability,
};
use serde_json::{Map, Value, json};

/// The revisions of the protocol that are spoken, the newest last.
const VERSIONS: [ProtocolVersion; 2] = [ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_11_25];

/// Whether a request that names this revision in its head is of one that is spoken. By the specification a request that
/// names none is taken to be of 2025-03-26, so one that says so is no different.
pub(super) fn is_spoken(named: &str) -> bool {
    named == ProtocolVersion::V_2025_03_26.as_str()
        || VERSIONS.iter().any(|version| version.as_str() == named)
}

/// A message of a client's.
#[derive(Debug)]
pub(super) enum Message {
    /// It wants an answer.
    Request {
        /// Pairs the answer with it.
        id: RequestId,
        /// What is asked for.
        method: String,
        /// What for.
        params: Value,
        /// Why no call may rest on it: it was repaired, or an object has a key twice.
        flaw: Option<String>,
    },
    /// It wants none.
    Notification {
        /// What happened.
        method: String,
        /// To what.
        params: Value,
    },
    /// It answers something that was never asked.
    Answer,
}

/// A message that cannot be read, and what could be read of it.
#[derive(Debug)]
pub(super) struct Unreadable {
    pub(super) id: Option<RequestId>,
    pub(super) error: ErrorData,
}

impl Message {
    /// Reads one message.
    #[allow(
        clippy::result_large_err,
        reason = "how large it is depends on the features of `serde_json` that others ask for"
    )]
    pub(super) fn read(body: &[u8]) -> Result<Self, Unreadable> {
        let lenient_json::CheckedMessage { value, flaw } =
            lenient_json::read_message(body).map_err(|_| Unreadable {
                id: lenient_json::request_id(body).and_then(|id| serde_json::from_value(id).ok()),
                error: ErrorData::parse_error("the body is not JSON", None),
            })?;
        let invalid = |id: Option<RequestId>, problem: &'static str| Unreadable {
            id,
            error: ErrorData::invalid_request(problem, None),
        };
        let Value::Object(mut message) = value else {
            return Err(invalid(None, "the body is not one JSON-RPC message"));
        };
        let id = message.remove("id");
        let has_id = id.is_some();
        let id = id.and_then(|id| serde_json::from_value::<RequestId>(id).ok());
        if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err(invalid(id, "the message is not of JSON-RPC 2.0"));
        }
        let params = message.remove("params").unwrap_or_default();
        match (message.remove("method"), id) {
            (Some(Value::String(method)), Some(id)) => Ok(Self::Request { id, method, params, flaw }),
            (Some(Value::String(method)), None) if !has_id => Ok(Self::Notification { method, params }),
            (None, Some(_)) if message.contains_key("result") || message.contains_key("error") => {
                Ok(Self::Answer)
            }
            (_, id) => Err(invalid(id, "the message is neither request nor notification")),
        }
    }
}

/// What `tools/call` names.
#[derive(Debug)]
pub(super) struct Called {
    pub(super) tool: String,
    pub(super) arguments: Value,
    /// Why it may not be run.
    pub(super) flaw: Option<String>,
}

impl Called {
    /// Reads the parameters of `tools/call`. The arguments may be anything: the session judges them.
    pub(super) fn read(params: Value, flaw: Option<String>) -> Result<Self, ErrorData> {
        let nameless = || ErrorData::invalid_params("tools/call needs a name", None);
        let Value::Object(mut params) = params else { return Err(nameless()) };
        match params.remove("name") {
            Some(Value::String(tool)) => {
                Ok(Self { tool, arguments: params.remove("arguments").unwrap_or_default(), flaw })
            }
            _ => Err(nameless()),
        }
    }
}

/// The request that `notifications/cancelled` means.
pub(super) fn cancelled(params: &Value) -> Option<RequestId> {
    serde_json::from_value(params.get("requestId")?.clone()).ok()
}

/// The answer to `initialize`: the revision that was asked for if it is spoken, else the newest that is.
pub(super) fn initialized(params: &Value) -> Result<InitializeResult, ErrorData> {
    let wanted = params.get("protocolVersion").and_then(Value::as_str);
    let wanted =
        wanted.ok_or_else(|| ErrorData::invalid_params("initialize needs a protocolVersion", None))?;
    let [.., newest] = VERSIONS;
    let version = VERSIONS.into_iter().find(|version| version.as_str() == wanted).unwrap_or(newest);
    let mut capabilities = ServerCapabilities::default();
    capabilities.tools = Some(ToolsCapability::default());
    Ok(InitializeResult::new(capabilities)
        .with_protocol_version(version)
        .with_server_info(Implementation::new("nexus", env!("CARGO_PKG_VERSION"))))
}

/// The answer to `tools/list`: all of them at once.
pub(super) fn listed(definitions: &[ToolDefinition]) -> ListToolsResult {
    ListToolsResult { tools: definitions.iter().map(tool).collect(), ..ListToolsResult::default() }
}

fn tool(definition: &ToolDefinition) -> Tool {
    let schema = match &definition.input_schema {
        Value::Object(schema) => schema.clone(),
        _ => Map::from_iter([("type".to_owned(), json!("object"))]),
    };
    let (key, characters) = MAX_RESULT_CHARACTERS;
    let is_read_only = matches!(definition.effects, Effects::None | Effects::Read);
    Tool::new(definition.name.clone(), definition.description.clone(), Arc::new(schema))
        .with_annotations(ToolAnnotations::new().read_only(is_read_only))
        .with_meta(MetaObject(Map::from_iter([(key.to_owned(), json!(characters))])))
}

/// The answer to `tools/call`.
///
/// A JSON value is text, too: where a result has structured content beside its text, some clients show their model
/// only the one, and some only the other.
pub(super) fn answered(result: ToolResult) -> CallToolResult {
    let content = result.content.into_iter().filter_map(block).collect();
    let mut answer =
        if result.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    // It came with a later revision.
    answer.result_type = None;
    answer
}

fn block(content: ToolContent) -> Option<ContentBlock> {
    match content {
        ToolContent::Text { text } => Some(ContentBlock::text(text)),
        ToolContent::Json { value } => Some(ContentBlock::text(value.to_string())),
        ToolContent::Image { media_type, data } => Some(ContentBlock::image(data, media_type)),
        _ => None,
    }
}

/// The error for a method that there is not.
pub(super) fn unknown_method() -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "there is no such method", None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flaw(body: &str) -> Option<String> {
        match Message::read(body.as_bytes()) {
            Ok(Message::Request { flaw, .. }) => flaw,
            other => panic!("{body}: {other:?}"),
        }
    }

    #[test]
    fn a_call_that_is_not_quite_json_is_read_and_its_flaw_reported() {
        let call = |value: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{{"x":{value}}}}}}}"#
            )
        };
        assert_eq!(flaw(&call("1")), None);
        for (value, expected) in [(r#""\ud83d""#, "surrogate"), ("NaN", "null"), (r#"1,"x":2"#, "twice")] {
            assert!(flaw(&call(value)).unwrap().contains(expected), "{value}");
        }
        let cut = Message::read(br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","par"#).unwrap_err();
        assert_eq!(cut.id, Some(RequestId::Number(7)));
    }
}
