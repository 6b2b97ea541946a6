//! One call of a tool of an MCP server.

use std::time::Duration;

use nexus_core::{ToolContent, ToolResult};
use rmcp::{
    RoleClient,
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotification,
        CancelledNotificationParam, ClientRequest, ContentBlock, RequestId, ServerResult,
    },
    service::{Peer, PeerRequestOptions, ServiceError},
};
use serde_json::Value;

use crate::client_text;

/// Longest part of a server's error text that the model reads, in bytes.
const FAULT_BYTES: usize = 1_000;

/// Calls a tool, and waits for its answer for as long as there is progress at least every `within`. Dropping the future tells the
/// server that the answer is not wanted any more.
pub(crate) async fn call(
    peer: Peer<RoleClient>,
    tool: String,
    arguments: Value,
    within: Duration,
) -> ToolResult {
    let mut params = CallToolRequestParams::new(tool);
    if let Value::Object(arguments) = arguments {
        params = params.with_arguments(arguments);
    }
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let options = PeerRequestOptions::with_timeout(within).reset_timeout_on_progress();
    let answered = match peer.send_cancellable_request(request, options).await {
        Ok(handle) => {
            let mut unanswered = Unanswered { peer: Some(peer), id: handle.id.clone() };
            let answered = handle.await_response().await;
            unanswered.peer = None;
            answered
        }
        Err(error) => Err(error),
    };
    match answered {
        Ok(ServerResult::CallToolResult(result)) => result_of(result),
        Ok(_) => fault("the server's answer is not a result of a call"),
        Err(ServiceError::Timeout { timeout }) => ToolResult::error(format!(
            "the server sent neither an answer nor progress within {}, so the call is given up. Its effects are unknown.",
            humantime::format_duration(timeout)
        )),
        Err(error) => fault(&error.to_string()),
    }
}

/// A call whose answer is waited for. Dropped, it is taken back.
struct Unanswered {
    /// `None` once it was answered.
    peer: Option<Peer<RoleClient>>,
    id: RequestId,
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let (Some(peer), Ok(runtime)) = (self.peer.take(), tokio::runtime::Handle::try_current()) {
            let params = CancelledNotificationParam::new(Some(self.id.clone()), None);
            let notification = CancelledNotification::new(params);
            // A server that has ended gets no cancellation.
            runtime.spawn(async move { drop(peer.send_notification(notification.into()).await) });
        }
    }
}

fn fault(reason: &str) -> ToolResult {
    ToolResult::error(client_text::cut(reason, FAULT_BYTES))
}

fn result_of(result: CallToolResult) -> ToolResult {
    let mut content: Vec<ToolContent> = result.content.into_iter().map(shown).collect();
    if content.is_empty()
        && let Some(value) = result.structured_content
    {
        content.push(ToolContent::json(value));
    }
    if content.is_empty() {
        content.push(ToolContent::text("done"));
    }
    let mut shown = ToolResult::ok(content);
    shown.is_error = result.is_error == Some(true);
    shown
}

fn shown(content: ContentBlock) -> ToolContent {
    match content {
        ContentBlock::Text(text) => ToolContent::text(text.text),
        ContentBlock::Image(image) => ToolContent::Image { media_type: image.mime_type, data: image.data },
        // A resource or the like, as the protocol writes it.
        other => {
            serde_json::to_value(other).map_or_else(|_| ToolContent::text("(not shown)"), ToolContent::json)
        }
    }
}
