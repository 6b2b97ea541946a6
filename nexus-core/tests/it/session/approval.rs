//! Calls that the host has to approve.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use nexus_core::{
    AgentQuestion, Approval, ApprovalAction, ApprovalRequest, Approver, Brief, DecisionOutcome, Denial,
    Effects, FieldInput, NotApproved, ParticipantScope, PathAccess, QuestionField, QuestionReply,
    QuestionSubject, Session, Tool, ToolPattern, Toolbox, TurnHost, TurnRequest, TurnSession,
    turn::ToolOrigin,
};
use serde_json::{Value, json};

use super::asked::{call, text};

/// A tool that needs an approval, how often it was asked, and its session.
struct Scene {
    asked: Arc<AtomicUsize>,
    session: Arc<Session>,
}

impl Scene {
    fn new() -> Self {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let pay = Tool::with_schema("pay", "Pays.", json!({ "type": "object" }), move |_: Value| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { "paid" }
        })
        .with_effects(Effects::Wrote)
        .needs_approval();
        let tools = Toolbox::new().with(pay);
        Self { asked, session: Session::mint("clerk", ParticipantScope::unrestricted(), Arc::new(tools)) }
    }

    fn turn(&self, approver: Option<Approver>) -> TurnSession {
        let host = TurnHost::new().with_session(Arc::clone(&self.session));
        let host = match approver {
            Some(approver) => host.with_approver(approver),
            None => host,
        };
        host.open_turn(&TurnRequest::new(""))
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// What became of the last call, in the words of its decision.
    fn last(&self) -> (bool, DecisionOutcome) {
        let decision = self.session.decisions().pop().unwrap();
        (decision.approved, decision.outcome)
    }
}

fn says(approval: Approval) -> Approver {
    Approver::new(move |_| {
        let approval = approval.clone();
        async move { approval }
    })
}

fn denied(why: NotApproved) -> DecisionOutcome {
    DecisionOutcome::Denied(Denial::NotApproved { tool: "pay".to_owned(), why })
}

#[tokio::test]
async fn a_call_is_made_once_it_is_approved_and_has_effects_only_then() {
    let scene = Scene::new();
    let seen = Arc::new(std::sync::Mutex::new(Vec::<ApprovalRequest>::new()));
    let (kept, watched) = (Arc::clone(&seen), Arc::clone(&scene.session));
    let turn = scene.turn(Some(Approver::new(move |request| {
        assert_eq!(watched.effects(), Effects::None, "nothing is done while the host thinks");
        kept.lock().unwrap().push(request);
        async { Approval::Granted }
    })));
    assert_eq!(text(&call(&turn, "pay", json!({ "amount": 3 })).await), "paid");
    assert_eq!((scene.asked(), scene.last()), (1, (true, DecisionOutcome::Allowed)));
    assert_eq!(scene.session.effects(), Effects::Wrote);
    let seen = seen.lock().unwrap();
    assert_eq!((seen.len(), seen[0].action, seen[0].origin), (1, ApprovalAction::Tool, ToolOrigin::Caller));
    assert_eq!((seen[0].participant.as_str(), &seen[0].arguments), ("clerk", &json!({ "amount": 3 })));
    let written = serde_json::to_value(scene.session.decisions()).unwrap();
    assert_eq!(written[0]["approved"], true);
}

