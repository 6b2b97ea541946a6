//! The caller's tools and the answer's schema, in the form that a server accepts.
//!
//! A server rejects the whole request because of one unsupported schema. So the root of a tool's schema becomes a plain
//! object, and each lost constraint becomes a warning. Nexus validates the model's output in any case: the tool checks
//! its arguments, and the answer is checked against the caller's original schema.

use std::collections::BTreeSet;

use nexus_core::{OutputSchema, ToolDefinition};
use serde_json::{Value, json};

use self::object_root::object_root;
use self::strict::is_strict;

mod object_root;
mod strict;
pub(crate) mod wire_tool;

/// Maximum length of a function's name, in bytes. Source: the error that the Responses API returns for a longer one.
const MAX_NAME_BYTES: usize = 64;

/// Maximum length of a tool's name in a warning, in bytes.
const MAX_SHOWN_BYTES: usize = 120;

/// Tools that a request offers.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct OfferedTools {
    /// Functions as the request lists them.
    pub(crate) tools: Vec<Value>,
    /// Constraints that the sent schemas lack, one sentence each.
    pub(crate) warnings: Vec<String>,
}

/// Converts tools into functions that a server accepts.
///
/// `strict` is always false, and stated explicitly if the server supports the field. Strict functions need closed
/// schemas without optional properties, which Nexus cannot demand of a caller's tool. A server that finds no flag may
/// tighten the schema by itself.
pub(crate) fn offer(definitions: &[ToolDefinition], writes_strict: bool) -> OfferedTools {
    let mut offer = OfferedTools::default();
    let mut names = BTreeSet::new();
    for definition in definitions {
        let label = format!("tool {:?}", shortened(&definition.name));
        if !is_name(&definition.name) {
            let why = format!("its name must be 1 to {MAX_NAME_BYTES} letters, digits, `_` and `-`");
            offer.warnings.push(format!("{label} is not offered: {why}"));
            continue;
        }
        if !names.insert(definition.name.as_str()) {
            offer
                .warnings
                .push(format!("{label} is not offered a second time: an earlier tool has its name"));
            continue;
        }
        let (parameters, lost) = object_root(&definition.input_schema);
        offer.warnings.extend(lost.map(|lost| format!("{label}: {lost}")));
        let mut function = json!({
            "type": "function",
            "name": definition.name,
            "description": definition.description,
            "parameters": parameters,
        });
        if writes_strict {
            function["strict"] = json!(false);
        }
        offer.tools.push(function);
    }
    offer
}

/// Converts the answer's schema into a request's `text.format`; `None` if its root is not a plain object, which servers
/// require.
///
/// The format is strict, so that the server enforces it, if servers accept the schema as strict.
pub(crate) fn output_format(schema: &OutputSchema, writes_strict: bool) -> Option<Value> {
    let mut root = object_root::plain_root(schema.schema());
    if object_root::types(&root) != ["object"] || object_root::is_composed(&root) {
        return None;
    }
    object_root::complete(&mut root);
    let is_strict = is_strict(&root);
    let mut format = json!({ "type": "json_schema", "name": "answer", "schema": root });
    if writes_strict {
        format["strict"] = json!(is_strict);
    }
    Some(format)
}

fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(fits)
}

fn shortened(name: &str) -> String {
    match name.len() <= MAX_SHOWN_BYTES {
        true => name.to_owned(),
        false => format!("{}…", &name[..name.floor_char_boundary(MAX_SHOWN_BYTES)]),
    }
}

#[cfg(test)]
mod tests;
