//! Tools, their calls, and their results.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    id::CallId,
    picture,
    scope::{PathAccess, PathArgument},
    turn::Effects,
};

/// A caller's tool, as the model sees it.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// The name by which the model calls it.
    pub name: String,
    /// Its purpose, for the model.
    pub description: String,
    /// JSON Schema of the arguments: an object.
    pub input_schema: Value,
    /// Possible effects of a call.
    pub effects: Effects,
    /// True if it submits the answer. Such a tool is exempt from the tool budget, so that an agent can always
    /// finish, and its first call that succeeds ends the turn.
    pub terminal: bool,
    /// True if a call may be repeated without a further effect. A backend that continues another one's work
    /// gets this information.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub idempotent: bool,
    /// True if the host has to approve each call: see [`Approver`](crate::Approver).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_approval: bool,
    /// Arguments that are paths, with the access to them. A session checks them against its scope.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathArgument>,
}

impl ToolDefinition {
    /// A tool whose effects are [`Effects::Unknown`] and which is not terminal.
    pub fn new(name: impl Into<String>, description: impl Into<String>, input_schema: Value) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            input_schema,
            effects: Effects::Unknown,
            terminal: false,
            idempotent: false,
            needs_approval: false,
            paths: Vec::new(),
        }
    }

    /// States what a call may change.
    #[must_use]
    pub fn with_effects(mut self, effects: Effects) -> Self {
        self.effects = effects;
        self
    }

    /// Marks the tool as one for submitting the answer.
    #[must_use]
    pub fn terminal(mut self) -> Self {
        self.terminal = true;
        self
    }

    /// Marks the tool as one whose calls may be repeated.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// Requires the host's approval of each call, after all other checks.
    #[must_use]
    pub fn needs_approval(mut self) -> Self {
        self.needs_approval = true;
        self
    }

    /// States that the argument at `pointer` is a path, and what is done there; see [`PathArgument`].
    #[must_use]
    pub fn with_path(mut self, pointer: impl Into<String>, access: PathAccess) -> Self {
        self.paths.push(PathArgument { pointer: pointer.into(), access });
        self
    }
}

/// One call: as the model made it, or as a session lets it through.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Pairs the call with its result.
    pub call: CallId,
    /// The tool's name.
    pub name: String,
    /// The arguments, unchecked.
    pub arguments: Value,
}

impl ToolCall {
    /// A call of `name` with `arguments`.
    pub fn new(call: impl Into<CallId>, name: impl Into<String>, arguments: Value) -> Self {
        Self { call: call.into(), name: name.into(), arguments }
    }
}

/// A piece of what a tool answered.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum ToolContent {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A JSON value.
    Json {
        /// The value.
        value: Value,
    },
    /// A picture.
    Image {
        /// Media type, such as `image/png`.
        media_type: String,
        /// Base64 of the bytes.
        data: String,
    },
}

impl ToolContent {
    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// A JSON value.
    pub fn json(value: Value) -> Self {
        Self::Json { value }
    }

    /// Creates a picture, whose first bytes determine its type. `None` if they are not those of PNG, JPEG, GIF
    /// or WebP.
    pub fn image(bytes: &[u8]) -> Option<Self> {
        let (media_type, data) = picture::encode(bytes)?;
        Some(Self::Image { media_type, data })
    }
}

/// Answer of a tool: content for the model, and an error flag.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// Content for the model.
    pub content: Vec<ToolContent>,
    /// True if the call failed. The model sees this flag.
    pub is_error: bool,
}

impl ToolResult {
    /// A call that went well.
    pub fn ok(content: Vec<ToolContent>) -> Self {
        Self { content, is_error: false }
    }

    /// A call that went well and answers with text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::ok(vec![ToolContent::text(text)])
    }

    /// A call that failed, with what the model should know about it.
    pub fn error(text: impl Into<String>) -> Self {
        Self { content: vec![ToolContent::text(text)], is_error: true }
    }
}
