//! Builds the answers of the MCP protocol, without side effects.

use std::sync::Arc;

use bytes::Bytes;
use nexus_core::{Effects, ToolContent, ToolDefinition, ToolResult};
use rmcp::model::{
    CacheScope, CallToolResult, ContentBlock, DiscoverResult, ErrorCode, ErrorData, Implementation,
    InitializeResult, JsonRpcError, JsonRpcResponse, JsonRpcVersion2_0, ListToolsResult, MetaObject,
    ProtocolVersion, RequestId, ServerCapabilities, TASKS_EXTENSION_ID, Tool, ToolAnnotations,
    ToolsCapability,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::service::{CallAnswer, JsonObject, ServedTool, ServiceInfo, ToolKind};

/// Protocol revisions that begin with `initialize`, the newest last.
const WITH_HANDSHAKE: [ProtocolVersion; 2] = [ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_11_25];
/// The protocol revision without `initialize`. Every request names the revision and the abilities of its client.
const WITHOUT_HANDSHAKE: ProtocolVersion = ProtocolVersion::V_2026_07_28;
/// Time that a client may cache the answers to `server/discover` and `tools/list`. Neither changes while a server runs.
const KEPT_MS: u64 = 60_000;

const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const META_SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// The `_meta` of a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RequestMeta {
    /// True if the request uses the revision without a handshake.
    pub(crate) names_itself: bool,
    /// The revision that the request names.
    pub(crate) revision: Option<String>,
    /// True if the client announces roots.
    pub(crate) offers_roots: bool,
    /// True if the client accepts a protocol task as an answer.
    pub(crate) takes_tasks: bool,
    /// Token for progress messages, if the client wants them.
    pub(crate) progress_token: Option<Value>,
}

impl RequestMeta {
    /// Reads the `_meta` of a request's parameters.
    ///
    /// # Errors
    ///
    /// The request names an unsupported revision.
    pub(crate) fn read(params: &Value) -> Result<Self, ErrorData> {
        let meta = params.get("_meta");
        let field = |name: &str| meta.and_then(|meta| meta.get(name));
        let progress_token =
            field("progressToken").filter(|token| token.is_string() || token.is_number()).cloned();
        let Some(named) = field(META_VERSION) else {
            return Ok(Self { progress_token, ..Self::default() });
        };
        let named = named.as_str().unwrap_or_default();
        let spoken = || WITH_HANDSHAKE.iter().chain([&WITHOUT_HANDSHAKE]);
        if !spoken().any(|version| version.as_str() == named) {
            let supported: Vec<_> = spoken().map(ProtocolVersion::as_str).collect();
            return Err(ErrorData::new(
                ErrorCode::UNSUPPORTED_PROTOCOL_VERSION,
                "this revision of the protocol is not spoken",
                Some(json!({ "requested": named, "supported": supported })),
            ));
        }
        let capabilities = field(META_CAPABILITIES);
        let can = |name: &str| capabilities.is_some_and(|all| all.get(name).is_some_and(Value::is_object));
        let takes_tasks = capabilities
            .and_then(|all| all.get("extensions")?.get(TASKS_EXTENSION_ID))
            .is_some_and(Value::is_object);
        let names_itself = named == WITHOUT_HANDSHAKE.as_str();
        Ok(Self {
            names_itself,
            revision: Some(named.to_owned()),
            offers_roots: can("roots"),
            // `initialize` does not announce the extension, so a client with a handshake cannot expect a task.
            takes_tasks: names_itself && takes_tasks,
            progress_token,
        })
    }
}

/// Returns true if a request over HTTP with this revision in its head is supported. By the specification a
/// request without a revision uses 2025-03-26, so a request that names that revision is treated the same.
pub(crate) fn is_spoken(named: &str) -> bool {
    named == ProtocolVersion::V_2025_03_26.as_str()
        || WITH_HANDSHAKE.iter().chain([&WITHOUT_HANDSHAKE]).any(|version| version.as_str() == named)
}

/// Answers `initialize` with the requested revision if it has a handshake, else with the newest such revision.
pub(crate) fn initialized(params: &Value, info: &ServiceInfo) -> InitializeResult {
    let wanted = params.get("protocolVersion").and_then(Value::as_str);
    let [.., newest] = WITH_HANDSHAKE;
    let version = WITH_HANDSHAKE.into_iter().find(|version| Some(version.as_str()) == wanted);
    let mut result = InitializeResult::new(capabilities())
        .with_protocol_version(version.unwrap_or(newest))
        .with_server_info(implementation(info));
    result.instructions = instructions(info);
    result
}

