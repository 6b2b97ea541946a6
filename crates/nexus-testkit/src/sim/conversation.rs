//! A model request read in words that belong to no vendor: what the client sent, for assertions.

use serde_json::Value;

/// Contents of one model request.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Conversation {
    /// The vendor's id for the session, if the request names one.
    pub id: Option<String>,
    /// The requested model.
    pub model: Option<String>,
    /// The requested effort, in the vendor's spelling.
    pub effort: Option<String>,
    /// True if the answer must be streamed.
    pub stream: bool,
    /// The bound on output tokens, if any.
    pub max_output_tokens: Option<u64>,
    /// All system and developer text, joined by newlines.
    pub system: String,
    /// The history, oldest first.
    pub items: Vec<Item>,
    /// The tools offered.
    pub tools: Vec<OfferedTool>,
    /// The schema that the answer must fit, where the vendor's API has a field for it.
    pub output_schema: Option<Value>,
}

/// One entry of the history.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Item {
    /// Text of the user, or of the harness in the user's role.
    User(String),
    /// Words of the model.
    Assistant(String),
    /// The model's thinking, sent back.
    Thinking(String),
    /// An image.
    Image {
        /// The media type, or `url`.
        media_type: String,
        /// Base64, or the URL.
        data: String,
    },
    /// A tool call that the model made earlier.
    ToolCall {
        /// Its id.
        id: String,
        /// The tool's name on the wire, with its namespace before a dot.
        name: String,
        /// Its arguments, or the input of a custom tool, as sent.
        arguments: String,
    },
    /// Result of a call, as the harness sent it.
    ToolResult {
        /// The id of the call.
        id: String,
        /// The text of the result.
        text: String,
        /// True if it was marked as an error, where the vendor's API allows that.
        is_error: bool,
    },
    /// Anything else, by its type.
    Other(String),
}

/// A tool that a request offered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OfferedTool {
    /// The namespace, where the dialect has them.
    pub namespace: Option<String>,
    /// The name; the type for a hosted tool that has no name.
    pub name: String,
    /// `function`, `custom`, or the hosted tool's type.
    pub kind: String,
    /// The description.
    pub description: String,
}

impl OfferedTool {
    /// The name with its namespace before a dot.
    pub fn full_name(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}.{}", self.name),
            None => self.name.clone(),
        }
    }
}

impl Conversation {
    /// The names of the tools offered, with their namespaces before a dot.
    pub fn tool_names(&self) -> Vec<String> {
        self.tools.iter().map(OfferedTool::full_name).collect()
    }

    /// The offered tool `name`, in any namespace.
    pub fn tool(&self, name: &str) -> Option<&OfferedTool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// The user texts, oldest first.
    pub fn user_texts(&self) -> Vec<String> {
        self.items
            .iter()
            .filter_map(|item| match item {
                Item::User(text) => Some(text.clone()),
                _ => None,
            })
            .collect()
    }

    /// The newest user text.
    pub fn last_user_text(&self) -> Option<&str> {
        self.items.iter().rev().find_map(|item| match item {
            Item::User(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// The texts of the model that were sent back.
    pub fn assistant_texts(&self) -> Vec<&str> {
        self.items
            .iter()
            .filter_map(|item| match item {
                Item::Assistant(text) => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }

    /// The texts of the tool results, oldest first.
    pub fn tool_results(&self) -> Vec<&str> {
        self.items
            .iter()
            .filter_map(|item| match item {
                Item::ToolResult { text, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }

    /// Number of images in the request.
    pub fn images(&self) -> usize {
        self.items.iter().filter(|item| matches!(item, Item::Image { .. })).count()
    }

    pub(super) fn add_system(&mut self, text: &str) {
        if !self.system.is_empty() {
            self.system.push('\n');
        }
        self.system.push_str(text);
    }
}

/// The string at `key`, or an empty one.
pub(super) fn string_at(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The elements at `key`, or none.
pub(super) fn list_at<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The text of a content field: a string, or the texts of its parts joined.
pub(super) fn content_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        // Parts without a text, such as images, are items of their own.
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part.get("text").and_then(Value::as_str))
            .collect::<Vec<_>>()
            .join("\n"),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
