//! Promises of a backend that runs the loop itself: concurrent and ordered calls, odd calls, large answers,
//! and a model that goes round in a circle.

use std::{sync::Arc, time::Duration};

use nexus_core::{CallId, ErrorKind, Limit, Limits, ToolCallStatus, ToolContent, ToolResult};
use serde_json::json;
use tokio::sync::Notify;

use super::caller_tools::{ANSWER, last_results, look_up, lookup, one_call, tool, turn_with};
use crate::{
    conformance::{
        case_tools::CaseTools,
        finding::{Verdict, ensure, same, same_text, short},
        processes::ProcessWatch,
        trial::Trial,
    },
    sim::{Reply, Scenario, ToolCall, long_text},
};

/// Longest wait of the first of two calls for the second.
const PATIENCE: Duration = Duration::from_secs(2);

/// Bytes of a large answer.
const TEN_MEGABYTES: usize = 10_000_000;

/// Calls in one reply.
const MANY: usize = 100;

/// More model calls than it should take to see that nothing moves.
const TOO_MANY_CALLS: u32 = 60;

pub(crate) async fn calls_run_at_once_and_results_keep_their_order(trial: &Trial<'_>) -> Verdict {
    let quick_is_done = Arc::new(Notify::new());
    let (waits, tells) = (Arc::clone(&quick_is_done), quick_is_done);
    let tools = CaseTools::one(tool("slow"), move |_| {
        let waits = Arc::clone(&waits);
        async move {
            // The slow tool waits for the quick one, which is only possible if both run at once.
            let waited = tokio::time::timeout(PATIENCE, waits.notified()).await;
            text(if waited.is_ok() { "slow, after quick" } else { "slow, all alone" })
        }
    })
    .and(tool("quick"), move |_| {
        tells.notify_one();
        async { text("quick") }
    });
    let calls = ["slow", "quick"].map(|name| trial.subject().caller_tool(name, json!({})));
    let script = Scenario::new([Reply::calls(calls), Reply::text(ANSWER)]);
    let (staged, turn) = turn_with(trial, script, &Arc::new(tools), |it| it).await?;
    same_text("answer", &turn.result()?.text, ANSWER)?;
    let results = last_results(&staged);
    let alone = results.iter().any(|result| result.contains("alone"));
    ensure(!alone, "calls run at once", || short(&results))?;
    let in_order = matches!(results.as_slice(), [slow, quick] if slow.contains("slow") && quick == "quick");
    ensure(in_order, "results keep the order of the calls", || short(&results))
}

pub(crate) async fn arguments_that_are_not_json_are_answered(trial: &Trial<'_>) -> Verdict {
    let broken = match look_up(trial) {
        ToolCall::Function { name, .. } => ToolCall::raw(name, "{\"word\": \"her"),
        other => other,
    };
    let tools = Arc::new(lookup("a long-legged bird"));
    let (staged, turn) = turn_with(trial, Scenario::tool_then_text(broken, ANSWER), &tools, |it| it).await?;
    let result = turn.result()?;
    same_text("answer", &result.text, ANSWER)?;
    let statuses: Vec<_> = result.tool_calls.iter().map(|call| call.status).collect();
    same("status", &statuses, &vec![ToolCallStatus::Denied])?;
    same("what the caller was asked", &tools.asked(), &vec![])?;
    same("the model is told", &last_results(&staged).len(), &1)
}

pub(crate) async fn an_answer_of_ten_megabytes_arrives_whole(trial: &Trial<'_>) -> Verdict {
    let tools = CaseTools::one(tool("lookup"), |_| async { text(&long_text(TEN_MEGABYTES)) });
    let (staged, turn) = turn_with(trial, one_call(trial), &Arc::new(tools), |it| it).await?;
    let result = turn.result()?;
    same_text("answer", &result.text, ANSWER)?;
    let kept = result.tool_calls.iter().flat_map(|call| &call.output).map(|piece| match piece {
        ToolContent::Text { text } => text.as_str(),
        _ => "",
    });
    let whole = long_text(TEN_MEGABYTES);
    same_text("the answer in the tool calls", &kept.collect::<String>(), &whole)?;
    same_text("the answer at the model", &last_results(&staged).concat(), &whole)
}

