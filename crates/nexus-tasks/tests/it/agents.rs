//! An agent hands in, or fails; what it says in prose is nothing.

use std::sync::Arc;

use nexus_core::{
    ErrorKind, EventEnvelope, ForgetError, ParticipantScope, RecordFile, RecordLog, Submission, Tool,
    ToolAccess, Toolbox, TurnHost, TurnRequest,
};
use nexus_router::Router;
use nexus_testkit::child_test;
use nexus_testkit::scripted::{Act, ScriptedBackend, text_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::support::{router_over, scripted};

#[derive(Debug, Deserialize, JsonSchema, PartialEq)]
struct Answer {
    number: u32,
}

/// Runs an agent by a script, a list of acts a turn.
async fn run(turns: Vec<Vec<Act>>) -> (AgentReport<Answer>, Arc<ScriptedBackend>) {
    let (router, backend) = scripted(turns);
    (run_on(&router, None).await, backend)
}

async fn run_on(router: &Router, record: Option<AgentRecord>) -> AgentReport<Answer> {
    let place = Submission::new().checked_by(|answer: &Answer| match answer.number {
        13 => Err("13 is not taken".to_owned()),
        _ => Ok(()),
    });
    let look = Tool::without_arguments("look", "Looks.", || async { "nothing" }).read_only();
    let tools = Toolbox::new().with(look).with(Tool::submit("submit_answer", "Hands the answer in.", &place));
    let assignment = Assignment {
        route: AgentRoute::Kind("worker".into()),
        request: TurnRequest::new("Find the number.").with_tool_access(ToolAccess::ScopedOnly),
        participant: "worker".into(),
        scope: ParticipantScope::unrestricted(),
        tools: Arc::new(tools),
        tool_calls: 2,
        refused_submissions: 5,
        host: TurnHost::new(),
        record,
        answer: Box::new(move || place.take()),
    };
    let mut unwatched = |_: EventEnvelope| {};
    run_agent(router, &assignment, &mut unwatched).await
}

fn submit(number: u32) -> Act {
    Act::Call("submit_answer", json!({ "number": number }))
}

fn purposes(report: &AgentReport<Answer>) -> Vec<AgentTurnPurpose> {
    report.turns.iter().map(|turn| turn.purpose).collect()
}

use AgentTurnPurpose::{Afresh, Reminder, Work};
use nexus_work::{
    AgentFailure, AgentRecord, AgentReport, AgentRoute, AgentTurnPurpose, Assignment, run_agent,
};

#[tokio::test]
async fn what_is_handed_in_is_the_answer_and_prose_is_not() {
    let (report, _) = run(vec![vec![Act::Say("The number is 5.".into()), submit(7), submit(8)]]).await;
    assert_eq!(report.answer, Ok(Answer { number: 7 }));
    assert_eq!(purposes(&report), [Work]);
}

#[tokio::test]
async fn who_hands_nothing_in_is_asked_once_more_with_nothing_but_terminal_tools() {
    let prose = vec![Act::Call("look", json!({})), Act::Say("{\"number\": 5}".into())];
    let (report, backend) = run(vec![prose, vec![Act::Call("look", json!({})), submit(7)]]).await;
    assert_eq!(report.answer, Ok(Answer { number: 7 }));
    assert_eq!(purposes(&report), [Work, Reminder]);
    let asked = backend.asked();
    assert_eq!(asked[0].tool_names(), ["look", "submit_answer"]);
    assert_eq!(asked[1].tool_names(), ["submit_answer"]);
    assert!(asked[1].request.conversation.handle().is_some());
    let reminder = asked[1].request.prompt_text();
    assert_eq!(backend.forgotten().len(), 2, "what was kept for the reminder is forgotten");
    assert!(report.left_behind.is_empty());
    assert!(reminder.contains("`submit_answer`") && reminder.contains("\"number\""), "{reminder}");
    assert!(!reminder.contains("{tools}") && !reminder.contains("`look`"), "{reminder}");
}

#[tokio::test]
async fn who_hands_nothing_in_twice_has_no_opinion() {
    let (report, _) =
        run(vec![vec![Act::Say("5".into())], vec![submit(13), Act::Say("I advance.".into())]]).await;
    assert_eq!(report.answer, Err(AgentFailure::Silent { backend: "alpha".into() }));
    assert_eq!(purposes(&report), [Work, Reminder]);
}

#[tokio::test]
async fn where_the_conversation_is_lost_the_agent_begins_afresh_with_all_its_tools() {
    let (report, backend) =
        run(vec![vec![Act::Say("5".into())], vec![Act::Fail(ErrorKind::ConversationLost)], vec![submit(7)]])
            .await;
    assert_eq!(report.answer, Ok(Answer { number: 7 }));
    assert_eq!(purposes(&report), [Work, Reminder, Afresh]);
    let asked = backend.asked();
    assert_eq!((&*asked[2].request.prompt_text(), asked[2].tools.len()), ("Find the number.", 2));
}

#[tokio::test]
async fn a_turn_that_fails_is_a_failure_and_is_not_run_again() {
    let (report, _) = run(vec![vec![Act::Call("look", json!({})), Act::Fail(ErrorKind::Transport)]]).await;
    let failure = report.answer.unwrap_err();
    assert!(matches!(failure, AgentFailure::Turn { kind: ErrorKind::Transport, .. }), "{failure:?}");
    assert_eq!(report.turns.len(), 1);
    assert_eq!(report.turns[0].session.calls_made(), 1);
}

#[tokio::test]
async fn what_was_handed_in_counts_though_the_turn_failed_afterwards() {
    let (report, _) = run(vec![vec![submit(7), Act::Fail(ErrorKind::Crashed)]]).await;
    assert_eq!(report.answer, Ok(Answer { number: 7 }));
    assert!(report.turns[0].outcome.is_err());
}

#[tokio::test]
async fn calls_are_counted_and_handing_in_is_not_one_of_them() {
    let look = || Act::Call("look", json!({}));
    let (report, _) = run(vec![vec![look(), look(), look(), submit(13), submit(7)]]).await;
    assert_eq!(report.answer, Ok(Answer { number: 7 }));
    assert_eq!(report.turns[0].session.over_budget_calls(), 1);
}

/// As many answers as a model writes that learns nothing, each another one.
fn refused(count: u32) -> impl Iterator<Item = Act> {
    (0..count).map(|number| Act::Call("submit_answer", json!({ "number": 13, "attempt": number })))
}

#[tokio::test]
async fn an_agent_whose_submissions_are_refused_five_times_is_silent_and_the_reason_is_recorded() {
    let turn: Vec<Act> = refused(300).chain([submit(7)]).collect();
    let (report, backend) = run(vec![turn, vec![submit(7)]]).await;
    let failure = report.answer.unwrap_err();
    assert_eq!(failure.to_string(), "alpha failed: 5 of its submissions were rejected, which is the limit");
    let taken = backend.answers();
    let over = taken.iter().filter(|answer| text_of(answer) == "the session is over").count();
    assert_eq!((taken.len() - over, report.turns.len()), (5, 1));
}

#[tokio::test]
async fn the_bound_on_refused_submissions_holds_over_the_reminder() {
    let first: Vec<Act> = refused(3).chain([Act::Say("5".into())]).collect();
    let second: Vec<Act> = refused(2).chain([submit(7)]).collect();
    let (report, _) = run(vec![first, second]).await;
    assert_eq!(purposes(&report), [Work, Reminder]);
    let failure = report.answer.unwrap_err().to_string();
    assert_eq!(failure, "alpha failed: 5 of its submissions were rejected, which is the limit");
}

#[tokio::test]
async fn a_conversation_that_cannot_be_forgotten_is_told_and_costs_no_answer() {
    let backend = ScriptedBackend::playing("alpha", [vec![submit(7)]]).forgetting(|handle| {
        let backend = handle.backend().clone();
        Box::pin(async { Err(ForgetError::Unsupported { backend }) })
    });
    let report = run_on(&router_over(&[&Arc::new(backend)], "before-writes"), None).await;
    assert_eq!(report.answer, Ok(Answer { number: 7 }));
    assert_eq!(report.left_behind.len(), 1);
}

#[tokio::test]
async fn every_turn_is_written_down_under_its_name_with_why_it_was_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("turns.jsonl");
    let (router, backend) = scripted(vec![vec![Act::Say("5".into())], vec![submit(7)]]);
    let record = AgentRecord { file: RecordFile::open(&path).unwrap(), name: "0.1 unit 1".to_owned() };
    let report = run_on(&router, Some(record)).await;
    assert_eq!((report.answer, report.unrecorded.len()), (Ok(Answer { number: 7 }), 0));
    let log = RecordLog::read(&path).unwrap();
    let names: Vec<&str> = log.turns.iter().map(|turn| &*turn.name).collect();
    assert_eq!(names, ["0.1 unit 1 work", "0.1 unit 1 reminder"]);
    assert_eq!(report.turns[0].recorded_as.as_ref(), Some(&log.turns[0].id));
    // No handle to a conversation that is gone is left in it.
    assert!(log.turns.iter().all(|turn| turn.result().is_some() && turn.resume().is_none()));
    assert_eq!(backend.forgotten().len(), 2);
}

