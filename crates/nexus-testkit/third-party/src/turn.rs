//! One turn: calls the voice and runs tools until an answer arrives.

use nexus_core::{
    ErrorKind, FinishReason, MessageId, Phase, Retry, ToolCall, ToolContent, ToolResult,
    harness::{Failure, RunningTurn},
    turn::{MessageEnded, Retrying, TextDelta, ThinkingDelta, Unrecognized, VoidCause},
};
use serde_json::Value;
use tokio::time::sleep;

use crate::voice::{Asked, End, Piece, Utterance, Voice, Wanted};

/// Number of tries for an utterance that breaks off.
const TRIES: u32 = 3;

enum Said {
    Answer,
    Calls(Vec<Wanted>),
    Torn,
}

/// Calls `voice` until an answer arrives.
pub(crate) async fn speak(
    voice: &dyn Voice,
    turn: &mut RunningTurn<'_>,
) -> Result<(FinishReason, Option<Value>), Failure> {
    let mut asked = Asked {
        prompt: turn.request.prompt_text(),
        model: turn.request.model.as_ref().map(ToString::to_string),
        tools: turn.session.definitions().iter().map(|tool| tool.name.clone()).collect(),
        answers: Vec::new(),
    };
    let unreachable = |reason| Failure::new(ErrorKind::Transport, reason).with_retry(Retry::Now);
    let mut tries = 1;
    loop {
        turn.model_call()?;
        let utterance = voice.answer(asked.clone()).ok_or_else(|| unreachable("nobody is there"))?;
        match utter(turn, utterance).await? {
            Said::Answer => return Ok((FinishReason::Stop, None)),
            Said::Calls(calls) => {
                tries = 1;
                let results = turn.answer_calls(calls.into_iter().map(call).collect()).await?;
                asked.answers.extend(results.iter().map(told));
                if turn.is_submitted() {
                    return Ok((FinishReason::Submitted, None));
                }
            }
            Said::Torn if tries == TRIES => return Err(unreachable("the utterance broke off")),
            Said::Torn => {
                tries += 1;
                turn.void_open_messages(VoidCause::Retry);
                turn.event(Retrying::new(tries, "the utterance broke off"));
            }
        }
    }
}

async fn utter(turn: &mut RunningTurn<'_>, utterance: Utterance) -> Result<Said, Failure> {
    let message = MessageId::new(format!("utterance-{}", turn.log.model_calls));
    turn.wait(Phase::FirstByte, sleep(utterance.delay)).await?;
    let (mut text, mut calls, mut phase) = (String::new(), Vec::new(), Phase::FirstByte);
    for piece in utterance.pieces {
        turn.wait(phase, sleep(utterance.gap)).await?;
        phase = Phase::Model;
        match piece {
            Piece::Word(word) => {
                text.push_str(&word);
                turn.event(TextDelta::new(message.clone(), word));
            }
            Piece::Thought(thought) => turn.event(ThinkingDelta::new(message.clone(), thought)),
            Piece::Call(call) => calls.push(call),
            Piece::Noise(noise) => turn.event(Unrecognized::new(None, Value::String(noise))),
        }
    }
    match utterance.end {
        End::Silence => turn.wait(phase, std::future::pending::<()>()).await?,
        End::Torn => return Ok(Said::Torn),
        End::Done | End::Failed { .. } => {}
    }
    let is_silent = text.trim().is_empty() && calls.is_empty();
    // A complete message means that the model call succeeded.
    if !(is_silent && matches!(utterance.end, End::Failed { .. })) {
        turn.event(MessageEnded::new(message, text).with_usage(utterance.usage));
    }
    match utterance.end {
        End::Failed { kind, named } => {
            Err(Failure::new(kind, "the utterance failed").with_named_retry(named))
        }
        _ if is_silent => Err(Failure::new(ErrorKind::Incomplete, "nothing was said")),
        _ if calls.is_empty() => Ok(Said::Answer),
        _ => Ok(Said::Calls(calls)),
    }
}

/// Converts a call for the session. Arguments that are not JSON stay text.
fn call(Wanted { id, name, arguments }: Wanted) -> ToolCall {
    ToolCall::new(id, name, serde_json::from_str(&arguments).unwrap_or(Value::String(arguments)))
}

/// Converts a result to text, since a voice reads only text.
fn told(result: &ToolResult) -> String {
    let pieces = result.content.iter().map(|piece| match piece {
        ToolContent::Text { text } => text.clone(),
        other => format!("{other:?}"),
    });
    pieces.collect::<Vec<_>>().join("\n")
}