pub(crate) async fn a_hundred_calls_at_once_are_each_answered_once(trial: &Trial<'_>) -> Verdict {
    let words: Vec<_> = (0..MANY).map(|number| format!("word-{number}")).collect();
    let calls = words.iter().map(|word| trial.subject().caller_tool("lookup", json!({ "word": word })));
    let script = Scenario::new([Reply::calls(calls), Reply::text(ANSWER)]);
    let tools = Arc::new(CaseTools::one(tool("lookup"), |call| async move {
        text(call.arguments.get("word").and_then(serde_json::Value::as_str).unwrap_or_default())
    }));
    let (staged, turn) = turn_with(trial, script, &tools, |it| it).await?;
    let result = turn.result()?;
    same_text("answer", &result.text, ANSWER)?;
    let mut asked: Vec<_> = tools.asked().into_iter().map(|(_, arguments)| arguments.to_string()).collect();
    asked.sort();
    // Compare both numbers: a call may neither be lost nor arrive twice.
    asked.dedup();
    same("calls that arrived", &(tools.asked().len(), asked.len()), &(MANY, MANY))?;
    same("calls of the result", &result.tool_calls.len(), &MANY)?;
    same("results keep the order of the calls", &last_results(&staged), &words)
}

pub(crate) async fn calls_of_one_id_are_both_answered_and_told_apart(trial: &Trial<'_>) -> Verdict {
    let call = |word: &str| trial.subject().caller_tool("lookup", json!({ "word": word }));
    let twins = Reply::calls([call("heron"), call("stork")]).call_id("call_twice");
    let tools =
        Arc::new(CaseTools::one(tool("lookup"), |call| async move { text(&call.arguments.to_string()) }));
    let script = Scenario::new([twins, Reply::text(ANSWER)]);
    let (staged, turn) = turn_with(trial, script, &tools, |it| it).await?;
    let result = turn.result()?;
    same_text("answer", &result.text, ANSWER)?;
    let ids: Vec<&CallId> = result.tool_calls.iter().map(|record| &record.call).collect();
    let are_apart = matches!(ids.as_slice(), [first, second] if first != second);
    ensure(are_apart, "calls of the result", || short(&ids))?;
    let unanswered = result.tool_calls.iter().any(|call| call.status != ToolCallStatus::Succeeded);
    ensure(!unanswered, "status", || short(&result.tool_calls))?;
    let results = last_results(&staged);
    let has = |word: &str| results.iter().filter(|result| result.contains(word)).count();
    same("both are told", &(results.len(), has("heron"), has("stork")), &(2, 1, 1))
}

pub(crate) async fn a_call_repeated_for_ever_is_ended(trial: &Trial<'_>) -> Verdict {
    let tools = Arc::new(lookup("a long-legged bird"));
    // A limit of the request ends a backend without this protection, so that the case itself ends.
    let limits = Limits::new().with_model_calls(TOO_MANY_CALLS);
    let script = Reply::call(look_up(trial));
    let (_, turn) = turn_with(trial, script, &tools, |it| it.with_limits(limits)).await?;
    trial.expect_kind(turn.error()?, &[ErrorKind::LimitReached(Limit::RepeatedCalls)])?;
    let asked = tools.asked().len();
    ensure(asked >= 2, "a call may be made twice", || format!("ended after {asked}"))
}

pub(crate) async fn a_turn_starts_no_process(trial: &Trial<'_>) -> Verdict {
    if !ProcessWatch::is_possible() {
        return Ok(());
    }
    let staged = trial.stage(Reply::text("It is done, slowly.").paced(2, Duration::from_millis(40))).await?;
    let watch = ProcessWatch::start(trial.mark());
    staged.run(staged.request("Do it.")).await?.result()?;
    let seen = watch.seen();
    ensure(seen.is_empty(), "no process", || short(&seen))
}

fn text(text: &str) -> ToolResult {
    ToolResult::ok(vec![ToolContent::text(text)])
}
