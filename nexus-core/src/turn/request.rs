//! Request of a turn.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::{ConversationMode, Effort, Limits, OutputSchema};
use crate::{id::ModelId, picture};

/// One part of the prompt.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type", deny_unknown_fields)]
pub enum PromptBlock {
    /// Text, sent unchanged. Slash commands, `@file` and options in it have no effect.
    Text {
        /// The text.
        text: String,
    },
    /// A picture.
    Image {
        /// Media type, such as `image/png`.
        media_type: String,
        /// Base64 of the bytes.
        data: String,
    },
}

impl PromptBlock {
    /// Creates a text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// Creates a picture, whose first bytes determine its type. `None` if they are not those of PNG, JPEG, GIF
    /// or WebP, which every vendor with picture support accepts.
    pub fn image(bytes: &[u8]) -> Option<Self> {
        let (media_type, data) = picture::encode(bytes)?;
        Some(Self::Image { media_type, data })
    }

    /// Returns the width and height of a picture, in pixels. `None` for text, and for a picture whose header does not contain
    /// its size.
    pub fn image_size(&self) -> Option<(u32, u32)> {
        match self {
            Self::Image { data, .. } => picture::size(data),
            Self::Text { .. } => None,
        }
    }
}

/// Tools that a turn may use.
///
/// A backend that cannot enforce a level returns [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported). It never runs the
/// turn with wider access.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolAccess {
    /// Only the caller's tools. Without caller's tools the turn is pure text.
    #[default]
    ScopedOnly,
    /// The harness's read-only tools, and the caller's tools.
    ReadOnly,
    /// The harness's tools, which may write in the working directory and the extra roots, and the caller's tools.
    WorkspaceWrite,
    /// The harness's tools without a sandbox, and the caller's tools.
    Unrestricted,
}

impl ToolAccess {
    /// All levels, narrowest first.
    pub const ALL: [Self; 4] = [Self::ScopedOnly, Self::ReadOnly, Self::WorkspaceWrite, Self::Unrestricted];

    /// Returns the name of the level, as on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ScopedOnly => "scoped-only",
            Self::ReadOnly => "read-only",
            Self::WorkspaceWrite => "workspace-write",
            Self::Unrestricted => "unrestricted",
        }
    }
}

/// One turn of agent work, as plain data. Tools, cancellation and other live objects are in [`TurnHost`](crate::TurnHost).
///
/// ```
/// use std::time::Duration;
/// use nexus_core::{Effort, Limits, ToolAccess, TurnRequest};
///
/// let request = TurnRequest::new("Name the three largest moons of Saturn.")
///     .with_system("Answer in one line.")
///     .with_effort(Effort::Low)
///     .with_limits(Limits::new().with_deadline(Duration::from_secs(120)));
/// assert_eq!(request.tool_access, ToolAccess::ScopedOnly);
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TurnRequest {
    /// The prompt, in order.
    pub prompt: Vec<PromptBlock>,
    /// System text: instructions before the prompt.
    pub system: Option<String>,
    /// The model. `None` leaves the choice to the backend.
    pub model: Option<ModelId>,
    /// Reasoning effort of the model. `None` leaves it to the vendor.
    pub effort: Option<Effort>,
    /// Working directory of the turn, which must exist. `None` uses an empty private folder, which is removed afterwards.
    pub working_directory: Option<PathBuf>,
    /// Further folders that the working directory's sandbox includes.
    pub extra_roots: Vec<PathBuf>,
    /// Names of the host's environment variables that the agent's tools may see. Other variables do not reach the tools, except
    /// those that a shell needs.
    pub environment: Vec<String>,
    /// Tools that the turn may use.
    pub tool_access: ToolAccess,
    /// Limits of the turn.
    pub limits: Limits,
    /// Schema that the answer must fit.
    pub output: Option<OutputSchema>,
    /// Mode of the conversation.
    pub conversation: ConversationMode,
    /// Labels that the caller sets, for logs. No agent sees them.
    pub labels: BTreeMap<String, String>,
}

impl TurnRequest {
    /// Creates a request with this prompt, [`ToolAccess::ScopedOnly`] and an ephemeral conversation.
    pub fn new(prompt: impl Into<String>) -> Self {
        Self { prompt: vec![PromptBlock::text(prompt)], ..Self::default() }
    }

    /// Adds a part to the prompt.
    #[must_use]
    pub fn with_block(mut self, block: PromptBlock) -> Self {
        self.prompt.push(block);
        self
    }

