//! Messages of the fleet protocol.

use std::collections::BTreeMap;

use nexus_core::{
    ApprovalRequest, Denial, Effects, EventEnvelope, ResumeHandle, ToolCall, ToolDefinition, ToolResult,
    TurnRequest,
};
use nexus_nats::StoredObject;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A JSON document, in the message or in the object store.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Payload {
    /// The document.
    Inline(Box<RawValue>),
    /// Name of the object that contains the document.
    Object(StoredObject),
}

/// A turn that waits in a queue.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct QueuedTurn {
    pub(crate) version: u32,
    /// Id of the turn, unique for ever.
    pub(crate) turn: String,
    /// Random secret of the turn. Every message about the turn must contain it.
    pub(crate) key: String,
    /// Process of the caller that waits for the turn.
    pub(crate) instance: String,
    /// Name of the backend in the worker's configuration.
    pub(crate) backend: String,
    /// Time of sending, by the caller's clock, in milliseconds since 1970.
    pub(crate) sent_at: u64,
    /// W3C `traceparent` of the caller's span.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) traceparent: Option<String>,
    /// A [`TurnBody`].
    pub(crate) body: Payload,
    /// Reason why the rest of the message cannot be read. The worker answers with this failure and does not run the turn.
    #[serde(skip)]
    pub(crate) fault: Option<String>,
}

/// The part of a [`QueuedTurn`] that a worker needs to answer its caller.
#[derive(Deserialize)]
struct TurnSender {
    #[serde(default)]
    version: u32,
    turn: String,
    key: String,
    instance: String,
    backend: String,
}

impl QueuedTurn {
    /// Reads a message of a queue. A message with damaged fields has a `fault`, if it still names its caller.
    ///
    /// # Errors
    ///
    /// The message is not JSON, or does not name its caller.
    pub(crate) fn read(message: &[u8]) -> Result<Self, serde_json::Error> {
        let error = match serde_json::from_slice(message) {
            Ok(queued) => return Ok(queued),
            Err(error) => error,
        };
        let Ok(TurnSender { version, turn, key, instance, backend }) = serde_json::from_slice(message) else {
            return Err(error);
        };
        Ok(Self {
            version,
            turn,
            key,
            instance,
            backend,
            sent_at: 0,
            traceparent: None,
            body: Payload::Inline(Box::default()),
            fault: Some(error.to_string()),
        })
    }
}

/// Content of a turn.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TurnBody {
    pub(crate) request: TurnRequest,
    /// Participant of the session that the tools belong to.
    pub(crate) participant: String,
    /// The tools of the caller's session.
    pub(crate) tools: Vec<ToolDefinition>,
    /// True if the caller's host has an approver.
    pub(crate) has_approver: bool,
    /// Travelling files of the turn. If present, the request names no folder. Since version 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) workspace: Option<TravellingFiles>,
}

/// Files that travel to the worker, as a bundle of the caller's committed files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TravellingFiles {
    /// Bundle of the base.
    pub(crate) base: StoredObject,
    /// Name of the folder at the worker. It is the same for each turn of a conversation.
    pub(crate) place: String,
    /// Working directory, relative to the top of the files. Empty for the top.
    pub(crate) directory: String,
    /// Further folders of the sandbox, relative to the top of the files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) roots: Vec<String>,
}

/// Value of a started key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StartedBy {
    /// The worker that runs the turn. `None`: the caller took it back.
    pub(crate) worker: Option<String>,
    /// Random id of this attempt.
    pub(crate) attempt: String,
    /// Time of the start, by the writer's clock, in milliseconds since 1970.
    pub(crate) at: u64,
}

/// Message of a worker about a turn. Frames with items are numbered from 1 without gaps; a frame without items
/// repeats the last number.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Frame {
    pub(crate) key: String,
    pub(crate) worker: String,
    pub(crate) attempt: String,
    pub(crate) number: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) items: Vec<Item>,
}

/// Item of a [`Frame`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Item {
    /// An event of the turn.
    Event(Box<EventEnvelope>),
    /// An item that is too large for a message.
    Large(Payload),
    /// Call of a tool of the caller. Repeated until it is answered.
    Call {
        /// Id of the call within the turn.
        id: u64,
        /// The call, as the model made it.
        call: Box<ToolCall>,
    },
    /// Call of the program's own tool that needs approval. Repeated until it is answered.
    Approval {
        /// Id of the question, unique among the calls and questions of the turn.
        id: u64,
        /// The question.
        request: Box<ApprovalRequest>,
    },
    /// A tool of the caller cannot be offered to the model.
    Withdraw {
        /// Name of the tool.
        tool: String,
    },
    /// The answer to this call is no longer needed.
    GivenUp {
        /// Id of the call.
        id: u64,
    },
    /// The turn has ended, and its result is stored: a [`WireOutcome`](super::WireOutcome).
    End(Payload),
    /// The turn was abandoned on command. It no longer runs, and the worker stores no result.
    Abandoned,
}