/// Returns the answer to `server/discover`. `has_tasks` is true for a server with protocol tasks.
pub(crate) fn discovered(info: &ServiceInfo, has_tasks: bool) -> DiscoverResult {
    let mut versions = WITH_HANDSHAKE.to_vec();
    versions.push(WITHOUT_HANDSHAKE);
    let mut capabilities = capabilities();
    if has_tasks {
        capabilities.extensions = Some([(TASKS_EXTENSION_ID.to_owned(), JsonObject::new())].into());
    }
    let mut result = DiscoverResult::new(versions, capabilities)
        .with_ttl_ms(KEPT_MS)
        .with_cache_scope(CacheScope::Private)
        .with_server_info(implementation(info));
    result.instructions = instructions(info);
    result
}

fn instructions(info: &ServiceInfo) -> Option<String> {
    Some(&info.instructions).filter(|text| !text.is_empty()).cloned()
}

fn capabilities() -> ServerCapabilities {
    let mut capabilities = ServerCapabilities::default();
    capabilities.tools = Some(ToolsCapability::default());
    capabilities
}

fn implementation(info: &ServiceInfo) -> Implementation {
    Implementation::new(info.name.clone(), info.version.clone())
}

/// Returns the answer to `tools/list`, with all tools on one page.
pub(crate) fn listed(tools: &[Tool], meta: &RequestMeta) -> ListToolsResult {
    let mut result = ListToolsResult::with_all_items(tools.to_vec());
    if meta.names_itself {
        return result.with_ttl_ms(KEPT_MS).with_cache_scope(CacheScope::Private);
    }
    // Only the revision without a handshake has `resultType`.
    result.result_type = None;
    result
}

/// Returns a tool of a service for a list.
pub(crate) fn tool(served: &ServedTool) -> Tool {
    let mut tool =
        Tool::new(served.name.clone(), served.description.clone(), object_schema(&served.input_schema));
    tool.title.clone_from(&served.title);
    tool.output_schema = served.output_schema.as_ref().map(object_schema);
    let (reads, removes, repeats) = match served.kind {
        ToolKind::ReadOnly => (true, false, true),
        ToolKind::Adds => (false, false, false),
        ToolKind::AddsOnce => (false, false, true),
        ToolKind::RemovesOnce => (false, true, true),
    };
    let mut annotations =
        ToolAnnotations::new().read_only(reads).destructive(removes).idempotent(repeats).open_world(false);
    annotations.title.clone_from(&served.title);
    tool.with_annotations(annotations)
}

/// Returns the schema as an object with a `type`, which clients expect.
fn object_schema(schema: &Value) -> Arc<JsonObject> {
    let mut schema = schema.as_object().cloned().unwrap_or_default();
    schema.entry("type").or_insert_with(|| json!("object"));
    Arc::new(schema)
}

/// Returns a tool of a session for a list. Its definition only distinguishes read-only tools from others.
pub(crate) fn session_tool(definition: &ToolDefinition, meta: &JsonObject) -> Tool {
    let schema = object_schema(&definition.input_schema);
    let reads = matches!(definition.effects, Effects::None | Effects::Read);
    Tool::new(definition.name.clone(), definition.description.clone(), schema)
        .with_annotations(ToolAnnotations::new().read_only(reads))
        .with_meta(MetaObject(meta.clone()))
}

/// Returns the answer to `tools/call`.
pub(crate) fn called(answer: CallAnswer) -> CallToolResult {
    let content = vec![ContentBlock::text(answer.text)];
    let mut result =
        if answer.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = answer.structured;
    result
}

/// Returns the answer to `tools/call` of a session's tool. JSON values become text, because some clients show their model only
/// the text or only the structured content.
pub(crate) fn answered(result: ToolResult) -> CallToolResult {
    let block = |content| match content {
        ToolContent::Text { text } => Some(ContentBlock::text(text)),
        ToolContent::Json { value } => Some(ContentBlock::text(value.to_string())),
        ToolContent::Image { media_type, data } => Some(ContentBlock::image(data, media_type)),
        _ => None,
    };
    let content = result.content.into_iter().filter_map(block).collect();
    if result.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) }
}

/// Returns the result of a call in the revision of its request.
pub(crate) fn in_revision(mut result: CallToolResult, meta: &RequestMeta) -> CallToolResult {
    if !meta.names_itself {
        result.result_type = None;
    }
    result
}

/// Returns the empty answer to `ping` and similar requests.
pub(crate) fn nothing(meta: &RequestMeta) -> Value {
    if meta.names_itself { json!({ "resultType": "complete" }) } else { json!({}) }
}

/// Returns the progress notification number `count` of a call.
pub(crate) fn progress(token: &Value, count: u64, line: &str) -> Bytes {
    written(&json!({
        "jsonrpc": "2.0", "method": "notifications/progress",
        "params": { "progressToken": token, "progress": count, "message": line },
    }))
}

