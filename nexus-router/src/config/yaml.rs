//! Reads a YAML document into [`Node`]s. No other module uses the YAML reader.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::Number;
use serde_yaml::Spanned;

use super::{
    node::{MappingKey, Node, NodeValue, Position},
    variables::{NO_VARIABLES, variable_in},
};

/// Maximum number of nodes in one document after its aliases are expanded.
const MAX_NODES: usize = 50_000;
/// Maximum number of aliases in one document.
const MAX_ALIASES: usize = 1_000;
/// Maximum amount of text in one document after its aliases are expanded, in bytes.
const MAX_TEXT_BYTES: usize = 8 << 20;
/// Maximum number of merge keys (`<<`) in one document.
const MAX_MERGE_KEYS: usize = 1_000;
/// Deepest nesting of values.
const MAX_DEPTH: usize = 32;

/// Error of the YAML reader, with its position.
#[derive(Debug)]
pub(crate) struct SyntaxError {
    pub(crate) position: Position,
    pub(crate) message: String,
}

/// Reads one document. An empty document is [`NodeValue::Null`].
pub(crate) fn parse_document(text: &str) -> Result<Node, SyntaxError> {
    let budget = serde_yaml::budget! {
        max_nodes: MAX_NODES,
        max_events: 4 * MAX_NODES,
        max_aliases: MAX_ALIASES,
        max_anchors: MAX_ALIASES,
        max_total_scalar_bytes: MAX_TEXT_BYTES,
        max_merge_keys: MAX_MERGE_KEYS,
        max_recorded_anchor_events: 4 * MAX_NODES,
        max_depth: MAX_DEPTH,
        max_documents: 2,
    };
    let options = serde_yaml::options! {
        budget: budget,
        duplicate_keys: serde_yaml::options::DuplicateKeyPolicy::Error,
        strict_booleans: true,
        with_snippet: false,
    };
    serde_yaml::from_str_with_options(text, options).map_err(|error| SyntaxError::of(&error, text))
}

fn position_of(location: serde_yaml::Location) -> Position {
    let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).max(1);
    Position { line: number(location.line()), column: number(location.column()) }
}

impl SyntaxError {
    fn of(error: &serde_yaml::Error, text: &str) -> Self {
        let position = match error.location() {
            Some(location) if location.line() > 0 => position_of(location),
            _ => end_of(text),
        };
        let mut message = plain_words(error);
        // In YAML the brace of `${` opens a mapping, so the reader's message does not mention the variable.
        let line = text.lines().nth(position.line - 1).unwrap_or_default();
        if let Some(name) = variable_in(line) {
            message = format!("{message}: `${{{name}}}` {NO_VARIABLES}");
        }
        Self { position, message }
    }
}

/// Returns the reader's message, without its own position and without advice on its own options.
fn plain_words(error: &serde_yaml::Error) -> String {
    let words = error.without_snippet().to_string();
    let words = words.lines().next().unwrap_or_default().trim();
    let words = words.strip_prefix("error: ").unwrap_or(words);
    // The reader writes the position before or after its words. The error states the position separately.
    let words = match words.strip_prefix("line ").and_then(|rest| rest.split_once(": ")) {
        Some((place, words)) if place.contains("column") => words,
        _ => words,
    };
    let words = match words.rsplit_once(" at line ") {
        Some((before, place)) if place.contains("column") => before,
        _ => words,
    };
    if words.starts_with("duplicate mapping key") {
        let words = words.split_once(", set DuplicateKeyPolicy").map_or(words, |(words, _)| words);
        let key = words.trim_start_matches("duplicate mapping key").trim_start_matches(": ");
        return if key.is_empty() {
            "the key occurs twice".into()
        } else {
            format!("the key {key:?} occurs twice")
        };
    }
    if words.contains("budget breached") {
        return if words.contains("Depth") {
            format!("values are nested deeper than {MAX_DEPTH} levels")
        } else {
            format!(
                "the document is too large here: it may have {MAX_NODES} values, {MAX_ALIASES} aliases and \
                 {MAX_TEXT_BYTES} bytes of text, with every alias followed"
            )
        };
    }
    if words.contains("recursive references") {
        return "an alias stands inside the value of its own anchor, and no value can contain itself".into();
    }
    if words.starts_with("multiple YAML documents") {
        return "a second document begins here; write the configuration as one document".into();
    }
    if words.contains("tabs disallowed") {
        return "a tab cannot indent YAML; use spaces".into();
    }
    if words.starts_with("illegal placement of ':'") {
        return format!("{words}: is a bracket or a quotation mark before it not closed?");
    }
    words.to_owned()
}

