//! The rule `restore`: the host puts back what a failed attempt changed, and the next backend begins anew.

use std::{
    future,
    sync::{Arc, Mutex},
    time::Duration,
};

use nexus_core::{
    BeforeRetry, CallId, CancelToken, Effects, ErrorKind, EventEnvelope, FailedAttempt, FinishReason,
    Handover, Limit, Limits, ParticipantScope, Recorder, Retry, Session, Tool, ToolCall, ToolCallStatus,
    Toolbox, TurnError, TurnEvent, TurnHost, TurnRequest, TurnResult, Usd,
    turn::{ToolCallFinished, ToolCallStarted, ToolOrigin},
};
use nexus_router::Router;
use nexus_testkit::scripted::{ScriptedBackend, failure};
use tokio::time::Instant;

use super::support::{Act, answering, chain, fake, router, run_with, scripted};

/// One type `work` over these backends, put back in between.
fn restoring(ids: &str) -> String {
    chain(ids).replace("group: main }", "group: main, fallback: restore }")
}

/// What the hook was asked for.
type Asked = Arc<Mutex<Vec<FailedAttempt>>>;

/// A host that puts back whatever it is asked to.
fn host() -> (TurnHost, Asked) {
    let asked = Asked::default();
    let notes = Arc::clone(&asked);
    let hook = BeforeRetry::new(move |attempt: FailedAttempt| {
        notes.lock().unwrap().push(attempt);
        async { Ok::<(), String>(()) }
    });
    (TurnHost::new().with_before_retry(hook), asked)
}

fn fails(id: &str, effects: Effects) -> Arc<ScriptedBackend> {
    fake(id, [Act::FailLate(ErrorKind::Transport, effects)])
}

fn fallbacks(events: &[EventEnvelope]) -> Vec<(String, bool)> {
    let fallback = |envelope: &EventEnvelope| match &envelope.event {
        TurnEvent::Fallback(fell) => {
            Some((fell.skipped.backend.to_string(), fell.skipped.handover == Handover::Restored))
        }
        _ => None,
    };
    events.iter().filter_map(fallback).collect()
}

#[tokio::test]
async fn after_a_write_the_next_one_runs_on_what_was_put_back() {
    for effects in [Effects::Wrote, Effects::Unknown] {
        let (alpha, beta) = (fails("alpha", effects), answering("beta"));
        let (host, asked) = host();
        let router = router(&restoring("alpha, beta"), &[&alpha, &beta]);
        let (events, outcome) = run_with(&router, TurnRequest::new("x"), host).await;
        let result = outcome.unwrap();
        assert_eq!(result.text, "from beta");

        let asked = asked.lock().unwrap();
        let [attempt] = asked.as_slice() else { panic!("{asked:?}") };
        assert_eq!((attempt.backend.as_str(), attempt.next.as_str()), ("alpha", "beta"));
        assert_eq!((attempt.kind, attempt.effects), (ErrorKind::Transport, effects));
        assert_eq!(attempt.reason, "alpha lost its connection");

        assert_eq!(result.effects, Effects::None, "what was put back is nobody's effect");
        assert_eq!(result.provenance.skipped[0].handover, Handover::Restored);
        assert_eq!(fallbacks(&events), [("alpha".to_owned(), true)]);
        assert_eq!(result.usage.input_tokens, Some(20), "tokens are gone");
        let [call] = result.tool_calls.as_slice() else { panic!("{:?}", result.tool_calls) };
        assert!(call.is_undone && call.effects == effects);

        // Whoever records the events has the same.
        let mut recorder = Recorder::new();
        events.iter().for_each(|envelope| recorder.observe(&envelope.event));
        assert_eq!((recorder.tool_calls(), recorder.effects()), (&*result.tool_calls, result.effects));
    }
}

