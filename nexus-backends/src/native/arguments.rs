//! Arguments of a call, as they are sent back to a model.

use serde_json::{Map, Value, json};

/// Returns replacement arguments if the received ones are not a JSON object, because strict servers reject the whole
/// request for them. The replacement contains the received text, so that the model sees it.
pub(crate) fn json_arguments(came: &str) -> Option<String> {
    if serde_json::from_str::<Map<String, Value>>(came).is_ok() {
        return None;
    }
    let shown = came.get(..came.floor_char_boundary(MAX_SHOWN_ARGUMENTS)).unwrap_or_default();
    Some(match came.trim().is_empty() {
        true => "{}".to_owned(),
        false => json!({ "not_json": shown }).to_string(),
    })
}

/// Maximum number of bytes of invalid arguments in the replacement. Source: our own bound.
const MAX_SHOWN_ARGUMENTS: usize = 4 << 10;
