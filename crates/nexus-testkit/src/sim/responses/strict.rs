//! Requests that the service behind a ChatGPT plan is known to refuse.
//!
//! Source: public reports about the live service, and what codex 0.169.0 leaves out; for a plan at the public API OpenAI's
//! pages on "Sign in with ChatGPT" for open-source apps, the preview limitations.

use serde_json::{Value, json};

use crate::sim::conversation::Conversation;
use crate::sim::server::Arrival;
use crate::sim::wire::Answer;

/// Header that requests a lite model. Lite models require it, and other models reject it.
const LITE: &str = "x-openai-internal-codex-responses-lite";

/// Fields that the backend API rejects.
const UNSUPPORTED: [&str; 6] =
    ["max_output_tokens", "previous_response_id", "temperature", "top_p", "truncation", "metadata"];

/// Fields that the public API rejects on a plan, in the order of the page. The last one is accepted only over WebSocket.
const UNSUPPORTED_ON_A_PLAN: [&str; 16] = [
    "background",
    "conversation",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "moderation",
    "multi_agent",
    "prompt",
    "prompt_cache_retention",
    "safety_identifier",
    "temperature",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
    "previous_response_id",
];

/// Returns the refusal of an invalid request, if the script is strict.
pub(super) fn refusal(arrival: &Arrival<'_>, conversation: &Conversation) -> Option<Answer> {
    if !arrival.scenario.strict_shape {
        return None;
    }
    let json = arrival.json;
    let name = conversation.model.as_deref().unwrap_or_default();
    if arrival.scenario.model_of(conversation).is_some_and(|model| model.public_plan) {
        return public_plan_refusal(json);
    }
    let is_set = |field: &&&str| json.get(**field).is_some_and(|value| !value.is_null());
    if let Some(field) = UNSUPPORTED.iter().find(is_set) {
        return Some(detail(400, format!("Unsupported parameter: {field}")));
    }
    // The field must be present: its default would be true.
    if json.get("store") != Some(&Value::Bool(false)) {
        return Some(detail(400, "Store must be set to false"));
    }
    let calls_lite = arrival.header(LITE) == Some("true");
    // A model outside of the catalogue is accepted in either shape.
    let is_lite = arrival.scenario.model_of(conversation).map(|model| model.lite);
    match (is_lite, calls_lite) {
        (Some(true), false) => Some(detail(404, format!("Model not found {name}"))),
        (Some(false), true) => {
            Some(invalid("model", format!("The model {name} does not take this kind of request.")))
        }
        (_, true) => lite_refusal(json, conversation),
        (_, false) => None,
    }
}

/// Checks a request to the public API on a plan. Tools must be in namespaces or in `additional_tools`.
fn public_plan_refusal(json: &Value) -> Option<Answer> {
    let unsupported = |param: &str| {
        let code = "subscription_sharing_unsupported_capability";
        let error = json!({ "message": format!("Unsupported: {param}"), "param": param, "code": code });
        Some(Answer::json(400, &json!({ "error": error })))
    };
    let is_set = |field: &&&str| json.get(**field).is_some_and(|value| !value.is_null());
    if let Some(field) = UNSUPPORTED_ON_A_PLAN.iter().find(is_set) {
        return unsupported(field);
    }
    let is = |field: &str, wanted: bool| json.get(field) == Some(&Value::Bool(wanted));
    let items = json.get("input").and_then(Value::as_array);
    let tools = json.get("tools").and_then(Value::as_array);
    let is_grouped = |tool: &Value| tool["type"] == "namespace" || tool["type"] == "web_search";
    match () {
        () if !is("store", false) => unsupported("store"),
        () if !is("stream", true) => unsupported("stream"),
        () if items.is_none_or(|items| items.iter().any(|item| item["role"] == "system")) => {
            unsupported("input")
        }
        () if !tools.into_iter().flatten().all(is_grouped) => unsupported("tools"),
        () => None,
    }
}

/// Checks a lite request.
fn lite_refusal(json: &Value, conversation: &Conversation) -> Option<Answer> {
    if json.get("tools").is_some_and(|tools| !tools.is_null()) {
        return Some(invalid("tools", "Tools travel inside the input of this request."));
    }
    if json.pointer("/reasoning/context").is_none_or(|context| context != "all_turns") {
        return Some(invalid("reasoning.context", "Unsupported value."));
    }
    let is_hosted = |kind: &str| !matches!(kind, "function" | "custom");
    let hosted = conversation.tools.iter().find(|tool| is_hosted(&tool.kind))?;
    Some(invalid("tools", format!("The tool {} is not available with this request.", hosted.kind)))
}

fn invalid(param: &str, message: impl Into<String>) -> Answer {
    let error = json!({
        "message": message.into(), "type": "invalid_request_error",
        "param": param, "code": "unsupported_value",
    });
    Answer::json(400, &json!({ "error": error }))
}

fn detail(status: u16, detail: impl Into<String>) -> Answer {
    Answer::json(status, &json!({ "detail": detail.into() }))
}
