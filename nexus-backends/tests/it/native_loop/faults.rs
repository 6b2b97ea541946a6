//! What a network and a broken server can do, through the whole loop.

use std::time::{Duration, Instant};

use nexus_core::{
    CancelToken, ErrorKind, EventEnvelope, IdleLimits, Limit, Limits, Phase, Retry, TurnEvent, TurnHost,
    TurnRequest,
};
use nexus_testkit::sim::{Cut, Dialect, Fault, Lie, RefusedPort, Reply, Scenario, Sim};
use serde_json::json;
use tokio::sync::Notify;

use super::stage::{Ran, backend, request, run};

const HALF: &str = "This answer breaks off in the mid";

/// Kinds of backend, each with the dialect of its server.
const KINDS: [(&str, Dialect); 2] = [("responses", Dialect::Responses), ("gemini", Dialect::Gemini)];

async fn weather((kind, dialect): (&str, Dialect), reply: Reply) -> Ran {
    let sim = Sim::start(dialect, Scenario::from(reply)).unwrap();
    run(&*backend(kind, &sim.base_url(), json!({})), request(), TurnHost::new()).await
}

/// Faults after half an answer: the kind they end as.
#[tokio::test]
async fn what_came_before_a_fault_is_in_the_error() {
    let cases = [
        (Fault::Torn { cut: Cut::Reset }, ErrorKind::Transport),
        (Fault::TornCharacter { cut: Cut::Reset }, ErrorKind::Transport),
        (
            Fault::StreamError { code: "server".into(), message: "Out of sorts.".into() },
            ErrorKind::VendorFailure,
        ),
        (
            Fault::ErrorLine { code: "internal".into(), message: "Out of sorts.".into() },
            ErrorKind::VendorFailure,
        ),
        (Fault::Length { lie: Lie::More }, ErrorKind::Transport),
    ];
    let cases = KINDS.into_iter().flat_map(|server| cases.clone().map(|(fault, kind)| (server, fault, kind)));
    for (server, fault, kind) in cases {
        let reply = Reply { fault: Some(fault.clone()), ..Reply::text(HALF) };
        let ran = weather(server, reply).await;
        if matches!(fault, Fault::Length { .. }) && ran.outcome.is_ok() {
            // The terminal event came before the lie was noticed: the answer is whole.
            assert_eq!(ran.result().text, HALF);
            continue;
        }
        let error = ran.error();
        assert_eq!(error.kind(), kind, "{fault:?}: {error}");
        let retry = match kind {
            ErrorKind::Transport => Retry::Now,
            _ => Retry::Guessed(Retry::SERVER_GUESS),
        };
        assert_eq!(error.retry(), retry, "{fault:?}");
        assert!(HALF.starts_with(&*error.partial().text) && !error.partial().text.is_empty(), "{fault:?}");
    }
}

#[tokio::test]
async fn what_is_no_answer_is_told_as_what_it_is() {
    let elsewhere = Fault::Redirect { status: 307, location: "http://127.0.0.1:1/v1".into() };
    let cases = [
        (Fault::Html200, ErrorKind::Transport),
        (Fault::Html { status: 502 }, ErrorKind::VendorFailure),
        (elsewhere, ErrorKind::InvalidRequest),
        (
            Fault::Error200 { code: "rate_limit_exceeded".into(), message: "Slow down.".into() },
            ErrorKind::RateLimited,
        ),
        (Fault::Empty200, ErrorKind::Transport),
        (Fault::Garbage, ErrorKind::Protocol),
        (Fault::ResetBeforeHeaders, ErrorKind::Transport),
        (Fault::HugeBody { status: 400, bytes: 100 << 20 }, ErrorKind::InvalidRequest),
    ];
    let cases = KINDS.into_iter().flat_map(|server| cases.clone().map(|(fault, kind)| (server, fault, kind)));
    for (server, fault, kind) in cases {
        let ran = weather(server, Reply::fault(fault.clone())).await;
        assert_eq!(ran.error().kind(), kind, "{server:?} {fault:?}: {}", ran.error());
    }
}

