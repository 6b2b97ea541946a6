//! An answer that is submitted through a terminal tool: it is final, and the turn succeeds with it.

use std::{sync::Arc, time::Duration};

use nexus_core::{
    ConversationMode, ErrorKind, FinishReason, Limit, ParticipantScope, Session, Submission, Tool,
    ToolCallStatus, Toolbox, TurnHost, TurnRequest,
};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    caller_tools::{ANSWER, answered_with, look_up, tool, work},
    output::schema,
};
use crate::{
    conformance::{
        case_tools::CaseTools,
        finding::{Finding, Verdict, ensure, same, short},
        trial::{Observed, Staged, Trial},
        watch::SinkPace,
    },
    sim::{Reply, Scenario, ToolCall},
};

/// Running time of the tool that is called together with a submission.
const AT_WORK: Duration = Duration::from_millis(300);

/// Time for each character of a further model call. Its whole answer takes longer than a turn may.
const SLOWLY: Duration = Duration::from_secs(2);

/// Submissions of a model that ignores every refusal: more than a session refuses, and more than a turn makes. A turn elsewhere
/// or in a program may call its model once or twice more before it is stopped.
const REFUSED: usize = 12;

/// The submitted answer.
#[derive(Debug, Deserialize, JsonSchema)]
struct Bird {
    word: String,
}

pub(crate) async fn a_submission_ends_the_turn(trial: &Trial<'_>) -> Verdict {
    ends_with(trial, Reply::call(submit(trial, "heron"))).await
}

pub(crate) async fn text_before_a_submission_is_no_answer(trial: &Trial<'_>) -> Verdict {
    ends_with(trial, Reply::text("It is a heron.").and_call(submit(trial, "heron"))).await
}

pub(crate) async fn a_submission_that_does_not_fit_is_answered(trial: &Trial<'_>) -> Verdict {
    let empty = trial.subject().caller_tool("submit", json!({ "words": 1 }));
    let unwanted = submit(trial, "stork");
    let script = [empty, unwanted, submit(trial, "heron")].map(Reply::call);
    let place = Submission::new().checked_by(|found: &Bird| match found.word.as_str() {
        "stork" => Err("no stork was seen".to_owned()),
        _ => Ok(()),
    });
    let turn = submitting(trial, script, &place, |it| it).await?;
    same("what was handed in", &place.take().map(|found| found.word), &Some("heron".to_owned()))?;
    same("finish reason", &turn.result()?.finish, &FinishReason::Submitted)?;
    same("calls that succeeded", &succeeded(&turn)?, &1)
}

pub(crate) async fn submissions_that_are_refused_end_the_turn(trial: &Trial<'_>) -> Verdict {
    let refused = |number: usize| trial.subject().caller_tool("submit", json!({ "words": number }));
    let script: Vec<Reply> = (0..REFUSED).map(|number| Reply::call(refused(number))).collect();
    let place = Submission::new();
    let tools = Toolbox::new().with(Tool::submit("submit", "Submits the name of the bird.", &place));
    let session = Session::mint("clerk", ParticipantScope::unrestricted(), Arc::new(tools));
    let staged = trial.stage(Scenario::new(script)).await?;
    let host = TurnHost::new().with_session(session);
    let turn = staged.run_with(work(&staged), host, SinkPace::Ready).await?;
    trial.expect_kind(turn.error()?, &[ErrorKind::LimitReached(Limit::ToolCalls)])?;
    let calls = staged.model_calls().len();
    ensure(calls < REFUSED, "model calls", || format!("{calls}, which are paid for"))?;
    ensure(!Submission::<Bird>::is_there(&place), "what was handed in", || "something".to_owned())
}

