//! A configuration as a tree in which every key and value has its position. `schema` interprets the tree.

use serde_json::{Map, Number, Value};

/// A position in the file. Line and column count from 1, and columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

impl Position {
    /// Start of a file.
    pub const START: Self = Self { line: 1, column: 1 };
}

/// A value and its start position.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) content: NodeValue,
    pub(crate) position: Position,
}

/// Value of a node.
#[derive(Clone, Debug)]
pub(crate) enum NodeValue {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    Sequence(Vec<Node>),
    Mapping(Vec<(MappingKey, Node)>),
}

/// Key of a mapping, and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MappingKey {
    pub(crate) text: String,
    pub(crate) position: Position,
}

impl Node {
    /// Returns the kind of value, for an error.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.content {
            NodeValue::Null => "nothing",
            NodeValue::Bool(_) => "a boolean",
            NodeValue::Number(_) => "a number",
            NodeValue::Text(_) => "text",
            NodeValue::Sequence(_) => "a list",
            NodeValue::Mapping(_) => "a mapping",
        }
    }

    /// Returns the value without positions.
    pub(crate) fn to_value(&self) -> Value {
        match &self.content {
            NodeValue::Null => Value::Null,
            NodeValue::Bool(value) => Value::Bool(*value),
            NodeValue::Number(number) => Value::Number(number.clone()),
            NodeValue::Text(text) => Value::String(text.clone()),
            NodeValue::Sequence(items) => Value::Array(items.iter().map(Self::to_value).collect()),
            NodeValue::Mapping(entries) => Value::Object(
                entries
                    .iter()
                    .map(|(key, value)| (key.text.clone(), value.to_value()))
                    .collect::<Map<_, _>>(),
            ),
        }
    }

    /// Returns the position of the value at `path`, or of the last existing part of the path.
    pub(crate) fn position_of(&self, path: &[String]) -> Position {
        let Some((first, rest)) = path.split_first() else {
            return self.position;
        };
        match &self.content {
            NodeValue::Mapping(entries) => entries
                .iter()
                .find(|(key, _)| key.text == *first)
                .map_or(self.position, |(_, value)| value.position_of(rest)),
            NodeValue::Sequence(items) => first
                .parse::<usize>()
                .ok()
                .and_then(|index| items.get(index))
                .map_or(self.position, |item| item.position_of(rest)),
            _ => self.position,
        }
    }
}
