//! The caller's tools and the schema of the answer, in the form in which a server takes them.
//!
//! What a server takes of JSON Schema is data, [`SchemaRules`]; a schema that it would refuse is projected onto
//! one that it takes, and what gets lost on the way is told. One schema that is not taken costs the whole
//! request, so a tool is rather offered with a wider schema, and one that cannot be offered is left out.
//! What a model writes is checked on our side in any case: a tool's arguments by the tool, the answer against
//! the schema as the caller wrote it.

use std::collections::BTreeSet;

use nexus_core::{OutputSchema, ToolDefinition};
use serde_json::{Value, json};

use self::projection::Loss;
use self::strict::is_strict;

mod keywords;
mod merge;
mod projection;
mod references;
mod strict;
mod unions;
mod values;

/// Longest name of a function, in bytes. Source: the error that the Responses API gives for a longer one.
const MAX_NAME_BYTES: usize = 64;

/// How many losses of one schema are told one by one.
const MAX_TOLD: usize = 6;

/// What of JSON Schema a server takes.
///
/// Under any rules the root is an object's schema, every subschema is well formed, every reference leads
/// somewhere, and each `object` has `properties` and each `array` has `items`: without them the Responses API
/// answers "object schema missing properties" and "array schema missing items".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SchemaRules {
    /// Whether `anyOf`, `oneOf`, `allOf`, `enum`, `const`, `not` and `$ref` may stand at the root.
    pub(crate) root_composition: bool,
    /// Whether an alternative of a nested `anyOf` or `oneOf` may be anything but an object.
    pub(crate) non_object_unions: bool,
    /// Whether an `enum` may list `null`.
    pub(crate) null_in_enum: bool,
    /// Whether `$ref` may be used.
    pub(crate) references: bool,
}

impl SchemaRules {
    /// All of JSON Schema.
    pub(crate) const ANY: Self =
        Self { root_composition: true, non_object_unions: true, null_in_enum: true, references: true };

    /// An object at the root, without any composition beside it. Source: the error "schema must have type
    /// 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'const'/'not' at the top level".
    pub(crate) const OBJECT_ROOT: Self = Self { root_composition: false, ..Self::ANY };

    /// As [`OBJECT_ROOT`](Self::OBJECT_ROOT), and nothing referred to: for servers that read a schema into types
    /// of their own, and forget `$ref` where they find it.
    pub(crate) const INLINED: Self = Self { references: false, ..Self::OBJECT_ROOT };

    /// As [`OBJECT_ROOT`](Self::OBJECT_ROOT), no unions but those of objects, and no `null` among the values of
    /// an `enum`. Source: the error "tool parameter root must be an object type (root schema is an anyOf/oneOf
    /// union with a non-object branch)", which one branch that only lists `required` causes too. Below the root
    /// reports differ; what is told in words there is a small price for a request that is not refused.
    pub(crate) const PLAIN_UNIONS: Self =
        Self { non_object_unions: false, null_in_enum: false, ..Self::OBJECT_ROOT };
}

/// What a request offers.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Offer {
    /// The functions, as the request lists them.
    pub(crate) tools: Vec<Value>,
    /// What was lost, one sentence each.
    pub(crate) warnings: Vec<String>,
}

/// Writes tools as functions that a server takes.
///
/// `strict` is always false, and always said: strict functions must have closed schemas without optional
/// properties, which is not ours to demand of a caller's tool, and a server that finds nothing said may
/// tighten the schema by itself.
pub(crate) fn offer(definitions: &[ToolDefinition], rules: &SchemaRules) -> Offer {
    let mut offer = Offer::default();
    let mut names = BTreeSet::new();
    for definition in definitions {
        let label = format!("tool {:?}", keywords::shortened(&definition.name));
        if !is_name(&definition.name) {
            let why = format!("its name is not made of 1 to {MAX_NAME_BYTES} letters, digits, `_` and `-`");
            offer.warnings.push(format!("{label} is not offered: {why}"));
            continue;
        }
        if !names.insert(definition.name.as_str()) {
            offer
                .warnings
                .push(format!("{label} is not offered a second time: an earlier tool has its name"));
            continue;
        }
        let (parameters, losses) = projection::project(&definition.input_schema, rules);
        tell(&label, &losses, &mut offer.warnings);
        offer.tools.push(json!({
            "type": "function",
            "name": definition.name,
            "description": definition.description,
            "parameters": parameters,
            "strict": false,
        }));
    }
    offer
}

/// Writes the schema of the answer as a request's `text.format`, and says what was lost.
///
/// It is strict, so that the server keeps the model to it, where the schema is one that servers take as strict.
/// Where the root may be nothing but an object and the answer is none, the server is not told the schema.
pub(crate) fn output_format(schema: &OutputSchema, rules: &SchemaRules) -> (Value, Vec<String>) {
    const LABEL: &str = "the schema of the answer";
    let mut warnings = Vec::new();
    if !rules.root_composition && !projection::is_of_object(schema.schema()) {
        warnings.push(format!(
            "{LABEL} is not told to the server, which takes one of an object alone; the answer is still checked"
        ));
        return (json!({ "type": "text" }), warnings);
    }
    let (projected, losses) = projection::project_answer(schema.schema(), rules);
    tell(LABEL, &losses, &mut warnings);
    let format = json!({
        "type": "json_schema",
        "name": "answer",
        "strict": is_strict(&projected),
        "schema": projected,
    });
    (format, warnings)
}

fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(fits)
}

fn tell(label: &str, losses: &[Loss], warnings: &mut Vec<String>) {
    warnings.extend(losses.iter().take(MAX_TOLD).map(|loss| format!("{label}: {loss}")));
    if let Some(more) = losses.len().checked_sub(MAX_TOLD).filter(|more| *more > 0) {
        warnings.push(format!("{label}: {more} more places are offered wider than they are"));
    }
}

#[cfg(test)]
mod tests;
