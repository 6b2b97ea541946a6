//! Result of a successful turn.

use std::fmt;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{AppliedEffort, Cost, Effects, ResumeHandle, ToolCallRecord, Usage};
use crate::{
    capabilities::Containment,
    error::Skipped,
    id::{BackendId, CallId, MessageId, ModelId},
};

/// Result of a turn.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnResult {
    /// The answer: the text of the last message of the turn's own agent.
    pub text: String,
    /// The answer as a value that fits the schema, if the request has one.
    pub output: Option<Value>,
    /// All messages that were not voided, in order. A message of a sub-agent names the call that started the sub-agent.
    pub messages: Vec<Message>,
    /// All tool calls, in the order in which they began. Calls of reverted attempts are included and marked.
    pub tool_calls: Vec<ToolCallRecord>,
    /// Tokens that the turn used.
    pub usage: Usage,
    /// Cost of the turn, if it is known.
    pub cost: Option<Cost>,
    /// Why the model stopped.
    pub finish: FinishReason,
    /// Possible effects of the turn, without reverted ones.
    pub effects: Effects,
    /// Resume handle, if the request stores the conversation.
    pub resume: Option<ResumeHandle>,
    /// Backend that ran the turn. For logs; never shown to an agent.
    pub provenance: Provenance,
}

impl TurnResult {
    /// Returns the answer as a `T`, if the request set a schema: see
    /// [`OutputSchema::of`](crate::OutputSchema::of).
    ///
    /// ```
    /// use nexus_core::{OutputSchema, schemars};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Moons {
    ///     count: u32,
    /// }
    ///
    /// let schema = OutputSchema::of::<Moons>()?;
    /// assert!(schema.read("{\"count\": 146}").is_ok());
    /// assert!(schema.read("{\"count\": -1}").is_err());
    /// # Ok::<(), nexus_core::turn::InvalidSchema>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`NotOfType`]: the result has no structured answer, or the answer does not fit a `T`, with the position of the fault.
    pub fn output_as<T: DeserializeOwned>(&self) -> Result<T, NotOfType> {
        let output = self.output.as_ref().ok_or(NotOfType::Missing)?;
        serde_path_to_error::deserialize(output).map_err(|error| NotOfType::Mismatch {
            place: error.path().to_string(),
            reason: error.into_inner().to_string(),
        })
    }
}

/// Reason why an answer does not have the requested type.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotOfType {
    /// The request set no schema.
    #[error("there is no structured answer: set an output schema in the request")]
    Missing,
    /// The value does not fit the type.
    #[error("the structured answer does not fit at {place}: {reason}")]
    Mismatch {
        /// Position of the fault, as a path of keys and indices; `.` is the whole value.
        place: String,
        /// Fault of the value.
        reason: String,
    },
}

/// One message.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Id of the message within the turn.
    pub id: MessageId,
    /// Tool call that started the sub-agent which wrote the message. `None` for the turn's own agent.
    pub parent: Option<CallId>,
    /// Text of the message.
    pub text: String,
    /// Thinking of the message, as far as the vendor showed it.
    pub thinking: String,
    /// True if the message was complete when the turn ended.
    pub complete: bool,
}

impl Message {
    /// Creates a message without text.
    pub fn new(id: MessageId, parent: Option<CallId>) -> Self {
        Self { id, parent, text: String::new(), thinking: String::new(), complete: false }
    }
}

/// Reason why the model stopped.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model finished its answer.
    #[default]
    Stop,
    /// The model wrote a stop sequence.
    StopSequence,
    /// The model called tools.
    ToolCalls,
    /// The model submitted its answer with a [terminal tool](crate::Tool::terminal), which ended the turn.
    Submitted,
    /// The model reached the limit on output tokens.
    Length,
    /// The model paused, and may be resumed.
    Paused,
    /// Any other reason, in the vendor's spelling.
    Other(String),
}

impl fmt::Display for FinishReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stop => "stop",
            Self::StopSequence => "stop sequence",
            Self::ToolCalls => "tool calls",
            Self::Submitted => "submitted",
            Self::Length => "length",
            Self::Paused => "paused",
            Self::Other(word) => word,
        })
    }
}

/// Backend, model and process of a turn. For logs; never shown to an agent.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// The backend.
    pub backend: BackendId,
    /// The model, as the vendor named it, else as requested.
    pub model: Option<ModelId>,
    /// The requested effort and the applied one.
    pub effort: Option<AppliedEffort>,
    /// The version of the program or service.
    pub version: Option<String>,
    /// Containment of the last attempt's processes; `None` without processes.
    pub containment: Option<Containment>,
    /// Number of starts of the backend for this turn: 1, and one more for each repair or respawn.
    pub attempts: u32,
    /// Backends that failed or were skipped, with the reasons.
    pub skipped: Vec<Skipped>,
}

impl Provenance {
    /// Creates the provenance of one attempt by `backend`.
    pub fn new(backend: BackendId) -> Self {
        Self {
            backend,
            model: None,
            effort: None,
            version: None,
            containment: None,
            attempts: 1,
            skipped: Vec::new(),
        }
    }
}
