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
    /// Name by which the model calls the tool.
    pub name: String,
    /// Purpose of the tool, for the model.
    pub description: String,
    /// JSON Schema of the arguments: an object.
    pub input_schema: Value,
    /// Possible effects of a call.
    pub effects: Effects,
    /// True if the tool submits the answer. Such a tool is exempt from the tool budget, so that an agent can
    /// always finish. Its first successful call ends the turn.
    pub terminal: bool,
    /// True if repeating a call has no further effect. A backend that continues another backend's work learns
    /// this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub idempotent: bool,
    /// True if the host has to approve each call: see [`Approver`](crate::Approver).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_approval: bool,
    /// Arguments that are paths, with the access that the tool needs. A session checks them against its scope.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathArgument>,
}

impl ToolDefinition {
    /// Creates a definition with effects [`Effects::Unknown`] that is not terminal.
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

    /// Sets the possible effects of a call.
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

    /// Declares the argument at `pointer` as a path, with the tool's access to it; see [`PathArgument`].
    #[must_use]
    pub fn with_path(mut self, pointer: impl Into<String>, access: PathAccess) -> Self {
        self.paths.push(PathArgument { pointer: pointer.into(), access });
        self
    }
}

/// One call, as the model wrote it or as a session allows it.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Id that pairs the call with its result.
    pub call: CallId,
    /// The tool's name.
    pub name: String,
    /// The arguments, unchecked.
    pub arguments: Value,
}

impl ToolCall {
    /// Creates a call of `name` with `arguments`.
    pub fn new(call: impl Into<CallId>, name: impl Into<String>, arguments: Value) -> Self {
        Self { call: call.into(), name: name.into(), arguments }
    }
}

/// One part of a tool's answer.
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
    /// Creates a text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// Creates a JSON value.
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
    /// True if the model must still see the result after a compaction of the conversation. Nexus's own loop observes it; a
    /// vendor's program compacts its conversation itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_pinned: bool,
}

impl ToolResult {
    /// Creates the result of a successful call.
    pub fn ok(content: Vec<ToolContent>) -> Self {
        Self { content, is_error: false, is_pinned: false }
    }

    /// Creates the result of a successful call, with text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::ok(vec![ToolContent::text(text)])
    }

    /// Creates the result of a failed call, with the reason for the model.
    pub fn error(text: impl Into<String>) -> Self {
        Self { content: vec![ToolContent::text(text)], is_error: true, is_pinned: false }
    }

    /// Marks the result as one that the model must still see after a compaction of the conversation, for example a rule
    /// that applies to the rest of the turn.
    ///
    /// ```
    /// use nexus_core::ToolResult;
    ///
    /// let result = ToolResult::text("The release branch is frozen until Friday.").pinned();
    /// assert!(result.is_pinned);
    /// ```
    #[must_use]
    pub fn pinned(mut self) -> Self {
        self.is_pinned = true;
        self
    }
}
