//! Seats at once, votes and non-votes, and the spread that really ran.

use std::{
    collections::BTreeSet,
    task::{Context, Poll},
    time::Duration,
};

use nexus_core::{
    BuildContext, CancelToken, Effects, ErrorKind, Limit, Registry, Retry, TurnEvent, TurnHost, TurnRequest,
};
use nexus_router::{
    Binding, FallbackRule, KindError, Panel, PanelOutcome, PanelSink, Router, Seat, SeatEvent, SeatOutcome,
    Vote,
};
use nexus_testkit::scripted::ScriptedBackend;
use tokio::time::Instant;

use super::support::{Act, answering, builder, fake, router};

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

#[tokio::test]
async fn vendors_that_differ_only_in_how_they_are_written_are_one() {
    for (one, other) in [
        ("North", "north"),
        ("acme", " ACME "),
        ("ac\u{200b}me", "\u{ff41}cme"),
        ("b\u{fc}cher", "BU\u{308}CHER"),
    ] {
        let (alpha, beta) =
            (fake("alpha", [Act::Slow(Duration::ZERO)]), fake("beta", [Act::Slow(Duration::ZERO)]));
        let router = Router::builder(Registry::new(), BuildContext::in_home("home"))
            .backend_of(one.into(), alpha)
            .backend_of(other.into(), beta)
            .from_value(serde_json::json!({
                "groups": { "one": ["alpha"], "two": ["beta"] },
                "types": { "review": { "panel": "jury" } },
                "panels": { "jury": [{ "group": "one" }, { "group": "two" }] },
            }))
            .unwrap();
        let warnings: Vec<String> = router.warnings().into_iter().map(|warning| warning.message).collect();
        assert!(
            warnings.concat().contains("needs answers of 2 vendors"),
            "{one:?} and {other:?}: {warnings:?}"
        );
        let outcome = run(&router, "review", TurnRequest::new("x")).await;
        assert_eq!((outcome.answers().count(), outcome.spread().len()), (2, 1), "{one:?} and {other:?}");
        assert!(outcome.shortfall().is_some());
    }
}

/// Asks every seat this, with a host of its own.
fn asking(request: TurnRequest) -> impl FnMut(&Seat) -> (TurnRequest, TurnHost) + Send {
    move |_| (request.clone(), TurnHost::new())
}

async fn run(router: &Router, panel: &str, request: TurnRequest) -> PanelOutcome {
    let panel = router.panel(panel).unwrap();
    router.run_panel(&panel, asking(request), &mut |_: SeatEvent| {}).await
}

#[tokio::test(start_paused = true)]
async fn seats_run_at_once_each_with_its_binding_and_lens() {
    let slow = || [Act::Slow(Duration::from_secs(10))];
    let (alpha, beta, gamma) = (fake("alpha", slow()), fake("beta", slow()), fake("gamma", slow()));
    let router = router(PANEL, &[&alpha, &beta, &gamma]);
    let begun = Instant::now();
    let mut seen: Vec<SeatEvent> = Vec::new();
    let mut sink = |event: SeatEvent| seen.push(event);
    let request = TurnRequest::new("review this").with_system("Be brief.");
    let panel = router.panel("review").unwrap();
    let outcome = router.run_panel(&panel, asking(request), &mut sink).await;
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
    let alpha = fake("alpha", [Act::Answer(" \n".into())]);
    let beta = fake("beta", [Act::Fail(ErrorKind::Refused, Retry::Never, "I would rather not")]);
    let gamma = answering("gamma");
    let router = router(PANEL, &[&alpha, &beta, &gamma]);
    let outcome = run(&router, "jury", TurnRequest::new("x")).await;
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
    let (alpha, beta, gamma) = (fake("alpha", gone()), fake("beta", gone()), answering("gamma"));
    let router = router(PANEL, &[&alpha, &beta, &gamma]);
    let outcome = run(&router, "review", TurnRequest::new("x")).await;
    assert_eq!(outcome.answers().count(), 3);
    assert_eq!(outcome.spread().into_iter().map(|vendor| vendor.as_str()).collect::<Vec<_>>(), ["gamma"]);
}

