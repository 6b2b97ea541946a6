//! The caller's tools: the budget, mistakes of the model's, and tools that misbehave.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use nexus_core::{
    ConversationMode, ErrorKind, FinishReason, IdleLimits, Limit, Limits, Phase, Tool, ToolCallStatus,
    Toolbox, TurnHost, TurnRequest,
};
use serde_json::{Value, json};
use tokio::sync::Barrier;

use super::{
    server::{Canned, call, message, reply},
    stage::{Ran, backend, host, request, run},
};

fn statuses(ran: &Ran) -> Vec<(String, ToolCallStatus)> {
    let calls = match &ran.outcome {
        Ok(result) => &result.tool_calls,
        Err(error) => &error.partial().tool_calls,
    };
    calls.iter().map(|call| (call.name.clone(), call.status)).collect()
}

/// The outputs that a request carries, by call id.
fn outputs(body: &Value) -> Vec<(String, String)> {
    let items = body["input"].as_array().unwrap().iter();
    let outputs = items.filter(|item| item["type"] == "function_call_output");
    outputs
        .map(|item| {
            (item["call_id"].as_str().unwrap().to_owned(), item["output"].as_str().unwrap().to_owned())
        })
        .collect()
}

fn limited(limits: Limits) -> TurnRequest {
    TurnRequest::new("Hello.").with_model("m").with_limits(limits.with_deadline(Duration::from_secs(90)))
}

#[tokio::test]
async fn beyond_the_budget_an_answer_can_still_be_handed_in() {
    let echo = |id: &str| call(id, "echo", "{}");
    let server = Canned::new([
        reply(&[echo("1"), echo("2"), echo("3")]),
        reply(&[call("4", "submit", "{}")]),
        reply(&[message("Is there anything else?")]),
    ]);
    let backend = backend("responses", &server.base_url(), json!({}));
    let ran = run(&*backend, limited(Limits::new().with_tool_calls(2)), host()).await;
    assert_eq!((ran.result().text.as_str(), &ran.result().finish), ("", &FinishReason::Submitted));
    assert_eq!(server.asked().len(), 2);
    let wanted = [
        ("echo", ToolCallStatus::Succeeded),
        ("echo", ToolCallStatus::Succeeded),
        ("echo", ToolCallStatus::Denied),
        ("submit", ToolCallStatus::Succeeded),
    ];
    assert_eq!(statuses(&ran), wanted.map(|(name, status)| (name.to_owned(), status)));
    let told = outputs(&server.asked()[1].body);
    assert!(told[2].1.contains("submit"), "{told:?}");
}

#[tokio::test]
async fn who_goes_on_beyond_the_budget_is_stopped() {
    let echo = |id: &str| reply(&[call(id, "echo", "{}")]);
    let server = Canned::new([echo("1"), echo("2"), echo("3"), reply(&[message("Never.")])]);
    let backend = backend("responses", &server.base_url(), json!({}));
    let ran = run(&*backend, limited(Limits::new().with_tool_calls(1)), host()).await;
    assert_eq!(ran.error().kind(), ErrorKind::LimitReached(Limit::ToolCalls));
    assert_eq!(server.asked().len(), 3);
    let denied = statuses(&ran).iter().filter(|(_, status)| *status == ToolCallStatus::Denied).count();
    assert_eq!(denied, 2);
}

#[tokio::test]
async fn the_same_call_with_the_same_answer_over_and_over_is_a_loop() {
    let server = Canned::new([reply(&[call("1", "echo", "{\"a\":1}")])]);
    let backend = backend("responses", &server.base_url(), json!({ "repeated_calls": 4 }));
    let ran = run(&*backend, request(), host()).await;
    assert_eq!(ran.error().kind(), ErrorKind::LimitReached(Limit::RepeatedCalls));
    assert_eq!(server.asked().len(), 5);
    // A server that repeats ids means as many calls.
    let calls = &ran.error().partial().tool_calls;
    let ids: std::collections::BTreeSet<_> = calls.iter().map(|call| call.call.clone()).collect();
    assert_eq!((calls.len(), ids.len()), (5, 5));
}

