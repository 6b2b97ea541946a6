//! One turn on one backend, without a type.

use std::time::Duration;

use nexus_core::{
    Budget, ConversationMode, ErrorKind, EventEnvelope, Limit, ResumeHandle, Retry, TurnError, TurnEvent,
    TurnHost, TurnRequest, TurnResult,
};
use nexus_router::Router;
use serde_json::json;

use super::support::{Act, ManualClock, answering, builder, fake, router};

async fn run_on(router: &Router, id: &str) -> Result<TurnResult, TurnError> {
    let mut unwatched = |_: EventEnvelope| {};
    router.run_on(&id.into(), TurnRequest::new("x"), TurnHost::new(), &mut unwatched).await
}

#[tokio::test]
async fn it_runs_there_and_nowhere_else() {
    let (alpha, beta) =
        (fake("alpha", [Act::Fail(ErrorKind::Transport, Retry::Never, "no route")]), answering("beta"));
    let text = "groups: { main: [alpha, beta] }\nbackends: { local: { kind: beta-cli } }\n";
    let router = router(text, &[&alpha, &beta]);
    assert_eq!(run_on(&router, "local").await.unwrap().text, "from local");
    assert_eq!(run_on(&router, "beta").await.unwrap().text, "from beta");
    let error = run_on(&router, "alpha").await.unwrap_err();
    assert_eq!((error.kind(), error.backend().as_str()), (ErrorKind::Transport, "alpha"));
    assert_eq!(beta.turns(), 1);
}

#[tokio::test]
async fn a_backend_that_is_not_there_is_told_with_those_that_are() {
    let alpha = answering("alpha");
    let router = router("backends: { local: { kind: beta-cli } }\n", &[&alpha]);
    let error = run_on(&router, "alpah").await.unwrap_err();
    assert_eq!((error.kind(), error.backend().as_str()), (ErrorKind::InvalidRequest, "alpah"));
    let message = error.to_string();
    assert!(
        message.contains("the configuration does not contain this backend; it contains alpha, local"),
        "{message}"
    );
    // A kind that the configuration does not name is none of its backends.
    assert_eq!(run_on(&router, "alpha-cli").await.unwrap_err().kind(), ErrorKind::InvalidRequest);
}

#[tokio::test]
async fn one_that_is_parked_or_missing_is_not_run() {
    let alpha = answering("alpha");
    let router = router("backends: { alpha: { parked: later }, gamma-cli: {} }\n", &[&alpha]);
    for (id, reason) in [("alpha", "parked: later"), ("gamma-cli", "gamma-cli is not part of this build")] {
        let error = run_on(&router, id).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exhausted);
        assert_eq!(error.skipped()[0].reason, reason);
    }
    assert_eq!(alpha.turns(), 0);
}

#[tokio::test]
async fn a_hold_is_that_of_all_turns() {
    let limited = Act::Fail(ErrorKind::RateLimited, Retry::After(Duration::from_secs(300)), "slow down");
    let alpha = fake("alpha", [limited, Act::Answer("again".into())]);
    let clock = ManualClock::new();
    let text = "groups: { main: [alpha] }\ntypes: { work: { group: main } }\n";
    let router = builder(&[&alpha]).clock(clock.clone()).from_str(text).unwrap();
    assert_eq!(run_on(&router, "alpha").await.unwrap_err().kind(), ErrorKind::RateLimited);
    let error = run_on(&router, "alpha").await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::RateLimited, Retry::At(router.holds()[0].until)));
    let said = error.message().unwrap();
    assert_eq!(said, "not asked, since an earlier turn was refused: on hold for 5m 0s: slow down");
    assert_eq!(alpha.turns(), 1, "a held backend was asked");
    assert!(router.explain("work").unwrap().to_string().contains("on hold for 5m 0s: slow down"));
    clock.advance(Duration::from_secs(300));
    assert_eq!(run_on(&router, "alpha").await.unwrap().text, "again");
    assert!(router.holds().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_turn_waits_for_its_place_among_all_turns() {
    let alpha = fake("alpha", [Act::Slow(Duration::from_secs(10))]);
    let text = "groups: { main: [alpha] }\nbackends: { alpha: { max_turns_at_once: 1 } }\n\
                types: { work: { group: main } }\n";
    let router = router(text, &[&alpha]);
    let id = "alpha".into();
    let mut seen = Vec::new();
    let mut sink = |event: EventEnvelope| seen.push(event.event);
    let (first, second) = futures::join!(
        router.run_text("work", TurnRequest::new("x")),
        router.run_on(&id, TurnRequest::new("x"), TurnHost::new(), &mut sink)
    );
    first.unwrap();
    second.unwrap();
    assert_eq!((alpha.turns(), alpha.most_at_once()), (2, 1));
    assert!(seen.iter().any(|event| matches!(event, TurnEvent::Queued(_))), "{seen:?}");
}

#[tokio::test]
async fn a_budget_bounds_it() {
    let alpha = answering("alpha");
    let router = router("groups: { main: [alpha] }\n", &[&alpha]);
    let budget = Budget::new().with_output_tokens(5);
    let mut unwatched = |_: EventEnvelope| {};
    let mut run = async || {
        let host = TurnHost::new().with_budget(budget.clone());
        router.run_on(&"alpha".into(), TurnRequest::new("x"), host, &mut unwatched).await
    };
    run().await.unwrap();
    assert_eq!(run().await.unwrap_err().kind(), ErrorKind::LimitReached(Limit::Budget));
    assert_eq!(alpha.turns(), 1);
}

#[tokio::test]
async fn a_conversation_of_another_backend_is_refused() {
    let (alpha, beta) = (answering("alpha"), answering("beta"));
    let router = router("groups: { main: [alpha, beta] }\n", &[&alpha, &beta]);
    let handle = ResumeHandle::new("beta".into(), json!("there"));
    let request = TurnRequest::new("x").with_conversation(ConversationMode::resume(handle));
    let mut unwatched = |_: EventEnvelope| {};
    let error = router.run_on(&"alpha".into(), request, TurnHost::new(), &mut unwatched).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
    assert_eq!((alpha.turns(), beta.turns()), (0, 0));
}
