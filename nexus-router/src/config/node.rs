//! A configuration as a tree whose every key and value knows where it stands. What the tree means is left to `schema`.

use serde_json::{Map, Number, Value};

/// A place in the file. Both count from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

impl Position {
    /// Where every file begins.
    pub const START: Self = Self { line: 1, column: 1 };
}

/// A value, and where it begins.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) content: Content,
    pub(crate) position: Position,
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    Sequence(Vec<Node>),
    Mapping(Vec<(Key, Node)>),
}

/// A key of a mapping, and where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) text: String,
    pub(crate) position: Position,
}

impl Node {
    /// What kind of value it is, for an error.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.content {
            Content::Null => "nothing",
            Content::Bool(_) => "a boolean",
            Content::Number(_) => "a number",
            Content::Text(_) => "text",
            Content::Sequence(_) => "a list",
            Content::Mapping(_) => "a mapping",
        }
    }

    /// The value without its places.
    pub(crate) fn to_value(&self) -> Value {
        match &self.content {
            Content::Null => Value::Null,
            Content::Bool(value) => Value::Bool(*value),
            Content::Number(number) => Value::Number(number.clone()),
            Content::Text(text) => Value::String(text.clone()),
            Content::Sequence(items) => Value::Array(items.iter().map(Self::to_value).collect()),
            Content::Mapping(entries) => Value::Object(
                entries
                    .iter()
                    .map(|(key, value)| (key.text.clone(), value.to_value()))
                    .collect::<Map<_, _>>(),
            ),
        }
    }

    /// Where the value stands that `path` leads to, or as near to it as the path leads.
    pub(crate) fn position_of(&self, path: &[String]) -> Position {
        let Some((first, rest)) = path.split_first() else {
            return self.position;
        };
        match &self.content {
            Content::Mapping(entries) => entries
                .iter()
                .find(|(key, _)| key.text == *first)
                .map_or(self.position, |(_, value)| value.position_of(rest)),
            Content::Sequence(items) => first
                .parse::<usize>()
                .ok()
                .and_then(|index| items.get(index))
                .map_or(self.position, |item| item.position_of(rest)),
            _ => self.position,
        }
    }
}