#[tokio::test]
async fn mistakes_of_the_models_are_answered_and_the_turn_goes_on() {
    let many: Vec<Value> =
        (0..100).map(|n| call(&format!("many_{n}"), "echo", &format!("{{\"n\":{n}}}"))).collect();
    let large = format!("{{\"text\":\"{}\"}}", "x".repeat(5 << 20));
    let server = Canned::new([
        reply(&[
            call("a", "nonsense", "{}"),
            call("b", "echo", "{\"a\": "),
            call("c", "echo", ""),
            call("c", "echo", "{\"n\":1}"),
        ]),
        reply(&many),
        reply(&[call("large", "echo", &large)]),
        reply(&[message("Done.")]),
    ]);
    let backend = backend("responses", &server.base_url(), json!({}));
    let ran = run(&*backend, request(), host()).await;
    assert_eq!(ran.result().text, "Done.");
    assert_eq!(ran.result().tool_calls.len(), 105);
    let asked = server.asked();
    let told = outputs(&asked[1].body);
    assert!(told[0].1.contains("there is no tool named") && told[0].1.contains("echo"), "{told:?}");
    assert!(told[1].1.contains("not JSON") && told[1].1.contains("column"), "{told:?}");
    assert_eq!(told[2].1, "{}");
    assert_eq!((told[2].0.as_str(), told[3].1.as_str()), ("c", "{\"n\":1}"));
    assert_ne!(told[3].0, "c", "two calls with one id are told apart");
    let order: Vec<_> = outputs(&asked[2].body).into_iter().skip(4).map(|(id, _)| id).collect();
    assert_eq!(order, (0..100).map(|n| format!("many_{n}")).collect::<Vec<_>>());
    assert_eq!(outputs(&asked[3].body).last().unwrap().1.len(), large.len());
}

#[tokio::test]
async fn tools_that_misbehave_cost_no_more_than_their_call() {
    let schema = json!({ "type": "object" });
    let tools = Toolbox::new()
        .with(Tool::with_schema("panics", "Panics.", schema.clone(), |_: Value| async move {
            if true {
                panic!("on purpose");
            }
            ""
        }))
        .with(Tool::with_schema("long", "Answers at length.", schema, |_: Value| async move {
            "y".repeat(10 << 20)
        }));
    let server = Canned::new([
        reply(&[call("1", "panics", "{}"), call("2", "long", "{}")]),
        reply(&[message("Done.")]),
    ]);
    let backend = backend("responses", &server.base_url(), json!({}));
    let ran = run(&*backend, request(), TurnHost::new().with_tools(Arc::new(tools))).await;
    assert_eq!(ran.result().text, "Done.");
    let told = outputs(&server.asked()[1].body);
    assert!(!told[0].1.contains("on purpose") && told[0].1.contains("panic"), "{}", told[0].1);
    assert_eq!(told[1].1.len(), 10 << 20);
    assert_eq!(statuses(&ran)[0].1, ToolCallStatus::Failed);
}

#[tokio::test]
async fn a_tool_that_hangs_is_ended_by_its_limit() {
    let tools = Toolbox::new()
        .with(Tool::without_arguments("hangs", "Hangs.", || async { std::future::pending::<&str>().await }));
    let server = Canned::new([reply(&[call("1", "hangs", "{}")])]);
    let backend = backend("responses", &server.base_url(), json!({}));
    let limits = Limits::new().with_idle(IdleLimits::none().with(Phase::Tool, Duration::from_millis(500)));
    let host = TurnHost::new().with_tools(Arc::new(tools));
    let ran = run(&*backend, limited(limits).with_conversation(ConversationMode::Keep), host).await;
    assert_eq!(ran.error().kind(), ErrorKind::Starved(Phase::Tool));
    assert_eq!(statuses(&ran)[0].1, ToolCallStatus::Unfinished);

    // The conversation goes on after the call, with a result that says what is known of it.
    let handle = ran.error().partial().resume.clone().unwrap();
    let later = Canned::new([reply(&[message("Again.")])]);
    let backend = super::stage::backend("responses", &later.base_url(), json!({}));
    let ran =
        run(&*backend, request().with_conversation(ConversationMode::resume(handle)), TurnHost::new()).await;
    assert_eq!(ran.result().text, "Again.");
    let told = outputs(&later.asked()[0].body);
    assert!(told[0].1.contains("it may have had effects"), "{told:?}");
}

#[tokio::test]
async fn calls_of_one_answer_run_at_once_and_no_more_than_allowed() {
    let calls: Vec<Value> = (0..4).map(|n| call(&n.to_string(), "slow", "{}")).collect();
    for at_once in [4, 2, 1] {
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (now, peak) = (Arc::clone(&running), Arc::clone(&most));
        let all = Arc::new(Barrier::new(at_once));
        let slow = Tool::without_arguments("slow", "Waits for the others.", move || {
            let (now, peak, all) = (Arc::clone(&now), Arc::clone(&peak), Arc::clone(&all));
            async move {
                peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                all.wait().await;
                // One more than allowed would begin meanwhile.
                tokio::time::sleep(Duration::from_millis(20)).await;
                now.fetch_sub(1, Ordering::SeqCst);
            }
        });
        let server = Canned::new([reply(&calls), reply(&[message("Done.")])]);
        let backend = backend("responses", &server.base_url(), json!({ "parallel_tools": at_once }));
        let host = TurnHost::new().with_tools(Arc::new(Toolbox::new().with(slow)));
        let ran = run(&*backend, request(), host).await;
        assert_eq!(ran.result().text, "Done.");
        assert_eq!(most.load(Ordering::SeqCst), at_once);
    }
}