#[tokio::test]
async fn without_a_yes_the_tool_is_not_asked_and_the_model_is_told_why() {
    let reason = Some("not today".to_owned());
    for (approver, why, words) in [
        (None, NotApproved::NobodyAsked, "the host has no approver to ask"),
        (
            Some(says(Approval::Refused { reason: reason.clone() })),
            NotApproved::Refused { reason },
            "not today",
        ),
        (
            Some(says(Approval::Refused { reason: None })),
            NotApproved::Refused { reason: None },
            "it was refused",
        ),
        (
            Some(Approver::new(|_| pending()).with_time_limit(Duration::from_millis(20))),
            NotApproved::TimedOut,
            "the approver did not answer in time",
        ),
        (Some(Approver::new(|_| async { panic!("as it should") })), NotApproved::Failed, "approver failed"),
        (
            Some(Approver::new(|_| -> std::future::Ready<Approval> { panic!("as it should") })),
            NotApproved::Failed,
            "approver failed",
        ),
    ] {
        let scene = Scene::new();
        let turn = scene.turn(approver);
        let answer = call(&turn, "pay", json!({})).await;
        assert!(answer.is_error && text(&answer).contains(words), "{answer:?}");
        assert_eq!((scene.asked(), scene.last()), (0, (false, denied(why))));
        assert_eq!(scene.session.effects(), Effects::None);
        assert!(scene.session.was_denied("pay", &json!({})));
        assert_eq!(scene.session.calls_made(), 1, "it counts all the same");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_late_changes_nothing() {
    let scene = Scene::new();
    let late = Approver::new(|_| async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        Approval::Granted
    });
    let turn = scene.turn(Some(late.with_time_limit(Duration::from_millis(10))));
    assert!(call(&turn, "pay", json!({})).await.is_error);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!((scene.asked(), scene.last()), (0, (false, denied(NotApproved::TimedOut))));
}

#[tokio::test]
async fn a_question_that_is_broken_off_is_no_call() {
    let scene = Scene::new();
    let turn = scene.turn(Some(Approver::new(|_| pending())));
    for asked in 1..=2 {
        let broken_off = tokio::time::timeout(Duration::from_millis(20), call(&turn, "pay", json!({})));
        assert!(broken_off.await.is_err());
        assert_eq!((scene.asked(), scene.last()), (0, (false, denied(NotApproved::Unanswered))));
        assert_eq!(scene.session.decisions().len(), asked);
        assert!(scene.session.was_denied("pay", &json!({})));
        assert_eq!(scene.session.effects(), Effects::None);
    }
    let own = ApprovalRequest::of_harness("Bash", ApprovalAction::Execute, json!({}));
    assert!(tokio::time::timeout(Duration::from_millis(20), turn.approve(own)).await.is_err());
    let why = NotApproved::Unanswered;
    let denial = Denial::NotApproved { tool: "Bash".to_owned(), why };
    assert_eq!(scene.last(), (false, DecisionOutcome::Denied(denial)));
}

#[cfg(unix)]
#[tokio::test]
async fn a_path_that_leads_elsewhere_by_the_time_of_the_yes_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let (root, outside) = (place.path().join("root"), place.path().join("outside"));
    std::fs::create_dir_all(root.join("folder")).unwrap();
    std::fs::create_dir(&outside).unwrap();
    let schema = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
    let write = Tool::with_schema("write", "Writes.", schema, |_: Value| async { "written" })
        .writing("/path")
        .needs_approval();
    let brief = Brief::new(&root).writing(".").tool(ToolPattern::every());
    let scope = ParticipantScope::assemble(&brief, None, None).unwrap();
    let session = Session::mint("clerk", scope, Arc::new(Toolbox::new().with(write)));
    let folder = root.join("folder");
    let host = TurnHost::new().with_session(Arc::clone(&session)).with_approver(Approver::new(move |_| {
        std::fs::remove_dir(&folder).unwrap();
        std::os::unix::fs::symlink(&outside, &folder).unwrap();
        async { Approval::Granted }
    }));
    let turn = host.open_turn(&TurnRequest::new(""));
    let answer = call(&turn, "write", json!({ "path": "folder/file" })).await;
    assert!(answer.is_error, "{answer:?}");
    let decision = session.decisions().pop().unwrap();
    assert!(matches!(decision.outcome, DecisionOutcome::Denied(Denial::Path { .. })), "{decision:?}");
}

#[tokio::test]
async fn a_session_that_ends_while_the_host_thinks_lets_nothing_through() {
    let scene = Scene::new();
    let session = Arc::clone(&scene.session);
    let turn = scene.turn(Some(Approver::new(move |_| {
        session.close();
        async { Approval::Granted }
    })));
    assert!(call(&turn, "pay", json!({})).await.is_error);
    assert_eq!((scene.asked(), scene.last()), (0, (false, DecisionOutcome::Denied(Denial::Closed))));
}

#[tokio::test]
async fn a_yes_to_everything_is_none_to_what_the_scope_forbids() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let folder = tempfile::tempdir().unwrap();
    let schema = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
    let write = Tool::with_schema("write", "Writes.", schema, |_: Value| async { "written" })
        .writing("/path")
        .needs_approval();
    assert_eq!(write.definition().paths[0].access, PathAccess::Write);
    let brief = Brief::new(folder.path()).writing(".").tool(ToolPattern::every());
    let scope = ParticipantScope::assemble(&brief, None, None).unwrap();
    let session = Session::mint("clerk", scope, Arc::new(Toolbox::new().with(write)));
    let host = TurnHost::new().with_session(Arc::clone(&session)).with_approver(Approver::new(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Approval::Granted }
    }));
    let turn = host.open_turn(&TurnRequest::new(""));
    let outside = folder.path().join("../outside").to_str().unwrap().to_owned();
    assert!(call(&turn, "write", json!({ "path": outside })).await.is_error);
    assert!(call(&turn, "unknown", json!({})).await.is_error);
    assert_eq!(asked.load(Ordering::SeqCst), 0, "what is forbidden is not asked");
}

