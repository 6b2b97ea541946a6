//! The session decides on calls. It never runs a tool that is out of scope, it decides on every call that reaches it and records the
//! decision, and it enforces the budget.

use std::sync::Arc;

use nexus_core::{
    Brief, Decision, Effects, ErrorKind, FinishReason, Limit, Limits, ParticipantScope, PathAccess, Session,
    ToolCallStatus, ToolContent, ToolDefinition, ToolPattern, ToolRouter, TurnHost, TurnRequest,
};
use serde_json::{Value, json};

use super::{
    caller_tools::{ANSWER, answered_with, last_results, look_up, lookup, one_call, tool, work},
    output::schema,
    tools::told,
};
use crate::{
    conformance::{
        case_tools::CaseTools,
        finding::{Finding, Verdict, ensure, same, same_text, short},
        trial::{Observed, Staged, Trial},
        watch::SinkPace,
    },
    model_call::Line,
    sim::{Reply, Scenario, long_text},
};

/// Participant of the sessions.
const PARTICIPANT: &str = "clerk";

/// A tool of the same toolbox, but out of scope.
const HIDDEN: &str = "open_the_vault";

/// Bytes of an answer that many a program would cut.
const BIG: usize = 300_000;

pub(crate) async fn a_tool_out_of_scope_is_invisible_and_never_asked(trial: &Trial<'_>) -> Verdict {
    let tools = Arc::new(lookup("a long-legged bird").and(tool(HIDDEN), |_| async { answered_with("gold") }));
    let session = Session::mint(PARTICIPANT, scope(trial, "lookup")?, router(&tools));
    let hidden = trial.subject().caller_tool(HIDDEN, json!({ "word": "heron" }));
    let script = Scenario::new([Reply::call(hidden), Reply::call(look_up(trial)), Reply::text(ANSWER)]);
    let (staged, turn) = turn_in(trial, script, &session, |it| it).await?;
    let result = turn.result()?;
    same_text("answer", &result.text, ANSWER)?;
    same("what the caller was asked", &names_asked(&tools), &vec!["lookup".to_owned()])?;
    let shown = staged.model_calls().into_iter().next().map(|call| format!("{call:?}")).unwrap_or_default();
    ensure(!shown.contains(HIDDEN), "the request to the model does not contain it", || short(&shown))?;
    let succeeded = result.tool_calls.iter().filter(|call| call.status == ToolCallStatus::Succeeded).count();
    same("calls that succeeded", &succeeded, &1)?;
    let told_gold = last_results(&staged).iter().any(|text| text.contains("gold"));
    ensure(!told_gold, "the model gets nothing of it", || short(&last_results(&staged)))
}

pub(crate) async fn every_call_of_a_session_is_written_down(trial: &Trial<'_>) -> Verdict {
    let tools = Arc::new(lookup("a bird").and(opener(), |_| async { answered_with("opened") }));
    let calls = [
        ("lookup", json!({ "word": "heron" })),
        ("open", json!({ "path": "../secret.txt" })),
        ("lookup", json!({ "word": "stork" })),
    ];
    let session = Session::mint(PARTICIPANT, scope(trial, "*")?, router(&tools));
    let (_, turn) = turn_in(trial, one_by_one(trial, &calls), &session, |it| it).await?;
    same_text("answer", &turn.result()?.text, ANSWER)?;
    // A second session decides on the same calls directly. Both lists must be equal.
    let twin = Session::mint(PARTICIPANT, scope(trial, "*")?, router(&tools));
    same_decisions(&session, &decided(&twin, &calls))
}

pub(crate) async fn a_path_out_of_scope_is_denied(trial: &Trial<'_>) -> Verdict {
    let tools = Arc::new(CaseTools::one(opener(), |_| async { answered_with("opened") }));
    let session = Session::mint(PARTICIPANT, scope(trial, "open")?, router(&tools));
    let calls =
        [("open", json!({ "path": "../secret.txt" })), ("open", json!({ "path": "inside/plan.txt" }))];
    let (staged, turn) = turn_in(trial, one_by_one(trial, &calls), &session, |it| it).await?;
    let result = turn.result()?;
    let root = session.scope().root().map(|root| root.join("inside/plan.txt"));
    let path = root.map(|path| path.to_string_lossy().into_owned());
    let asked = vec![("open".to_owned(), json!({ "path": path }))];
    same("what the caller was asked", &tools.asked(), &asked)?;
    let statuses: Vec<_> = result.tool_calls.iter().map(|call| call.status).collect();
    same("status", &statuses, &vec![ToolCallStatus::Denied, ToolCallStatus::Succeeded])?;
    told(&staged, "../secret.txt")
}

