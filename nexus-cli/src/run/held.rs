//! A turn in a conversation that has a name.

use nexus::{
    ConversationOptions, EventSink, HeldConversation, Router, TurnError, TurnHost, TurnRequest, TurnResult,
};
use serde_json::json;

use crate::{
    args::RunArgs,
    command_error::CommandError,
    conversation::{blocking, store},
    output::{complain, printable_lines, say_json},
};

/// Takes the conversation that the command line names, if it names one.
pub(super) async fn take(args: &RunArgs) -> Result<Option<HeldConversation>, CommandError> {
    let Some(name) = args.conversation.clone() else { return Ok(None) };
    let patience = args.wait.unwrap_or_default();
    blocking(move || store().hold_within(&name, patience)).await.map(Some)
}

/// Runs the turn. Also says why it is not stored, if it is not.
pub(super) async fn run(
    held: &mut HeldConversation,
    router: &Router,
    args: &RunArgs,
    request: TurnRequest,
    host: TurnHost,
    events: &mut dyn EventSink,
) -> Result<(Result<TurnResult, TurnError>, Option<CommandError>), CommandError> {
    let options = ConversationOptions::new().when_lost(args.on_lost.into());
    let turn = held.run_turn(router, args.kind.as_str(), request, host, options, events).await?;
    if args.json {
        let stored = matches!(turn.stored, Ok(true));
        say_json(
            &json!({ "conversation": { "name": held.name(), "how": turn.continuity, "stored": stored } }),
        );
    }
    if let Some(handle) = &turn.superseded
        && let Err(error) = router.forget(handle).await
    {
        complain(printable_lines(&format!(
            "warning: {} may still keep its own copy of the conversation {}: {error}",
            handle.backend(),
            held.name()
        )));
    }
    let unstored = turn.stored.err().map(|error| {
        CommandError::failed(format_args!(
            "the turn is not stored in the conversation {}: {error}",
            held.name()
        ))
    });
    Ok((turn.outcome, unstored))
}
