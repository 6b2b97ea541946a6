//! A turn whose host lets it wait goes on when a backend takes turns again, and never asks a held one.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use nexus_core::{
    BackendId, BeforeRetry, CancelToken, Clock, Effects, ErrorKind, EventEnvelope, Limits, Retry, TurnError,
    TurnEvent, TurnHost, TurnRequest, TurnResult,
};
use nexus_router::{
    Router,
    hold::{Hold, HoldStore, HoldStoreError, Revision, Slot, SlotClaim, StoredHold},
};
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
    let [(seconds, backends)] = &waits(&seen, began)[..] else { panic!("{seen:?}") };
    assert!((3600..=3605).contains(seconds) && *backends == ["alpha"], "{seconds} {backends:?}");
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
    let [(seconds, backends)] = &waits(&seen, began)[..] else { panic!("{seen:?}") };
    assert!((3600..=3605).contains(seconds) && *backends == ["alpha", "beta"], "{seconds} {backends:?}");
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
            fake("alpha", [Act::FailLate(ErrorKind::RateLimited, effects), Act::Answer("back".into())]);
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

/// A vendor that names no time is asked ever less often.
#[tokio::test(start_paused = true)]
async fn guessed_waits_grow_from_refusal_to_refusal() {
    let refused = || Act::Fail(ErrorKind::Overloaded, Retry::Never, "busy");
    let acts: Vec<Act> = (0..8).map(|_| refused()).chain([Act::Answer("at last".into())]).collect();
    let alpha = fake("alpha", acts);
    let router = waiting_router(&chain("alpha"), &[&alpha]);
    let began = RuntimeClock(Instant::now()).now();
    let (seen, outcome) = waiting(&router, TurnRequest::new("x"), 24 * HOUR).await;
    assert_eq!(outcome.unwrap().text, "at last");
    let ends: Vec<u64> = waits(&seen, began).into_iter().map(|(seconds, _)| seconds).collect();
    let spans: Vec<u64> = ends.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(
        spans.iter().zip([60, 120, 240, 480, 900, 900, 900]).all(|(span, least)| *span >= least),
        "{ends:?}"
    );
    assert!(spans.iter().all(|span| *span < 16 * 60), "{ends:?}");
}

