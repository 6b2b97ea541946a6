//! Conversations: stored, resumed, lost.

use nexus_core::{BackendId, ConversationMode, ErrorKind, ForgetSupport, OnLost, ResumeHandle, TurnEvent};
use serde_json::json;

use super::secrets::files_with;
use crate::{
    conformance::{
        finding::{Finding, Verdict, ensure, same, same_text, short},
        trial::Trial,
    },
    sim::{Reply, Scenario},
};

pub(crate) async fn a_kept_conversation_goes_on(trial: &Trial<'_>) -> Verdict {
    let handle = first_turn(trial).await?;
    // Simulates another process: the handle was stored, and the backend is a new one.
    let stored = serde_json::to_string(&handle).map_err(|error| Finding::new("handle", error.to_string()))?;
    let handle: ResumeHandle =
        serde_json::from_str(&stored).map_err(|error| Finding::new("handle", error.to_string()))?;
    let staged = trial.stage(Scenario::text("You said heron.")).await?;
    let request = staged.request("What did I say?").in_directory(trial.workspace());
    let turn = staged.run(request.with_conversation(ConversationMode::resume(handle))).await?;
    let result = turn.result()?;
    same_text("answer", &result.text, "You said heron.")?;
    ensure(result.resume.is_some(), "it can go on again", || "no handle".into())?;
    let calls = staged.model_calls();
    let call = calls.first().ok_or_else(|| Finding::new("the model is asked", "no call reached it"))?;
    let was_said = |texts: &[String], words: &str| texts.iter().any(|text| text.contains(words));
    ensure(was_said(&call.user_texts, "Remember heron."), "history", || short(&call.user_texts))?;
    ensure(was_said(&call.assistant_texts, "I shall."), "history", || short(&call.assistant_texts))
}

pub(crate) async fn an_older_handle_goes_on_where_its_backend_declares(trial: &Trial<'_>) -> Verdict {
    let first = first_turn(trial).await?;
    let staged = trial.stage(Scenario::new([Reply::text("Both."), Reply::text("You said heron.")])).await?;
    let request = |words: &str, handle: &ResumeHandle| {
        let request = staged.request(words).in_directory(trial.workspace());
        request.with_conversation(ConversationMode::resume(handle.clone()))
    };
    staged.run(request("Remember osprey.", &first)).await?.result()?;
    let turn = staged.run(request("What did I say?", &first)).await?;
    same_text("answer", &turn.result()?.text, "You said heron.")?;
    let calls = staged.model_calls();
    let call = calls.last().ok_or_else(|| Finding::new("the model is asked", "no call reached it"))?;
    let was_said = |words: &str| call.user_texts.iter().any(|text| text.contains(words));
    ensure(was_said("Remember heron."), "history", || short(&call.user_texts))?;
    // A handle that contains the conversation resumes its own state. A stored conversation has moved on.
    let is_in_handle = staged.backend().capabilities().forget == ForgetSupport::InHandle;
    same(
        "the turn after the handle's is part of the conversation",
        &was_said("Remember osprey."),
        &!is_in_handle,
    )
}

pub(crate) async fn a_lost_conversation_is_an_error(trial: &Trial<'_>) -> Verdict {
    let handle = first_turn(trial).await?;
    let staged = trial.stage_setting(trial.setting_at("elsewhere", Scenario::text("Hello."))).await?;
    let request = staged.request("What did I say?").in_directory(trial.workspace());
    let turn = staged.run(request.with_conversation(ConversationMode::resume(handle))).await?;
    trial.expect_kind(turn.error()?, &[ErrorKind::ConversationLost])?;
    same("nothing is spent", &staged.model_calls().len(), &0)
}

pub(crate) async fn a_lost_conversation_begins_afresh_if_allowed(trial: &Trial<'_>) -> Verdict {
    let handle = first_turn(trial).await?;
    let staged = trial.stage_setting(trial.setting_at("elsewhere", Scenario::text("Who are you?"))).await?;
    let session = ConversationMode::Resume { handle, on_lost: OnLost::Fresh };
    let request = staged.request("What did I say?").in_directory(trial.workspace());
    let turn = staged.run(request.with_conversation(session)).await?;
    same_text("answer", &turn.result()?.text, "Who are you?")?;
    let warned = turn.saw(|event| matches!(event, TurnEvent::Warning(_)));
    ensure(warned, "a warning says so", || short(&turn.events))
}

pub(crate) async fn a_handle_of_another_backend_is_refused(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage(Scenario::text("Hello.")).await?;
    let handle = ResumeHandle::new(BackendId::new("somebody-else"), json!({ "session": "1" }));
    let turn =
        staged.run(staged.request("Go on.").with_conversation(ConversationMode::resume(handle))).await?;
    trial.expect_kind(turn.error()?, &[ErrorKind::InvalidRequest])?;
    same("nothing is spent", &staged.model_calls().len(), &0)
}

pub(crate) async fn a_turn_that_is_not_kept_has_no_handle(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage(Scenario::text("Hello.")).await?;
    let turn = staged.run(staged.request("Hello.")).await?;
    same("handle", &turn.result()?.resume, &None)
}

pub(crate) async fn a_kept_conversation_holds_no_credential(trial: &Trial<'_>) -> Verdict {
    first_turn(trial).await?;
    let kept = trial.stage(Scenario::text("I shall.")).await?;
    let found = files_with(trial, &kept, "token");
    ensure(found.is_empty(), "files that are kept", || format!("the credential is in {}", short(&found)))?;
    // A handle does not contain a credential that the server sends either: every turn of the suite checks that.
    let said = format!("I shall remember {}.", trial.canary("token"));
    let staged = trial.stage(Scenario::new([Reply::text(said), Reply::text("Yes.")])).await?;
    let request = |words: &str| staged.request(words).in_directory(trial.workspace());
    let turn = staged.run(request("Remember.").with_conversation(ConversationMode::Keep)).await?;
    let handle = turn.result()?.resume.clone();
    let handle = handle.ok_or_else(|| Finding::new("a kept conversation has a handle", "there is none"))?;
    let turn = staged.run(request("Do you?").with_conversation(ConversationMode::resume(handle))).await?;
    same_text("answer", &turn.result()?.text, "Yes.")
}

/// Runs a turn whose conversation is stored.
async fn first_turn(trial: &Trial<'_>) -> Result<ResumeHandle, Finding> {
    let staged = trial.stage(Scenario::text("I shall.")).await?;
    let request = staged.request("Remember heron.").in_directory(trial.workspace());
    let turn = staged.run(request.with_conversation(ConversationMode::Keep)).await?;
    let handle = turn.result()?.resume.clone();
    let handle = handle.ok_or_else(|| Finding::new("a kept conversation has a handle", "there is none"))?;
    same("the handle names the backend", handle.backend(), staged.backend().id())?;
    Ok(handle)
}