#[tokio::test]
async fn two_backends_of_one_vendor_are_one_opinion() {
    let (alpha, beta, gamma) = (answering("alpha"), answering("beta"), answering("gamma"));
    let router = builder(&[&gamma])
        .backend_of("acme".into(), alpha)
        .backend_of("acme".into(), beta)
        .from_str(PANEL)
        .unwrap();
    let outcome = run(&router, "review", TurnRequest::new("x")).await;
    let spread: BTreeSet<_> = outcome.spread().into_iter().map(|vendor| vendor.as_str()).collect();
    assert_eq!(spread, BTreeSet::from(["acme", "gamma"]));
}

#[tokio::test(start_paused = true)]
async fn one_seat_can_be_cancelled_alone() {
    let (alpha, beta, gamma) = (fake("alpha", [Act::Hang]), answering("beta"), answering("gamma"));
    let router = router(PANEL, &[&alpha, &beta, &gamma]);
    let cancel = CancelToken::new();
    let ask = |seat: &Seat| match seat.index {
        0 => (TurnRequest::new("x"), TurnHost::new().with_cancel(cancel.clone())),
        _ => (TurnRequest::new("x"), TurnHost::new()),
    };
    let mut ignore = |_: SeatEvent| {};
    let panel = router.panel("review").unwrap();
    let panel = router.run_panel(&panel, ask, &mut ignore);
    let stop = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        cancel.cancel();
    };
    let (outcome, ()) = futures::join!(panel, stop);
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

    fn ended(&mut self, _outcome: &SeatOutcome) {}
}

#[tokio::test(start_paused = true)]
async fn a_slow_sink_gets_every_event_in_its_own_time() {
    let (alpha, beta, gamma) = (answering("alpha"), answering("beta"), answering("gamma"));
    let router = router(PANEL, &[&alpha, &beta, &gamma]);
    let mut sink = Slow { busy: None, seen: 0 };
    let panel = router.panel("review").unwrap();
    let outcome = router.run_panel(&panel, asking(TurnRequest::new("x")), &mut sink).await;
    assert_eq!(outcome.answers().count(), 3);
    assert_eq!(sink.seen, 9);
}

/// Never ready.
#[derive(Default)]
struct Stuck {
    ended: Vec<usize>,
}

impl PanelSink for Stuck {
    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn accept(&mut self, _event: SeatEvent) {}