pub(crate) async fn a_denied_call_changes_nothing(trial: &Trial<'_>) -> Verdict {
    let writes = opener().with_effects(Effects::Wrote);
    let tools = Arc::new(CaseTools::one(writes, |_| async { answered_with("written") }));
    let session = Session::mint(PARTICIPANT, scope(trial, "*")?, router(&tools));
    let script = one_by_one(trial, &[("open", json!({ "path": "/etc/passwd" }))]);
    let (_, turn) = turn_in(trial, script, &session, |it| it).await?;
    let result = turn.result()?;
    let statuses: Vec<_> = result.tool_calls.iter().map(|call| call.status).collect();
    same("status", &statuses, &vec![ToolCallStatus::Denied])?;
    same("what the caller was asked", &tools.asked(), &vec![])?;
    same("effects", &result.effects, &Effects::None)
}

pub(crate) async fn beyond_the_budget_an_answer_can_still_be_handed_in(trial: &Trial<'_>) -> Verdict {
    let accept = |_| async { answered_with("accepted") };
    let tools = Arc::new(lookup("a bird").and(tool("submit").terminal(), accept));
    let session = Session::mint(PARTICIPANT, scope(trial, "*")?, router(&tools));
    let word = |word: &str| json!({ "word": word });
    let calls = [
        ("lookup", word("heron")),
        ("lookup", word("stork")),
        ("lookup", word("crane")),
        ("submit", word("heron")),
    ];
    let limits = Limits::new().with_tool_calls(2);
    let script = one_by_one(trial, &calls);
    let (staged, turn) = turn_in(trial, script, &session, |it| it.with_limits(limits)).await?;
    same("finish reason", &turn.result()?.finish, &FinishReason::Submitted)?;
    let asked = vec!["lookup".to_owned(), "lookup".to_owned(), "submit".to_owned()];
    same("what the caller was asked", &names_asked(&tools), &asked)?;
    told(&staged, "submit")?;
    let twin = Session::mint_with_budget(PARTICIPANT, scope(trial, "*")?, router(&tools), 2);
    same_decisions(&session, &decided(&twin, &calls))
}

pub(crate) async fn a_budget_without_a_way_out_ends_the_turn(trial: &Trial<'_>) -> Verdict {
    let tools = Arc::new(lookup("a bird"));
    let session = Session::mint(PARTICIPANT, scope(trial, "*")?, router(&tools));
    let words = ["heron", "stork", "crane", "ibis", "egret"];
    let calls = words.map(|word| ("lookup", json!({ "word": word })));
    let limits = Limits::new().with_tool_calls(2);
    let script = one_by_one(trial, &calls);
    let (_, turn) = turn_in(trial, script, &session, |it| it.with_limits(limits)).await?;
    trial.expect_kind(turn.error()?, &[ErrorKind::LimitReached(Limit::ToolCalls)])?;
    same("what the caller was asked", &names_asked(&tools), &vec!["lookup".to_owned(); 2])
}

pub(crate) async fn turns_of_one_session_share_its_budget(trial: &Trial<'_>) -> Verdict {
    let tools = Arc::new(lookup("a bird"));
    let session = Session::mint_with_budget(PARTICIPANT, scope(trial, "*")?, router(&tools), 3);
    let calls = ["heron", "stork"].map(|word| ("lookup", json!({ "word": word })));
    let (_, first) = turn_in(trial, one_by_one(trial, &calls), &session, |it| it).await?;
    same_text("answer", &first.result()?.text, ANSWER)?;
    let (_, second) = turn_in(trial, one_by_one(trial, &calls), &session, |it| it).await?;
    trial.expect_kind(second.error()?, &[ErrorKind::LimitReached(Limit::ToolCalls)])?;
    same("what the caller was asked", &tools.asked().len(), &3)?;
    ensure(!session.is_closed(), "the caller's session goes on", || "a turn closed it".to_owned())
}

