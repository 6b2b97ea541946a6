//! Who is set aside, until when, and how it is found out that it is over.

use std::time::Duration;

use nexus_core::{Effects, ErrorKind, Retry, TurnRequest};
use nexus_router::{Verdict, hold::LONGEST_HOLD};

use super::support::{Act, ManualClock, answering, builder, chain, fake, run};

const LIMITED: Act = Act::Fail(ErrorKind::RateLimited, Retry::After(Duration::from_secs(300)), "slow down");

#[tokio::test]
async fn a_refusal_sets_a_backend_aside_until_the_vendors_time() {
    let (clock, alpha, beta) = (
        ManualClock::new(),
        fake("alpha", [LIMITED, Act::Answer("again from alpha".into())]),
        answering("beta"),
    );
    let router = builder(&[&alpha, &beta]).clock(clock.clone()).from_str(&chain("alpha, beta")).unwrap();
    assert_eq!(run(&router, TurnRequest::new("x")).await.1.unwrap().text, "from beta");
    let holds = router.holds();
    assert_eq!((holds[0].backend.as_str(), holds[0].guessed), ("alpha", false));
    assert_eq!(holds[0].reason, "slow down");

    clock.advance(Duration::from_secs(299));
    let result = run(&router, TurnRequest::new("x")).await.1.unwrap();
    assert_eq!(result.text, "from beta");
    assert_eq!(result.provenance.skipped[0].reason, "on hold for 1s: slow down");
    assert_eq!(result.provenance.skipped[0].until, Some(holds[0].until));
    assert_eq!(alpha.turns(), 1);

    clock.advance(Duration::from_secs(1));
    assert_eq!(run(&router, TurnRequest::new("x")).await.1.unwrap().text, "again from alpha");
    assert!(router.holds().is_empty());
}

#[tokio::test]
async fn a_refusal_without_a_time_is_a_stated_guess() {
    let alpha = fake("alpha", [Act::Fail(ErrorKind::RateLimited, Retry::Never, "")]);
    let clock = ManualClock::new();
    let router = builder(&[&alpha]).clock(clock.clone()).from_str(&chain("alpha")).unwrap();
    let error = run(&router, TurnRequest::new("x")).await.1.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RateLimited);
    assert!(router.holds()[0].guessed);
    let error = run(&router, TurnRequest::new("x")).await.1.unwrap_err();
    assert_eq!((error.kind(), error.backend().as_str()), (ErrorKind::RateLimited, "alpha"));
    assert_eq!(error.retry(), Retry::At(router.holds()[0].until));
    assert_eq!(alpha.turns(), 1, "a held backend was asked");
    clock.advance(Retry::RATE_LIMIT_GUESS);
    let error = run(&router, TurnRequest::new("x")).await.1.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RateLimited);
}

