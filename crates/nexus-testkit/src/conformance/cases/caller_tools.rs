//! The caller's own tools: each call is answered, even if the tool misbehaves, and no tool outlives its turn.

use std::{sync::Arc, time::Duration};

use nexus_core::{
    Approval, Approver, CancelToken, Effects, ErrorKind, IdleLimits, Limit, Limits, Phase, ToolCallStatus,
    ToolContent, ToolDefinition, ToolResult, TurnEvent, TurnRequest,
};
use serde_json::json;

use super::{SMALL_PNG, tools::told};
use crate::{
    conformance::{
        case_tools::CaseTools,
        finding::{Finding, Verdict, ensure, same, same_text, short},
        trial::{Observed, Staged, Trial},
        watch::SinkPace,
    },
    sim::{Reply, Scenario, ToolCall},
};

/// Longest time that a tool may run after the end of its turn.
const AFTERWARDS: Duration = Duration::from_secs(2);

/// Allowance for starting and stopping beyond the limit itself, on a busy machine.
const SLACK: Duration = Duration::from_secs(45);

pub(crate) async fn an_answer_may_begin_with_text_where_tools_are_offered(trial: &Trial<'_>) -> Verdict {
    begins_with(trial, Reply::text("Let me see.")).await
}

pub(crate) async fn an_answer_may_begin_with_a_thought_where_tools_are_offered(trial: &Trial<'_>) -> Verdict {
    begins_with(trial, Reply::thinking("A bird, perhaps.")).await
}

pub(crate) async fn a_call_of_an_unknown_tool_is_answered(trial: &Trial<'_>) -> Verdict {
    let unknown = trial.subject().caller_tool("no_such_tool", json!({}));
    let script = Scenario::tool_then_text(unknown, "Never mind.");
    let (staged, turn) = turn_with(trial, script, &Arc::new(lookup("heron")), |it| it).await?;
    let result = turn.result()?;
    same_text("answer", &result.text, "Never mind.")?;
    // The wording is the backend's own. The case requires only that the model gets some answer.
    let answers = last_results(&staged);
    let is_told = matches!(answers.as_slice(), [answer] if !answer.is_empty());
    ensure(is_told, "the model is told", || short(&answers))?;
    let succeeded = result.tool_calls.iter().any(|call| call.status == ToolCallStatus::Succeeded);
    ensure(!succeeded, "status", || short(&result.tool_calls))
}

pub(crate) async fn an_error_of_a_tool_is_told_to_the_model(trial: &Trial<'_>) -> Verdict {
    let tools = CaseTools::one(tool("lookup"), |_| async { ToolResult::error("broken-glass") });
    let (staged, turn) = turn_with(trial, one_call(trial), &Arc::new(tools), |it| it).await?;
    failed_and_went_on(&turn)?;
    told(&staged, "broken-glass")
}

pub(crate) async fn a_tool_that_panics_does_not_fail_the_turn(trial: &Trial<'_>) -> Verdict {
    let tools = CaseTools::one(tool("lookup"), |_| async { panic!("a tool that breaks down, as it should") });
    let (staged, turn) = turn_with(trial, one_call(trial), &Arc::new(tools), |it| it).await?;
    failed_and_went_on(&turn)?;
    same("the model is told", &last_results(&staged).len(), &1)
}

pub(crate) async fn a_tool_that_hangs_is_ended_by_the_idle_limit(trial: &Trial<'_>) -> Verdict {
    let mut idle = IdleLimits::none();
    idle.tool = Some(trial.timing().short);
    let (tools, turn) = hanging_turn(trial, Limits::new().with_idle(idle)).await?;
    is_ended(trial, &tools, &turn, trial.timing().short * 2, ErrorKind::Starved(Phase::Tool)).await
}

pub(crate) async fn a_tool_that_hangs_is_ended_by_the_deadline(trial: &Trial<'_>) -> Verdict {
    let mut deadline = trial.timing().short * 2;
    loop {
        let (tools, turn) = hanging_turn(trial, Limits::new().with_deadline(deadline)).await?;
        // The deadline counts from the start of the turn. On a busy machine a program may need longer until it calls the tool.
        if tools.asked().is_empty() && deadline < trial.timing().bound / 2 {
            deadline *= 2;
            continue;
        }
        return is_ended(trial, &tools, &turn, deadline, ErrorKind::LimitReached(Limit::Deadline)).await;
    }
}

pub(crate) async fn a_tool_that_hangs_is_ended_by_the_token(trial: &Trial<'_>) -> Verdict {
    let tools = Arc::new(hanging());
    let staged = trial.stage(one_call(trial)).await?;
    let cancel = CancelToken::new();
    let host = tools.host().with_cancel(cancel.clone());
    let (turn, took) = staged
        .run_until(work(&staged), host, SinkPace::Ready, |_, _| tools.running() == 1, || cancel.cancel())
        .await?;
    trial.expect_kind(turn.error()?, &[ErrorKind::Cancelled])?;
    ensure(took < SLACK, "bounded time", || format!("the stop took {took:?}"))?;
    is_let_go(&tools).await
}

