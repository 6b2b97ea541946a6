//! A work-kind as a backend.

use std::sync::Arc;

use futures::StreamExt;
use nexus_core::{
    Availability, ConversationMode, ErrorKind, ExecutionBackend, ExecutionBackendExt, Retry, StreamItem,
    TurnHost, TurnRequest,
};

use super::support::{Act, answering, builder, chain, fake, fake_with, router};

#[tokio::test]
async fn whatever_takes_a_backend_takes_a_work_kind() {
    let (alpha, beta) =
        (fake("alpha", [Act::Fail(ErrorKind::Overloaded, Retry::Never, "busy")]), answering("beta"));
    let backend = router(&chain("alpha, beta"), &[&alpha, &beta]).backend("work").unwrap();
    assert_eq!(backend.id().as_str(), "work");
    assert_eq!(backend.run_text(TurnRequest::new("x")).await.unwrap().text, "from beta");
    let mut stream = Arc::new(backend).stream_turn(TurnRequest::new("x"), TurnHost::new());
    let mut last = None;
    while let Some(item) = stream.next().await {
        last = Some(item);
    }
    assert!(matches!(last, Some(StreamItem::Outcome(Ok(result))) if result.text == "from beta"));
}

#[tokio::test]
async fn what_a_router_lists_streams_and_boxes_are_backends_too() {
    let alpha = answering("alpha");
    let backends = router(&chain("alpha"), &[&alpha]).backends();
    let listed: &Arc<dyn ExecutionBackend> = &backends["alpha"];
    let streams = [
        Arc::clone(listed).stream_turn(TurnRequest::new("x"), TurnHost::new()),
        Arc::new(Box::new(Arc::clone(listed))).stream_turn(TurnRequest::new("x"), TurnHost::new()),
    ];
    for stream in streams {
        let last = stream.fold(None, async |_, item| Some(item)).await;
        assert!(matches!(last, Some(StreamItem::Outcome(Ok(result))) if result.text == "from alpha"));
    }
    let boxed: Box<dyn ExecutionBackend> = Box::new(Arc::clone(listed));
    assert_eq!(boxed.run_text(TurnRequest::new("x")).await.unwrap().text, "from alpha");
    assert_eq!((boxed.id(), boxed.capabilities()), (listed.id(), listed.capabilities()));
}

#[tokio::test]
async fn a_router_inside_a_router_runs_and_resumes() {
    let (alpha, beta) =
        (fake("alpha", [Act::Fail(ErrorKind::Transport, Retry::Never, "no route")]), answering("beta"));
    let inner = router(&chain("alpha, beta"), &[&alpha, &beta]).backend("work").unwrap();
    let other = answering("other");
    let text = "groups: { main: [work, other] }\ntypes: { outer: { group: main } }\n";
    let outer = builder(&[&other]).backend(Arc::new(inner)).from_str(text).unwrap();

    let mut nobody = |_| {};
    let keep = TurnRequest::new("x").with_conversation(ConversationMode::Keep);
    let first = outer.run_turn("outer", keep, TurnHost::new(), &mut nobody).await.unwrap();
    assert_eq!(first.text, "from beta");
    let handle = first.resume.unwrap();
    assert_eq!(handle.backend().as_str(), "work");

    let resume = TurnRequest::new("y").with_conversation(ConversationMode::resume(handle));
    let second = outer.run_turn("outer", resume, TurnHost::new(), &mut nobody).await.unwrap();
    assert_eq!(second.text, "from beta");
    assert_eq!(alpha.turns(), 1, "the conversation was offered to a backend that does not have it");
    assert_eq!(beta.last().conversation.handle().unwrap().backend().as_str(), "beta");
}

#[tokio::test]
async fn a_router_that_ran_out_is_followed_like_any_backend() {
    let gone = || [Act::Fail(ErrorKind::NotInstalled, Retry::Never, "")];
    let (alpha, beta) = (fake("alpha", gone()), fake("beta", gone()));
    let inner = router(&chain("alpha, beta"), &[&alpha, &beta]).backend("work").unwrap();
    let other = answering("other");
    let text = "groups: { main: [work, other] }\ntypes: { outer: { group: main } }\n";
    let outer = builder(&[&other]).backend(Arc::new(inner)).from_str(text).unwrap();
    let mut nobody = |_| {};
    let result = outer.run_turn("outer", TurnRequest::new("x"), TurnHost::new(), &mut nobody).await.unwrap();
    assert_eq!(result.text, "from other");
    assert_eq!(result.provenance.skipped[0].kind, Some(ErrorKind::Exhausted));
}

#[tokio::test]
async fn it_claims_what_the_first_that_could_run_can_do() {
    let mut able = super::support::capabilities();
    able.images = nexus_core::Support::Yes;
    let (alpha, beta) = (answering("alpha"), fake_with("beta", [Act::Answer("b".into())], able.clone()));
    let text = format!("{}backends: {{ alpha: {{ parked: \"later\" }} }}\n", chain("alpha, beta"));
    let router = router(&text, &[&alpha, &beta]);
    let backend = router.backend("work").unwrap();
    assert_eq!(backend.capabilities(), able);
    router.replace(&chain("alpha")).unwrap();
    assert_eq!(backend.capabilities(), able, "the answer changed");
    assert_eq!(backend.run_text(TurnRequest::new("x")).await.unwrap().text, "from alpha");
}

#[tokio::test]
async fn a_probe_asks_down_the_chain() {
    let alpha = answering("alpha");
    let text = format!("{}backends: {{ alpha: {{ parked: \"later\" }} }}\n", chain("alpha, gamma-cli"));
    let router = router(&text, &[&alpha]);
    let backend = router.backend("work").unwrap();
    let Availability::Unusable { reason } = backend.probe().await else { panic!() };
    assert_eq!(reason, "alpha: parked: later; gamma-cli: gamma-cli is not part of this build");
    router.replace(&chain("gamma-cli, alpha")).unwrap();
    assert!(backend.probe().await.is_ready());
}
