//! A turn in a named conversation.

use std::time::{Duration, Instant};

use nexus::{
    CancelToken, ConversationErrorKind, ConversationName, ConversationOptions, EventSink, HeldConversation,
    ResumeHandle, Router, TurnError, TurnHost, TurnRequest, TurnResult,
};

use super::show::{RunEvent, TurnConversation};
use crate::{
    command_error::CommandError,
    conversation::{forget, store},
    output::{AnswerWriter, complain, printable_lines},
    works::blocking,
};

/// Locks a conversation as soon as no other turn runs in it. `None` if `cancel` ends the wait.
pub(crate) async fn take(
    name: &ConversationName,
    patience: Duration,
    cancel: &CancelToken,
) -> Result<Option<HeldConversation>, CommandError> {
    let began = Instant::now();
    loop {
        let held_name = name.clone();
        // Waits in short pieces, since a blocked thread would keep the process from ending.
        let held = blocking(move || match store().hold(&held_name) {
            Err(error) if error.kind == ConversationErrorKind::InUse => Ok(Err(error)),
            held => held.map(Ok),
        })
        .await?;
        match held {
            Ok(held) => return Ok(Some(held)),
            Err(_) if cancel.is_cancelled() => return Ok(None),
            Err(error) if began.elapsed() >= patience => return Err(error.into()),
            Err(_) => {}
        }
    }
}

/// Work and warnings left after the turn is shown.
pub(crate) struct Rest {
    superseded: Vec<ResumeHandle>,
    unstored: Option<CommandError>,
}

impl Rest {
    /// Deletes the superseded conversations at their backends.
    ///
    /// # Errors
    ///
    /// The turn could not be stored.
    pub(crate) async fn end(self, router: &Router, name: &ConversationName) -> Result<(), CommandError> {
        for handle in &self.superseded {
            if let Err(reason) = forget(router, handle).await {
                complain(printable_lines(&format!("warning: {name}: {reason}")));
            }
        }
        self.unstored.map_or(Ok(()), Err)
    }
}

/// Runs the turn.
pub(super) async fn run(
    out: AnswerWriter,
    held: &mut HeldConversation,
    router: &Router,
    (kind, options): (&str, ConversationOptions),
    request: TurnRequest,
    host: TurnHost,
    events: &mut dyn EventSink,
) -> Result<(Result<TurnResult, TurnError>, Rest), CommandError> {
    let turn = held.run_turn(router, kind, request, host, options, events).await?;
    let conversation = || TurnConversation {
        name: held.name().to_string(),
        how: turn.continuity.clone(),
        stored: matches!(turn.stored, Ok(true)),
    };
    out.event(|| RunEvent::Conversation { conversation: conversation() }, || ());
    let unstored = turn.stored.err().map(|error| {
        CommandError::failed(format_args!(
            "the turn is not stored in the conversation {}: {error}",
            held.name()
        ))
    });
    Ok((turn.outcome, Rest { superseded: turn.superseded, unstored }))
}