fn end_of(text: &str) -> Position {
    let line = text.lines().count().max(1);
    Position { line, column: text.lines().last().map_or(0, |last| last.chars().count()) + 1 }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Spanned { value, referenced, .. } = Spanned::<NodeValue>::deserialize(deserializer)?;
        Ok(Self { content: value, position: position_of(referenced) })
    }
}

impl<'de> Deserialize<'de> for NodeValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = NodeValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<NodeValue, E> {
        Ok(NodeValue::Null)
    }

    fn visit_none<E>(self) -> Result<NodeValue, E> {
        Ok(NodeValue::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<NodeValue, D::Error> {
        NodeValue::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<NodeValue, E> {
        Ok(NodeValue::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<NodeValue, E> {
        Ok(NodeValue::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<NodeValue, E> {
        Ok(NodeValue::Number(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<NodeValue, E> {
        Ok(number_or_text(i64::try_from(value).ok().map(Number::from), value))
    }

    fn visit_u128<E>(self, value: u128) -> Result<NodeValue, E> {
        Ok(number_or_text(u64::try_from(value).ok().map(Number::from), value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<NodeValue, E> {
        Ok(number_or_text(Number::from_f64(value), value))
    }

    fn visit_str<E>(self, value: &str) -> Result<NodeValue, E> {
        Ok(NodeValue::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<NodeValue, E> {
        Ok(NodeValue::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<NodeValue, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = items.next_element::<Node>()? {
            nodes.push(node);
        }
        Ok(NodeValue::Sequence(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<NodeValue, A::Error> {
        let mut pairs = Vec::new();
        while let Some((key, node)) = entries.next_entry::<Spanned<String>, Node>()? {
            let position = position_of(key.referenced);
            pairs.push((MappingKey { text: key.value, position }, node));
        }
        Ok(NodeValue::Mapping(pairs))
    }
}

/// Converts a number. A number outside JSON's range becomes text.
fn number_or_text(number: Option<Number>, value: impl fmt::Display) -> NodeValue {
    number.map_or_else(|| NodeValue::Text(value.to_string()), NodeValue::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Node {
        parse_document(text).unwrap_or_else(|error| panic!("{error:?}"))
    }

    fn at(line: usize, column: usize) -> Position {
        Position { line, column }
    }

    #[test]
    fn every_key_and_value_knows_its_place() {
        let node = parse("a:\n  b: [x, y]\n  c: { d: 7 }\n");
        let NodeValue::Mapping(entries) = &node.content else { panic!("{node:?}") };
        assert_eq!(entries[0].0.position, at(1, 1));
        assert_eq!(node.position_of(&["a".into(), "b".into(), "1".into()]), at(2, 10));
        assert_eq!(node.position_of(&["a".into(), "c".into(), "d".into()]), at(3, 11));
    }

    #[test]
    fn words_of_old_yaml_are_words() {
        let node = parse("[no, on, yes, off, \"true\", true, 012, 1:30, ~]");
        let value = node.to_value();
        assert_eq!(value, serde_json::json!(["no", "on", "yes", "off", "true", true, 12.0, "1:30", null]));
    }

    #[test]
    fn an_alias_stands_where_it_is_used() {
        let node = parse("a: &x [1, 2]\nb: *x\n");
        assert_eq!(node.position_of(&["b".into()]), at(2, 4));
        assert_eq!(node.to_value(), serde_json::json!({ "a": [1, 2], "b": [1, 2] }));
    }

    #[test]
    fn a_duplicate_key_is_named_once_in_plain_words() {
        let error = parse_document("a:\n  b: 1\n  b: 2\n").unwrap_err();
        assert_eq!(error.position, at(3, 3));
        assert_eq!(error.message, "the key \"b\" occurs twice");
    }
}