#[tokio::test]
async fn an_answer_in_an_odd_dress_is_an_answer() {
    for fault in [
        Fault::Gzip,
        Fault::Unstreamed,
        Fault::HugeEvent { bytes: 3 << 20 },
        Fault::Length { lie: Lie::More },
    ] {
        for server in KINDS {
            let ran = weather(server, Reply { fault: Some(fault.clone()), ..Reply::text("Whole.") }).await;
            assert_eq!(ran.result().text, "Whole.", "{server:?} {fault:?}");
        }
    }
}

#[tokio::test]
async fn an_event_beyond_the_bound_ends_the_turn() {
    let reply = Reply { fault: Some(Fault::HugeEvent { bytes: 3 << 20 }), ..Reply::text("Before.") };
    let sim = Sim::start(Dialect::Responses, Scenario::from(reply)).unwrap();
    let backend = backend("responses", &sim.base_url(), json!({ "max_event_bytes": 1 << 20 }));
    let ran = run(&*backend, request(), TurnHost::new()).await;
    assert_eq!(ran.error().kind(), ErrorKind::Protocol);
    assert!(ran.error().to_string().contains("max_event_bytes"), "{}", ran.error());
    assert_eq!(ran.error().partial().text, "Before.");
}

#[tokio::test]
async fn nobody_there_is_a_transport_error_that_may_pass() {
    let port = RefusedPort::bind().unwrap();
    let ran = run(&*backend("responses", &port.root_url(), json!({})), request(), TurnHost::new()).await;
    assert_eq!((ran.error().kind(), ran.error().retry()), (ErrorKind::Transport, Retry::Now));
}

#[tokio::test]
async fn a_certificate_of_nobody_we_know_is_refused() {
    let sim = Sim::builder(Dialect::Responses, Scenario::text("Hello.")).tls("localhost").start().unwrap();
    let ran = run(&*backend("responses", &sim.base_url(), json!({})), request(), TurnHost::new()).await;
    assert_eq!((ran.error().kind(), ran.error().retry()), (ErrorKind::Transport, Retry::Never));
    assert!(ran.error().to_string().contains("ca_file"), "{}", ran.error());
}

#[tokio::test]
async fn an_answer_torn_once_is_taken_back_and_asked_for_again() {
    let script = Scenario::new([Reply::text(HALF).torn(Cut::Reset), Reply::text("Whole.")]);
    let sim = Sim::start(Dialect::Responses, script).unwrap();
    let backend = backend("responses", &sim.base_url(), json!({ "retries": 1 }));
    let ran = run(&*backend, request(), TurnHost::new()).await;
    assert_eq!(ran.result().text, "Whole.");
    assert_eq!(ran.result().messages.len(), 1);
    let voided = ran.events.iter().position(|event| matches!(event, TurnEvent::MessageVoided(_))).unwrap();
    let retried = ran.events.iter().position(|event| matches!(event, TurnEvent::Retrying(_))).unwrap();
    assert!(voided < retried);
}

#[tokio::test]
async fn a_delay_beyond_our_patience_is_left_to_the_caller() {
    let sim =
        Sim::start(Dialect::Responses, Scenario::from(Reply::fault(Fault::rate_limited(3_600)))).unwrap();
    let began = Instant::now();
    let backend = backend("responses", &sim.base_url(), json!({ "retries": 3 }));
    let ran = run(&*backend, request(), TurnHost::new()).await;
    assert_eq!(ran.error().retry(), Retry::After(Duration::from_secs(3_600)));
    assert!(began.elapsed() < Duration::from_secs(60));
    assert_eq!(sim.main_calls().len(), 1);
}

#[tokio::test]
async fn a_flood_waits_for_a_slow_sink_and_for_the_deadline() {
    let reply = Reply { fault: Some(Fault::Flood), ..Reply::text("x") };
    let sim = Sim::start(Dialect::Responses, Scenario::from(reply)).unwrap();
    let backend = backend("responses", &sim.base_url(), json!({}));
    let mut sink = Never;
    let limits = Limits::new().with_deadline(Duration::from_secs(2));
    let turn = backend.run_turn(
        TurnRequest::new("Hello.").with_model("m").with_limits(limits),
        TurnHost::new(),
        &mut sink,
    );
    let error = tokio::time::timeout(Duration::from_secs(120), turn).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitReached(Limit::Deadline));
    assert!(error.partial().text.len() < 1 << 20, "nothing piles up: {}", error.partial().text.len());
}

