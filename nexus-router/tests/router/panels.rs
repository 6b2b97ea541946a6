//! Seats at once, votes and non-votes, and the spread that really ran.

use std::{
    collections::BTreeSet,
    task::{Context, Poll},
    time::Duration,
};

use nexus_core::{CancelToken, ErrorKind, Retry, TurnEvent, TurnHost, TurnRequest};
use nexus_router::{KindError, PanelSink, SeatEvent, Vote};
use tokio::time::Instant;

use crate::support::{Act, Fake, builder, router};

const PANEL: &str = "\
groups: { one: [alpha, gamma], two: [beta, gamma], three: [gamma] }
models: { strong: { one: big, two: large } }
types:
  review: { panel: jury }
  work: { group: one }
panels:
  jury:
    - { group: one, model: strong, lens: edges }
    - { group: two, model: strong, effort: max, lens: promises }
    - { group: three }
lenses:
  edges: Look at the edges.
  promises: Look at the promises.
";

fn host(_seat: &nexus_router::Seat) -> TurnHost {
    TurnHost::new()
}

#[tokio::test(start_paused = true)]
async fn seats_run_at_once_each_with_its_binding_and_lens() {
    let slow = || [Act::Slow(Duration::from_secs(10))];
    let (alpha, beta, gamma) =
        (Fake::new("alpha", slow()), Fake::new("beta", slow()), Fake::new("gamma", slow()));
    let router = router(PANEL, &[&alpha, &beta, &gamma]);
    let begun = Instant::now();
    let mut seen: Vec<SeatEvent> = Vec::new();
    let mut sink = |event: SeatEvent| seen.push(event);
    let request = TurnRequest::new("review this").with_system("Be brief.");
    let outcome = router.run_panel("review", request, host, &mut sink).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_secs(10));
    assert_eq!(outcome.panel, "jury");
    assert_eq!(outcome.answers().count(), 3);
    assert_eq!(outcome.spread().len(), 3);
    assert_eq!(alpha.last().system.as_deref(), Some("Be brief.\n\nLook at the edges."));
    assert_eq!(beta.last().system.as_deref(), Some("Be brief.\n\nLook at the promises."));
    assert_eq!(gamma.last().system.as_deref(), Some("Be brief."));
    assert_eq!(beta.last().model, Some("large".into()));
    assert_eq!(outcome.seats[0].seat.to_string(), "one (edges)");
    for index in 0..3 {
        let own: Vec<_> = seen.iter().filter(|event| event.seat == index).map(|event| &event.event).collect();
        assert!(own.iter().enumerate().all(|(at, envelope)| envelope.sequence == at as u64));
        assert!(matches!(&own[0].event, TurnEvent::Started(_)));
    }
}

#[tokio::test]
async fn a_seat_that_fails_or_answers_nothing_is_no_vote() {
    let alpha = Fake::new("alpha", [Act::Answer(" \n".into())]);
    let beta = Fake::new("beta", [Act::Fail(ErrorKind::Refused, Retry::Never, "I would rather not")]);
    let gamma = Fake::answering("gamma");
    let router = router(PANEL, &[&alpha, &beta, &gamma]);
    let outcome =
        router.run_panel("jury", TurnRequest::new("x"), host, &mut |_: SeatEvent| {}).await.unwrap();
    let reasons: Vec<_> = outcome
        .seats
        .iter()
        .map(|seat| match seat.vote() {
            Vote::Answer(result) => result.text.clone(),
            Vote::None(reason) => format!("no vote: {reason}"),
        })
        .collect();
    assert_eq!(
        reasons,
        [
            "no vote: alpha answered nothing",
            "no vote: beta declined to answer: I would rather not",
            "from gamma"
        ]
    );
    assert_eq!(outcome.spread().len(), 1);
}

#[tokio::test]
async fn two_seats_that_fell_to_one_vendor_are_one_opinion() {
    let gone = || [Act::Fail(ErrorKind::NotInstalled, Retry::Never, "")];
    let (alpha, beta, gamma) =
        (Fake::new("alpha", gone()), Fake::new("beta", gone()), Fake::answering("gamma"));
    let router = router(PANEL, &[&alpha, &beta, &gamma]);
    let outcome =
        router.run_panel("review", TurnRequest::new("x"), host, &mut |_: SeatEvent| {}).await.unwrap();
    assert_eq!(outcome.answers().count(), 3);
    assert_eq!(outcome.spread().into_iter().map(|vendor| vendor.as_str()).collect::<Vec<_>>(), ["gamma"]);
}

