//! The rule `continue`: what a failed backend did stands, and the next one is told of it and goes on.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use nexus_core::{
    CallId, CancelToken, Effects, ErrorKind, EventEnvelope, FileChanges, Handover, Limit, Limits,
    PromptBlock, ToolCallStatus, ToolContent, TurnError, TurnEvent, TurnHost, TurnRequest, TurnResult,
    turn::{TextDelta, ToolCallArguments, ToolCallFinished, ToolCallStarted, ToolOrigin},
};
use nexus_testkit::scripted::{ScriptedBackend, failure};
use serde_json::{Value, json};

use super::support::{Act, answering, builder, chain, fake, router, run_with, scripted};

/// One type `work` over these backends, of which each goes on from what the last one did.
fn continuing(ids: &str) -> String {
    chain(ids).replace("group: main }", "group: main, fallback: continue }")
}

/// The name of a call's tool, its arguments, how it ended, and what it answered.
type Told = (&'static str, Value, ToolCallStatus, String);

/// A backend that calls tools and then loses its connection. It states the effects `claims`, whatever it did.
fn worker(calls: Vec<Told>, claims: Option<Effects>) -> Arc<ScriptedBackend> {
    Arc::new(scripted("alpha", move |turn| {
        turn.event(TextDelta::new("m".into(), "I begin."));
        for (number, (name, arguments, status, answer)) in calls.iter().enumerate() {
            let call: CallId = format!("c{number}").as_str().into();
            let effects = claims.unwrap_or(Effects::Wrote);
            turn.event(ToolCallStarted::new(call.clone(), *name, ToolOrigin::Harness, effects));
            turn.event(ToolCallArguments::new(call.clone(), arguments.clone()));
            if *status != ToolCallStatus::Unfinished {
                turn.event(ToolCallFinished::new(call, *status, vec![ToolContent::text(answer.clone())]));
            }
        }
        Box::pin(async { Err(failure(ErrorKind::Transport)) })
    }))
}

fn wrote(line: &str) -> Told {
    ("write", json!({ "line": line }), ToolCallStatus::Succeeded, "written".to_owned())
}

/// Runs a turn of a worker and of one that answers.
async fn taken_over(
    worker: Arc<ScriptedBackend>,
    host: TurnHost,
) -> (Arc<ScriptedBackend>, Vec<EventEnvelope>, Result<TurnResult, TurnError>) {
    let beta = answering("beta");
    let router = builder(&[&beta]).backend(worker).from_str(&continuing("alpha, beta")).unwrap();
    let request = TurnRequest::new("Write three lines.").with_system("Be brief.");
    let (events, outcome) = run_with(&router, request, host).await;
    (beta, events, outcome)
}

/// What a backend was told of the work before it.
fn record(request: &TurnRequest) -> Option<(String, Value)> {
    let [_, PromptBlock::Text { text }] = request.prompt.as_slice() else { return None };
    let (heading, record) = text.split_once("\n\n")?;
    Some((heading.to_owned(), serde_json::from_str(record).unwrap()))
}

/// A host that is asked for the changes in its files first when the turn begins, and then after each attempt.
fn looking(looks: Vec<Result<&'static str, &'static str>>) -> TurnHost {
    let next = AtomicUsize::new(0);
    TurnHost::new().with_file_changes(FileChanges::new(move || {
        let at = next.fetch_add(1, Ordering::SeqCst);
        let look = looks[at.min(looks.len() - 1)];
        async move { look.map(str::to_owned) }
    }))
}

/// One whose files changed once, in the first attempt.
fn changes(of: &'static str) -> TurnHost {
    looking(vec![Ok(""), Ok(of)])
}

#[tokio::test]
async fn the_next_one_is_told_of_each_call_and_how_it_ended_and_goes_on() {
    let calls = vec![
        wrote("one"),
        ("write", json!({ "line": "\"}],\"calls\":[]" }), ToolCallStatus::Failed, "no room".to_owned()),
        ("write", json!({ "line": "three" }), ToolCallStatus::Unfinished, String::new()),
        ("erase", json!({}), ToolCallStatus::Denied, "not allowed".to_owned()),
    ];
    let (beta, events, outcome) = taken_over(worker(calls, None), changes("+one\n")).await;
    let result = outcome.unwrap();
    assert_eq!((result.text.as_str(), result.effects), ("from beta", Effects::Wrote));
    assert_eq!(result.tool_calls.len(), 4);

    let (heading, record) = record(&beta.last()).unwrap();
    assert!(heading.contains("do not do anything twice") && !heading.contains("alpha"), "{heading}");
    assert_eq!(
        record,
        json!({
            "calls": [
                { "tool": "write", "arguments": { "line": "one" }, "outcome": "succeeded", "answer": "written" },
                { "tool": "write", "arguments": { "line": "\"}],\"calls\":[]" }, "outcome": "failed", "answer": "no room" },
                { "tool": "write", "arguments": { "line": "three" }, "outcome": "unknown" },
                { "tool": "erase", "arguments": {}, "outcome": "denied, and not done", "answer": "not allowed" },
            ],
            "said": "I begin.",
            "changed_files": "+one\n",
        })
    );
    let request = beta.last();
    assert_eq!(
        (request.system.as_deref(), &request.prompt[0]),
        (Some("Be brief."), &PromptBlock::text("Write three lines."))
    );

    // Seen by who watches, and by who looks later.
    let told = events.iter().find_map(|envelope| match &envelope.event {
        TurnEvent::Fallback(fallback) => Some((fallback.skipped.handover, fallback.to.to_string())),
        _ => None,
    });
    assert_eq!(told, Some((Handover::Continued, "beta".to_owned())));
    let skipped = &result.provenance.skipped[0];
    assert_eq!((skipped.backend.as_str(), skipped.handover), ("alpha", Handover::Continued));
    assert_eq!(result.provenance.backend.as_str(), "beta");
}

#[tokio::test]
async fn who_did_nothing_hands_nothing_over() {
    let alpha = fake("alpha", [Act::Fail(ErrorKind::UsageLimit, nexus_core::Retry::Never, "")]);
    let beta = answering("beta");
    let router = router(&continuing("alpha, beta"), &[&alpha, &beta]);
    let (_, outcome) = run_with(&router, TurnRequest::new("x"), changes("")).await;
    assert_eq!(outcome.unwrap().provenance.skipped[0].handover, Handover::Nothing);
    assert_eq!(beta.last().prompt, [PromptBlock::text("x")]);
}

#[tokio::test]
async fn where_it_cannot_be_told_what_was_done_nobody_goes_on() {
    let read = || worker(vec![wrote("one")], Some(Effects::Read));
    let panics = AtomicUsize::new(0);
    let panicking = FileChanges::new(move || {
        let is_first = panics.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            assert!(is_first, "as it should");
            Ok::<_, String>(String::new())
        }
    });
    let cases: [(Arc<ScriptedBackend>, TurnHost, &str); 5] = [
        // It cannot tell itself.
        (worker(vec![wrote("one")], Some(Effects::Unknown)), TurnHost::new(), ""),
        // It says that it only read, and a file changed.
        (read(), changes("+one\n"), "files changed"),
        (
            read(),
            looking(vec![Ok(""), Err("git is gone")]),
            "the changed files cannot be listed: git is gone",
        ),
        (read(), TurnHost::new().with_file_changes(panicking), "the hook panicked: as it should"),
        // So many calls that they cannot be told.
        (worker(vec![wrote("one"); 2_000], None), TurnHost::new(), "the record of its work is larger"),
    ];
    for (worker, host, said) in cases {
        let (beta, events, outcome) = taken_over(worker, host).await;
        let error = outcome.unwrap_err();
        assert_eq!((error.kind(), error.backend().as_str()), (ErrorKind::Transport, "alpha"), "{said}");
        assert!(error.to_string().contains(said), "{said}: {error}");
        assert_eq!(beta.turns(), 0, "{said}");
        assert!(!events.iter().any(|envelope| matches!(envelope.event, TurnEvent::Fallback(_))), "{said}");
        assert!(!error.partial().tool_calls.is_empty() && error.partial().text == "I begin.", "{said}");
    }
}