    /// Sets the system text.
    #[must_use]
    pub fn with_system(mut self, system: impl Into<String>) -> Self {
        self.system = Some(system.into());
        self
    }

    /// Sets the model.
    #[must_use]
    pub fn with_model(mut self, model: impl Into<ModelId>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Sets the effort.
    #[must_use]
    pub fn with_effort(mut self, effort: Effort) -> Self {
        self.effort = Some(effort);
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn in_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.working_directory = Some(directory.into());
        self
    }

    /// Adds a folder to the working directory's sandbox.
    #[must_use]
    pub fn with_extra_root(mut self, root: impl Into<PathBuf>) -> Self {
        self.extra_roots.push(root.into());
        self
    }

    /// Lets the agent's tools see a variable of the host's environment.
    #[must_use]
    pub fn with_variable(mut self, name: impl Into<String>) -> Self {
        self.environment.push(name.into());
        self
    }

    /// Sets the tools that the turn may use.
    #[must_use]
    pub fn with_tool_access(mut self, access: ToolAccess) -> Self {
        self.tool_access = access;
        self
    }

    /// Sets the limits of the turn.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the schema that the answer must fit.
    #[must_use]
    pub fn with_output(mut self, output: OutputSchema) -> Self {
        self.output = Some(output);
        self
    }

    /// Sets the mode of the conversation.
    #[must_use]
    pub fn with_conversation(mut self, conversation: ConversationMode) -> Self {
        self.conversation = conversation;
        self
    }

    /// Adds a label.
    #[must_use]
    pub fn with_label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Returns the text blocks of the prompt.
    pub fn prompt_texts(&self) -> impl Iterator<Item = &str> {
        self.prompt.iter().filter_map(|block| match block {
            PromptBlock::Text { text } => Some(text.as_str()),
            PromptBlock::Image { .. } => None,
        })
    }

    /// Returns the text blocks of the prompt, joined by blank lines.
    pub fn prompt_text(&self) -> String {
        self.prompt_texts().collect::<Vec<_>>().join("\n\n")
    }

    /// Returns true if the prompt has no content.
    pub fn is_empty(&self) -> bool {
        self.prompt.iter().all(|block| matches!(block, PromptBlock::Text { text } if text.trim().is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_picture_is_told_by_its_first_bytes() {
        let PromptBlock::Image { media_type, data } = PromptBlock::image(b"\x89PNG\r\n").unwrap() else {
            panic!("not a picture");
        };
        assert_eq!((media_type.as_str(), data.as_str()), ("image/png", "iVBORw0K"));
        assert_eq!(PromptBlock::image(b"<svg/>"), None);
    }

    #[test]
    fn a_request_survives_being_stored() {
        let request = TurnRequest::new("hello")
            .with_model("m")
            .with_limits(Limits::new().with_deadline(Duration::from_millis(1500)))
            .with_conversation(ConversationMode::Keep)
            .with_label("run", "7");
        let stored = serde_json::to_string(&request).unwrap();
        assert_eq!(serde_json::from_str::<TurnRequest>(&stored).unwrap(), request);
    }

    #[test]
    fn a_stored_request_with_an_unknown_key_is_refused_at_every_depth() {
        let handle = crate::ResumeHandle::new("alpha".into(), serde_json::json!({ "free": "form" }));
        let schema = crate::OutputSchema::new(serde_json::json!({ "type": "object" })).unwrap();
        let mut request = TurnRequest::new("x").with_output(schema);
        request.conversation = ConversationMode::resume(handle);
        let whole = serde_json::to_value(&request).unwrap();
        assert_eq!(
            serde_json::from_value::<TurnRequest>(whole.clone()).unwrap().conversation,
            request.conversation
        );
        for place in
            ["", "/limits", "/limits/idle", "/prompt/0", "/conversation", "/conversation/handle", "/output"]
        {
            let mut stored = whole.clone();
            let object = stored
                .pointer_mut(place)
                .and_then(serde_json::Value::as_object_mut)
                .unwrap_or_else(|| panic!("{place}"));
            object.insert("no_such_key".into(), true.into());
            let error = serde_json::from_value::<TurnRequest>(stored).unwrap_err().to_string();
            assert!(error.contains("no_such_key"), "{place}: {error}");
        }
        // Beside a mode without keys, too.
        let ephemeral = serde_json::json!({ "conversation": { "mode": "ephemeral", "no_such_key": 1 } });
        assert!(serde_json::from_value::<TurnRequest>(ephemeral).is_err());
    }
}
