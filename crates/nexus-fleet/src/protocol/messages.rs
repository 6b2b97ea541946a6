//! The messages.

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
    /// It is in this object.
    Object(StoredObject),
}

/// A turn that waits in a queue.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct QueuedTurn {
    pub(crate) version: u32,
    /// Names the turn, once for all time.
    pub(crate) turn: String,
    /// Secret of the turn, which every message about it must have: random.
    pub(crate) key: String,
    /// The caller's process that waits.
    pub(crate) instance: String,
    /// The backend, as the worker's configuration names it.
    pub(crate) backend: String,
    /// Time of sending, by the caller's clock, in milliseconds since 1970.
    pub(crate) sent_at: u64,
    /// W3C `traceparent` of the caller's span.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) traceparent: Option<String>,
    /// A [`TurnBody`].
    pub(crate) body: Payload,
    /// The reason why the rest of the message cannot be read. The worker answers with it instead of running the turn.
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
    /// Participant whose session has the tools.
    pub(crate) participant: String,
    /// The tools of the caller's session.
    pub(crate) tools: Vec<ToolDefinition>,
    /// True if the caller's host has an approver.
    pub(crate) has_approver: bool,
    /// The files that the turn works on, where they travel. The request names no folder then. Since version 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) workspace: Option<TravellingFiles>,
}

/// Files that travel to the worker, as a bundle of what is committed at the caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TravellingFiles {
    /// The bundle of the base.
    pub(crate) base: StoredObject,
    /// Names the folder at the worker: the same one for each turn of a conversation.
    pub(crate) place: String,
    /// The working directory, from the top of the files; empty for the top.
    pub(crate) directory: String,
    /// Further folders of the sandbox, as `directory`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) roots: Vec<String>,
}

/// The value of a started key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StartedBy {
    /// The worker that runs the turn. `None`: the caller took it back.
    pub(crate) worker: Option<String>,
    /// Names this attempt: random.
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

/// One thing that a worker tells.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Item {
    /// An event of the turn.
    Event(Box<EventEnvelope>),
    /// An item that is too large for a message.
    Large(Payload),
    /// A call of a tool of the caller's. Repeated until it is answered.
    Call {
        /// Names the call within the turn.
        id: u64,
        /// The call, as the model made it.
        call: Box<ToolCall>,
    },
    /// A call of the program's own that has to be approved. Repeated until it is answered.
    Approval {
        /// Names the question within the turn, among the calls.
        id: u64,
        /// The question.
        request: Box<ApprovalRequest>,
    },
    /// A tool of the caller's cannot be offered to the model.
    Withdraw {
        /// Its name.
        tool: String,
    },
    /// The answer to this call is no longer needed.
    GivenUp {
        /// Id of the call.
        id: u64,
    },
    /// The turn has ended, and its result is stored: a [`WireOutcome`](super::WireOutcome).
    End(Payload),
    /// The turn was abandoned on command, and nothing of it is left.
    Abandoned,
}

/// Message of a caller to a worker about one turn.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Control {
    pub(crate) turn: String,
    pub(crate) key: String,
    // Not flattened, nor with a tag within: a payload is raw text, which only its own place can hold.
    pub(crate) command: WorkerCommand,
}

/// Command of a caller to a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WorkerCommand {
    /// Every frame up to this number arrived. It also says that the caller is there.
    Ack {
        /// The number.
        number: u64,
    },
    /// The frames from this number on are needed again.
    Resend {
        /// The first of them.
        from: u64,
    },
    /// The turn is to stop, and to tell how it ended.
    Cancel,
    /// The caller no longer waits for the turn: end it at once, without a result.
    Abandon,
    /// A call was answered.
    Answer {
        /// Id of the call.
        id: u64,
        /// A [`CallerAnswer`].
        answer: Payload,
    },
    /// The caller has the end, or wants to hear no more.
    Done,
}

/// Caller's answer to a call or a question: `Answer` in `docs/reference/fleet-protocol.md`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallerAnswer {
    /// The tool answered.
    Result(ToolResult),
    /// The call is approved.
    Approved,
    /// The session denied it.
    Denied(Denial),
}

/// Message on the subject of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallerMessage {
    /// About a turn that runs.
    Turn(Control),
    /// Forget a conversation; answered by request and reply.
    Forget {
        /// The backend that kept it.
        backend: String,
        /// The worker's own handle.
        handle: ResumeHandle,
    },
}

/// A worker's description of itself, in the bucket of workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct WorkerCard {
    /// The version of the messages that it speaks.
    pub(crate) version: u32,
    /// Names the process: random.
    pub(crate) instance: String,
    /// The backends that can start there, and the version of each program where it has one.
    pub(crate) backends: BTreeMap<String, Option<String>>,
    /// Turns it runs at once.
    pub(crate) slots: usize,
    /// Turns it runs now, by id.
    pub(crate) running: Vec<String>,
    /// Mean duration of its turns, in milliseconds, with a weight of an eighth for each new turn. 0 before the
    /// first.
    pub(crate) mean_turn: u64,
    /// True if it takes no further turn.
    pub(crate) is_draining: bool,
}

/// The effects of a turn as they are stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredEffects {
    pub(crate) attempt: String,
    pub(crate) effects: Effects,
}

/// The end of a turn as it is stored.
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