#[tokio::test]
async fn a_call_of_a_program_of_its_own_is_decided_on_without_a_budget() {
    let scene = Scene::new();
    let turn = scene.turn(Some(Approver::new(|request: ApprovalRequest| async move {
        match request.action {
            ApprovalAction::Execute => Approval::Granted,
            _ => Approval::Refused { reason: None },
        }
    })));
    turn.redactor().learn("canary-of-the-turn");
    let ask = |action| {
        let arguments = json!({ "command": "echo canary-of-the-turn" });
        let request = ApprovalRequest::of_harness("pay", action, arguments);
        turn.approve(request.with_title("echo canary-of-the-turn"))
    };
    assert_eq!(ask(ApprovalAction::Execute).await, Ok(()));
    let why = NotApproved::Refused { reason: None };
    assert_eq!(
        ask(ApprovalAction::Fetch).await,
        Err(Denial::NotApproved { tool: "pay".to_owned(), why: why.clone() })
    );
    let decisions = turn.decisions();
    assert_eq!((decisions[0].approved, &decisions[0].outcome), (true, &DecisionOutcome::Allowed));
    assert_eq!((decisions[1].origin, &decisions[1].outcome), (ToolOrigin::Harness, &denied(why)));
    assert!(!format!("{decisions:?}").contains("canary"), "{decisions:?}");
    assert_eq!((turn.calls_made(), turn.effects()), (0, Effects::None));
    // A tool of the caller's of the same name is another tool.
    assert!(!turn.was_denied("pay", &json!({ "command": "echo canary-of-the-turn" })));
    turn.close();
    assert_eq!(ask(ApprovalAction::Execute).await, Err(Denial::Closed));
}

fn form() -> AgentQuestion {
    let field = QuestionField::new("name", FieldInput::text()).required(true);
    AgentQuestion::new("Which? secret-word", QuestionSubject::Form { fields: vec![field] })
}

fn replies(reply: QuestionReply) -> Approver {
    says(Approval::Granted).with_questions(move |_| {
        let reply = reply.clone();
        async move { reply }
    })
}

#[expect(clippy::needless_pass_by_value, reason = "it is written where it is compared")]
fn values(values: Value) -> QuestionReply {
    QuestionReply::Answered { values: values.as_object().unwrap().clone() }
}

#[tokio::test]
async fn a_question_gets_an_answer_that_fits_it_or_none() {
    let panics = says(Approval::Granted).with_questions(|_| async { panic!("as it should") });
    let is_silent =
        says(Approval::Granted).with_questions(|_| pending()).with_time_limit(Duration::from_millis(20));
    let declined = |reason: &str| QuestionReply::declined(reason);
    for (approver, expected) in [
        (Some(replies(values(json!({ "name": "Ada" })))), values(json!({ "name": "Ada" }))),
        (Some(replies(values(json!({})))), declined(r#"the answer does not fit: "name" needs a value"#)),
        (
            Some(replies(values(json!({ "name": "x", "more": 1 })))),
            declined(r#"the answer does not fit: the form has no field "more""#),
        ),
        (Some(replies(declined("no"))), declined("no")),
        (Some(replies(QuestionReply::Cancelled)), QuestionReply::Cancelled),
        (Some(panics), declined("the approver failed")),
        (Some(is_silent), QuestionReply::Cancelled),
        (Some(says(Approval::Granted)), declined("the host answers no questions")),
        (None, declined("the host has no approver to ask")),
    ] {
        let scene = Scene::new();
        let turn = scene.turn(approver);
        assert_eq!(turn.question(form()).await, expected);
        assert!(scene.session.decisions().is_empty(), "no call was decided");
        turn.close();
        assert_eq!(turn.question(form()).await, QuestionReply::Cancelled);
    }
}

#[tokio::test]
async fn a_question_is_shown_without_secrets_and_a_faulty_one_is_not_shown() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let approver = says(Approval::Granted).with_questions(move |question| {
        kept.lock().unwrap().push(question);
        async { QuestionReply::Cancelled }
    });
    let scene = Scene::new();
    let turn = scene.turn(Some(approver));
    turn.redactor().learn("secret-word");
    turn.question(form()).await;
    let faulty = FieldInput::Choice { choices: Vec::new() };
    let fields = vec![QuestionField::new("x", faulty)];
    let reply = turn.question(AgentQuestion::new("?", QuestionSubject::Form { fields })).await;
    assert_eq!(reply, QuestionReply::declined(r#""x": it has no choices"#));
    let seen = seen.lock().unwrap();
    let [question] = &seen[..] else { panic!("{seen:?}") };
    assert!(!question.message.contains("secret-word"), "{}", question.message);
    assert_eq!(question.participant.as_str(), "clerk");
}