#[tokio::test]
async fn two_backends_of_one_vendor_are_one_opinion() {
    let (alpha, beta, gamma) = (Fake::answering("alpha"), Fake::answering("beta"), Fake::answering("gamma"));
    let router = builder(&[&gamma])
        .backend_of("acme".into(), alpha)
        .backend_of("acme".into(), beta)
        .from_str(PANEL)
        .unwrap();
    let outcome =
        router.run_panel("review", TurnRequest::new("x"), host, &mut |_: SeatEvent| {}).await.unwrap();
    let spread: BTreeSet<_> = outcome.spread().into_iter().map(|vendor| vendor.as_str()).collect();
    assert_eq!(spread, BTreeSet::from(["acme", "gamma"]));
}

#[tokio::test(start_paused = true)]
async fn one_seat_can_be_cancelled_alone() {
    let (alpha, beta, gamma) =
        (Fake::new("alpha", [Act::Hang]), Fake::answering("beta"), Fake::answering("gamma"));
    let router = router(PANEL, &[&alpha, &beta, &gamma]);
    let cancel = CancelToken::new();
    let hosts = |seat: &nexus_router::Seat| match seat.index {
        0 => TurnHost::new().with_cancel(cancel.clone()),
        _ => TurnHost::new(),
    };
    let mut ignore = |_: SeatEvent| {};
    let panel = router.run_panel("review", TurnRequest::new("x"), hosts, &mut ignore);
    let stop = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        cancel.cancel();
    };
    let (outcome, ()) = futures::join!(panel, stop);
    let outcome = outcome.unwrap();
    assert_eq!(outcome.seats[0].outcome.as_ref().unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(outcome.answers().count(), 2);
}

/// Takes one event, and is then busy for a while.
struct Slow {
    busy: Option<std::pin::Pin<Box<tokio::time::Sleep>>>,
    seen: usize,
}

impl PanelSink for Slow {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self.busy.as_mut() {
            Some(busy) => busy.as_mut().poll(context),
            None => Poll::Ready(()),
        }
    }

    fn accept(&mut self, _event: SeatEvent) {
        self.seen += 1;
        self.busy = Some(Box::pin(tokio::time::sleep(Duration::from_secs(1))));
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_sink_gets_every_event_in_its_own_time() {
    let (alpha, beta, gamma) = (Fake::answering("alpha"), Fake::answering("beta"), Fake::answering("gamma"));
    let router = router(PANEL, &[&alpha, &beta, &gamma]);
    let mut sink = Slow { busy: None, seen: 0 };
    let outcome = router.run_panel("review", TurnRequest::new("x"), host, &mut sink).await.unwrap();
    assert_eq!(outcome.answers().count(), 3);
    assert_eq!(sink.seen, 9);
}

/// Never ready.
struct Stuck;

impl PanelSink for Stuck {
    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn accept(&mut self, _event: SeatEvent) {}
}

#[tokio::test(start_paused = true)]
async fn a_stuck_sink_does_not_keep_a_cancelled_panel() {
    let hang = || [Act::Hang];
    let (alpha, beta, gamma) =
        (Fake::new("alpha", hang()), Fake::new("beta", hang()), Fake::new("gamma", hang()));
    let router = router(PANEL, &[&alpha, &beta, &gamma]);
    let cancel = CancelToken::new();
    let hosts = |_: &nexus_router::Seat| TurnHost::new().with_cancel(cancel.clone());
    let mut stuck = Stuck;
    let panel = router.run_panel("review", TurnRequest::new("x"), hosts, &mut stuck);
    let stop = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        cancel.cancel();
    };
    let (outcome, ()) = futures::join!(panel, stop);
    assert_eq!(outcome.unwrap().answers().count(), 0);
}

#[tokio::test]
async fn a_turn_is_no_panel_and_a_panel_no_turn() {
    let (alpha, beta, gamma) = (Fake::answering("alpha"), Fake::answering("beta"), Fake::answering("gamma"));
    let router = router(PANEL, &[&alpha, &beta, &gamma]);
    let mut ignore = |_: SeatEvent| {};
    let error = router.run_panel("work", TurnRequest::new("x"), host, &mut ignore).await.unwrap_err();
    assert!(matches!(error, KindError::IsNoPanel { .. }));
    let error = router.binding("review").unwrap_err();
    assert!(matches!(error, KindError::IsPanel { ref panel, .. } if panel == "jury"));
    let mut nobody = |_| {};
    let error =
        router.run_turn("review", TurnRequest::new("x"), TurnHost::new(), &mut nobody).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
}