    fn ended(&mut self, outcome: &SeatOutcome) {
        self.ended.push(outcome.seat.index);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stuck_sink_does_not_keep_a_cancelled_panel() {
    let hang = || [Act::Hang];
    let (alpha, beta, gamma) = (fake("alpha", hang()), fake("beta", hang()), fake("gamma", hang()));
    let router = router(PANEL, &[&alpha, &beta, &gamma]);
    let cancel = CancelToken::new();
    let ask = |_: &Seat| (TurnRequest::new("x"), TurnHost::new().with_cancel(cancel.clone()));
    let mut stuck = Stuck::default();
    let panel = router.panel("review").unwrap();
    let panel = router.run_panel(&panel, ask, &mut stuck);
    let stop = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        cancel.cancel();
    };
    let (outcome, ()) = futures::join!(panel, stop);
    assert_eq!(outcome.answers().count(), 0);
}

#[tokio::test]
async fn a_turn_is_no_panel_and_a_panel_no_turn() {
    let (alpha, beta, gamma) = (answering("alpha"), answering("beta"), answering("gamma"));
    let router = router(PANEL, &[&alpha, &beta, &gamma]);
    let error = router.panel("work").unwrap_err();
    assert!(matches!(error, KindError::IsNoPanel { .. }));
    let error = router.binding("review").unwrap_err();
    assert!(matches!(error, KindError::IsPanel { ref panel, .. } if panel == "jury"));
    let mut nobody = |_| {};
    let error =
        router.run_turn("review", TurnRequest::new("x"), TurnHost::new(), &mut nobody).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
}

/// The minimum of the outcome, and what it says of why it was not met.
fn short(outcome: &PanelOutcome) -> Option<String> {
    outcome.shortfall().map(|shortfall| shortfall.to_string())
}

#[tokio::test]
async fn two_vendors_have_to_answer_unless_the_panel_says_otherwise() {
    let answering = || (answering("alpha"), answering("beta"), answering("gamma"));
    let (alpha, beta, gamma) = answering();
    let routed = router(PANEL, &[&alpha, &beta, &gamma]);
    let outcome = run(&routed, "review", TurnRequest::new("x")).await;
    assert_eq!((outcome.min_vendors, short(&outcome)), (2, None));

    let gone = || [Act::Fail(ErrorKind::NotInstalled, Retry::Never, "")];
    let (alpha, beta) = (fake("alpha", gone()), fake("beta", gone()));
    let routed = router(PANEL, &[&alpha, &beta, &gamma]);
    let outcome = run(&routed, "review", TurnRequest::new("x")).await;
    assert_eq!(outcome.answers().count(), 3);
    assert_eq!(short(&outcome).unwrap(), "only gamma answered, but the panel needs 2 vendors");

    let one = PANEL.replace("  jury:\n", "  jury:\n    min_vendors: 1\n    seats:\n");
    let outcome = run(&router(&one, &[&alpha, &beta, &gamma]), "review", TurnRequest::new("x")).await;
    assert_eq!((outcome.min_vendors, short(&outcome)), (1, None));
}

#[tokio::test]
async fn a_panel_sums_what_its_seats_used_those_that_failed_included() {
    // The seat of beta fails, is taken over by nobody, and had used tokens all the same.
    let beta = fake("beta", [Act::FailLate(ErrorKind::VendorFailure, Effects::Wrote)]);
    let routed = router(PANEL, &[&answering("alpha"), &beta, &answering("gamma")]);
    let outcome = run(&routed, "jury", TurnRequest::new("x")).await;
    assert_eq!(outcome.answers().count(), 2);
    let usage = outcome.usage();
    assert_eq!((usage.input_tokens, usage.output_tokens), (Some(30), Some(15)));
    assert_eq!(outcome.cost(), None, "nobody said what it cost");
    let nobody = PanelOutcome::new("jury", 2, Vec::new());
    assert_eq!((nobody.usage().input_tokens, nobody.cost()), (None, None));
}

#[tokio::test]
async fn a_panel_that_is_short_says_who_gave_no_vote() {
    let alpha = fake("alpha", [Act::Answer(String::new())]);
    let beta = fake("beta", [Act::Fail(ErrorKind::Refused, Retry::Never, "I would rather not")]);
    let outcome =
        run(&router(PANEL, &[&alpha, &beta, &answering("gamma")]), "jury", TurnRequest::new("x")).await;
    assert_eq!(
        short(&outcome).unwrap(),
        "only gamma answered, but the panel needs 2 vendors; seat 0, one (edges): alpha answered nothing; \
         seat 1, two (promises): beta declined to answer: I would rather not"
    );
    let shortfall = outcome.shortfall().unwrap();
    let stored = serde_json::to_string(&shortfall).unwrap();
    assert_eq!(serde_json::from_str::<nexus_router::Shortfall>(&stored).unwrap(), shortfall);
    assert_eq!(shortfall.silent.iter().map(|seat| seat.index).collect::<Vec<_>>(), [0, 1]);

    let silent = || [Act::Answer(String::new())];
    let all = [fake("alpha", silent()), fake("beta", silent()), fake("gamma", silent())];
    let outcome = run(&router(PANEL, &[&all[0], &all[1], &all[2]]), "jury", TurnRequest::new("x")).await;
    assert!(short(&outcome).unwrap().starts_with("no vendor answered, but the panel needs 2 vendors"));
}

#[tokio::test]
async fn each_seat_may_be_asked_something_else() {
    let (alpha, beta, gamma) = (answering("alpha"), answering("beta"), answering("gamma"));
    let router = router(PANEL, &[&alpha, &beta, &gamma]);
    let ask = |seat: &Seat| (TurnRequest::new(format!("question {}", seat.index)), TurnHost::new());
    router.run_panel(&router.panel("jury").unwrap(), ask, &mut |_: SeatEvent| {}).await;
    let asked = [&alpha, &beta, &gamma].map(|fake| fake.last().prompt_text());
    assert_eq!(asked, ["question 0", "question 1", "question 2"]);
}

#[tokio::test]
async fn a_seat_without_a_vote_is_asked_once_more_on_the_next_backend_of_its_group() {
    let first_acts = [
        Act::Answer("  ".into()),
        Act::Fail(ErrorKind::Refused, Retry::Never, "no"),
        Act::Fail(ErrorKind::OutputInvalid, Retry::Never, ""),
        Act::Fail(ErrorKind::LimitReached(Limit::RepeatedCalls), Retry::Never, ""),
    ];
    for act in first_acts {
        let (alpha, gamma) = (fake("alpha", [act.clone()]), answering("gamma"));
        let text = PANEL.replace("two: [beta, gamma]", "two: [gamma]");
        let router = router(&text, &[&alpha, &gamma]);
        let seat = router.seats("jury").unwrap().swap_remove(0);
        let ask = async |seat: &Seat| {
            let mut seen = Vec::new();
            let mut sink = |event: nexus_core::EventEnvelope| seen.push(event.event);
            let outcome = router.run_seat(seat, TurnRequest::new("x"), TurnHost::new(), &mut sink).await;
            (outcome, seen)
        };
        let (once, _) = ask(&seat).await;
        assert!(matches!(once.vote(), Vote::None(_)), "{act:?}");
        assert_eq!((alpha.turns(), gamma.turns()), (1, 0));

        let (again, seen) = ask(&seat.clone().asking_again()).await;
        let Vote::Answer(result) = again.vote() else { panic!("{act:?}: {again:?}") };
        assert_eq!((result.text.as_str(), again.vendor.as_ref().unwrap().as_str()), ("from gamma", "gamma"));
        assert_eq!(result.usage.input_tokens, Some(20), "what the first one used is not counted");
        assert_eq!(result.provenance.skipped[0].backend.as_str(), "alpha");
        assert!(
            seen.iter()
                .any(|event| matches!(event, TurnEvent::Fallback(fell) if fell.to.as_str() == "gamma"))
        );
        assert_eq!(again.seat, seat.clone().asking_again(), "the outcome is that of the seat");
        assert_eq!(seat.without(&"alpha".into()).unwrap().binding.chain, ["gamma".into()]);
    }
}

#[tokio::test]
async fn a_seat_is_asked_again_only_once_and_never_against_the_callers_word() {
    let silent = || [Act::Answer(String::new())];
    let binding = || Binding::new("own", ["alpha".into(), "beta".into(), "gamma".into()]);
    let all = |first: Act| [fake("alpha", [first]), fake("beta", silent()), fake("gamma", silent())];
    let ask = async |all: &[std::sync::Arc<ScriptedBackend>; 3], seat: Seat| {
        let router = router(PANEL, &[&all[0], &all[1], &all[2]]);
        let outcome = router
            .run_seat(&seat, TurnRequest::new("x"), TurnHost::new(), &mut |_: nexus_core::EventEnvelope| {})
            .await;
        assert!(matches!(outcome.vote(), Vote::None(_)), "{outcome:?}");
        [all[0].turns(), all[1].turns(), all[2].turns()]
    };
    let fakes = all(Act::Answer(String::new()));
    assert_eq!(ask(&fakes, Seat::new(0, binding()).asking_again()).await, [1, 1, 0]);
    // A backend that could not run is followed as ever, before it and after it.
    let fakes = all(Act::Fail(ErrorKind::Transport, Retry::Never, ""));
    assert_eq!(ask(&fakes, Seat::new(0, binding()).asking_again()).await, [1, 1, 1]);
    let callers_word = [
        Act::Fail(ErrorKind::Cancelled, Retry::Never, ""),
        Act::Fail(ErrorKind::InvalidRequest, Retry::Never, ""),
        Act::Fail(ErrorKind::LimitReached(Limit::ToolCalls), Retry::Never, ""),
        Act::FailLate(ErrorKind::Refused, Effects::Wrote),
    ];
    for act in callers_word {
        let fakes = all(act.clone());
        assert_eq!(ask(&fakes, Seat::new(0, binding()).asking_again()).await, [1, 0, 0], "{act:?}");
    }
    let fakes = all(Act::Answer(String::new()));
    let never = Seat::new(0, binding()).asking_again().with_fallback(FallbackRule::Never);
    assert_eq!(ask(&fakes, never).await, [1, 0, 0]);
}

#[tokio::test]
async fn a_program_composes_a_panel_of_nine_seats() {
    let (alpha, beta, gamma) = (answering("alpha"), answering("beta"), answering("gamma"));
    let router = router(PANEL, &[&alpha, &beta, &gamma]);
    let seats = (0..9).map(|index| match index % 3 {
        0 => router.seat(index, "work").unwrap(),
        1 => Seat::new(index, Binding::new("own", ["nobody".into(), "beta".into()])),
        _ => Seat::new(index, Binding::new("gone", ["nobody".into()])),
    });
    let panel = Panel::new("debate", seats).with_min_vendors(3);
    let outcome = router.run_panel(&panel, asking(TurnRequest::new("x")), &mut |_: SeatEvent| {}).await;
    assert_eq!((outcome.panel.as_str(), outcome.seats.len()), ("debate", 9));
    assert_eq!((outcome.answers().count(), outcome.spread().len()), (6, 2));
    let gone = outcome.seats[2].outcome.as_ref().unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::Exhausted);
    assert_eq!(gone.skipped()[0].reason, "it is not in the configuration");
    assert!(short(&outcome).unwrap().contains("needs 3 vendors; seat 2, gone: "), "{:?}", short(&outcome));
    assert!(matches!(router.seat(0, "review").unwrap_err(), KindError::IsPanel { .. }));