#[tokio::test(start_paused = true)]
async fn one_turn_finds_out_while_the_others_go_elsewhere() {
    let alpha = fake("alpha", [LIMITED, Act::Slow(Duration::from_secs(10))]);
    let beta = answering("beta");
    let clock = ManualClock::new();
    let router = builder(&[&alpha, &beta]).clock(clock.clone()).from_str(&chain("alpha, beta")).unwrap();
    run(&router, TurnRequest::new("x")).await.1.unwrap();
    clock.advance(Duration::from_secs(300));

    let probe = tokio::spawn({
        let router = router.clone();
        async move { run(&router, TurnRequest::new("x")).await.1 }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(router.holds()[0].probing);
    for _ in 0..3 {
        assert_eq!(run(&router, TurnRequest::new("x")).await.1.unwrap().text, "from beta");
    }
    assert_eq!(alpha.turns(), 2);
    assert_eq!(probe.await.unwrap().unwrap().text, "slowly from alpha");
    assert!(router.holds().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_dropped_lets_the_next_one_find_out() {
    let alpha = fake("alpha", [LIMITED, Act::Hang, Act::Answer("back".into())]);
    let clock = ManualClock::new();
    let router = builder(&[&alpha]).clock(clock.clone()).from_str(&chain("alpha")).unwrap();
    run(&router, TurnRequest::new("x")).await.1.unwrap_err();
    clock.advance(Duration::from_secs(300));
    let stopped = tokio::time::timeout(Duration::from_secs(1), run(&router, TurnRequest::new("x"))).await;
    assert!(stopped.is_err());
    assert_eq!(run(&router, TurnRequest::new("x")).await.1.unwrap().text, "back");
}

#[tokio::test]
async fn nothing_but_a_refusal_arms_a_hold() {
    for kind in [ErrorKind::Transport, ErrorKind::Crashed, ErrorKind::Unauthenticated, ErrorKind::Refused] {
        let alpha = fake("alpha", [Act::Fail(kind, Retry::After(Duration::from_secs(60)), "limit!")]);
        let router = builder(&[&alpha]).from_str(&chain("alpha")).unwrap();
        run(&router, TurnRequest::new("x")).await.1.unwrap_err();
        assert!(router.holds().is_empty(), "{kind:?}");
    }
}

#[tokio::test]
async fn no_vendor_holds_a_backend_for_more_than_a_day_and_explain_says_so() {
    let forever = Retry::After(Duration::from_secs(99_999_999_999));
    let alpha =
        fake("alpha", [Act::Fail(ErrorKind::RateLimited, forever, "go away"), Act::Answer("back".into())]);
    let clock = ManualClock::new();
    let router = builder(&[&alpha]).clock(clock.clone()).from_str(&chain("alpha")).unwrap();
    run(&router, TurnRequest::new("x")).await.1.unwrap_err();
    let text = router.explain("work").unwrap().to_string();
    assert!(
        text.contains(
            "on hold for 1d 0h (the vendor named 1157407d 9h, longer than the longest hold): go \
            away"
        ),
        "{text}"
    );
    clock.advance(LONGEST_HOLD);
    assert_eq!(run(&router, TurnRequest::new("x")).await.1.unwrap().text, "back");
}

#[tokio::test]
async fn three_turns_at_a_vendor_that_asks_for_patience_ask_it_once() {
    for kind in [ErrorKind::RateLimited, ErrorKind::Overloaded, ErrorKind::UsageLimit] {
        let alpha = fake("alpha", [Act::Fail(kind, Retry::Now, "")]);
        let router = builder(&[&alpha]).clock(ManualClock::new()).from_str(&chain("alpha")).unwrap();
        for _ in 0..3 {
            assert_eq!(run(&router, TurnRequest::new("x")).await.1.unwrap_err().kind(), kind);
        }
        assert_eq!(alpha.turns(), 1);
        assert!(router.holds()[0].guessed);
    }
}

#[tokio::test]
async fn a_refusal_after_a_write_arms_it_too() {
    let alpha = fake("alpha", [Act::FailLate(ErrorKind::UsageLimit, Effects::Wrote)]);
    let router = builder(&[&alpha]).from_str(&chain("alpha")).unwrap();
    run(&router, TurnRequest::new("x")).await.1.unwrap_err();
    assert_eq!(router.holds().len(), 1);
}

#[tokio::test]
async fn a_chain_in_which_all_are_held_says_when_the_first_comes_back() {
    let limited =
        |seconds| [Act::Fail(ErrorKind::RateLimited, Retry::After(Duration::from_secs(seconds)), "")];
    let (alpha, beta) = (fake("alpha", limited(300)), fake("beta", limited(120)));
    let clock = ManualClock::new();
    let router = builder(&[&alpha, &beta]).clock(clock.clone()).from_str(&chain("alpha, beta")).unwrap();
    let soon = Retry::At(nexus_core::Clock::now(&*clock) + Duration::from_secs(120));
    for _ in 0..2 {
        let error = run(&router, TurnRequest::new("x")).await.1.unwrap_err();
        assert_eq!((error.kind(), error.retry()), (ErrorKind::Exhausted, soon));
    }
    assert_eq!((alpha.turns(), beta.turns()), (1, 1));
}

#[tokio::test]
async fn a_hold_can_be_let_go_by_hand_and_shows_in_explain() {
    let alpha = fake("alpha", [LIMITED, Act::Answer("a".into())]);
    let router = builder(&[&alpha]).clock(ManualClock::new()).from_str(&chain("alpha")).unwrap();
    run(&router, TurnRequest::new("x")).await.1.unwrap_err();
    let text = router.explain("work").unwrap().to_string();
    assert_eq!(text, "work → main\n  1. alpha  skipped: on hold for 5m 0s: slow down");
    assert!(router.release(&"alpha".into()).await);
    assert!(!router.release(&"alpha".into()).await);
    let explained = router.explain("work").unwrap();
    let nexus_router::ExplainedTarget::Chain(chain) = explained.target else { panic!() };
    assert_eq!(chain.entries[0].verdict, Verdict::First);
}

#[tokio::test]
async fn a_hold_outlives_a_reload() {
    let alpha = fake("alpha", [LIMITED]);
    let router = builder(&[&alpha]).from_str(&chain("alpha")).unwrap();
    run(&router, TurnRequest::new("x")).await.1.unwrap_err();
    router.reload().unwrap();
    router.replace(&chain("alpha")).unwrap();
    assert_eq!(router.holds().len(), 1);
}
