//! Requests that xAI's service behind a Grok plan is known to refuse.
//!
//! Source: public reports about the live service; grok 1.0.41 itself is taken.

use serde_json::Value;

use super::flat;
use crate::sim::conversation::{Conversation, list_at};
use crate::sim::server::Arrival;
use crate::sim::wire::Answer;

/// Fields that it does not take.
const UNSUPPORTED: [&str; 6] = [
    "previous_response_id",
    "prompt_cache_retention",
    "safety_identifier",
    "stream_options",
    "stop",
    "service_tier",
];

/// Returns the refusal of an invalid request, if the script is strict.
pub(super) fn refusal(arrival: &Arrival<'_>, conversation: &Conversation) -> Option<Answer> {
    if !arrival.scenario.strict_shape {
        return None;
    }
    let json = arrival.json;
    let invalid = |message: String| Some(flat(400, "invalid-argument", &message));
    let name = conversation.model.as_deref().unwrap_or_default();
    // The endpoint of the CLI accepts a login only with this header.
    if arrival.header("x-xai-token-auth").is_none() {
        return Some(flat(403, "permission-denied", "Access to the chat endpoint is denied."));
    }
    if arrival.header("x-grok-client-version").is_none() {
        return Some(flat(426, "upgrade-required", "Your Grok CLI version (none) is outdated."));
    }
    let is_set = |field: &&&str| json.get(**field).is_some_and(|value| !value.is_null());
    if let Some(field) = UNSUPPORTED.iter().find(is_set) {
        return invalid(format!("Argument not supported: {field}"));
    }
    let has_no_menu = arrival.scenario.model_of(conversation).is_some_and(|model| model.efforts.is_empty());
    if has_no_menu && conversation.effort.is_some() {
        return invalid(format!("Model {name} does not support parameter reasoningEffort."));
    }
    let is_reasoning = |item: &&Value| item.get("type").is_some_and(|kind| kind == "reasoning");
    // The answer has this field in its items, so a client must remove it before it sends them back.
    if list_at(json, "input").iter().filter(is_reasoning).any(|item| item.get("status").is_some()) {
        return invalid("Unknown field of a reasoning item: status".to_owned());
    }
    tools_refusal(json).and_then(invalid)
}

/// Returns the error in the offered tools, if they have one.
fn tools_refusal(json: &Value) -> Option<String> {
    let tools = list_at(json, "tools");
    let text = |tool: &Value, key: &str| tool.get(key).and_then(Value::as_str).map(str::to_owned);
    let hosted: Vec<_> = tools.iter().filter(|tool| tool.get("name").is_none()).collect();
    for tool in tools {
        let Some(name) = text(tool, "name") else { continue };
        if hosted.iter().any(|hosted| text(hosted, "type").as_ref() == Some(&name)) {
            return Some(format!("Duplicate tool name: {name}"));
        }
        if tool.get("parameters").is_some_and(is_union_of_others) {
            return Some(format!(
                "{name}: tool parameter root must be an object type (root schema is an anyOf/oneOf union with a \
                 non-object branch)"
            ));
        }
    }
    None
}

/// Returns true if the root of `schema` is a union with a branch that is not an object, even if the root declares type `object`.
fn is_union_of_others(schema: &Value) -> bool {
    let is_object = |branch: &Value| branch.get("type").is_some_and(|kind| kind == "object");
    let unions = ["anyOf", "oneOf"].into_iter().map(|union| list_at(schema, union));
    unions.flatten().any(|branch| !is_object(branch))
}
