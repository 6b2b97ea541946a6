//! The tool budget: who spends it, and that it is never exceeded.

use std::{
    sync::{Arc, Barrier},
    thread,
};

use nexus_core::{
    Denial, ErrorKind, Limit, ParticipantScope, Session, Submission, Tool, Toolbox, harness::Overrun,
};
use proptest::prelude::*;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

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

/// An answer with a check, so that a submission is refused by its schema or by its words.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Verdict {
    advances: bool,
}

/// A session whose only terminal tool takes `{"advances": true}` and refuses everything else.
fn reviewing() -> (Arc<Session>, Submission<Verdict>) {
    let place = Submission::new().checked_by(|verdict: &Verdict| match verdict.advances {
        true => Ok(()),
        false => Err("it does not advance".to_owned()),
    });
    let look = Tool::without_arguments("look", "", || async {});
    let tools = Toolbox::new().with(look).with(Tool::submit("submit_verdict", "", &place));
    (Session::mint("reviewer", ParticipantScope::unrestricted(), Arc::new(tools)), place)
}

/// Submits answers as a loop does: until the turn ends, or all are submitted. Returns how many were answered.
async fn submit_all(session: &Session, answers: impl IntoIterator<Item = Value>) -> usize {
    let mut overrun = Overrun::default();
    let mut answered = 0;
    for answer in answers {
        call(session, "submit_verdict", answer).await;
        answered += 1;
        if session.is_handed_in() || overrun.check(session).is_some() {
            break;
        }
        overrun.told(session);
    }
    answered
}

#[tokio::test]
async fn refused_submissions_end_the_turn_after_five() {
    let (session, place) = reviewing();
    let turn = session.for_turn(Some(25));
    // Each differs from the one before: half of them do not fit the schema, half are refused by the check.
    let invalid = (0..300).map(|n| match n % 2 {
        0 => json!({ "advances": n }),
        _ => json!({ "advances": false }),
    });
    let answered = submit_all(&turn, invalid).await;
    assert_eq!(answered, 5, "invalid submissions were answered, and each is a paid call of a model");
    let failure = Overrun::default().check(&turn).unwrap();
    assert_eq!(failure.kind, ErrorKind::LimitReached(Limit::ToolCalls));
    assert_eq!(failure.message.as_deref(), Some("5 submissions were rejected, which is the limit"));
    // The bound holds for the session, so that a second turn of it does not begin anew, and for the one that is valid.
    let second = session.for_turn(None);
    let late = call(&second, "submit_verdict", json!({ "advances": true })).await;
    assert_eq!((late.is_error, text(&late)), (true, "the session is over"));
    assert!(!place.is_there());
}

#[tokio::test]
async fn four_refused_submissions_leave_room_for_a_valid_one() {
    let (session, place) = reviewing();
    let answers =
        [json!({}), json!([]), json!("x"), json!({ "advances": false }), json!({ "advances": true })];
    assert_eq!(submit_all(&session, answers).await, 5);
    assert!(session.is_handed_in() && place.is_there());
}

/// Any JSON value of a few levels.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("advances|[a-z]{1,4}", inner, 0..4)
                .prop_map(|fields| fields.into_iter().collect::<Value>()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_of_answers_is_answered_more_than_five_times(answers in prop::collection::vec(any_json(), 6..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (session, _) = reviewing();
        let answered = runtime.block_on(submit_all(&session, answers.clone()));
        let valid = answers.iter().position(|answer| *answer == json!({ "advances": true }));
        prop_assert_eq!(answered, valid.map_or(5, |at| (at + 1).min(5)));
    }
}