/// Returns the request for a client's roots.
pub(crate) fn roots_request(id: &str) -> Bytes {
    written(&json!({ "jsonrpc": "2.0", "id": id, "method": "roots/list" }))
}

/// Name of the roots in a request for input, and in the repeated call that contains them.
pub(crate) const ROOTS_INPUT: &str = "roots";

/// Returns the answer to a call that the client has to send again with its roots.
pub(crate) fn roots_required() -> Value {
    json!({ "resultType": "input_required", "inputRequests": { ROOTS_INPUT: { "method": "roots/list" } } })
}

/// Returns the confirmation of a subscription to changes. No change ever follows.
pub(crate) fn nothing_to_listen_for(id: &RequestId) -> Bytes {
    written(&json!({
        "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
        "params": { "_meta": { META_SUBSCRIPTION: id }, "notifications": {} },
    }))
}

/// Returns a JSON-RPC response.
pub(crate) fn result_message(id: RequestId, result: impl Serialize) -> Bytes {
    written(&JsonRpcResponse { jsonrpc: JsonRpcVersion2_0, id, result })
}

/// Returns a JSON-RPC error. It has no id if the id of its request could not be read.
pub(crate) fn error_message(id: Option<RequestId>, error: ErrorData) -> Bytes {
    written(&JsonRpcError::new(id, error))
}

fn written(message: &impl Serialize) -> Bytes {
    // Serialization cannot fail: these types contain strings, numbers and JSON values, and only maps with string keys.
    serde_json::to_vec(message).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> ServiceInfo {
        ServiceInfo::new("clock", "1.2.3", "Call `now`.")
    }

    #[test]
    fn a_revision_with_a_handshake_is_taken_up_and_every_other_gets_the_newest() {
        for (asked, expected) in [
            (json!("2025-06-18"), "2025-06-18"),
            (json!("2025-11-25"), "2025-11-25"),
            (json!("2026-07-28"), "2025-11-25"),
            (json!("1.0"), "2025-11-25"),
            (json!(7), "2025-11-25"),
            (Value::Null, "2025-11-25"),
        ] {
            let result = initialized(&json!({ "protocolVersion": asked }), &info());
            assert_eq!(result.protocol_version.as_str(), expected, "{asked}");
        }
        assert_eq!(initialized(&Value::Null, &info()).protocol_version.as_str(), "2025-11-25");
    }

    #[test]
    fn what_is_discovered_says_how_long_it_may_be_kept() {
        let result = serde_json::to_value(discovered(&info(), true)).unwrap();
        assert_eq!(result["resultType"], "complete");
        assert_eq!(result["cacheScope"], "private");
        assert!(result["ttlMs"].is_u64());
        assert_eq!(result["supportedVersions"], json!(["2025-06-18", "2025-11-25", "2026-07-28"]));
        assert_eq!(result["capabilities"]["extensions"][TASKS_EXTENSION_ID], json!({}));
        assert_eq!(result["instructions"], "Call `now`.");
    }

    #[test]
    fn an_older_revision_sees_no_field_of_a_newer_one() {
        let older = serde_json::to_value(listed(&[], &RequestMeta::default())).unwrap();
        assert_eq!(older, json!({ "tools": [] }));
        let newer = RequestMeta { names_itself: true, ..RequestMeta::default() };
        let newer = serde_json::to_value(listed(&[], &newer)).unwrap();
        assert_eq!(
            newer,
            json!({ "tools": [], "resultType": "complete", "ttlMs": 60_000, "cacheScope": "private" })
        );
    }

    #[test]
    fn a_request_that_names_an_unknown_revision_is_told_which_are_spoken() {
        let error = RequestMeta::read(&json!({ "_meta": { META_VERSION: "2031-01-01" } })).unwrap_err();
        assert_eq!(error.code, ErrorCode::UNSUPPORTED_PROTOCOL_VERSION);
        assert_eq!(error.data.unwrap()["supported"][2], "2026-07-28");
    }

    #[test]
    fn roots_and_progress_are_read_by_the_types_of_the_sdk() {
        use rmcp::model::{InputRequiredResult, ServerJsonRpcMessage};

        let required: InputRequiredResult = serde_json::from_value(roots_required()).unwrap();
        assert!(required.input_requests.unwrap().contains_key(ROOTS_INPUT));
        for message in [
            progress(&json!("t"), 1, "line"),
            roots_request("roots-1"),
            nothing_to_listen_for(&RequestId::Number(7)),
        ] {
            let message: ServerJsonRpcMessage = serde_json::from_slice(&message).unwrap();
            assert!(!format!("{message:?}").contains("Custom"), "{message:?}");
        }
    }
}
