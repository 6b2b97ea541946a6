//! Every status against every event.

use nexus_tasks::{
    BriefDraft, Criterion, PlanEntryDraft, ProblemBrief, StepEnd, TaskEvent, TaskState, TaskStatus,
};
use nexus_work::{AgentTypes, WorkspaceState};

/// Two steps: entries 0 and 2, reviews 1 and 3.
fn brief() -> ProblemBrief {
    let entry = PlanEntryDraft {
        tier: "execution".to_owned(),
        phase: "implement".to_owned(),
        agent_type: "executor".to_owned(),
        outcome: "It works.".to_owned(),
        ..PlanEntryDraft::default()
    };
    let draft = BriefDraft {
        problem: "It does not work.".to_owned(),
        criteria: vec![Criterion { id: "works".to_owned(), text: "It works.".to_owned() }],
        read: vec![".".to_owned()],
        write: vec![".".to_owned()],
        plan: vec![entry.clone(), entry],
        ..BriefDraft::default()
    };
    let tree = tempfile::tempdir().unwrap();
    ProblemBrief::accept(draft, &AgentTypes::built_in(), &tree.path().canonicalize().unwrap()).unwrap()
}

const REASON: &str = "no way";

fn events() -> Vec<(&'static str, TaskEvent)> {
    let reason = || REASON.to_owned();
    let settled = TaskEvent::StepSettled;
    vec![
        ("accepted", TaskEvent::BriefAccepted),
        ("asked", TaskEvent::QuestionsAsked(vec![reason()])),
        ("failed", TaskEvent::FramingFailed { reason: reason(), error: None }),
        ("advanced", settled(StepEnd::Advanced)),
        ("completed", settled(StepEnd::Completed)),
        ("retried", settled(StepEnd::Retried { max_retries: 2 })),
        ("blocked", settled(StepEnd::Blocked { reasons: vec![reason()] })),
        ("escalated", settled(StepEnd::Escalated { reason: reason(), error: Some("401".to_owned()) })),
        ("cancelled", TaskEvent::Cancelled),
        ("reopened", TaskEvent::Reopened { from_entry: None }),
    ]
}

/// What a state comes to, in a word or two.
fn shown(state: &TaskState) -> String {
    match &state.status {
        TaskStatus::Active { cursor } => format!("active {} {}", cursor.entry, cursor.retries),
        TaskStatus::Complete { entry, left_over } => format!("complete {entry} {left_over:?}"),
        TaskStatus::Blocked { entry, .. } => format!("blocked {entry}"),
        TaskStatus::Escalated { entry, .. } => format!("escalated {entry:?}"),
        TaskStatus::Cancelled { entry } => format!("cancelled {entry:?}"),
        other => other.name().to_owned(),
    }
}