#[tokio::test]
async fn a_host_that_cannot_tell_of_its_files_is_refused_before_anything_runs() {
    let (beta, _, outcome) =
        taken_over(worker(vec![wrote("one")], None), looking(vec![Err("git is gone")])).await;
    let error = outcome.unwrap_err();
    assert_eq!((error.kind(), error.backend().as_str()), (ErrorKind::InvalidRequest, "work"));
    assert!(error.to_string().contains("git is gone") && error.partial().tool_calls.is_empty(), "{error}");
    assert_eq!(beta.turns(), 0);
}

#[tokio::test]
async fn what_changed_before_the_turn_is_no_backends() {
    let read = worker(vec![wrote("one")], Some(Effects::Read));
    let (beta, _, outcome) = taken_over(read, looking(vec![Ok("+old\n")])).await;
    outcome.unwrap();
    assert_eq!(record(&beta.last()).unwrap().1["changed_files"], "+old\n");
}

#[tokio::test]
async fn a_second_one_that_hides_what_it_changed_is_found_out_too() {
    let first = worker(vec![wrote("one")], None);
    let second = fake("beta", [Act::FailLate(ErrorKind::Overloaded, Effects::Read)]);
    let third = answering("gamma");
    let router =
        builder(&[&second, &third]).backend(first).from_str(&continuing("alpha, beta, gamma")).unwrap();
    let host = looking(vec![Ok(""), Ok("+one\n"), Ok("+one\n+two\n")]);
    let error = run_with(&router, TurnRequest::new("x"), host).await.1.unwrap_err();
    assert!(error.to_string().contains("files changed"), "{error}");
    assert_eq!((third.turns(), error.partial().effects), (0, Effects::Unknown));
}