pub(crate) async fn of_two_submissions_the_first_counts(trial: &Trial<'_>) -> Verdict {
    let both = Reply::calls([submit(trial, "heron"), submit(trial, "stork")]);
    let place = Submission::new();
    let turn = submitting(trial, [both, Reply::text(ANSWER)], &place, |it| it).await?;
    let result = turn.result()?;
    same("finish reason", &result.finish, &FinishReason::Submitted)?;
    let word = place.take().map(|found| found.word);
    // A program may run the calls of one reply concurrently. Then the first call to arrive counts.
    if trial.loops_itself() {
        same("what was handed in", &word, &Some("heron".to_owned()))?;
    }
    let succeeded = result.tool_calls.iter().filter(|call| call.status == ToolCallStatus::Succeeded);
    let words: Vec<_> =
        succeeded.map(|call| call.arguments.as_ref().map(|arguments| arguments["word"].clone())).collect();
    same("calls that succeeded", &words, &vec![word.map(Value::from)])
}

pub(crate) async fn nothing_is_at_work_when_an_answer_is_handed_in(trial: &Trial<'_>) -> Verdict {
    let tools = Arc::new_cyclic(|weak: &std::sync::Weak<CaseTools>| {
        let others = weak.clone();
        CaseTools::one(tool("lookup"), |_| async {
            tokio::time::sleep(AT_WORK).await;
            answered_with("a bird")
        })
        .and(tool("submit").terminal(), move |_| {
            // This call is itself running.
            let running = others.upgrade().map_or(0, |tools| tools.running());
            async move { answered_with(if running > 1 { "too early" } else { "handed in" }) }
        })
    });
    let both = Reply::calls([look_up(trial), submit(trial, "heron")]);
    let staged = trial.stage(Scenario::new([both, Reply::text(ANSWER)])).await?;
    let turn = staged.run_with(work(&staged), tools.host(), SinkPace::Ready).await?;
    let result = turn.result()?;
    let too_early = result.tool_calls.iter().any(|call| format!("{:?}", call.output).contains("too early"));
    ensure(!too_early, "calls at work", || short(&result.tool_calls))?;
    same("finish reason", &result.finish, &FinishReason::Submitted)
}

pub(crate) async fn a_failure_after_a_submission_is_none(trial: &Trial<'_>) -> Verdict {
    let place = Submission::new();
    let script = [Reply::call(submit(trial, "heron")), Reply::status(400)];
    let turn = submitting(trial, script, &place, |it| it).await?;
    same("finish reason", &turn.result()?.finish, &FinishReason::Submitted)?;
    ensure(place.is_there(), "what was handed in", || "nothing".to_owned())
}

pub(crate) async fn an_answer_in_shape_is_owed_beside_a_submission(trial: &Trial<'_>) -> Verdict {
    let value = json!({ "verdict": "approve" });
    let script = [Reply::call(submit(trial, "heron")), Reply::json(&value)];
    let (place, schema) = (Submission::new(), schema()?);
    let turn = submitting(trial, script, &place, |it| it.with_output(schema)).await?;
    same("value", &turn.result()?.output, &Some(value))?;
    ensure(place.is_there(), "what was handed in", || "nothing".to_owned())
}

pub(crate) async fn a_conversation_goes_on_after_a_submission(trial: &Trial<'_>) -> Verdict {
    let place = Submission::new();
    let script = [Reply::call(submit(trial, "heron")), Reply::text(ANSWER)];
    let folder = trial.workspace();
    let keep = |it: TurnRequest| it.in_directory(&folder).with_conversation(ConversationMode::Keep);
    let turn = submitting(trial, script, &place, keep).await?;
    let result = turn.result()?;
    same("finish reason", &result.finish, &FinishReason::Submitted)?;
    let handle = result.resume.clone().ok_or_else(|| Finding::new("it can go on", "no handle"))?;
    let staged = trial.stage(Scenario::text("Because of its legs.")).await?;
    let request = staged.request("Why a heron?").in_directory(&folder);
    let turn = staged.run(request.with_conversation(ConversationMode::resume(handle))).await?;
    ensure(turn.result()?.text == "Because of its legs.", "answer", || short(&turn.events))?;
    let calls = staged.model_calls();
    let is_known =
        calls.first().is_some_and(|call| call.user_texts.iter().any(|text| text.contains("Look it up.")));
    ensure(is_known, "history", || short(&calls))
}