/// A sink that never takes anything.
struct Never;

impl nexus_core::EventSink for Never {
    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<()> {
        std::task::Poll::Pending
    }

    fn accept(&mut self, _: EventEnvelope) {
        panic!("it was not ready");
    }
}

#[tokio::test]
async fn silence_is_told_by_its_phase() {
    for (reply, phase) in [
        (Reply::fault(Fault::StallBeforeHeaders), Phase::FirstByte),
        (Reply::empty().stalled(), Phase::FirstByte),
        (Reply::text("Half").stalled_with_pings(), Phase::Model),
    ] {
        let sim = Sim::start(Dialect::Responses, Scenario::from(reply)).unwrap();
        let limit =
            |of: Phase| if of == phase { Duration::from_millis(600) } else { Duration::from_secs(90) };
        let idle = [Phase::FirstByte, Phase::Model];
        let idle = idle.into_iter().fold(IdleLimits::none(), |idle, of| idle.with(of, limit(of)));
        let limits = Limits::new().with_idle(idle);
        let request = TurnRequest::new("Hello.").with_model("m").with_limits(limits);
        let ran = run(&*backend("responses", &sim.base_url(), json!({})), request, TurnHost::new()).await;
        assert_eq!(ran.error().kind(), ErrorKind::Starved(phase), "{}", ran.error());
    }
}

#[tokio::test]
async fn a_dropped_or_cancelled_turn_closes_its_connection() {
    let sim = Sim::start(Dialect::Responses, Scenario::from(Reply::text("Half").stalled())).unwrap();
    let backend = backend("responses", &sim.base_url(), json!({}));
    let patience = Duration::from_secs(60);
    let half = Notify::new();
    let mut sink = |envelope: EventEnvelope| {
        if matches!(envelope.event, TurnEvent::TextDelta(_)) {
            half.notify_one();
        }
    };
    tokio::select! {
        outcome = backend.run_turn(request(), TurnHost::new(), &mut sink) => panic!("{outcome:?}"),
        () = half.notified() => {}
    }
    assert!(sim.wait_until(patience, |sim| sim.open_connections() == 0).await, "after the drop");

    let cancel = CancelToken::new();
    let host = TurnHost::new().with_cancel(cancel.clone());
    let mut sink = |envelope: EventEnvelope| {
        if matches!(envelope.event, TurnEvent::TextDelta(_)) {
            cancel.cancel();
        }
    };
    let error = backend.run_turn(request(), host, &mut sink).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert_eq!(error.partial().text, "Half");
    assert!(sim.wait_until(patience, |sim| sim.open_connections() == 0).await, "after the cancellation");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_into_a_ready_sink_still_ends_at_the_deadline() {
    let reply = Reply { fault: Some(Fault::Flood), ..Reply::text("x") };
    let sim = Sim::start(Dialect::Responses, Scenario::from(reply)).unwrap();
    let backend = backend("responses", &sim.base_url(), json!({}));
    // On a busy machine the flood may begin late.
    let mut events = 0_u64;
    for seconds in [2, 10, 60] {
        let limits = Limits::new().with_deadline(Duration::from_secs(seconds));
        let request = TurnRequest::new("Hello.").with_model("m").with_limits(limits);
        let mut sink = |_: EventEnvelope| events += 1;
        let turn = backend.run_turn(request, TurnHost::new(), &mut sink);
        let error = tokio::time::timeout(Duration::from_secs(120), turn).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitReached(Limit::Deadline));
        if events > 100 {
            break;
        }
    }
    assert!(events > 100, "only {events} events came");
}

#[tokio::test]
async fn a_limit_that_begins_to_count_is_not_missed() {
    let sim = Sim::start(Dialect::Responses, Scenario::from(Reply::text("Half").stalled())).unwrap();
    let idle = IdleLimits::none()
        // Longer than the turn is waited for.
        .with(Phase::FirstByte, Duration::from_secs(300))
        .with(Phase::Model, Duration::from_millis(500));
    let request = TurnRequest::new("Hello.").with_model("m").with_limits(Limits::new().with_idle(idle));
    let ran = run(&*backend("responses", &sim.base_url(), json!({})), request, TurnHost::new()).await;
    assert_eq!(ran.error().kind(), ErrorKind::Starved(Phase::Model));
}
