//! The tool budget: who spends it, and that it is never exceeded.

use std::{
    sync::{Arc, Barrier},
    thread,
};

use nexus_core::{Denial, Toolbox};
use serde_json::json;

use super::asked::{Asked, call, mint, text, verdicts};

#[tokio::test]
async fn beyond_the_budget_only_terminal_tools_are_asked() {
    let asked = Asked::default();
    let tools = Toolbox::new().with(asked.tool("look")).with(asked.tool("submit").terminal());
    let session = mint(tools, 2);
    for name in ["look", "nothing", "look"] {
        call(&session, name, json!({})).await;
    }
    assert_eq!((session.calls_made(), session.over_budget_calls()), (2, 1));
    assert!(session.has_terminal_tools());
    let refused = call(&session, "look", json!({})).await;
    assert_eq!(text(&refused), "the budget of 2 tool calls is used up; you may still call: submit");
    call(&session, "submit", json!({})).await;
    assert_eq!(asked.names(), ["look", "submit"]);
    assert_eq!((session.calls_made(), session.over_budget_calls()), (2, 2));
}

#[tokio::test]
async fn a_turn_spends_its_own_budget_and_that_of_its_session() {
    let asked = Asked::default();
    let session = mint(Toolbox::new().with(asked.tool("look")), 3);
    let first = session.for_turn(Some(2));
    for _ in 0..3 {
        call(&first, "look", json!({})).await;
    }
    assert_eq!((first.calls_made(), session.calls_made()), (2, 2));
    let second = session.for_turn(Some(2));
    for _ in 0..2 {
        call(&second, "look", json!({})).await;
    }
    assert_eq!((second.calls_made(), session.calls_made(), asked.names().len()), (1, 3, 3));
    assert_eq!(
        (first.over_budget_calls(), second.over_budget_calls(), session.over_budget_calls()),
        (1, 1, 2)
    );
}

#[test]
fn sixty_four_calls_at_once_never_exceed_a_budget() {
    let asked = Asked::default();
    let session = mint(Toolbox::new().with(asked.tool("look")), 40);
    let turns: Vec<_> = (0..4).map(|_| session.for_turn(Some(13))).collect();
    let start = Arc::new(Barrier::new(64));
    let threads: Vec<_> = (0..64)
        .map(|number: usize| {
            let (turn, start) = (turns[number % 4].share(), Arc::clone(&start));
            thread::spawn(move || {
                start.wait();
                turn.authorize(turn.token(), "look", &json!({ "n": number })).is_ok()
            })
        })
        .collect();
    let allowed = threads.into_iter().map(|thread| thread.join().unwrap()).filter(|allowed| *allowed).count();
    assert_eq!(allowed, 40);
    assert_eq!((session.calls_made(), session.over_budget_calls()), (40, 24));
    assert!(turns.iter().all(|turn| turn.calls_made() <= 13));
    assert_eq!(turns.iter().map(|turn| turn.calls_made()).sum::<u32>(), 40);
    // The order of the decisions is that in which the calls took from the budgets.
    for (turn, limit) in turns.iter().map(|turn| (&**turn, 13)).chain([(&*session, 40)]) {
        let verdicts = verdicts(turn);
        let allowed = verdicts.iter().filter(|(_, verdict)| verdict.is_ok()).count();
        assert!(allowed <= limit);
        let own = |verdict: &Result<(), Denial>| matches!(verdict, Err(Denial::OverBudget { budget, .. }) if *budget as usize == limit);
        let first = verdicts.iter().position(|(_, verdict)| own(verdict)).unwrap_or(verdicts.len());
        assert!(verdicts[..first].iter().filter(|(_, verdict)| verdict.is_ok()).count() <= allowed);
        assert!(verdicts[first..].iter().all(|(_, verdict)| verdict.is_err()), "{verdicts:?}");
    }
}