#[test]
fn every_status_answers_every_event() {
    let brief = brief();
    let walk = |events: &[&str]| {
        events.iter().fold(TaskState::new(), |state, name| {
            let (_, event) = self::events().into_iter().find(|(known, _)| known == name).unwrap();
            let plan = (state.status != TaskStatus::Framing).then(|| brief.plan());
            state.after(event, plan).unwrap()
        })
    };
    // Where the task stands, and what each event makes of it; `-` is refused. In the order of `events`.
    let table: [(&[&str], [&str; 10]); 9] = [
        (
            &[],
            [
                "active 0 0",
                "clarification_needed",
                "escalated None",
                "-",
                "-",
                "-",
                "-",
                "-",
                "cancelled None",
                "-",
            ],
        ),
        (
            &["asked"],
            [
                "active 0 0",
                "clarification_needed",
                "escalated None",
                "-",
                "-",
                "-",
                "-",
                "-",
                "cancelled None",
                "-",
            ],
        ),
        (
            &["accepted"],
            [
                "-",
                "-",
                "-",
                "active 2 0",
                "complete 0 [2, 3]",
                "active 0 1",
                "blocked 0",
                "escalated Some(0)",
                "cancelled Some(0)",
                "-",
            ],
        ),
        (
            &["accepted", "advanced"],
            [
                "-",
                "-",
                "-",
                "complete 2 []",
                "complete 2 []",
                "active 2 1",
                "blocked 2",
                "escalated Some(2)",
                "cancelled Some(2)",
                "-",
            ],
        ),
        (
            &["accepted", "retried", "retried"],
            [
                "-",
                "-",
                "-",
                "active 2 0",
                "complete 0 [2, 3]",
                "escalated Some(0)",
                "blocked 0",
                "escalated Some(0)",
                "cancelled Some(0)",
                "-",
            ],
        ),
        (&["accepted", "completed"], ["-", "-", "-", "-", "-", "-", "-", "-", "-", "active 2 0"]),
        (&["accepted", "advanced", "blocked"], ["-", "-", "-", "-", "-", "-", "-", "-", "-", "active 2 0"]),
        (&["accepted", "retried", "escalated"], ["-", "-", "-", "-", "-", "-", "-", "-", "-", "active 0 0"]),
        (&["accepted", "cancelled"], ["-", "-", "-", "-", "-", "-", "-", "-", "-", "active 0 0"]),
    ];
    for (before, expected) in table {
        let state = walk(before);
        let plan = brief.plan();
        let answers: Vec<String> = events()
            .into_iter()
            .map(|(_, event)| {
                state.after(event, Some(plan)).map_or_else(|_| "-".to_owned(), |next| shown(&next))
            })
            .collect();
        assert_eq!(answers, expected, "after {before:?}");
        let stored = serde_json::to_value(&state).unwrap();
        assert_eq!(serde_json::from_value::<TaskState>(stored).unwrap(), state);
        assert_eq!(state.is_final(), answers[8] == "-", "{before:?}");
    }
}

#[test]
fn a_task_that_ended_before_it_had_a_brief_is_framed_anew() {
    for event in [TaskEvent::Cancelled, TaskEvent::FramingFailed { reason: REASON.to_owned(), error: None }] {
        let ended = TaskState::new().after(event, None).unwrap();
        let again = ended.after(TaskEvent::Reopened { from_entry: None }, None).unwrap();
        assert_eq!(again.status, TaskStatus::Framing);
        let error = ended.after(TaskEvent::Reopened { from_entry: Some(0) }, None).unwrap_err();
        assert!(error.to_string().contains("without an entry"), "{error}");
    }
}

#[test]
fn a_task_is_reopened_from_any_step_and_counts_its_attempts_on() {
    let brief = brief();
    let plan = Some(brief.plan());
    let ended = [TaskEvent::BriefAccepted, TaskEvent::StepSettled(StepEnd::Completed)]
        .into_iter()
        .fold(TaskState::new(), |state, event| state.after(event, plan).unwrap());
    for (from_entry, entry) in [(Some(0), 0), (Some(1), 0), (Some(2), 2), (Some(3), 2), (None, 2)] {
        let state = ended.after(TaskEvent::Reopened { from_entry }, plan).unwrap();
        assert_eq!(shown(&state), format!("active {entry} 0"));
        assert_eq!(state.attempts, 2, "no two attempts have one number");
    }
    let error = ended.after(TaskEvent::Reopened { from_entry: Some(4) }, plan).unwrap_err();
    assert!(error.to_string().contains("no such entry"), "{error}");
}

#[test]
fn at_most_three_questions_are_asked_and_at_least_one() {
    let asked = |count: usize| {
        TaskState::new().after(TaskEvent::QuestionsAsked(vec![REASON.to_owned(); count]), None)
    };
    let TaskStatus::ClarificationNeeded { questions } = asked(5).unwrap().status else { panic!("asked") };
    assert_eq!(questions.len(), 3);
    assert!(asked(0).is_err());
}