/// Foundation of the fallback rule `restore`: a failed turn reports that it wrote, and the next turn of the session finds no trace of it.
pub(crate) async fn what_a_failed_turn_did_is_put_back_and_done_anew(trial: &Trial<'_>) -> Verdict {
    let wrote = |_| async { answered_with("written") };
    let tools = Arc::new(CaseTools::one(tool("note").with_effects(Effects::Wrote), wrote));
    let session = Session::mint_with_budget(PARTICIPANT, scope(trial, "*")?, router(&tools), 2);
    let calls = ["heron", "stork"].map(|word| ("note", json!({ "word": word })));
    let before = session.mark();
    let mut breaks_off = one_by_one(trial, &calls);
    breaks_off.replies.pop();
    breaks_off.replies.push(Reply::status(400));
    let (_, failed) = turn_in(trial, breaks_off, &session, |it| it).await?;
    let partial = failed.error()?.partial();
    same("effects of the failed turn", &partial.effects, &Effects::Wrote)?;
    same("effects of the session", &session.effects(), &Effects::Wrote)?;

    // The host restores the files and the session, before it runs the turn again.
    session.rewind(&before);
    let look = [("note", json!({ "word": "crane" })), ("note", json!({ "word": "ibis" }))];
    let (_, again) = turn_in(trial, one_by_one(trial, &look), &session, |it| it).await?;
    let result = again.result()?;
    same_text("answer", &result.text, ANSWER)?;
    let succeeded = result.tool_calls.iter().filter(|call| call.status == ToolCallStatus::Succeeded).count();
    same("calls that succeeded", &succeeded, &2)?;
    same("calls that count", &session.calls_made(), &2)?;
    // The record is not rewound: it also shows the calls of the failed turn.
    same("decisions", &session.decisions().len(), &4)
}

pub(crate) async fn a_turn_that_is_over_holds_on_to_no_tool(trial: &Trial<'_>) -> Verdict {
    let tools = Arc::new(lookup("a long-legged bird"));
    let staged = trial.stage(one_call(trial)).await?;
    let turn = staged.run_with(work(&staged), tools.host(), SinkPace::Ready).await?;
    same_text("answer", &turn.result()?.text, ANSWER)?;
    // A forgotten reference would let a later program reach the tools.
    same("holders of the tools", &Arc::strong_count(&tools), &1)
}

pub(crate) async fn calls_of_one_reply_are_each_answered_with_their_own(trial: &Trial<'_>) -> Verdict {
    let words = ["heron", "stork", "crane", "ibis"];
    let tools = Arc::new(CaseTools::one(tool("lookup"), |call| async move {
        let word = call.arguments.get("word").and_then(Value::as_str).unwrap_or_default();
        answered_with(&format!("about the {word}"))
    }));
    let calls = words.map(|word| trial.subject().caller_tool("lookup", json!({ "word": word })));
    let staged = trial.stage(Scenario::new([Reply::calls(calls), Reply::text(ANSWER)])).await?;
    let turn = staged.run_with(work(&staged), tools.host(), SinkPace::Ready).await?;
    let result = turn.result()?;
    same_text("answer", &result.text, ANSWER)?;
    let mut asked: Vec<_> =
        tools.asked().into_iter().map(|(_, arguments)| arguments["word"].clone()).collect();
    asked.sort_by_key(ToString::to_string);
    let mut expected = words.map(Value::from).to_vec();
    expected.sort_by_key(ToString::to_string);
    same("calls that arrived", &asked, &expected)?;
    for call in &result.tool_calls {
        let word = call.arguments.as_ref().and_then(|arguments| arguments["word"].as_str()).unwrap_or("?");
        let has_its_own = format!("{:?}", call.output).contains(&format!("about the {word}"));
        ensure(has_its_own, "each call has its own answer", || short(call))?;
    }
    same("calls of the result", &result.tool_calls.len(), &words.len())?;
    words.iter().try_for_each(|word| told(&staged, &format!("about the {word}")))
}

pub(crate) async fn a_big_answer_arrives_whole(trial: &Trial<'_>) -> Verdict {
    let tools = CaseTools::one(tool("lookup"), |_| async { answered_with(&long_text(BIG)) });
    let staged = trial.stage(one_call(trial)).await?;
    let turn = staged.run_with(work(&staged), Arc::new(tools).host(), SinkPace::Ready).await?;
    let result = turn.result()?;
    same_text("answer", &result.text, ANSWER)?;
    let whole = long_text(BIG);
    let kept = result.tool_calls.iter().flat_map(|call| &call.output).map(|piece| match piece {
        ToolContent::Text { text } => text.as_str(),
        _ => "",
    });
    same_text("the answer in the tool calls", &kept.collect::<String>(), &whole)?;
    let results = last_results(&staged);
    let is_whole = results.iter().any(|text| text.contains(&whole));
    ensure(is_whole, "the answer at the model", || {
        format!("{} bytes of {BIG}", results.iter().map(String::len).sum::<usize>())
    })
}