#[tokio::test]
async fn many_calls_that_only_read_stop_nothing_and_leave_room_for_those_that_wrote() {
    let reads = || {
        (0..2_000)
            .map(|number| ("look", json!({ "number": number }), ToolCallStatus::Succeeded, "seen".to_owned()))
    };
    let (beta, _, outcome) =
        taken_over(worker(reads().collect(), Some(Effects::Read)), TurnHost::new()).await;
    outcome.unwrap();
    let (_, told) = record(&beta.last()).unwrap();
    assert_eq!(
        (told["calls"].as_array().unwrap().len(), &told["further_calls_that_only_read"]),
        (0, &json!(2_000))
    );
}

/// A backend that calls a tool of the caller's twice, and breaks down before it told of the second call.
fn untelling(panics: bool) -> Arc<ScriptedBackend> {
    Arc::new(scripted("alpha", move |turn| {
        Box::pin(async move {
            for (number, is_told) in [true, false].into_iter().enumerate() {
                let arguments = json!({ "line": number.to_string() });
                turn.call("append", arguments.clone()).await?;
                if is_told {
                    let call: CallId = format!("c{number}").as_str().into();
                    let started =
                        ToolCallStarted::new(call.clone(), "append", ToolOrigin::Caller, Effects::Wrote);
                    turn.event(started);
                    turn.event(ToolCallArguments::new(call.clone(), arguments));
                    turn.event(ToolCallFinished::new(call, ToolCallStatus::Succeeded, Vec::new()));
                }
            }
            turn.flush().await?;
            assert!(!panics, "it breaks down, as it should");
            Err(failure(ErrorKind::Crashed))
        })
    }))
}

#[tokio::test]
async fn a_call_that_nobody_told_of_is_handed_over_as_one_whose_outcome_is_not_known() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Line {
        #[expect(dead_code, reason = "told, not read")]
        line: String,
    }
    for panics in [false, true] {
        let append = nexus_core::Tool::new("append", "", |_: Line| async {}).with_effects(Effects::Wrote);
        let host = TurnHost::new().with_tools(Arc::new(nexus_core::Toolbox::new().with(append)));
        let (beta, _, outcome) = taken_over(untelling(panics), host).await;
        outcome.unwrap();
        assert_eq!(
            record(&beta.last()).unwrap().1,
            json!({ "calls": [
                { "tool": "append", "arguments": { "line": "0" }, "outcome": "succeeded" },
                { "tool": "append", "arguments": { "line": "1" }, "outcome": "unknown" },
            ] }),
            "panics: {panics}"
        );
    }
}

#[tokio::test]
async fn what_a_router_within_put_back_is_not_told_as_done() {
    let inner = builder(&[&fake("delta", [Act::Fail(ErrorKind::Transport, nexus_core::Retry::Never, "")])])
        .backend(worker(vec![wrote("one")], None))
        .from_str(&chain("alpha, delta").replace("group: main }", "group: main, fallback: restore }"))
        .unwrap();
    let inner = inner.backend("work").unwrap();
    let beta = answering("beta");
    let router = builder(&[&beta]).backend(Arc::new(inner)).from_str(&continuing("work, beta")).unwrap();
    let host =
        TurnHost::new().with_before_retry(nexus_core::BeforeRetry::new(|_| async { Ok::<(), String>(()) }));
    let result = run_with(&router, TurnRequest::new("x"), host).await.1.unwrap();
    assert!(result.tool_calls[0].is_undone);
    assert_eq!(record(&beta.last()).map(|(_, told)| told["calls"].clone()), None);
}

#[tokio::test]
async fn who_did_nothing_after_one_that_did_hands_over_what_that_one_did() {
    let first = worker(vec![wrote("one")], None);
    let second = fake("beta", [Act::Fail(ErrorKind::UsageLimit, nexus_core::Retry::Never, "")]);
    let third = answering("gamma");
    let router =
        builder(&[&second, &third]).backend(first).from_str(&continuing("alpha, beta, gamma")).unwrap();
    let result = run_with(&router, TurnRequest::new("x"), TurnHost::new()).await.1.unwrap();
    assert_eq!(record(&third.last()).unwrap().1["calls"].as_array().unwrap().len(), 1);
    let handovers: Vec<_> = result.provenance.skipped.iter().map(|skipped| skipped.handover).collect();
    assert_eq!(handovers, [Handover::Continued, Handover::Nothing]);
}

