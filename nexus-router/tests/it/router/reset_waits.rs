//! A turn whose host lets it wait goes on when a backend takes turns again, and never asks a held one.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use nexus_core::{
    CancelToken, Clock, Effects, ErrorKind, EventEnvelope, Limits, Retry, TurnError, TurnEvent, TurnHost,
    TurnRequest, TurnResult,
};
use nexus_router::Router;
use nexus_testkit::scripted::ScriptedBackend;
use tokio::time::Instant;

use super::support::{Act, answering, builder, chain, fake, run, run_with};

const HOUR: Duration = Duration::from_secs(3600);
const WORDS: &str = "the plan is used up";
/// Largest delay beyond the end of a hold, and time for the turn itself.
const SLACK: Duration = Duration::from_secs(20);

/// A clock that goes as the paused one of the runtime does.
#[derive(Debug)]
struct RuntimeClock(Instant);

impl Clock for RuntimeClock {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000) + self.0.elapsed()
    }
}

fn limited(after: Duration) -> Act {
    Act::Fail(ErrorKind::UsageLimit, Retry::After(after), WORDS)
}

fn waiting_router(text: &str, fakes: &[&Arc<ScriptedBackend>]) -> Router {
    builder(fakes).clock(Arc::new(RuntimeClock(Instant::now()))).from_str(text).unwrap()
}

async fn waiting(
    router: &Router,
    request: TurnRequest,
    longest: Duration,
) -> (Vec<EventEnvelope>, Result<TurnResult, TurnError>) {
    run_with(router, request, TurnHost::new().with_longest_wait(longest)).await
}

