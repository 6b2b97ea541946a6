//! Prompts from messages, and answers to them.

use nexus_core::TurnError;
use serde_json::Map;

pub(super) use crate::cut::cut;
use crate::{
    agent::AgentDocument,
    message::{Address, Envelope, EnvelopeId, Payload},
};

/// Maximum size of an agent's text in an answer, in bytes.
const MAX_ANSWER_BYTES: usize = 64 << 10;
/// Maximum size of a failure in an answer, in bytes.
const MAX_PROBLEM_BYTES: usize = 4 << 10;

/// Returns the prompt of a turn that handles `envelope`. A heading names the author above each text.
pub(super) fn prompt(envelope: &Envelope) -> String {
    let head = format!(
        "[{} from {}, id {}]",
        envelope.payload.type_name(),
        envelope.source_agent_id,
        envelope.message_id
    );
    let answered = match envelope.payload {
        Payload::Query { .. } => "\n\n(Your final message is sent to the sender as the answer.)",
        _ => "",
    };
    // Indent these lines, so that none looks like the heading of a message.
    let text = envelope.payload.text().replace("\n[", "\n [");
    let text = text.strip_prefix('[').map_or_else(|| text.clone(), |rest| format!(" [{rest}"));
    format!("{head}\n{text}{answered}")
}

/// Returns the answer after a successful turn, for the author of a task or a question, or a caller. An agent
/// that sent only a message gets no answer beyond the messages of the turn itself.
pub(super) fn answer(envelope: &Envelope, said: &str, diff: Option<String>) -> Option<Payload> {
    let text = cut(said, MAX_ANSWER_BYTES);
    match &envelope.payload {
        Payload::TaskAssignment { task_id, .. } => Some(Payload::Result {
            task_id: task_id.clone(),
            summary: text,
            artifacts: Vec::new(),
            stdout: None,
            diff,
            other: Map::new(),
        }),
        Payload::Query { .. } => Some(reply(&envelope.message_id, text)),
        Payload::Message { .. } if matches!(envelope.source_agent_id, Address::Caller(_)) => {
            Some(reply(&envelope.message_id, text))
        }
        _ => None,
    }
}

fn reply(to: &EnvelopeId, content: String) -> Payload {
    Payload::Message { content, in_reply_to: Some(to.clone()), other: Map::new() }
}

/// Returns the answer after a failed turn.
pub(super) fn failure(agent: &AgentDocument, envelope: &Envelope, error: &TurnError) -> Payload {
    let message = format!("{} could not handle {}: {error}", agent.name, envelope.message_id);
    problem(&envelope.message_id, "turn_failed", &message)
}

/// Returns the answer for a lost turn. Its broker ended during the turn, or was paused until another broker took its
/// message.
pub(super) fn lost(agent: &AgentDocument, id: &EnvelopeId) -> Payload {
    let tree = agent.tree.as_ref().map_or_else(String::new, |tree| {
        format!("; its files are in {}", tree.workspace.join("work").display())
    });
    let message = format!(
        "the broker ended or stalled while {} handled {id}: its changes up to then remain, and the message is not handled again{tree}",
        agent.name
    );
    problem(id, "turn_lost", &message)
}

/// Returns the message that reports the failure to handle another message.
pub(super) fn problem(of: &EnvelopeId, code: &str, message: &str) -> Payload {
    Payload::Error {
        code: code.to_owned(),
        message: cut(message, MAX_PROBLEM_BYTES),
        in_reply_to: Some(of.clone()),
        other: Map::new(),
    }
}
