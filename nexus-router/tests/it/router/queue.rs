//! `max_turns_at_once`: who waits, and what ends the wait.

use std::{
    task::{Context, Poll},
    time::Duration,
};

use nexus_core::{CancelToken, ErrorKind, Limit, Limits, TurnEvent, TurnHost, TurnRequest};
use tokio::time::{Instant, sleep};

use super::support::{Act, fake, router, run, run_with};

const ONE_AT_A_TIME: &str = "\
groups: { main: [alpha] }
backends: { alpha: { max_turns_at_once: 1 } }
types: { work: { group: main } }
";

fn slow() -> std::sync::Arc<nexus_testkit::scripted::ScriptedBackend> {
    fake("alpha", [Act::Slow(Duration::from_secs(10))])
}

#[tokio::test(start_paused = true)]
async fn turns_beyond_the_places_wait_and_say_so() {
    let alpha = slow();
    let router = router(ONE_AT_A_TIME, &[&alpha]);
    let begun = Instant::now();
    let turns = (0..4).map(|_| run(&router, TurnRequest::new("x")));
    let outcomes = futures::future::join_all(turns).await;
    assert_eq!(begun.elapsed(), Duration::from_secs(40));
    assert_eq!(alpha.most_at_once(), 1);
    let queued = |events: &[nexus_core::EventEnvelope]| {
        events.iter().filter(|envelope| matches!(envelope.event, TurnEvent::Queued(_))).count()
    };
    assert_eq!(outcomes.iter().map(|(events, _)| queued(events)).collect::<Vec<_>>(), [0, 1, 1, 1]);
    for (events, outcome) in outcomes {
        outcome.unwrap();
        assert!(events.is_sorted_by_key(|envelope| envelope.sequence));
    }
}

#[tokio::test(start_paused = true)]
async fn the_queued_event_is_seen_while_the_turn_waits() {
    let alpha = slow();
    let router = router(ONE_AT_A_TIME, &[&alpha]);
    let first = tokio::spawn({
        let router = router.clone();
        async move { run(&router, TurnRequest::new("x")).await.1 }
    });
    sleep(Duration::from_secs(1)).await;
    let (sender, receiver) = std::sync::mpsc::channel();
    let second = tokio::spawn({
        let router = router.clone();
        async move {
            let mut sink = move |event: nexus_core::EventEnvelope| sender.send(event).unwrap();
            router.run_turn("work", TurnRequest::new("x"), TurnHost::new(), &mut sink).await
        }
    });
    sleep(Duration::from_secs(1)).await;
    assert!(matches!(receiver.try_recv().unwrap().event, TurnEvent::Queued(queued) if queued.limit == 1));
    first.await.unwrap().unwrap();
    second.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn cancellation_and_the_deadline_end_the_wait() {
    let alpha = fake("alpha", [Act::Hang]);
    let router = router(ONE_AT_A_TIME, &[&alpha]);
    let stop_first = CancelToken::new();
    let first = tokio::spawn({
        let (router, host) = (router.clone(), TurnHost::new().with_cancel(stop_first.clone()));
        async move { run_with(&router, TurnRequest::new("x"), host).await.1 }
    });
    sleep(Duration::from_secs(1)).await;

    let begun = Instant::now();
    let limits = Limits::new().with_deadline(Duration::from_secs(7));
    let error = run(&router, TurnRequest::new("x").with_limits(limits)).await.1.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitReached(Limit::Deadline));
    assert_eq!(begun.elapsed(), Duration::from_secs(7));

    let cancel = CancelToken::new();
    let waiting = tokio::spawn({
        let (router, host) = (router.clone(), TurnHost::new().with_cancel(cancel.clone()));
        async move { run_with(&router, TurnRequest::new("x"), host).await.1 }
    });
    sleep(Duration::from_secs(1)).await;
    cancel.cancel();
    assert_eq!(waiting.await.unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(alpha.turns(), 1);
    stop_first.cancel();
    assert_eq!(first.await.unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_turn_gives_its_place_back() {
    let alpha = fake("alpha", [Act::Hang, Act::Answer("next".into())]);
    let router = router(ONE_AT_A_TIME, &[&alpha]);
    let stopped = tokio::time::timeout(Duration::from_secs(1), run(&router, TurnRequest::new("x"))).await;
    assert!(stopped.is_err());
    assert_eq!(alpha.running(), 0);
    assert_eq!(run(&router, TurnRequest::new("x")).await.1.unwrap().text, "next");
}

#[tokio::test(start_paused = true)]
async fn a_reload_changes_the_number_of_places() {
    let alpha = slow();
    let router = router(ONE_AT_A_TIME, &[&alpha]);
    let turns = futures::future::join_all((0..4).map(|_| run(&router, TurnRequest::new("x"))));
    let widen = async {
        sleep(Duration::from_secs(1)).await;
        router.replace(&ONE_AT_A_TIME.replace("once: 1", "once: 3")).unwrap();
        sleep(Duration::from_secs(1)).await;
        assert_eq!(alpha.running(), 3);
        router.replace(&ONE_AT_A_TIME.replace("max_turns_at_once: 1", "")).unwrap();
        sleep(Duration::from_secs(1)).await;
        assert_eq!(alpha.running(), 4);
    };
    futures::join!(turns, widen);
}

/// Never ready.
struct Stuck;

impl nexus_core::EventSink for Stuck {
    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn accept(&mut self, _event: nexus_core::EventEnvelope) {}
}

#[tokio::test(start_paused = true)]
async fn a_stuck_sink_delays_neither_the_deadline_nor_cancellation() {
    let alpha = fake("alpha", [Act::Hang]);
    let router = router(ONE_AT_A_TIME, &[&alpha]);
    let _first = tokio::spawn({
        let router = router.clone();
        async move { run(&router, TurnRequest::new("x")).await.1 }
    });
    sleep(Duration::from_secs(1)).await;

    let begun = Instant::now();
    let limits = Limits::new().with_deadline(Duration::from_secs(5));
    let request = TurnRequest::new("x").with_limits(limits);
    let error = router.run_turn("work", request, TurnHost::new(), &mut Stuck).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitReached(Limit::Deadline));
    assert_eq!(begun.elapsed(), Duration::from_secs(5));

    let cancel = CancelToken::new();
    let mut stuck = Stuck;
    let host = TurnHost::new().with_cancel(cancel.clone());
    let turn = router.run_turn("work", TurnRequest::new("x"), host, &mut stuck);
    let stop = async {
        sleep(Duration::from_secs(2)).await;
        cancel.cancel();
    };
    let (outcome, ()) = futures::join!(turn, stop);
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(begun.elapsed(), Duration::from_secs(7));
}