pub(crate) async fn a_session_whose_answer_was_handed_in_takes_no_other_turn(trial: &Trial<'_>) -> Verdict {
    let place = Submission::new();
    let tools = Toolbox::new().with(Tool::submit("submit", "Submits the name of the bird.", &place));
    let host = TurnHost::new().with_tools(Arc::new(tools));
    let staged =
        trial.stage(Scenario::new([Reply::call(submit(trial, "heron")), Reply::text(ANSWER)])).await?;
    let first = staged.run_with(work(&staged), host.clone(), SinkPace::Ready).await?;
    same("finish reason", &first.result()?.finish, &FinishReason::Submitted)?;
    let staged =
        trial.stage(Scenario::new([Reply::call(submit(trial, "stork")), Reply::text(ANSWER)])).await?;
    let second = staged.run_with(work(&staged), host, SinkPace::Ready).await?;
    trial.expect_kind(second.error()?, &[ErrorKind::InvalidRequest])?;
    same("model calls", &staged.model_calls().len(), &0)?;
    same("what was handed in", &place.take().map(|found: Bird| found.word), &Some("heron".to_owned()))
}

pub(crate) async fn what_is_called_after_a_submission_is_not_asked(trial: &Trial<'_>) -> Verdict {
    let tools = CaseTools::one(tool("submit").terminal(), |_| async { answered_with("handed in") });
    let tools = Arc::new(tools.and(tool("lookup"), |_| async { answered_with("a bird") }));
    let both = Reply::calls([submit(trial, "heron"), look_up(trial)]);
    let staged = trial.stage(Scenario::new([both, Reply::text(ANSWER)])).await?;
    let turn = staged.run_with(work(&staged), tools.host(), SinkPace::Ready).await?;
    let result = turn.result()?;
    let asked: Vec<_> = tools.asked().into_iter().map(|(name, _)| name).collect();
    same("what the caller was asked", &asked, &vec!["submit".to_owned()])?;
    let statuses: Vec<_> = result.tool_calls.iter().map(|call| call.status).collect();
    same("status", &statuses, &vec![ToolCallStatus::Succeeded, ToolCallStatus::Denied])?;
    // No further model call happens.
    same("model calls", &staged.model_calls().len(), &1)
}

/// Checks that the turn ends with the submission in `reply`, although the model has a further reply.
async fn ends_with(trial: &Trial<'_>, reply: Reply) -> Verdict {
    let place = Submission::new();
    let slow = Reply::text("Is there anything else?").paced(1, SLOWLY);
    let turn = submitting(trial, [reply, slow], &place, |it| it).await?;
    let result = turn.result()?;
    same("finish reason", &result.finish, &FinishReason::Submitted)?;
    same("what was handed in", &place.take().map(|found| found.word), &Some("heron".to_owned()))?;
    let statuses: Vec<_> = result.tool_calls.iter().map(|call| call.status).collect();
    same("status", &statuses, &vec![ToolCallStatus::Succeeded])?;
    ensure(turn.took < SLOWLY * 15, "the turn ends at once", || format!("{:?}", turn.took))?;
    // The result contains the usage up to the stop of the program.
    ensure(result.usage.output_tokens.is_some_and(|tokens| tokens > 0), "usage", || short(&result.usage))
}

fn submit(trial: &Trial<'_>, word: &str) -> ToolCall {
    trial.subject().caller_tool("submit", json!({ "word": word }))
}

/// Runs a turn whose session has one tool, which submits an answer.
async fn submitting(
    trial: &Trial<'_>,
    script: impl Into<Vec<Reply>>,
    place: &Submission<Bird>,
    change: impl FnOnce(TurnRequest) -> TurnRequest,
) -> Result<Observed, Finding> {
    let tools = Toolbox::new().with(Tool::submit("submit", "Submits the name of the bird.", place));
    let session = Session::mint("clerk", ParticipantScope::unrestricted(), Arc::new(tools));
    let staged: Staged<'_> = trial.stage(Scenario::new(script.into())).await?;
    let host = TurnHost::new().with_session(Arc::clone(&session));
    staged.run_with(change(work(&staged)), host, SinkPace::Ready).await
}

fn succeeded(turn: &Observed) -> Result<usize, Finding> {
    let calls = &turn.result()?.tool_calls;
    Ok(calls.iter().filter(|call| call.status == ToolCallStatus::Succeeded).count())
}
