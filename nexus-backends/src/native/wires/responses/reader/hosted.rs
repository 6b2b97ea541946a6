//! Tools that the server runs itself: reported after they ended, never run here.

use nexus_core::{
    CallId, ToolCallStatus, TurnEvent,
    tool::ToolContent,
    turn::{Effects, ToolCallArguments, ToolCallFinished, ToolCallStarted, ToolOrigin},
};
use serde_json::{Value, value::RawValue};

use crate::native::wires::responses::wire::HostedItem;

/// Returns the possible effects of a call, if `kind` is a tool of the server. Changes in the server's own sandbox do
/// not count.
pub(super) fn effects(kind: &str) -> Option<Effects> {
    match kind {
        "web_search_call" | "file_search_call" => Some(Effects::Read),
        "image_generation_call" | "code_interpreter_call" => Some(Effects::None),
        "mcp_call" => Some(Effects::Unknown),
        _ => None,
    }
}

/// Returns the possible effects of a custom call that the server answers. Source: observed with a vendor whose hosted
/// searches are called `x_*_search`.
pub(super) fn custom_effects(name: &str) -> Effects {
    if name.starts_with("x_") && name.ends_with("_search") { Effects::Read } else { Effects::Unknown }
}

/// Emits the events of a finished call. `unnamed` creates its id within the turn if the server sent none.
pub(super) fn tell(
    kind: &str,
    effects: Effects,
    raw: &RawValue,
    unnamed: impl FnOnce() -> String,
    events: &mut Vec<TurnEvent>,
) {
    let item: HostedItem<'_> = serde_json::from_str(raw.get()).unwrap_or_default();
    let call: CallId = match (item.call_id.as_str(), item.id.as_str()) {
        ("", "") => unnamed().into(),
        ("", id) | (id, _) => id.into(),
    };
    let name = if item.name.is_empty() { kind.trim_end_matches("_call") } else { item.name.as_str() };
    let arguments = [item.action, item.arguments, item.input, item.queries, item.code];
    let arguments = arguments.into_iter().flatten().find(|raw| raw.get() != "null");
    let error = item.error.filter(|error| error.get() != "null");
    let status = match item.status.as_str() {
        "failed" | "incomplete" => ToolCallStatus::Failed,
        _ if error.is_some() => ToolCallStatus::Failed,
        _ => ToolCallStatus::Succeeded,
    };
    let mut output = Vec::new();
    if !item.output.is_empty() {
        output.push(ToolContent::text(item.output.as_str()));
    }
    if let Some(error) = error {
        output.push(ToolContent::text(error.get()));
    }
    events.push(ToolCallStarted::new(call.clone(), name, ToolOrigin::Hosted, effects).into());
    events.push(ToolCallArguments::new(call.clone(), arguments.map_or(Value::Null, value)).into());
    events.push(ToolCallFinished::new(call, status, output).into());
}

/// Parses a value, which is often JSON within a string.
fn value(raw: &RawValue) -> Value {
    match serde_json::from_str(raw.get()) {
        Ok(Value::String(text)) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        Ok(value) => value,
        Err(_) => Value::String(raw.get().to_owned()),
    }
}