#[tokio::test]
async fn nothing_is_put_back_where_nothing_was_written_or_nobody_follows() {
    let read = fails("alpha", Effects::Read);
    let missing = fake("beta", [Act::Fail(ErrorKind::NotInstalled, Retry::Never, "")]);
    let gamma = fails("gamma", Effects::Wrote);
    let (host, asked) = host();
    let text = restoring("alpha, beta, gamma, delta") + "backends: { delta: { parked: \"for now\" } }\n";
    let delta = answering("delta");
    let all = [&read, &missing, &gamma, &delta];
    let (events, outcome) = run_with(&router(&text, &all), TurnRequest::new("x"), host.clone()).await;
    let error = outcome.unwrap_err();
    assert_eq!((error.kind(), error.partial().effects), (ErrorKind::Exhausted, Effects::Wrote));
    assert!(asked.lock().unwrap().is_empty());
    assert_eq!(fallbacks(&events), [("alpha".to_owned(), false), ("beta".to_owned(), false)]);

    // What is an answer is one, whatever could be put back.
    let refused = fake("alpha", [Act::FailLate(ErrorKind::Refused, Effects::Wrote)]);
    let error =
        run_with(&router(&restoring("alpha, delta"), &[&refused, &delta]), TurnRequest::new("x"), host)
            .await
            .1
            .unwrap_err();
    assert_eq!((error.kind(), error.partial().effects), (ErrorKind::Refused, Effects::Wrote));
    assert!(asked.lock().unwrap().is_empty());
    assert_eq!(delta.turns(), 0);
}

#[tokio::test]
async fn each_attempt_that_wrote_is_put_back_once() {
    let [alpha, beta, gamma, delta] = [
        fails("alpha", Effects::Wrote),
        fails("beta", Effects::Read),
        fake("gamma", [Act::Panic(Effects::Wrote)]),
        answering("delta"),
    ];
    let (host, asked) = host();
    let router = router(&restoring("alpha, beta, gamma, delta"), &[&alpha, &beta, &gamma, &delta]);
    let (events, outcome) = run_with(&router, TurnRequest::new("x"), host).await;
    let result = outcome.unwrap();
    let asked = asked.lock().unwrap();
    let pairs: Vec<_> = asked.iter().map(|one| (one.backend.as_str(), one.next.as_str(), one.kind)).collect();
    assert_eq!(pairs, [("alpha", "beta", ErrorKind::Transport), ("gamma", "delta", ErrorKind::Crashed)]);
    assert_eq!(result.effects, Effects::None);
    let restored = [("alpha", true), ("beta", false), ("gamma", true)];
    assert_eq!(fallbacks(&events), restored.map(|(id, is_restored)| (id.to_owned(), is_restored)));
    let skipped = result.provenance.skipped.iter();
    assert_eq!(
        skipped.map(|one| one.handover == Handover::Restored).collect::<Vec<_>>(),
        [true, false, true]
    );
    assert_eq!(result.tool_calls.len(), 3);
}

#[tokio::test]
async fn other_rules_put_nothing_back() {
    for (rule, turns) in [("continue", 1), ("before-writes", 0), ("never", 0)] {
        let (alpha, beta) = (fails("alpha", Effects::Wrote), answering("beta"));
        let (host, asked) = host();
        let text = restoring("alpha, beta").replace("restore", rule);
        let _ = run_with(&router(&text, &[&alpha, &beta]), TurnRequest::new("x"), host).await;
        assert!(asked.lock().unwrap().is_empty(), "{rule}");
        assert_eq!(beta.turns(), turns, "{rule}");
    }
}

#[tokio::test]
async fn a_host_that_cannot_put_anything_back_is_refused_before_anything_runs() {
    for ids in ["alpha, beta", "alpha"] {
        let (alpha, beta) = (answering("alpha"), answering("beta"));
        let router = router(&restoring(ids), &[&alpha, &beta]);
        let (events, outcome) = run_with(&router, TurnRequest::new("x"), TurnHost::new()).await;
        let error = outcome.unwrap_err();
        assert_eq!((error.kind(), error.backend().as_str()), (ErrorKind::InvalidRequest, "work"));
        assert!(
            error.to_string().contains("`restore`") && error.to_string().contains("with_before_retry"),
            "{error}"
        );
        assert!(events.is_empty());
        assert_eq!(alpha.turns(), 0);
    }
}

