//! The request of a turn, in the form of a record.

use std::{collections::BTreeMap, path::PathBuf};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::{
    backend::TurnHost,
    id::{BackendId, ModelId},
    turn::{ConversationMode, Effort, Limits, PromptBlock, ToolAccess, TurnRequest},
};

/// A [`TurnRequest`] without the data that must not be in a file. It cannot be run again, because long texts
/// are cut and pictures are left out.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedRequest {
    /// The prompt, in order.
    pub prompt: Vec<RecordedBlock>,
    /// System text of the request.
    pub system: Option<String>,
    /// The requested model.
    pub model: Option<ModelId>,
    /// The requested effort.
    pub effort: Option<Effort>,
    /// Working directory of the turn. `None` stands for a private folder.
    pub working_directory: Option<PathBuf>,
    /// Further folders of the sandbox.
    pub extra_roots: Vec<PathBuf>,
    /// Names of the environment variables that the tools could see. Their values are never recorded.
    pub environment: Vec<String>,
    /// Tools that the turn could use.
    pub tool_access: ToolAccess,
    /// Names of the caller's tools in scope.
    pub tools: Vec<String>,
    /// Limits of the turn.
    #[serde(deserialize_with = "known_limits")]
    pub limits: Limits,
    /// The JSON Schema that the answer had to fit.
    pub output_schema: Option<Value>,
    /// True if the conversation was to be stored.
    pub keeps_conversation: bool,
    /// Backend whose conversation the turn resumed. The handle is in the record of the earlier turn.
    pub resumes: Option<BackendId>,
    /// Labels that the caller set.
    pub labels: BTreeMap<String, String>,
}

/// One part of a recorded prompt.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum RecordedBlock {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A picture, without its content.
    Image {
        /// Media type, such as `image/png`.
        media_type: String,
        /// Size of the picture.
        bytes: u64,
    },
    /// A part of a kind that this version does not know.
    #[serde(other)]
    Unknown,
}

impl RecordedRequest {
    /// Converts `request`, with the tools of `host`.
    pub fn new(request: &TurnRequest, host: &TurnHost) -> Self {
        // Name every field, so that the compiler reports a new field that is missing here.
        let TurnRequest {
            prompt,
            system,
            model,
            effort,
            working_directory,
            extra_roots,
            environment,
            tool_access,
            limits,
            output,
            conversation,
            labels,
        } = request;
        Self {
            prompt: prompt.iter().map(block).collect(),
            system: system.clone(),
            model: model.clone(),
            effort: *effort,
            working_directory: working_directory.clone(),
            extra_roots: extra_roots.clone(),
            // Only the text before the first `=` is a name, so that no part of a value is stored.
            environment: environment.iter().map(|name| variable_name(name)).collect(),
            tool_access: *tool_access,
            tools: host.session().definitions().iter().map(|tool| tool.name.clone()).collect(),
            limits: limits.clone(),
            output_schema: output.as_ref().map(|output| output.schema().clone()),
            keeps_conversation: !matches!(conversation, ConversationMode::Ephemeral),
            resumes: conversation.handle().map(|handle| handle.backend().clone()),
            labels: labels.clone(),
        }
    }

    /// Returns the texts of the prompt, joined by blank lines.
    pub fn prompt_text(&self) -> String {
        let texts = self.prompt.iter().filter_map(|block| match block {
            RecordedBlock::Text { text } => Some(text.as_str()),
            RecordedBlock::Image { .. } | RecordedBlock::Unknown => None,
        });
        texts.collect::<Vec<_>>().join("\n\n")
    }
}

fn block(block: &PromptBlock) -> RecordedBlock {
    match block {
        PromptBlock::Text { text } => RecordedBlock::Text { text: text.clone() },
        PromptBlock::Image { media_type, data } => {
            // Count the bytes of the picture, not of its base64 form. Invalid base64 counts as it is.
            let bytes = STANDARD.decode(data).map_or(data.len(), |bytes| bytes.len());
            RecordedBlock::Image { media_type: media_type.clone(), bytes: bytes as u64 }
        }
    }
}

fn variable_name(name: &str) -> String {
    name.split('=').next().unwrap_or_default().to_owned()
}

/// Reads limits that a later version may have written. A request rejects unknown limits, but a record keeps
/// the known ones.
fn known_limits<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Limits, D::Error> {
    let mut written = Value::deserialize(deserializer)?;
    if let Ok(known) = serde_json::to_value(Limits::default()) {
        retain_known(&mut written, &known);
    }
    // Limits that cannot be read must not invalidate the whole record.
    Ok(serde_json::from_value(written).unwrap_or_default())
}

fn retain_known(written: &mut Value, known: &Value) {
    if let (Value::Object(written), Value::Object(known)) = (written, known) {
        written.retain(|key, _| known.contains_key(key));
        for (key, value) in written {
            retain_known(value, &known[key]);
        }
    }
}