/// Returns the ends of the waits, each in seconds after the start, with the backends.
fn waits(seen: &[EventEnvelope], began: SystemTime) -> Vec<(u64, Vec<&str>)> {
    let waits = seen.iter().filter_map(|event| match &event.event {
        TurnEvent::Waiting(waiting) => Some(waiting),
        _ => None,
    });
    waits
        .map(|waiting| {
            let seconds = waiting.until.duration_since(began).unwrap().as_secs();
            (seconds, waiting.held.iter().map(|held| held.backend.as_str()).collect())
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_turn_waits_for_the_time_of_its_only_backend() {
    let alpha = fake("alpha", [limited(HOUR), Act::Answer("back".into())]);
    let router = waiting_router(&chain("alpha"), &[&alpha]);
    let (clock, began) = (Instant::now(), RuntimeClock(Instant::now()).now());
    let (seen, outcome) = waiting(&router, TurnRequest::new("x"), 2 * HOUR).await;
    let result = outcome.unwrap();
    assert_eq!(result.text, "back");
    assert_eq!(waits(&seen, began), [(3600, vec!["alpha"])]);
    assert!((HOUR..HOUR + SLACK).contains(&clock.elapsed()), "{:?}", clock.elapsed());
    // Both attempts are counted, and the backend that answered was not passed over.
    assert_eq!(result.usage.input_tokens, Some(20));
    assert!(result.provenance.skipped.is_empty(), "{:?}", result.provenance.skipped);
    assert!(!seen.iter().any(|event| matches!(event.event, TurnEvent::Fallback(_))), "{seen:?}");
    assert!(router.holds().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_held_backend_is_waited_for_without_a_request() {
    let alpha = fake("alpha", [limited(HOUR), Act::Answer("back".into())]);
    let router = waiting_router(&chain("alpha"), &[&alpha]);
    run(&router, TurnRequest::new("x")).await.1.unwrap_err();
    assert_eq!(waiting(&router, TurnRequest::new("x"), HOUR).await.1.unwrap().text, "back");
    assert_eq!(alpha.turns(), 2);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_waited_for_while_another_backend_can_run() {
    let (alpha, beta) = (fake("alpha", [limited(HOUR)]), answering("beta"));
    let router = waiting_router(&chain("alpha, beta"), &[&alpha, &beta]);
    let (seen, outcome) = waiting(&router, TurnRequest::new("x"), HOUR).await;
    assert_eq!(outcome.unwrap().text, "from beta");
    assert!(waits(&seen, SystemTime::UNIX_EPOCH).is_empty());
}

#[tokio::test(start_paused = true)]
async fn of_several_the_first_to_return_is_waited_for() {
    let alpha = fake("alpha", [limited(3 * HOUR), Act::Answer("alpha".into())]);
    let beta = fake("beta", [limited(HOUR), Act::Answer("beta".into())]);
    let router = waiting_router(&chain("alpha, beta"), &[&alpha, &beta]);
    let began = RuntimeClock(Instant::now()).now();
    let (seen, outcome) = waiting(&router, TurnRequest::new("x"), HOUR).await;
    let result = outcome.unwrap();
    assert_eq!(result.text, "beta");
    assert_eq!(waits(&seen, began), [(3600, vec!["alpha", "beta"])]);
    // The one that is still held was passed over.
    let skipped: Vec<_> = result.provenance.skipped.iter().map(|skipped| skipped.backend.as_str()).collect();
    assert_eq!(skipped, ["alpha"]);
    assert_eq!((alpha.turns(), beta.turns()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_longer_wait_than_allowed_does_not_begin() {
    let alpha = fake("alpha", [limited(HOUR)]);
    let router = waiting_router(&chain("alpha"), &[&alpha]);
    let clock = Instant::now();
    let (seen, outcome) = waiting(&router, TurnRequest::new("x"), HOUR / 2).await;
    let error = outcome.unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::UsageLimit, Some(WORDS)));
    assert!(waits(&seen, SystemTime::UNIX_EPOCH).is_empty() && clock.elapsed() < SLACK);
    // The next turn was not even sent, and says so.
    let error = waiting(&router, TurnRequest::new("x"), HOUR / 2).await.1.unwrap_err();
    assert!(error.message().unwrap().contains("not asked"), "{error}");
    assert_eq!(alpha.turns(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_waits_of_a_turn_together_are_limited() {
    let alpha = fake("alpha", [limited(HOUR), limited(HOUR), limited(HOUR), Act::Answer("late".into())]);
    let router = waiting_router(&chain("alpha"), &[&alpha]);
    let error = waiting(&router, TurnRequest::new("x"), 2 * HOUR + HOUR / 2).await.1.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UsageLimit);
    assert_eq!(alpha.turns(), 3);
    let alpha = fake("alpha", [limited(HOUR), limited(HOUR), limited(HOUR), Act::Answer("late".into())]);
    let router = waiting_router(&chain("alpha"), &[&alpha]);
    let result = waiting(&router, TurnRequest::new("x"), 4 * HOUR).await.1.unwrap();
    assert_eq!((result.text.as_str(), result.usage.input_tokens), ("late", Some(40)));
}

#[tokio::test(start_paused = true)]
async fn the_deadline_counts_work_and_no_wait() {
    let request = || TurnRequest::new("x").with_limits(Limits::new().with_deadline(Duration::from_secs(60)));
    let alpha = fake("alpha", [limited(HOUR), Act::Slow(Duration::from_secs(50))]);
    let router = waiting_router(&chain("alpha"), &[&alpha]);
    assert_eq!(waiting(&router, request(), HOUR).await.1.unwrap().text, "slowly from alpha");
    let alpha = fake("alpha", [limited(HOUR), Act::Hang]);
    let router = waiting_router(&chain("alpha"), &[&alpha]);
    let clock = Instant::now();
    waiting(&router, request(), HOUR).await.1.unwrap_err();
    assert!(clock.elapsed() < HOUR + Duration::from_secs(60) + SLACK, "{:?}", clock.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_released_hold_ends_the_wait() {
    let alpha = fake("alpha", [limited(HOUR), Act::Answer("early".into())]);
    let router = waiting_router(&chain("alpha"), &[&alpha]);
    let clock = Instant::now();
    let releasing = async {
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert!(router.release(&"alpha".into()).await);
    };
    let (outcome, ()) = tokio::join!(waiting(&router, TurnRequest::new("x"), HOUR), releasing);
    assert_eq!(outcome.1.unwrap().text, "early");
    assert!(clock.elapsed() < Duration::from_secs(100) + SLACK, "{:?}", clock.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_waiting_turn_is_cancelled_at_once() {
    let alpha = fake("alpha", [limited(HOUR)]);
    let router = waiting_router(&chain("alpha"), &[&alpha]);
    let cancel = CancelToken::new();
    let host = TurnHost::new().with_longest_wait(HOUR).with_cancel(cancel.clone());
    let clock = Instant::now();
    let cancelling = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(run_with(&router, TurnRequest::new("x"), host), cancelling);
    let error = outcome.1.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    // What the refused attempt has used is not lost.
    assert_eq!(error.partial().usage.input_tokens, Some(10));
    assert_eq!(clock.elapsed(), Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn one_of_many_waiting_turns_asks_first() {
    let alpha = fake("alpha", [limited(HOUR), Act::Slow(Duration::from_secs(10))]);
    let router = waiting_router(&chain("alpha"), &[&alpha]);
    run(&router, TurnRequest::new("x")).await.1.unwrap_err();
    let turns = (0..8).map(|_| waiting(&router, TurnRequest::new("x"), 2 * HOUR));
    let clock = Instant::now();
    for (_, outcome) in futures::future::join_all(turns).await {
        assert_eq!(outcome.unwrap().text, "slowly from alpha");
    }
    assert_eq!(alpha.turns(), 9);
    assert!(clock.elapsed() < HOUR + 3 * SLACK, "{:?}", clock.elapsed());
}

#[tokio::test(start_paused = true)]
async fn work_that_was_done_decides_if_the_turn_waits() {
    for (rule, effects, waits) in [
        ("before-writes", Effects::Read, true),
        ("before-writes", Effects::Wrote, false),
        ("never", Effects::Read, true),
        ("never", Effects::Wrote, false),
    ] {
        let alpha =
            fake("alpha", [Act::FailLate(ErrorKind::UsageLimit, effects), Act::Answer("back".into())]);
        let text =
            format!("groups: {{ main: [alpha] }}\ntypes: {{ work: {{ group: main, fallback: {rule} }} }}\n");
        let router = waiting_router(&text, &[&alpha]);
        let outcome = waiting(&router, TurnRequest::new("x"), HOUR).await.1;
        assert_eq!(outcome.is_ok(), waits, "{rule} {effects:?}: {outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_leave_no_turn_waits() {
    let alpha = fake("alpha", [limited(Duration::from_secs(1)), Act::Answer("back".into())]);
    let router = waiting_router(&chain("alpha"), &[&alpha]);
    let error = run(&router, TurnRequest::new("x")).await.1.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UsageLimit);
}