/// Runs a turn whose first backend wrote and failed.
async fn after_a_write(
    host: TurnHost,
    limits: Limits,
) -> (Result<TurnResult, TurnError>, Arc<ScriptedBackend>) {
    let words = "alpha lost its connection";
    let (alpha, beta) = (fails("alpha", Effects::Wrote), answering("beta"));
    let router = router(&restoring("alpha, beta"), &[&alpha, &beta]);
    let (events, outcome) = run_with(&router, TurnRequest::new("x").with_limits(limits), host).await;
    if let Err(error) = &outcome {
        assert!(fallbacks(&events).is_empty(), "{words}");
        assert_eq!(error.partial().text, "half of alpha", "what is on the screen is in the error");
        assert_eq!(error.partial().effects, Effects::Unknown, "it may be half put back");
        assert_eq!(error.partial().usage.input_tokens, Some(10));
        assert_eq!(error.partial().tool_calls.len(), 1);
    }
    (outcome, beta)
}

#[tokio::test]
async fn a_host_that_fails_ends_the_turn_with_the_error_of_the_attempt_and_the_reason() {
    let failing = BeforeRetry::new(|_| async { Err::<(), _>("the disk is full") });
    let panicking = BeforeRetry::new(|_| async {
        if true {
            panic!("the host breaks down, as it should");
        }
        Ok::<(), String>(())
    });
    let panicking_at_once = BeforeRetry::new(|attempt: FailedAttempt| {
        assert_eq!(attempt.backend.as_str(), "nobody", "the host breaks down, as it should");
        future::ready(Ok::<(), String>(()))
    });
    let hooks = [
        (failing, "the disk is full"),
        (panicking, "the hook panicked: the host breaks down, as it should"),
        (panicking_at_once, "the hook panicked: assertion"),
    ];
    for (hook, reason) in hooks {
        let (outcome, beta) = after_a_write(TurnHost::new().with_before_retry(hook), Limits::new()).await;
        let error = outcome.unwrap_err();
        assert_eq!((error.kind(), error.backend().as_str()), (ErrorKind::Transport, "alpha"));
        let words = format!("its changes could not be restored: {reason}");
        assert!(error.to_string().contains(&words), "{error}");
        assert!(error.skipped().is_empty(), "{:?}", error.skipped());
        assert_eq!(beta.turns(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn deadline_and_cancellation_hold_while_things_are_put_back() {
    let hangs = || BeforeRetry::new(|_| future::pending::<Result<(), String>>());
    let begun = Instant::now();
    let limits = Limits::new().with_deadline(Duration::from_secs(60));
    let (outcome, beta) = after_a_write(TurnHost::new().with_before_retry(hangs()), limits).await;
    let error = outcome.unwrap_err();
    assert_eq!(
        (error.kind(), begun.elapsed()),
        (ErrorKind::LimitReached(Limit::Deadline), Duration::from_secs(60))
    );
    assert!(error.to_string().contains("while the changes of alpha were being restored"), "{error}");
    assert_eq!(beta.turns(), 0);

    let cancel = CancelToken::new();
    let host = TurnHost::new().with_before_retry(hangs()).with_cancel(cancel.clone());
    let stop = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        cancel.cancel();
    };
    let ((outcome, beta), ()) = futures::join!(after_a_write(host, Limits::new()), stop);
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(beta.turns(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_time_that_putting_back_takes_is_the_turns() {
    let slow = BeforeRetry::new(|_| async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        Ok::<(), String>(())
    });
    let limits = Limits::new().with_deadline(Duration::from_secs(60));
    let (outcome, beta) = after_a_write(TurnHost::new().with_before_retry(slow), limits).await;
    outcome.unwrap();
    assert_eq!(beta.last().limits.deadline, Some(Duration::from_secs(40)));
}

#[tokio::test]
async fn a_backend_that_waits_for_its_turn_is_not_begun_for_nothing() {
    // Its limit of cost is used up by the first: nothing follows, so nothing is put back.
    let (alpha, beta) = (fails("alpha", Effects::Wrote), answering("beta"));
    let (host, asked) = host();
    let limits = Limits::new().with_output_tokens(5).with_cost(Usd(1.0));
    let router = router(&restoring("alpha, beta"), &[&alpha, &beta]);
    let (_, outcome) = run_with(&router, TurnRequest::new("x").with_limits(limits), host).await;
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitReached(Limit::OutputTokens));
    assert_eq!(error.partial().effects, Effects::Wrote);
    assert!(asked.lock().unwrap().is_empty());
    assert_eq!(beta.turns(), 0);
}

/// Calls the caller's tools, `calls` of them, tells of each, and may fail then.
fn caller(id: &str, calls: u32, fails: bool) -> Arc<ScriptedBackend> {
    Arc::new(scripted(id, move |turn| {
        Box::pin(async move {
            for number in 0..calls {
                let call = CallId::from(format!("c{number}"));
                let answer = turn.call("write", serde_json::json!({})).await?;
                let status = if answer.is_error { ToolCallStatus::Denied } else { ToolCallStatus::Succeeded };
                turn.event(ToolCallStarted::new(call.clone(), "write", ToolOrigin::Caller, Effects::Wrote));
                turn.event(ToolCallFinished::new(call, status, Vec::new()));
            }
            if fails { Err(failure(ErrorKind::Crashed)) } else { Ok((FinishReason::Stop, None)) }
        })
    }))
}

/// Two backends that make so many calls each, of which the first fails.
fn callers(calls: u32) -> Router {
    router(&restoring("alpha, beta"), &[&caller("alpha", calls, true), &caller("beta", calls, false)])
}

#[tokio::test]
async fn the_budget_of_calls_begins_anew_and_the_decisions_stay() {
    let tools = || Arc::new(Toolbox::new().with(Tool::without_arguments("write", "", || async {})));
    let session = Session::mint_with_budget("clerk", ParticipantScope::unrestricted(), tools(), 5);
    // An earlier turn of the session: what it did stays done.
    session.call(session.token(), ToolCall::new("0", "write", ().into())).await;
    let (host, asked) = host();
    let host = host.with_session(Arc::clone(&session));
    let request = TurnRequest::new("x").with_limits(Limits::new().with_tool_calls(4));
    let (_, outcome) = run_with(&callers(4), request, host).await;
    let result = outcome.unwrap();
    assert_eq!(asked.lock().unwrap().len(), 1);
    let statuses: Vec<_> = result.tool_calls.iter().map(|call| (call.status, call.is_undone)).collect();
    let succeeded = ToolCallStatus::Succeeded;
    assert_eq!(statuses, [[(succeeded, true); 4], [(succeeded, false); 4]].concat());
    // What a tool that does not say may have changed cannot be told.
    assert_eq!((session.calls_made(), session.effects()), (5, Effects::Unknown));
    assert_eq!(session.decisions().len(), 9, "what was called stays known");
    assert_eq!(result.effects, Effects::Unknown);
}

#[tokio::test]
async fn effects_of_the_session_are_those_of_the_attempt_that_counts() {
    let tools = Arc::new(Toolbox::new().with(Tool::without_arguments("write", "", || async {})));
    let session = Session::mint("clerk", ParticipantScope::unrestricted(), tools);
    let router = router(&restoring("alpha, beta"), &[&caller("alpha", 2, true), &answering("beta")]);
    let (host, _) = host();
    let (_, outcome) =
        run_with(&router, TurnRequest::new("x"), host.with_session(Arc::clone(&session))).await;
    assert_eq!(outcome.unwrap().effects, Effects::None);
    assert_eq!((session.effects(), session.calls_made()), (Effects::None, 0));
    assert_eq!(session.decisions().len(), 2);
}

#[tokio::test]
async fn a_seat_that_is_asked_again_is_put_back_too() {
    let alpha = fake("alpha", [Act::FailLate(ErrorKind::Refused, Effects::Wrote)]);
    let beta = answering("beta");
    let router = router(&restoring("alpha, beta"), &[&alpha, &beta]);
    let seat = router.seat(0, "work").unwrap().asking_again();
    let (host, asked) = host();
    let outcome = router.run_seat(&seat, TurnRequest::new("x"), host, &mut |_: EventEnvelope| {}).await;
    assert_eq!(outcome.outcome.unwrap().effects, Effects::None);
    assert_eq!(asked.lock().unwrap()[0].kind, ErrorKind::Refused);
}