pub(crate) async fn dropping_the_turn_drops_the_running_tool(trial: &Trial<'_>) -> Verdict {
    let tools = Arc::new(hanging());
    let staged = trial.stage(one_call(trial)).await?;
    staged.drop_when(work(&staged), tools.host(), |_, _| tools.running() == 1).await?;
    is_let_go(&tools).await
}

pub(crate) async fn a_picture_that_a_tool_returns_reaches_the_model(trial: &Trial<'_>) -> Verdict {
    let tools = CaseTools::one(tool("lookup"), |_| async {
        let picture = ToolContent::Image { media_type: "image/png".into(), data: SMALL_PNG.into() };
        ToolResult::ok(vec![ToolContent::text("a picture of a heron"), picture])
    });
    let (staged, turn) = turn_with(trial, one_call(trial), &Arc::new(tools), |it| it).await?;
    same_text("answer", &turn.result()?.text, ANSWER)?;
    told(&staged, "a picture of a heron")?;
    let pictures = staged.model_calls().last().map_or(0, |call| call.images);
    // A vendor's program that shows its model no pictures of tools does not do so in silence.
    let is_warned = turn.saw(|event| matches!(event, TurnEvent::Warning(_)));
    ensure(pictures == 1 || is_warned, "pictures", || format!("{pictures} of 1, and no warning"))
}

pub(crate) async fn a_terminal_tool_is_exempt_from_the_budget(trial: &Trial<'_>) -> Verdict {
    let submit = trial.subject().caller_tool("submit", json!({ "word": "heron" }));
    let script = Scenario::new([Reply::call(look_up(trial)), Reply::call(submit), Reply::text(ANSWER)]);
    let accept = |_| async { ToolResult::ok(vec![ToolContent::text("accepted")]) };
    let tools = Arc::new(lookup("a long-legged bird").and(tool("submit").terminal(), accept));
    // A budget of one call: `lookup` uses it up, so `submit` must not count.
    let limits = Limits::new().with_tool_calls(1);
    let (_, turn) = turn_with(trial, script, &tools, |it| it.with_limits(limits)).await?;
    turn.result()?;
    let asked: Vec<_> = tools.asked().into_iter().map(|(name, _)| name).collect();
    same("what the caller was asked", &asked, &vec!["lookup".to_owned(), "submit".to_owned()])
}

pub(crate) async fn effects_are_those_of_the_tools_called(trial: &Trial<'_>) -> Verdict {
    let wrote = |_| async { ToolResult::ok(vec![ToolContent::text("written")]) };
    let tools = Arc::new(lookup("a bird").and(tool("note").with_effects(Effects::Wrote), wrote));
    let (_, turn) = turn_with(trial, one_call(trial), &tools, |it| it).await?;
    same("effects", &turn.result()?.effects, &Effects::Read)?;
    let note = trial.subject().caller_tool("note", json!({ "word": "heron" }));
    let script = Scenario::new([Reply::call(look_up(trial)), Reply::call(note), Reply::text(ANSWER)]);
    let (_, turn) = turn_with(trial, script, &tools, |it| it).await?;
    same("effects", &turn.result()?.effects, &Effects::Wrote)
}

pub(crate) async fn a_call_that_has_to_be_approved_is_made_once_it_is(trial: &Trial<'_>) -> Verdict {
    let (_, tools, turn) = approved_by(trial, Approval::Granted).await?;
    let result = turn.result()?;
    same_text("answer", &result.text, ANSWER)?;
    same("what the caller was asked", &tools.asked().len(), &1)?;
    same("effects", &result.effects, &Effects::Wrote)
}

pub(crate) async fn a_call_that_is_not_approved_is_not_made(trial: &Trial<'_>) -> Verdict {
    let reason = Some("not-before-noon".to_owned());
    let (staged, tools, turn) = approved_by(trial, Approval::Refused { reason }).await?;
    let result = turn.result()?;
    same("what the caller was asked", &tools.asked().len(), &0)?;
    let statuses: Vec<_> = result.tool_calls.iter().map(|call| call.status).collect();
    same("status", &statuses, &vec![ToolCallStatus::Denied])?;
    same("effects", &result.effects, &Effects::None)?;
    told(&staged, "not-before-noon")
}

/// The model's last words.
pub(super) const ANSWER: &str = "A bird.";

/// Returns the definition of a tool without side effects that takes one word.
pub(super) fn tool(name: &str) -> ToolDefinition {
    let schema = json!({ "type": "object", "properties": { "word": { "type": "string" } } });
    ToolDefinition::new(name, "Takes a word.", schema).with_effects(Effects::Read)
}

/// `lookup`, which answers with `text`.
pub(super) fn lookup(text: &'static str) -> CaseTools {
    CaseTools::one(tool("lookup"), move |_| async move { ToolResult::ok(vec![ToolContent::text(text)]) })
}

/// An answer of one text.
pub(super) fn answered_with(text: &str) -> ToolResult {
    ToolResult::ok(vec![ToolContent::text(text)])
}