pub(crate) async fn tools_and_an_output_schema_go_together(trial: &Trial<'_>) -> Verdict {
    let tools = Arc::new(lookup("a long-legged bird"));
    let value = json!({ "verdict": "approve" });
    let script = Scenario::new([Reply::call(look_up(trial)), Reply::json(&value)]);
    let staged = trial.stage(script).await?;
    let request = work(&staged).with_output(schema()?);
    let turn = staged.run_with(request, tools.host(), SinkPace::Ready).await?;
    let result = turn.result()?;
    same("value", &result.output, &Some(value))?;
    same("what the caller was asked", &names_asked(&tools), &vec!["lookup".to_owned()])?;
    told(&staged, "a long-legged bird")
}

pub(crate) async fn tools_that_the_program_does_not_reach_are_missed(trial: &Trial<'_>) -> Verdict {
    let tools = Arc::new(lookup("a long-legged bird"));
    let mut setting = trial.setting(Scenario::text("I have no tools, and say so at length."));
    setting.mcp_server = Line::Refused;
    let staged = trial.stage_setting(setting).await?;
    let turn = staged.run_with(work(&staged), tools.host(), SinkPace::Ready).await?;
    let error = turn.error()?;
    trial.expect_kind(error, &[ErrorKind::ToolsUnavailable])?;
    let said = error.message().unwrap_or_default();
    ensure(said.contains("lookup"), "the error names the tool", || said.to_owned())?;
    same("what the caller was asked", &tools.asked(), &vec![])?;
    same_text("nothing is believed", &error.partial().text, "")
}

/// A scope of everything that the pattern names, and of the paths in `inside`.
fn scope(trial: &Trial<'_>, tools: &str) -> Result<ParticipantScope, Finding> {
    let wrong = |error: &dyn std::fmt::Display| Finding::new("a scope", error.to_string());
    trial.new_folder("workspace/inside")?;
    let pattern: ToolPattern = tools.parse().map_err(|error| wrong(&error))?;
    let brief = Brief::new(trial.workspace()).tool(pattern).reading("inside").writing("inside");
    ParticipantScope::assemble(&brief, None, None).map_err(|error| wrong(&error))
}

/// A tool that reads a file.
fn opener() -> ToolDefinition {
    let schema = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
    let tool = ToolDefinition::new("open", "Opens a file.", schema);
    tool.with_effects(Effects::Read).with_path("/path", PathAccess::Read)
}

fn router(tools: &Arc<CaseTools>) -> Arc<dyn ToolRouter> {
    Arc::clone(tools) as Arc<dyn ToolRouter>
}

/// A model that makes these calls one after the other, and answers.
fn one_by_one(trial: &Trial<'_>, calls: &[(&str, Value)]) -> Scenario {
    let call =
        |(name, arguments): &(&str, Value)| Reply::call(trial.subject().caller_tool(name, arguments.clone()));
    Scenario::new(calls.iter().map(call).chain([Reply::text(ANSWER)]))
}

/// Runs a turn in a session.
async fn turn_in<'t>(
    trial: &'t Trial<'t>,
    script: Scenario,
    session: &Arc<Session>,
    change: impl FnOnce(TurnRequest) -> TurnRequest,
) -> Result<(Staged<'t>, Observed), Finding> {
    let staged = trial.stage(script).await?;
    let host = TurnHost::new().with_session(Arc::clone(session));
    let turn = staged.run_with(change(work(&staged)), host, SinkPace::Ready).await?;
    Ok((staged, turn))
}

/// Returns the decisions of `session` on `calls`, one after the other.
fn decided(session: &Arc<Session>, calls: &[(&str, Value)]) -> Vec<Decision> {
    for (name, arguments) in calls {
        // Only the decision counts here.
        let _ = session.authorize(session.token(), name, arguments);
    }
    session.decisions()
}

fn same_decisions(session: &Session, expected: &Vec<Decision>) -> Verdict {
    same("decisions", &session.decisions(), expected)
}

fn names_asked(tools: &CaseTools) -> Vec<String> {
    tools.asked().into_iter().map(|(name, _)| name).collect()
}