#[tokio::test]
async fn output_tokens_are_limited_over_the_turn() {
    let round = |id: &str| reply(&[call(id, "echo", "{}")]);
    let server = Canned::new([round("1"), round("2"), round("3"), reply(&[message("Never.")])]);
    let backend = backend("responses", &server.base_url(), json!({}));
    let ran = run(&*backend, limited(Limits::new().with_output_tokens(10)), host()).await;
    assert_eq!(ran.error().kind(), ErrorKind::LimitReached(Limit::OutputTokens));
    assert_eq!(server.asked().len(), 2, "each reply took 5 of the 10");
}

#[tokio::test]
async fn a_model_that_never_comes_to_an_end_is_stopped() {
    let end = "data: {\"type\":\"response.completed\",\"response\":{\"end_turn\":false}}\n\n";
    let server = Canned::new([super::server::stream(end.as_bytes())]);
    let backend = backend("responses", &server.base_url(), json!({}));
    let ran = run(&*backend, request(), TurnHost::new()).await;
    assert_eq!(ran.error().kind(), ErrorKind::Incomplete);
    assert_eq!(server.asked().len(), 33);
}

#[tokio::test]
async fn calls_of_tools_that_are_not_there_count_too() {
    let unknown = |id: &str| reply(&[call(id, "nonsense", "{}")]);
    let server = Canned::new([unknown("1"), unknown("2"), unknown("3"), unknown("4"), unknown("5")]);
    let backend = backend("responses", &server.base_url(), json!({}));
    let ran = run(&*backend, limited(Limits::new().with_tool_calls(2)), host()).await;
    assert_eq!(ran.error().kind(), ErrorKind::LimitReached(Limit::ToolCalls));
    assert_eq!(server.asked().len(), 4);
}

#[tokio::test]
async fn an_answer_that_is_handed_in_beside_one_call_too_many_is_an_answer() {
    let server = Canned::new([
        reply(&[call("1", "echo", "{}"), call("2", "echo", "{}")]),
        reply(&[call("3", "echo", "{}"), call("4", "submit", "{}")]),
    ]);
    let backend = backend("responses", &server.base_url(), json!({}));
    let ran = run(&*backend, limited(Limits::new().with_tool_calls(1)), host()).await;
    assert_eq!((ran.result().text.as_str(), &ran.result().finish), ("", &FinishReason::Submitted));
    assert_eq!(statuses(&ran).last().unwrap(), &("submit".to_owned(), ToolCallStatus::Succeeded));
}

#[tokio::test]
async fn a_resumed_turn_tells_its_calls_apart_from_those_before() {
    let first = Canned::new([reply(&[call("call_0", "echo", "{}")]), reply(&[message("Once.")])]);
    let one = backend("responses", &first.base_url(), json!({}));
    let ran = run(&*one, request().with_conversation(ConversationMode::Keep), host()).await;
    let handle = ran.result().resume.clone().unwrap();
    let second = Canned::new([reply(&[call("call_0", "echo", "{}")]), reply(&[message("Twice.")])]);
    let another = backend("responses", &second.base_url(), json!({}));
    let ran = run(&*another, request().with_conversation(ConversationMode::resume(handle)), host()).await;
    assert_eq!(ran.result().text, "Twice.");
    let ids: Vec<_> = outputs(&second.asked()[1].body).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids.len(), 2);
    assert_ne!(ids[0], ids[1]);
}

#[tokio::test]
async fn a_conversation_that_goes_on_after_an_interruption_shows_the_calls_that_were_made() {
    let first = Canned::new([reply(&[call("1", "echo", "{}"), call("2", "hang", "{}")])]);
    let tools = || {
        Toolbox::new()
            .with(Tool::without_arguments("echo", "Answers.", || async { "paid" }))
            .with(Tool::without_arguments("hang", "Never ends.", std::future::pending::<String>))
    };
    let one = backend("responses", &first.base_url(), json!({}));
    let asked = request()
        .with_conversation(ConversationMode::Keep)
        .with_limits(Limits::new().with_deadline(Duration::from_millis(500)));
    let ran = run(&*one, asked, TurnHost::new().with_tools(Arc::new(tools()))).await;
    let handle = ran.outcome.unwrap_err().partial().resume.clone().unwrap();
    let second = Canned::new([reply(&[message("I know.")])]);
    let another = backend("responses", &second.base_url(), json!({}));
    let resumed = request().with_conversation(ConversationMode::resume(handle));
    let ran = run(&*another, resumed, TurnHost::new().with_tools(Arc::new(tools()))).await;
    assert_eq!(ran.result().text, "I know.");
    let outputs = outputs(&second.asked()[0].body);
    assert_eq!(outputs[0], ("1".to_owned(), "paid".to_owned()));
    assert!(outputs[1].1.contains("it may have had effects"), "{outputs:?}");
}