/// A call of `lookup`.
pub(super) fn look_up(trial: &Trial<'_>) -> ToolCall {
    trial.subject().caller_tool("lookup", json!({ "word": "heron" }))
}

/// A model that calls `lookup` once.
pub(super) fn one_call(trial: &Trial<'_>) -> Scenario {
    Scenario::tool_then_text(look_up(trial), ANSWER)
}

/// Runs a turn with `tools`.
pub(super) async fn turn_with<'t>(
    trial: &'t Trial<'t>,
    script: impl Into<Scenario>,
    tools: &Arc<CaseTools>,
    change: impl FnOnce(TurnRequest) -> TurnRequest,
) -> Result<(Staged<'t>, Observed), Finding> {
    let staged = trial.stage(script).await?;
    let turn = staged.run_with(change(work(&staged)), tools.host(), SinkPace::Ready).await?;
    Ok((staged, turn))
}

/// Runs a turn that calls a writing tool, for which the host answers `approval`.
async fn approved_by<'t>(
    trial: &'t Trial<'_>,
    approval: Approval,
) -> Result<(Staged<'t>, Arc<CaseTools>, Observed), Finding> {
    let definition = tool("lookup").with_effects(Effects::Wrote).needs_approval();
    let tools = Arc::new(CaseTools::one(definition, |_| async { answered_with("written") }));
    let staged = trial.stage(one_call(trial)).await?;
    let approver = Approver::new(move |_| std::future::ready(approval.clone()));
    let host = tools.host().with_approver(approver);
    let turn = staged.run_with(work(&staged), host, SinkPace::Ready).await?;
    Ok((staged, tools, turn))
}

/// Returns the tool results in the last request to the model.
pub(super) fn last_results(staged: &Staged<'_>) -> Vec<String> {
    staged.model_calls().pop().map(|call| call.tool_results).unwrap_or_default()
}

/// A request to look something up with the caller's tools, and with no others if the backend can enforce that.
pub(super) fn work(staged: &Staged<'_>) -> TurnRequest {
    staged.narrow_work("Look it up.")
}

/// `lookup`, which never answers.
fn hanging() -> CaseTools {
    CaseTools::one(tool("lookup"), |_| std::future::pending())
}

/// Runs two turns in which the model starts with `beginning`. In the first it then answers, in the second it calls a tool first.
async fn begins_with(trial: &Trial<'_>, beginning: Reply) -> Verdict {
    let tools = Arc::new(lookup("a long-legged bird"));
    let (staged, turn) = turn_with(trial, beginning.clone().and_text(ANSWER), &tools, |it| it).await?;
    let text = &turn.result()?.text;
    // A backend may join the beginning and the answer, so compare only the end.
    ensure(text.ends_with(ANSWER), "answer", || short(text))?;
    // A second request would mean that the backend repeated the answer.
    same("model calls", &staged.model_calls().len(), &1)?;
    let script = Scenario::new([beginning.and_call(look_up(trial)), Reply::text(ANSWER)]);
    let (_, turn) = turn_with(trial, script, &tools, |it| it).await?;
    same_text("answer", &turn.result()?.text, ANSWER)?;
    same("calls that arrived", &tools.asked().len(), &1)
}

/// A turn whose tool hangs, within `limits`.
async fn hanging_turn(trial: &Trial<'_>, limits: Limits) -> Result<(Arc<CaseTools>, Observed), Finding> {
    let tools = Arc::new(hanging());
    let (_, turn) = turn_with(trial, one_call(trial), &tools, |it| it.with_limits(limits)).await?;
    Ok((tools, turn))
}

/// Checks that a turn with a hanging tool ended as `kind`, soon after `limit`.
async fn is_ended(
    trial: &Trial<'_>,
    tools: &CaseTools,
    turn: &Observed,
    limit: Duration,
    kind: ErrorKind,
) -> Verdict {
    let error = turn.error()?;
    trial.expect_kind(error, &[kind])?;
    ensure(turn.took < limit + SLACK, "bounded time", || format!("{:?}", turn.took))?;
    let statuses: Vec<_> = error.partial().tool_calls.iter().map(|call| call.status).collect();
    // The partial result must show the call: its effects are unknown.
    same("partial tool calls", &statuses, &vec![ToolCallStatus::Unfinished])?;
    is_let_go(tools).await
}

/// Checks that no call still runs.
async fn is_let_go(tools: &CaseTools) -> Verdict {
    let gone = async {
        while tools.running() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(AFTERWARDS, gone).await;
    ensure(waited.is_ok(), "the tool is let go", || format!("it runs {AFTERWARDS:?} after the turn"))
}

/// Checks that the only call failed, and that the turn succeeded nevertheless.
pub(super) fn failed_and_went_on(turn: &Observed) -> Verdict {
    let result = turn.result()?;
    same_text("answer", &result.text, ANSWER)?;
    let statuses: Vec<_> = result.tool_calls.iter().map(|call| call.status).collect();
    same("status", &statuses, &vec![ToolCallStatus::Failed])
}
