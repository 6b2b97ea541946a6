//! Tokens, and what is left of a session when it is over.

use std::{
    collections::BTreeSet,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use nexus_core::{DecisionOutcome, Denial, SessionToken, Tool, ToolCall, Toolbox, TurnHost};
use serde_json::json;

use super::asked::{Asked, call, mint, text, verdicts};
use crate::effort;

#[tokio::test]
async fn a_call_without_the_token_reaches_no_tool_and_leaves_no_arguments() {
    let asked = Asked::default();
    let session = mint(Toolbox::new().with(asked.tool("look")), 1);
    let other = mint(Toolbox::new().with(asked.tool("look")), None);
    for wrong in [other.token().clone(), SessionToken::presented(""), SessionToken::presented("x".repeat(43))]
    {
        let result = session.call(&wrong, ToolCall::new("1", "look", json!({ "secret": 1 }))).await;
        assert!(result.is_error);
    }
    assert_eq!(asked.names(), [""; 0]);
    assert_eq!(session.calls_made(), 0, "strangers spend nobody's budget");
    let decisions = session.decisions();
    assert_eq!(decisions.len(), 3);
    assert!(decisions.iter().all(|decision| decision.arguments.is_null()));
    assert!(decisions.iter().all(|decision| decision.outcome == DecisionOutcome::Denied(Denial::WrongToken)));
}

#[tokio::test]
async fn a_token_is_of_no_use_after_its_turn() {
    let asked = Asked::default();
    let session = mint(Toolbox::new().with(asked.tool("look")), None);
    let turn = session.for_turn(None);
    let (shared, token) = (turn.share(), turn.token().clone());
    assert!(!shared.call(&token, ToolCall::new("1", "look", json!({}))).await.is_error);
    drop(turn);
    assert!(shared.is_closed() && !session.is_closed());
    let replayed = shared.call(&token, ToolCall::new("2", "look", json!({}))).await;
    assert_eq!(text(&replayed), "the session is over");
    assert!(session.call(&token, ToolCall::new("3", "look", json!({}))).await.is_error);
    assert_eq!(asked.names(), ["look"]);
    let wanted =
        [Ok(()), Err(Denial::Closed), Err(Denial::WrongToken)].map(|verdict| ("look".to_owned(), verdict));
    assert_eq!(verdicts(&session), wanted);
    assert_eq!(shared.decisions().len(), 2, "a turn knows its own decisions alone");
}

#[tokio::test]
async fn a_session_that_is_closed_closes_its_turns() {
    let asked = Asked::default();
    let session = mint(Toolbox::new().with(asked.tool("look")), None);
    let (before, nested) = (session.for_turn(None), session.for_turn(None).share().for_turn(None));
    session.close();
    for turn in [before, nested, session.for_turn(None)] {
        assert!(turn.is_closed());
        assert_eq!(text(&call(&turn, "look", json!({})).await), "the session is over");
    }
    assert_eq!(asked.names(), [""; 0]);
}

#[tokio::test]
async fn a_call_under_way_has_its_answer_when_the_session_is_closed() {
    let barrier = Arc::new(tokio::sync::Barrier::new(2));
    let inside = Arc::clone(&barrier);
    let slow = Tool::without_arguments("slow", "", move || {
        let barrier = Arc::clone(&inside);
        async move {
            barrier.wait().await;
            barrier.wait().await;
            "late"
        }
    });
    let session = mint(Toolbox::new().with(slow), None);
    let turn = session.for_turn(None);
    let running = turn.share();
    let (answer, ()) = tokio::join!(call(&running, "slow", json!({})), async {
        barrier.wait().await;
        drop(turn);
        barrier.wait().await;
    });
    assert_eq!(text(&answer), "late");
    assert_eq!(running.authorize(running.token(), "slow", &json!({})).unwrap_err(), Denial::Closed);
}

#[test]
fn nothing_is_let_through_after_a_session_was_closed() {
    for _ in 0..effort::rounds() {
        let session = mint(Toolbox::new().with(Asked::default().tool("look")), None);
        let turn = session.for_turn(None);
        let callers: Vec<_> = (0..4)
            .map(|_| {
                let turn = turn.share();
                thread::spawn(move || {
                    let denied = || turn.authorize(turn.token(), "look", &json!({})).is_err();
                    let began = Instant::now();
                    while !denied() {
                        assert!(began.elapsed() < Duration::from_secs(60), "the session is never closed");
                    }
                })
            })
            .collect();
        thread::yield_now();
        drop(turn);
        let before = session
            .decisions()
            .iter()
            .filter(|decision| decision.outcome == DecisionOutcome::Allowed)
            .count();
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        let after = session
            .decisions()
            .iter()
            .filter(|decision| decision.outcome == DecisionOutcome::Allowed)
            .count();
        if session.forgotten_decisions() == 0 {
            assert_eq!(before, after);
        }
        assert_eq!(session.decisions().last().unwrap().outcome, DecisionOutcome::Denied(Denial::Closed));
    }
}

#[test]
fn no_two_tokens_are_the_same_and_none_is_printed() {
    let session = mint(Toolbox::new(), None);
    let turns: Vec<_> = (0..100).map(|_| session.for_turn(None)).collect();
    let tokens: BTreeSet<&str> = turns.iter().map(|turn| turn.token().expose()).collect();
    assert_eq!(tokens.len(), 100);
    let turn = &turns[0];
    let host = TurnHost::new().with_session(turn.share());
    let printed =
        format!("{session:?} {turn:?} {:?} {host:?} {:?} {:?}", turn.token(), session.router(), turn.share());
    assert!(printed.contains("clerk") && printed.contains("[redacted]"), "{printed}");
    assert!(!printed.contains(turn.token().expose()) && !printed.contains(session.token().expose()));
}