    let stored = serde_json::to_string(&panel).unwrap();
    assert_eq!(serde_json::from_str::<Panel>(&stored).unwrap(), panel);
}

/// Keeps each vote when it comes, and nothing else.
#[derive(Default)]
struct Votes(Vec<(usize, String)>);

impl PanelSink for Votes {
    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    fn accept(&mut self, _event: SeatEvent) {}

    fn ended(&mut self, outcome: &SeatOutcome) {
        self.0.push((outcome.seat.index, outcome.outcome.as_ref().unwrap().text.clone()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_program_that_is_stopped_after_two_of_three_votes_has_two() {
    let (alpha, beta) = (fake("alpha", [Act::Slow(Duration::from_secs(5))]), answering("beta"));
    let router = router(PANEL, &[&alpha, &beta, &fake("gamma", [Act::Hang])]);
    let mut votes = Votes::default();
    let panel = router.panel("review").unwrap();
    let running = router.run_panel(&panel, asking(TurnRequest::new("x")), &mut votes);
    tokio::time::timeout(Duration::from_secs(60), running).await.unwrap_err();
    assert_eq!(votes.0, [(1, "from beta".to_owned()), (0, "slowly from alpha".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn a_vote_does_not_wait_for_a_sink_that_is_stuck() {
    let fakes = [answering("alpha"), answering("beta"), fake("gamma", [Act::Hang])];
    let router = router(PANEL, &[&fakes[0], &fakes[1], &fakes[2]]);
    let mut stuck = Stuck::default();
    let panel = router.panel("review").unwrap();
    let running = router.run_panel(&panel, asking(TurnRequest::new("x")), &mut stuck);
    tokio::time::timeout(Duration::from_secs(60), running).await.unwrap_err();
    assert_eq!(stuck.ended, [0, 1]);
}
