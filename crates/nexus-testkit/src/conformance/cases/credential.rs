//! A credential that the vendor refuses: renewed once in a turn, and nothing is done twice for it.

use std::{sync::Arc, time::Duration};

use nexus_core::{ErrorKind, ParticipantScope, Session, ToolAccess, ToolRouter, TurnEvent, TurnHost};
use serde_json::json;

use super::caller_tools::{lookup, work};
use crate::{
    conformance::{
        finding::{Finding, Verdict, ensure, same, same_text, short},
        renewable_token::RenewableToken,
        trial::{Staged, Trial},
        watch::SinkPace,
    },
    sim::{Fault, Reply, Scenario, StatusFault},
};

pub(crate) async fn a_refused_credential_is_renewed_once(trial: &Trial<'_>) -> Verdict {
    let (source, staged) = stage(trial, "renewed", Scenario::text("Welcome back.")).await?;
    let turn = staged.run(staged.request("Hello.")).await?;
    same_text("answer", &turn.result()?.text, "Welcome back.")?;
    same("renewals", &source.renewals(), &1)?;
    let says_so = turn
        .saw(|event| matches!(event, TurnEvent::Retrying(it) if it.kind == Some(ErrorKind::Unauthenticated)));
    ensure(says_so, "a renewal is told", || short(&turn.events))?;
    let last = staged.model_calls().pop().and_then(|call| call.credential);
    same("credential of the answer", &last, &Some(trial.canary("renewed")))
}

pub(crate) async fn a_second_refusal_is_final(trial: &Trial<'_>) -> Verdict {
    // The model accepts neither the token nor its renewal.
    let (source, staged) = stage(trial, "nobody", Scenario::text("Never.")).await?;
    let turn = staged.run(staged.request("Hello.")).await?;
    trial.expect_kind(turn.error()?, &[ErrorKind::Unauthenticated])?;
    same("renewals", &source.renewals(), &1)
}

pub(crate) async fn what_was_done_is_not_done_again_for_a_credential(trial: &Trial<'_>) -> Verdict {
    let belt = trial.toolbelt(ToolAccess::Unrestricted);
    // Appending shows a repetition, which overwriting would hide.
    let work = Reply::call(belt.shell("echo done >> done.txt"));
    let replies = [work, Reply::status(401), Reply::text("Done.")];
    let mut setting = trial.setting(Scenario::new(replies));
    let source = Arc::new(RenewableToken::new(trial.canary("token"), trial.canary("renewed")));
    setting.renewable = Some(source);
    let staged = trial.stage_setting(setting).await?;
    // The turn may continue, or end with the refusal.
    belt.run(&staged, "Work.").await?;
    let done = std::fs::read_to_string(trial.workspace().join("done.txt"))
        .map_err(|error| Finding::new("the file", error.to_string()))?;
    same_text("the work is done once", &done, "done\n")
}

pub(crate) async fn a_server_that_repeats_the_credential_is_not_repeated(trial: &Trial<'_>) -> Verdict {
    // Every turn of the suite checks that the credential does not come back. Here the server sends it in each kind of refusal.
    let words = format!("Incorrect key provided: {}.", trial.canary("token"));
    let refused =
        |status| Fault::Status(StatusFault { message: Some(words.clone()), ..StatusFault::new(status) });
    let in_the_stream = Fault::StreamError { code: "server".to_owned(), message: words.clone() };
    for fault in [refused(400), refused(401), refused(403), in_the_stream] {
        let staged = trial.stage(Scenario::from(Reply::fault(fault))).await?;
        let turn = staged.run(staged.request("Hello.")).await?;
        turn.error()?;
        ensure(!staged.model_calls().is_empty(), "the model is asked", || "it was not".to_owned())?;
    }
    Ok(())
}

pub(crate) async fn a_credential_in_pieces_is_not_repeated(trial: &Trial<'_>) -> Verdict {
    // Every turn of the suite checks that the credential does not come back, in one piece or in several.
    for piece_chars in [1, 7, 1_000] {
        let said = Reply::text(format!("It is {}, is it not?", trial.canary("token")));
        let staged = trial.stage(said.paced(piece_chars, Duration::ZERO)).await?;
        let turn = staged.run(staged.request("What is it?")).await?;
        same_text("what the model said beside it", &turn.result()?.text, "It is [redacted], is it not?")?;
    }
    Ok(())
}

pub(crate) async fn a_thought_of_the_credential_is_not_repeated(trial: &Trial<'_>) -> Verdict {
    let thought = Reply::thinking(format!("Is it {}?", trial.canary("token")));
    let staged = trial.stage(thought.and_text("It is.").paced(7, Duration::ZERO)).await?;
    let turn = staged.run(staged.request("What is it?")).await?;
    same_text("answer", &turn.result()?.text, "It is.")?;
    ensure(turn.saw(|event| matches!(event, TurnEvent::ThinkingDelta(_))), "thinking", || short(&turn.events))
}

pub(crate) async fn a_credential_in_a_call_reaches_no_tool_and_no_decision(trial: &Trial<'_>) -> Verdict {
    let word = format!("a {} b", trial.canary("token"));
    let tools = Arc::new(lookup("a bird"));
    let router: Arc<dyn ToolRouter> = Arc::clone(&tools) as _;
    let session = Session::mint("clerk", ParticipantScope::unrestricted(), router);
    let call = trial.subject().caller_tool("lookup", json!({ "word": word }));
    let staged = trial.stage(Scenario::tool_then_text(call, "Found.")).await?;
    let host = TurnHost::new().with_session(Arc::clone(&session));
    let turn = staged.run_with(work(&staged), host, SinkPace::Ready).await?;
    turn.result()?;
    let clean = json!({ "word": "a [redacted] b" });
    let asked: Vec<_> = tools.asked().into_iter().map(|(_, arguments)| arguments).collect();
    same("what the caller was asked", &asked, &vec![clean.clone()])?;
    let decided: Vec<_> = session.decisions().into_iter().map(|decision| decision.arguments).collect();
    same("what was decided on", &decided, &vec![clean])
}

pub(crate) async fn a_credential_in_a_command_is_not_repeated(trial: &Trial<'_>) -> Verdict {
    let belt = trial.toolbelt(ToolAccess::Unrestricted);
    let command = format!("echo {}", trial.canary("token"));
    let script = Scenario::tool_then_text(belt.shell(command), "Done.");
    let staged = trial.stage(script).await?;
    let turn = belt.run(&staged, "Work.").await?;
    same("calls", &turn.result()?.tool_calls.len(), &1)
}

/// Stages a backend with a renewable credential, against a model that accepts only `accepted`.
async fn stage<'t>(
    trial: &'t Trial<'_>,
    accepted: &str,
    mut script: Scenario,
) -> Result<(Arc<RenewableToken>, Staged<'t>), Finding> {
    script.accepts = Some(trial.canary(accepted));
    let source = Arc::new(RenewableToken::new(trial.canary("token"), trial.canary("renewed")));
    let mut setting = trial.setting(script);
    setting.renewable = Some(Arc::clone(&source));
    Ok((source, trial.stage_setting(setting).await?))
}
