//! Parsing of responses about a session: its modes, its model, and the usage of a turn.

use agent_client_protocol_schema::v1::SessionModeState;
use nexus_core::Usage;
use serde_json::Value;

/// Returns true if the session offers the mode.
pub(super) fn has_mode(modes: Option<&SessionModeState>, mode: &str) -> bool {
    modes.is_some_and(|modes| modes.available_modes.iter().any(|known| &*known.id.0 == mode))
}

/// Returns the id of the session option that selects the model.
pub(super) fn model_option(opened: &Value) -> Option<&str> {
    let options = opened.get("configOptions")?.as_array()?;
    options.iter().find(|option| is_model(option))?.get("id")?.as_str()
}

/// Returns true for the option that selects the model. An option of the type `boolean` may have the same category.
fn is_model(option: &Value) -> bool {
    option["category"] == "model" && option["type"] != "boolean"
}

/// Returns the initial model of a session, if the agent reports it.
pub(super) fn current_model(opened: &Value) -> Option<String> {
    let by_option = || {
        let options = opened.get("configOptions")?.as_array()?;
        options.iter().find(|option| is_model(option))?.get("currentValue")?.as_str()
    };
    let by_models = || opened.pointer("/models/currentModelId")?.as_str();
    by_models().or_else(by_option).map(str::to_owned)
}

/// Parses usage in the protocol's format.
pub(super) fn usage_of(value: &Value) -> Option<Usage> {
    let count = |key: &str| value.get(key).and_then(Value::as_u64);
    let mut usage = Usage::new();
    usage.input_tokens = Some(count("inputTokens")?);
    usage.output_tokens = count("outputTokens");
    usage.cache_read_tokens = count("cachedReadTokens");
    usage.cache_write_tokens = count("cachedWriteTokens");
    usage.reasoning_tokens = count("thoughtTokens");
    Some(usage)
}

/// Parses usage whose input includes cached tokens.
pub(super) fn usage_with_cached(value: &Value) -> Option<Usage> {
    let mut usage = usage_of(value)?;
    let cached = usage.cache_read_tokens.unwrap_or_default() + usage.cache_write_tokens.unwrap_or_default();
    usage.input_tokens = usage.input_tokens.map(|input| input.saturating_sub(cached));
    usage.output_tokens =
        usage.output_tokens.map(|output| output.saturating_sub(usage.reasoning_tokens.unwrap_or_default()));
    Some(usage)
}