/// Names the file in a child that may not write much.
#[cfg(unix)]
const ROLE: &str = "NEXUS_TEST_UNWRITTEN";

/// A limit on the size of files stands for a full disk.
#[cfg(unix)]
#[test]
fn a_turn_that_cannot_be_written_down_is_not_run() {
    if let Ok(path) = std::env::var(ROLE) {
        let (router, backend) = scripted(vec![vec![submit(7)]]);
        let record = AgentRecord { file: RecordFile::open(path).unwrap(), name: "x".repeat(2_000) };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let report = runtime.block_on(run_on(&router, Some(record)));
        let failure = report.answer.unwrap_err();
        assert!(matches!(&failure, AgentFailure::Unrecorded { .. }), "{failure:?}");
        assert!(failure.to_string().contains("turns.jsonl"), "{failure}");
        assert_eq!((backend.turns(), report.turns.len()), (0, 0));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut launcher = std::process::Command::new("sh");
    launcher.args(["-c", "trap '' XFSZ; ulimit -S -f 1; exec \"$0\" \"$@\""]);
    let mut limited = child_test::through(launcher, a_turn_that_cannot_be_written_down_is_not_run);
    let output = limited.env(ROLE, folder.path().join("turns.jsonl")).output().unwrap();
    child_test::assert_passed("the agent", &output);
}
