//! Answers that are handed in by a tool, where several backends may have the turn.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use nexus_core::{
    BeforeRetry, Effects, ErrorKind, EventEnvelope, FailedAttempt, FinishReason, Handover, OutputSchema,
    Submission, Tool, ToolCall, Toolbox, TurnHost, TurnRequest, harness::Failure,
};
use nexus_router::{Router, Vote};
use nexus_testkit::scripted::ScriptedBackend;
use serde_json::json;

use super::support::{self, chain, run_with, scripted};

#[derive(Clone, Copy, Debug)]
enum Then {
    /// Says nothing more.
    IsSilent,
    /// Owes an answer in a shape, and gives it.
    Answers,
    Fails,
    Panics,
}

/// Hands in its own name, then ends so.
fn submitter(id: &'static str, then: Then) -> Arc<ScriptedBackend> {
    Arc::new(scripted(id, move |turn| {
        Box::pin(async move {
            let call = ToolCall::new("1", "submit", json!({ "word": id }));
            let answers = turn.answer_calls(vec![call]).await?;
            match then {
                Then::IsSilent => Ok((FinishReason::Stop, None)),
                Then::Answers => Ok((FinishReason::Stop, Some(json!({ "error": answers[0].is_error })))),
                Then::Fails => Err(Failure::new(ErrorKind::Transport, "the connection is lost")),
                Then::Panics => panic!("{id} breaks down, as it should"),
            }
        })
    }))
}

/// What is handed in: `{ "word": … }`.
type Word = BTreeMap<String, String>;

/// What was handed in.
fn word(place: &Submission<Word>) -> Option<String> {
    place.take().map(|mut found| found.remove("word").expect("a word"))
}

/// A host whose one tool hands in a word.
fn host(place: &Submission<Word>) -> TurnHost {
    let tools = Toolbox::new().with(Tool::submit("submit", "Hands in a word.", place));
    TurnHost::new().with_tools(Arc::new(tools))
}

fn router(rule: &str, alpha: &Arc<ScriptedBackend>, beta: &Arc<ScriptedBackend>) -> Router {
    let text = chain("alpha, beta").replace("group: main }", &format!("group: main, fallback: {rule} }}"));
    support::router(&text, &[alpha, beta])
}

fn in_shape() -> TurnRequest {
    TurnRequest::new("x").with_output(OutputSchema::new(json!({ "type": "object" })).unwrap())
}

#[tokio::test]
async fn a_seat_that_hands_in_without_a_word_has_voted_and_is_not_asked_again() {
    let (alpha, beta) = (submitter("alpha", Then::IsSilent), submitter("beta", Then::IsSilent));
    let router = router("before-writes", &alpha, &beta);
    let (seat, place) = (router.seat(0, "work").unwrap().asking_again(), Submission::new());
    let unwatched = &mut |_: EventEnvelope| {};
    let outcome = router.run_seat(&seat, TurnRequest::new("x"), host(&place), unwatched).await;
    let Vote::Answer(result) = outcome.vote() else { panic!("{outcome:?}") };
    assert_eq!((&result.finish, result.text.as_str()), (&FinishReason::Submitted, ""));
    assert_eq!((alpha.turns(), beta.turns()), (1, 0));
    assert_eq!(word(&place).unwrap(), "alpha");
}

#[tokio::test]
async fn what_was_handed_in_is_put_back_as_well() {
    let (alpha, beta) = (submitter("alpha", Then::Fails), submitter("beta", Then::Answers));
    let (place, asked) = (Submission::new(), Arc::new(Mutex::new(Vec::new())));
    let hook = BeforeRetry::new({
        let (place, asked) = (place.clone(), Arc::clone(&asked));
        move |attempt: FailedAttempt| {
            asked.lock().unwrap().push((word(&place), attempt.effects));
            async { Ok::<(), String>(()) }
        }
    });
    let host = host(&place).with_before_retry(hook);
    let (_, outcome) = run_with(&router("restore", &alpha, &beta), in_shape(), host).await;
    let result = outcome.unwrap();
    assert_eq!(*asked.lock().unwrap(), [(Some("alpha".to_owned()), Effects::None)]);
    assert_eq!(result.output, Some(json!({ "error": false })), "the next one may hand in");
    assert_eq!(result.provenance.skipped[0].handover, Handover::Restored);
    assert_eq!(word(&place).unwrap(), "beta");
}

#[tokio::test]
async fn an_answer_in_shape_is_still_owed_by_the_next_one_after_a_submission() {
    let (alpha, beta) = (submitter("alpha", Then::Fails), submitter("beta", Then::Answers));
    let place = Submission::new();
    let (_, outcome) = run_with(&router("before-writes", &alpha, &beta), in_shape(), host(&place)).await;
    assert_eq!(outcome.unwrap().output, Some(json!({ "error": true })), "the first one counts");
    assert_eq!(word(&place).unwrap(), "alpha");
}

#[tokio::test]
async fn a_backend_that_breaks_down_after_a_submission_is_followed_by_none() {
    for rule in ["before-writes", "continue"] {
        let (alpha, beta) = (submitter("alpha", Then::Panics), submitter("beta", Then::IsSilent));
        let place = Submission::new();
        let (_, outcome) = run_with(&router(rule, &alpha, &beta), TurnRequest::new("x"), host(&place)).await;
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Crashed);
        assert_eq!((beta.turns(), word(&place).unwrap().as_str()), (0, "alpha"));
    }
}

#[tokio::test]
async fn a_host_whose_answer_was_handed_in_runs_no_other_turn() {
    let (alpha, beta) = (submitter("alpha", Then::IsSilent), submitter("beta", Then::IsSilent));
    let (router, place) = (router("before-writes", &alpha, &beta), Submission::new());
    let host = host(&place);
    run_with(&router, TurnRequest::new("x"), host.clone()).await.1.unwrap();
    let error = run_with(&router, TurnRequest::new("x"), host).await.1.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
    assert!(
        error.message().unwrap().contains("give each turn with a terminal tool its own session"),
        "{error:?}"
    );
    assert_eq!(word(&place).unwrap(), "alpha");
}