#[tokio::test]
async fn effects_that_no_call_tells_of_are_not_gone_on_from() {
    let quiet = || {
        Arc::new(scripted("alpha", |turn| {
            turn.log.recorder.add_effects(Effects::Wrote);
            Box::pin(async { Err(failure(ErrorKind::Crashed)) })
        }))
    };
    let (beta, _, outcome) = taken_over(quiet(), TurnHost::new()).await;
    assert!(outcome.unwrap_err().to_string().contains("its changes are unknown"));
    assert_eq!(beta.turns(), 0);
    // Unless the files tell.
    let (beta, _, outcome) = taken_over(quiet(), changes("+one\n")).await;
    outcome.unwrap();
    assert_eq!(record(&beta.last()).unwrap().1, json!({ "calls": [], "changed_files": "+one\n" }));
}

#[tokio::test]
async fn long_arguments_and_answers_are_cut_and_no_call_is_left_out() {
    let long = "x".repeat(40_000);
    let calls: Vec<_> = (0..200)
        .map(|number| {
            let arguments = json!({ "number": number, "text": long });
            ("write", arguments, ToolCallStatus::Succeeded, long.clone())
        })
        .collect();
    let (beta, _, outcome) = taken_over(worker(calls, None), TurnHost::new()).await;
    outcome.unwrap();
    let (_, record) = record(&beta.last()).unwrap();
    let calls = record["calls"].as_array().unwrap();
    assert_eq!(calls.len(), 200);
    for (number, call) in calls.iter().enumerate() {
        let arguments = call["arguments"].as_str().unwrap();
        assert!(
            arguments.starts_with(&format!("{{\"number\":{number},")) && arguments.ends_with("bytes more)"),
            "{arguments}"
        );
    }
    assert!(record.to_string().len() <= 64 << 10);
}

#[tokio::test]
async fn each_backend_of_a_chain_is_told_of_all_before_it_and_limits_hold_over_all() {
    let worker = worker(vec![wrote("one"), wrote("two")], None);
    let second = fake("beta", [Act::FailLate(ErrorKind::Overloaded, Effects::Wrote)]);
    let third = answering("gamma");
    let router =
        builder(&[&second, &third]).backend(worker).from_str(&continuing("alpha, beta, gamma")).unwrap();
    let request = TurnRequest::new("x").with_limits(Limits::new().with_tool_calls(10));
    let (_, outcome) = run_with(&router, request.clone(), TurnHost::new()).await;
    let result = outcome.unwrap();
    assert_eq!(record(&third.last()).unwrap().1["calls"].as_array().unwrap().len(), 3);
    assert_eq!(third.last().prompt.len(), 2, "one record of all");
    assert_eq!(third.last().limits.tool_calls, Some(7));
    let handovers: Vec<_> = result.provenance.skipped.iter().map(|skipped| skipped.handover).collect();
    assert_eq!(handovers, [Handover::Continued; 2]);
    // What is used up is used up.
    let request = request.with_limits(Limits::new().with_tool_calls(2));
    let error = run_with(&router, request, TurnHost::new()).await.1.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitReached(Limit::ToolCalls));
}

#[tokio::test(start_paused = true)]
async fn a_look_at_the_files_ends_with_the_turn() {
    let looks = Arc::new(AtomicUsize::new(0));
    let hanging = |looks: &Arc<AtomicUsize>| {
        let (looks, first) = (Arc::clone(looks), AtomicUsize::new(0));
        FileChanges::new(move || {
            let is_first = first.fetch_add(1, Ordering::SeqCst) == 0;
            looks.fetch_add(usize::from(!is_first), Ordering::SeqCst);
            async move {
                if !is_first {
                    std::future::pending::<()>().await;
                }
                Ok::<_, String>(String::new())
            }
        })
    };
    let alpha = worker(vec![wrote("one")], None);
    let beta = answering("beta");
    let router = builder(&[&beta]).backend(alpha).from_str(&continuing("alpha, beta")).unwrap();
    let request = TurnRequest::new("x").with_limits(Limits::new().with_deadline(Duration::from_secs(30)));
    let error =
        run_with(&router, request, TurnHost::new().with_file_changes(hanging(&looks))).await.1.unwrap_err();
    assert_eq!(
        (error.kind(), error.partial().effects),
        (ErrorKind::LimitReached(Limit::Deadline), Effects::Wrote)
    );

    let cancel = CancelToken::new();
    let host = TurnHost::new().with_file_changes(hanging(&looks)).with_cancel(cancel.clone());
    let stop = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        cancel.cancel();
    };
    let ((_, outcome), ()) = tokio::join!(run_with(&router, TurnRequest::new("x"), host), stop);
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!((looks.load(Ordering::SeqCst), beta.turns()), (2, 0));
}
