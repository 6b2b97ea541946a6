//! Requests that reached a model, as a fake CLI or the simulator recorded them.

use serde::{Deserialize, Serialize};

use crate::sim::{Conversation, Item, RecordedRequest, Sim};

/// State of the connection to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// Connections are accepted.
    Open,
    /// Connections are refused.
    Refused,
}

/// Records the requests that reached the model.
pub trait Witness: Send + Sync {
    /// Returns the main model calls so far, oldest first.
    fn model_calls(&self) -> Vec<ModelCall>;
}

/// One request to the model, independent of the vendor's wire format.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelCall {
    /// The requested model.
    pub model: Option<String>,
    /// Credential of the call, if it is visible.
    pub credential: Option<String>,
    /// The requested effort, in the vendor's spelling.
    pub effort: Option<String>,
    /// All system text.
    pub system: String,
    /// The user's words, oldest first.
    pub user_texts: Vec<String>,
    /// The model's own words that were sent back, oldest first.
    pub assistant_texts: Vec<String>,
    /// Tool results, oldest first.
    pub tool_results: Vec<String>,
    /// Number of pictures in the request.
    pub images: usize,
    /// Names of the tools offered.
    pub tools: Vec<String>,
}

impl From<&Conversation> for ModelCall {
    fn from(conversation: &Conversation) -> Self {
        let mut call = Self {
            model: conversation.model.clone(),
            effort: conversation.effort.clone(),
            system: conversation.system.clone(),
            tools: conversation.tool_names(),
            ..Self::default()
        };
        for item in &conversation.items {
            match item {
                Item::User(text) => call.user_texts.push(text.clone()),
                Item::Assistant(text) => call.assistant_texts.push(text.clone()),
                Item::ToolResult { text, .. } => call.tool_results.push(text.clone()),
                Item::Image { .. } => call.images += 1,
                _ => {}
            }
        }
        call
    }
}

impl Witness for Sim {
    fn model_calls(&self) -> Vec<ModelCall> {
        let call = |request: &RecordedRequest| ModelCall {
            credential: request.bearer().map(str::to_owned),
            ..ModelCall::from(&*request.conversation)
        };
        self.main_calls().iter().map(call).collect()
    }
}