/// Somebody has to pay where a plan is used up and its vendor names no time.
#[tokio::test(start_paused = true)]
async fn a_plan_without_a_known_reset_is_not_waited_for() {
    let alpha =
        fake("alpha", [Act::Fail(ErrorKind::UsageLimit, Retry::Never, "no credit"), Act::Answer("x".into())]);
    let router = waiting_router(&chain("alpha"), &[&alpha]);
    for _ in 0..2 {
        let error = waiting(&router, TurnRequest::new("x"), 24 * HOUR).await.1.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UsageLimit);
    }
    assert_eq!(alpha.turns(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_vendor_that_always_refuses_is_given_up() {
    let alpha = fake("alpha", [Act::Fail(ErrorKind::Overloaded, Retry::Never, "busy")]);
    let router = waiting_router(&chain("alpha"), &[&alpha]);
    let error = waiting(&router, TurnRequest::new("x"), 1000 * HOUR).await.1.unwrap_err();
    assert_eq!((error.kind(), alpha.turns()), (ErrorKind::Overloaded, 10));
    let alpha = fake("alpha", [limited(HOUR)]);
    let router = waiting_router(&chain("alpha"), &[&alpha]);
    let error = waiting(&router, TurnRequest::new("x"), 1000 * HOUR).await.1.unwrap_err();
    assert_eq!((error.kind(), alpha.turns()), (ErrorKind::UsageLimit, 50));
}

/// A hold ends after a day at the latest, and its vendor may have named a later time.
#[tokio::test(start_paused = true)]
async fn a_reset_after_the_longest_hold_counts_whole() {
    let acts = || [limited(72 * HOUR), limited(48 * HOUR), limited(24 * HOUR), Act::Answer("back".into())];
    let alpha = fake("alpha", acts());
    let router = waiting_router(&chain("alpha"), &[&alpha]);
    let clock = Instant::now();
    waiting(&router, TurnRequest::new("x"), 48 * HOUR).await.1.unwrap_err();
    assert!(alpha.turns() == 1 && clock.elapsed() < SLACK, "{:?}", clock.elapsed());
    let alpha = fake("alpha", acts());
    let router = waiting_router(&chain("alpha"), &[&alpha]);
    assert_eq!(waiting(&router, TurnRequest::new("x"), 73 * HOUR).await.1.unwrap().text, "back");
}

/// After the wait only the backends that it was for are tried again.
#[tokio::test(start_paused = true)]
async fn a_backend_that_failed_otherwise_is_not_tried_again() {
    let alpha = fake("alpha", [Act::Fail(ErrorKind::Crashed, Retry::Never, "broken")]);
    let beta = fake("beta", [limited(HOUR), limited(HOUR), Act::Answer("beta".into())]);
    let text = "groups: { main: [gone, alpha, beta] }\nbackends: { gone: { kind: gamma-cli } }\n\
                types: { work: { group: main } }\n";
    let router = waiting_router(text, &[&alpha, &beta]);
    let result = waiting(&router, TurnRequest::new("x"), 3 * HOUR).await.1.unwrap();
    assert_eq!((result.text.as_str(), alpha.turns(), beta.turns()), ("beta", 1, 3));
    let skipped: Vec<_> = result.provenance.skipped.iter().map(|skipped| skipped.backend.as_str()).collect();
    assert_eq!(skipped, ["gone", "alpha"]);
}

/// A store that stores nothing, as one without its server.
#[derive(Debug)]
struct BrokenStore;

#[async_trait]
impl HoldStore for BrokenStore {
    async fn list(&self) -> Result<Vec<StoredHold>, HoldStoreError> {
        Err(HoldStoreError::new("no server"))
    }

    async fn get(&self, _: &BackendId) -> Result<Option<StoredHold>, HoldStoreError> {
        Err(HoldStoreError::new("no server"))
    }

    async fn swap(
        &self,
        _: &BackendId,
        _: Option<Revision>,
        _: Option<Hold>,
    ) -> Result<bool, HoldStoreError> {
        Err(HoldStoreError::new("no server"))
    }

    async fn claim(&self, _: &Slot) -> Result<Option<SlotClaim>, HoldStoreError> {
        Ok(Some(SlotClaim::new(())))
    }

    async fn wait_for(&self, _: &[Slot], _: u32) {}

    fn known(&self) -> Vec<Hold> {
        Vec::new()
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_no_store_has_is_waited_for_all_the_same() {
    let alpha = fake("alpha", [limited(HOUR), limited(HOUR), Act::Answer("back".into())]);
    let clock = Instant::now();
    let router = builder(&[&alpha])
        .clock(Arc::new(RuntimeClock(clock)))
        .hold_store(Arc::new(BrokenStore))
        .from_str(&chain("alpha"))
        .unwrap();
    assert_eq!(waiting(&router, TurnRequest::new("x"), 3 * HOUR).await.1.unwrap().text, "back");
    assert!((2 * HOUR..2 * HOUR + SLACK).contains(&clock.elapsed()), "{:?}", clock.elapsed());
}

/// The changes of a refused attempt are reverted before the wait: later ones may be a person's.
#[tokio::test(start_paused = true)]
async fn changes_are_reverted_before_the_wait() {
    let alpha =
        fake("alpha", [Act::FailLate(ErrorKind::RateLimited, Effects::Wrote), Act::Answer("back".into())]);
    let text = "groups: { main: [alpha] }\ntypes: { work: { group: main, fallback: restore } }\n";
    let router = waiting_router(text, &[&alpha]);
    let (clock, reverted) = (Instant::now(), Arc::new(Mutex::new(Vec::new())));
    let hook = {
        let reverted = Arc::clone(&reverted);
        BeforeRetry::new(move |_| {
            reverted.lock().unwrap().push(clock.elapsed());
            async { Ok::<(), std::io::Error>(()) }
        })
    };
    let host = TurnHost::new().with_longest_wait(HOUR).with_before_retry(hook);
    let result = run_with(&router, TurnRequest::new("x"), host).await.1.unwrap();
    assert_eq!((result.text.as_str(), result.effects), ("back", Effects::None));
    assert_eq!(*reverted.lock().unwrap(), [Duration::ZERO]);
    assert!(clock.elapsed() >= Retry::RATE_LIMIT_GUESS);
}