/// Message of a caller to a worker about one turn.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Control {
    pub(crate) turn: String,
    pub(crate) key: String,
    // No `flatten` and no internal tag: serde would buffer the value, and a payload is raw text that cannot be buffered.
    pub(crate) command: WorkerCommand,
}

/// Command of a caller to a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WorkerCommand {
    /// Every frame up to this number arrived. The message also shows that the caller is present.
    Ack {
        /// Number of the last frame.
        number: u64,
    },
    /// The worker must send the frames from this number on again.
    Resend {
        /// Number of the first frame.
        from: u64,
    },
    /// The worker must stop the turn, and report its end.
    Cancel,
    /// The caller no longer waits for the turn: end it at once, without a result.
    Abandon,
    /// Answer to a call.
    Answer {
        /// Id of the call.
        id: u64,
        /// A [`CallerAnswer`].
        answer: Payload,
    },
    /// The caller has the end, or does not wait for it any more.
    Done,
}

/// Answer of a caller to a call or a question: `Answer` in `docs/reference/fleet-protocol.md`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallerAnswer {
    /// Result of the tool.
    Result(ToolResult),
    /// The call is approved.
    Approved,
    /// The session denied the call.
    Denied(Denial),
}

/// Message on the subject of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallerMessage {
    /// Command about a running turn.
    Turn(Control),
    /// The worker must forget a conversation. Sent as a request with a reply.
    Forget {
        /// Backend of the conversation.
        backend: String,
        /// Handle that the worker returned.
        handle: ResumeHandle,
    },
}

/// A worker's description of itself, in the bucket of workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct WorkerCard {
    /// Protocol version of the worker.
    pub(crate) version: u32,
    /// Random id of the worker's process.
    pub(crate) instance: String,
    /// Backends that can start there, with the version of the program if it has one.
    pub(crate) backends: BTreeMap<String, Option<String>>,
    /// Maximum number of concurrent turns.
    pub(crate) slots: usize,
    /// Ids of the running turns.
    pub(crate) running: Vec<String>,
    /// Mean duration of the turns, in milliseconds. Each new turn has a weight of an eighth. 0 before the first.
    pub(crate) mean_turn: u64,
    /// True if the worker takes no further turn.
    pub(crate) is_draining: bool,
}

/// Stored effects of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredEffects {
    pub(crate) attempt: String,
    pub(crate) effects: Effects,
}

/// Stored end of a turn.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoredResult {
    pub(crate) attempt: String,
    /// A [`WireOutcome`](super::WireOutcome).
    pub(crate) outcome: Payload,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_turn_is_read_as_far_as_its_caller_can_be_answered() {
        let whole = serde_json::json!({
            "version": 1, "turn": "t", "key": "k", "instance": "i", "backend": "b", "sent_at": 5,
            "body": { "inline": {} },
        });
        let read = |changed: &str, value: serde_json::Value| {
            let mut message = whole.clone();
            message[changed] = value;
            QueuedTurn::read(message.to_string().as_bytes())
        };
        assert_eq!(read("version", 1.into()).unwrap().fault, None);
        for (field, value) in [
            ("sent_at", "now".into()),
            ("body", 7.into()),
            ("traceparent", 7.into()),
            ("body", serde_json::json!({ "elsewhere": 1 })),
        ] {
            let queued = read(field, value).unwrap();
            assert_eq!(
                (queued.turn.as_str(), queued.instance.as_str(), queued.key.as_str()),
                ("t", "i", "k")
            );
            assert!(queued.fault.is_some(), "{field}");
        }
        for field in ["turn", "key", "instance", "backend"] {
            assert!(read(field, 7.into()).is_err(), "{field}");
        }
        assert!(QueuedTurn::read(b"{\"turn\": \"t\"").is_err());
    }

    #[test]
    fn a_command_with_a_payload_survives_the_way() {
        let answer = serde_json::value::to_raw_value(&CallerAnswer::Result(ToolResult::text("5"))).unwrap();
        let command = WorkerCommand::Answer { id: 7, answer: Payload::Inline(answer) };
        let message = CallerMessage::Turn(Control { turn: "t".into(), key: "k".into(), command });
        let text = serde_json::to_string(&message).unwrap();
        let CallerMessage::Turn(Control { command: WorkerCommand::Answer { id, answer }, .. }) =
            serde_json::from_str(&text).unwrap()
        else {
            panic!("{text}");
        };
        let Payload::Inline(answer) = answer else { panic!("{text}") };
        assert_eq!(id, 7);
        assert_eq!(
            serde_json::from_str::<CallerAnswer>(answer.get()).unwrap(),
            CallerAnswer::Result(ToolResult::text("5"))
        );
    }
}
