//! One call of a tool of a server.

use std::time::Duration;

use nexus_core::{ToolContent, ToolResult, redact::Redactor};
use rmcp::{
    RoleClient,
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotification,
        CancelledNotificationParam, ClientRequest, ContentBlock, RequestId, ServerResult,
    },
    service::{Peer, PeerRequestOptions, ServiceError},
};
use serde_json::Value;

use super::cut_text;

/// Longest part of a server's error text that the model reads, in bytes.
const FAULT_BYTES: usize = 1_000;

/// Calls a tool, and waits for its answer as long as there is progress at least every `within`. Dropping the future tells
/// the server that the answer is no longer needed.
pub(super) async fn call(
    peer: Peer<RoleClient>,
    tool: String,
    arguments: Value,
    within: Duration,
    redactor: &Redactor,
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
        Ok(_) => fault("the server's answer is not a result of a call", redactor),
        Err(ServiceError::Timeout { timeout }) => ToolResult::error(format!(
            "the server sent neither an answer nor progress within {}, so the call was cancelled. Its \
            effects are unknown.",
            humantime::format_duration(timeout)
        )),
        Err(error) => fault(&error.to_string(), redactor),
    }
}

/// A call without an answer. Dropping it cancels the call.
struct Unanswered {
    /// `None` after the answer.
    peer: Option<Peer<RoleClient>>,
    id: RequestId,
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let (Some(peer), Ok(runtime)) = (self.peer.take(), tokio::runtime::Handle::try_current()) {
            let params = CancelledNotificationParam::new(Some(self.id.clone()), None);
            let notification = CancelledNotification::new(params);
            // Ignore an error: a server that has ended needs no cancellation.
            runtime.spawn(async move { drop(peer.send_notification(notification.into()).await) });
        }
    }
}

/// Returns an error for the model. Secrets are removed first, because a part of a cut one would not be found.
fn fault(reason: &str, redactor: &Redactor) -> ToolResult {
    ToolResult::error(cut_text(&redactor.redact_text(reason), FAULT_BYTES))
}

/// Returns the text of a result for the model. A structured value follows the other content, unless one of the texts has it
/// already.
fn result_of(result: CallToolResult) -> ToolResult {
    // Many servers repeat the structured value as text, and the model should read it once.
    let is_shown = |value: &Value| {
        result.content.iter().any(|content| match content {
            ContentBlock::Text(text) => {
                serde_json::from_str::<Value>(&text.text).is_ok_and(|shown| shown == *value)
            }
            _ => false,
        })
    };
    let structured = result.structured_content.filter(|value| !value.is_null() && !is_shown(value));
    let mut content: Vec<ToolContent> = result.content.into_iter().map(shown).collect();
    content.extend(structured.map(ToolContent::json));
    // Without any content, the model could not see that the call has succeeded.
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
        // Show a resource, or other content, in the JSON of the protocol.
        other => {
            serde_json::to_value(other).map_or_else(|_| ToolContent::text("(not shown)"), ToolContent::json)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(content: &Value, structured: &Value) -> Vec<ToolContent> {
        let result = json!({ "content": content, "structuredContent": structured });
        result_of(serde_json::from_value(result).unwrap()).content
    }

    #[test]
    fn a_structured_value_reaches_the_model_beside_a_summary_and_once() {
        let value = json!({ "total": 2, "items": ["a", "b"] });
        let text = |text: &str| json!([{ "type": "text", "text": text }]);
        assert_eq!(
            read(&text("2 items"), &value),
            [ToolContent::text("2 items"), ToolContent::json(value.clone())]
        );
        let spaced = "{ \"items\": [\"a\", \"b\"],\n \"total\": 2 }";
        assert_eq!(read(&text(spaced), &value), [ToolContent::text(spaced)]);
        assert_eq!(read(&json!([]), &value), [ToolContent::json(value)]);
        assert_eq!(read(&json!([]), &Value::Null), [ToolContent::text("done")]);
    }
}
