//! A session whose calls another one decides on: nobody can tell the two apart by what comes of a call.

use std::{
    future::pending,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use futures::FutureExt as _;
use nexus_core::{
    AccessEnforcer, AccessSupport, Approval, ApprovalAction, ApprovalRequest, Approver, BackendId, Brief,
    Capabilities, Decision, DecisionOutcome, Denial, Effects, Enforcement, ErrorKind, EventEnvelope,
    FinishReason, Limit, LimitSupport, Limits, LoopMode, NotApproved, ParticipantScope, RemoteSession,
    Session, Support, Tool, ToolCall, ToolCallStatus, ToolPattern, ToolResult, Toolbox, TurnEvent, TurnHost,
    TurnRequest, TurnSession, harness::RunningTurn,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::asked::{Asked, call, mint, text};

/// A connection to the session that decides: all that passes it is written and read.
#[derive(Debug)]
struct Connection(TurnSession);

fn sent<T: Serialize + DeserializeOwned>(value: &T) -> T {
    serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
}

#[async_trait]
impl RemoteSession for Connection {
    async fn call(&self, call: ToolCall) -> Result<ToolResult, Denial> {
        sent(&self.0.try_call(self.0.token(), sent(&call)).await)
    }

    async fn approve(&self, request: ApprovalRequest) -> Result<(), Denial> {
        sent(&self.0.approve(sent(&request)).await)
    }

    fn withdraw(&self, tool: &str) {
        self.0.withdraw(tool);
    }
}

/// Where a turn runs.
#[derive(Clone, Copy, Debug)]
enum Place {
    Here,
    Elsewhere,
}

impl Place {
    /// The host of a turn of the caller's `host` in this place. The session below it has the limit of `request` there and here.
    fn host(self, host: TurnHost, request: &TurnRequest) -> TurnHost {
        match self {
            Self::Here => host,
            Self::Elsewhere => {
                let turn = host.open_turn(request);
                let (participant, definitions) = (turn.participant().clone(), turn.definitions().to_vec());
                let remote = Session::remote(participant, definitions, Arc::new(Connection(turn)));
                TurnHost::new().with_session(remote)
            }
        }
    }

    fn turn(self, host: TurnHost, request: &TurnRequest) -> TurnSession {
        self.host(host, request).open_turn(request)
    }
}

#[derive(Deserialize, JsonSchema)]
struct Page {
    number: u32,
}

fn tools(asked: &Asked) -> Toolbox {
    let submit = Tool::new("submit", "", |page: Page| async move {
        if page.number == 0 { Err("there is no page 0") } else { Ok("handed in") }
    });
    let panics = || -> std::future::Ready<()> { panic!("as it should") };
    let tools = Toolbox::new()
        .with(asked.tool("look").read_only())
        .with(asked.tool("save").writing("/path").with_effects(Effects::Wrote))
        .with(asked.tool("pay").with_effects(Effects::Wrote).needs_approval())
        .with(asked.tool("ask").with_effects(Effects::Unknown).needs_approval())
        .with(Tool::new("page", "", |page: Page| async move { page.number }).read_only())
        .with(Tool::without_arguments("panic", "", panics).with_effects(Effects::Unknown))
        .with(submit.read_only().terminal());
    assert!(tools.quarantined().is_empty(), "{:?}", tools.quarantined());
    tools
}

/// Everything that a session can be asked, in an order in which the effects grow late.
fn calls() -> Vec<(&'static str, Value)> {
    vec![
        ("lok", json!({})),
        ("no_such_tool", json!([1])),
        ("look", json!([1])),
        ("look", json!("{\"a\": ")),
        ("page", json!({ "number": "one" })),
        ("save", json!({ "path": "../outside" })),
        ("save", json!({ "path": 1 })),
        ("pay", json!({ "amount": "too much" })),
        ("submit", json!({ "number": -1 })),
        ("look", Value::Null),
        ("look", json!({ "a": 1 })),
        ("page", json!({ "number": 1 })),
        ("submit", json!({ "number": 0 })),
        ("pay", json!({ "amount": 3 })),
        ("save", json!({ "path": "out/plan" })),
        ("ask", json!({})),
        ("panic", json!({})),
        // Here the budget of the longest run ends.
        ("look", json!({ "a": 1 })),
        ("look", json!({ "a": 2 })),
        ("no_such_tool", json!({})),
        ("pay", json!({ "amount": 3 })),
        ("submit", json!({ "number": 1 })),
        ("look", json!({ "a": 3 })),
        ("no_such_tool", json!({})),
        ("submit", json!({ "number": 1 })),
    ]
}

/// What can be told of a call, and of the sessions after it.
type Told = (Result<ToolResult, Denial>, Vec<bool>, Vec<Seen>);

/// Handed in, closed, calls, calls over the budget, effects, decisions.
type Seen = (bool, bool, u32, u32, Effects, Vec<Decision>);

fn seen(session: &Session) -> Seen {
    (
        session.is_handed_in(),
        session.is_closed(),
        session.calls_made(),
        session.over_budget_calls(),
        session.effects(),
        session.decisions(),
    )
}

async fn run(
    place: Place,
    root: &std::path::Path,
    (budget, limit): (Option<u32>, Option<u32>),
    approver: Option<Approver>,
) -> (Vec<Told>, Vec<Value>) {
    let asked = Asked::default();
    let brief = Brief::new(root).writing("out").tool(ToolPattern::every());
    let scope = ParticipantScope::assemble(&brief, None, None).unwrap();
    let session = Session::mint_with_budget("clerk", scope, Arc::new(tools(&asked)), budget);
    let mut host = TurnHost::new().with_session(Arc::clone(&session));
    host.approver = approver;
    let mut request = TurnRequest::new("");
    request.limits.tool_calls = limit;
    let turn = place.turn(host, &request);
    let mut told = Vec::new();
    for (number, (name, arguments)) in calls().into_iter().enumerate() {
        let call = ToolCall::new(number.to_string(), name, arguments);
        let answer = turn.try_call(turn.token(), call).await;
        let denied = calls().iter().map(|(name, arguments)| turn.was_denied(name, arguments)).collect();
        told.push((answer, denied, vec![seen(&turn), seen(&session)]));
    }
    (told, asked.arguments())
}

#[tokio::test]
async fn what_comes_of_a_call_is_the_same_wherever_it_is_made() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("out")).unwrap();
    let decides = || {
        Approver::new(|request: ApprovalRequest| async move {
            match request.arguments["amount"].as_u64() {
                Some(_) => Approval::Granted,
                None => Approval::Refused { reason: Some("how much?".to_owned()) },
            }
        })
    };
    let silent = || Approver::new(|_| pending()).with_time_limit(Duration::from_millis(5));
    let approvers: [&dyn Fn() -> Option<Approver>; 3] = [&|| None, &|| Some(decides()), &|| Some(silent())];
    for approver in approvers {
        for budgets in
            [(None, None), (None, Some(15)), (Some(15), None), (Some(3), Some(15)), (Some(9), Some(0))]
        {
            let (here, asked_here) = run(Place::Here, folder.path(), budgets, approver()).await;
            let (elsewhere, asked) = run(Place::Elsewhere, folder.path(), budgets, approver()).await;
            assert_eq!(asked, asked_here);
            for ((call, here), elsewhere) in calls().iter().zip(here).zip(elsewhere) {
                assert_eq!(elsewhere, here, "{call:?} with {budgets:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_session_that_the_caller_closes_is_over_elsewhere_too() {
    let asked = Asked::default();
    let session = mint(Toolbox::new().with(asked.tool("look")), None);
    let host = TurnHost::new().with_session(Arc::clone(&session));
    let turn = Place::Elsewhere.turn(host, &TurnRequest::new(""));
    assert_eq!(text(&call(&turn, "look", json!({})).await), "done");
    session.close();
    assert_eq!(text(&call(&turn, "look", json!({})).await), "the session is over");
    assert_eq!((turn.calls_made(), session.calls_made()), (1, 1));
    assert_eq!(turn.decisions(), session.decisions());
    assert_eq!(session.decisions().last().unwrap().outcome, DecisionOutcome::Denied(Denial::Closed));
}

#[tokio::test]
async fn a_turn_that_is_over_hands_nothing_on() {
    let asked = Asked::default();
    let session = mint(Toolbox::new().with(asked.tool("look")), None);
    let host = TurnHost::new().with_session(Arc::clone(&session));
    let turn = Place::Elsewhere.turn(host, &TurnRequest::new(""));
    let late = turn.share();
    let stranger = late.try_call(session.token(), ToolCall::new("1", "look", json!({}))).await;
    assert_eq!(stranger, Err(Denial::WrongToken));
    drop(turn);
    assert_eq!(text(&call(&late, "look", json!({})).await), "the session is over");
    let own = ApprovalRequest::of_harness("Bash", ApprovalAction::Execute, json!({}));
    assert_eq!(late.approve(own).await, Err(Denial::Closed));
    assert_eq!((asked.names().len(), session.decisions().len()), (0, 0));
}

#[tokio::test]
async fn a_call_has_effects_once_it_is_answered_or_given_up() {
    let session = mint(
        Toolbox::new()
            .with(Tool::without_arguments("hang", "", pending::<()>).with_effects(Effects::Wrote))
            .with(
                Tool::without_arguments("pay", "", || async {}).with_effects(Effects::Wrote).needs_approval(),
            ),
        None,
    );
    for name in ["hang", "pay"] {
        let host = TurnHost::new().with_session(Arc::clone(&session));
        let turn =
            Place::Elsewhere.turn(host.with_approver(Approver::new(|_| pending())), &TurnRequest::new(""));
        let permit = turn.authorize(turn.token(), name, &json!({})).unwrap();
        assert_eq!(permit.definition().effects, Effects::Wrote, "an event says what it may change");
        drop(permit);
        assert_eq!((turn.calls_made(), turn.effects()), (0, Effects::None), "nothing was asked");
        let mut waits = Box::pin(call(&turn, name, json!({})));
        assert!(waits.as_mut().now_or_never().is_none());
        assert_eq!((turn.calls_made(), turn.effects()), (0, Effects::None), "nothing is known yet");
        drop(waits);
        assert!(!turn.was_denied(name, &json!({})));
        assert_eq!((turn.calls_made(), turn.effects()), (1, Effects::Wrote), "it may have been made");
    }
}

#[tokio::test]
async fn a_tool_that_is_withdrawn_is_unknown_to_the_caller_too() {
    let asked = Asked::default();
    let tools = || Toolbox::new().with(asked.tool("look")).with(asked.tool("listen"));
    let mut told = Vec::new();
    for place in [Place::Here, Place::Elsewhere] {
        let session = mint(tools(), None);
        let host = TurnHost::new().with_session(Arc::clone(&session));
        let turn = place.turn(host, &TurnRequest::new(""));
        turn.withdraw("look");
        turn.withdraw("look");
        let answer = turn.try_call(turn.token(), ToolCall::new("1", "look", json!({}))).await;
        told.push((answer, session.decisions()));
    }
    assert!(matches!(&told[0].0, Err(Denial::UnknownTool { known, .. }) if known == &["listen"]));
    assert_eq!(told[0], told[1]);
    assert_eq!(asked.names(), [""; 0]);
}

#[tokio::test]
async fn a_call_of_a_program_of_its_own_is_decided_on_by_the_caller() {
    let refuses = || Approver::new(|_| async { Approval::Refused { reason: None } });
    let panics = || Approver::new(|_| -> std::future::Ready<Approval> { panic!("as it should") });
    for (approver, why) in [
        (Some(Approver::new(|_| async { Approval::Granted })), None),
        (Some(refuses()), Some(NotApproved::Refused { reason: None })),
        (Some(panics()), Some(NotApproved::Failed)),
        (None, Some(NotApproved::NobodyAsked)),
    ] {
        let session = mint(Toolbox::new(), None);
        let mut host = TurnHost::new().with_session(Arc::clone(&session));
        host.approver = approver;
        let request = TurnRequest::new("");
        let turn = Place::Elsewhere.turn(host, &request);
        turn.redactor().learn("canary-of-the-turn");
        let arguments = json!({ "command": "echo canary-of-the-turn" });
        let own = ApprovalRequest::of_harness("Bash", ApprovalAction::Execute, arguments)
            .with_title("echo canary-of-the-turn")
            .with_paths(["/tmp/canary-of-the-turn".into()]);
        let wanted = why.map_or(Ok(()), |why| Err(Denial::NotApproved { tool: "Bash".to_owned(), why }));
        assert_eq!(turn.approve(own).await, wanted);
        let decisions = session.decisions();
        assert_eq!((decisions.len(), decisions[0].participant.as_str()), (1, "clerk"));
        assert_eq!(decisions[0].approved, wanted.is_ok());
        assert_eq!(decisions, turn.decisions());
        assert!(!format!("{decisions:?}").contains("canary"), "{decisions:?}");
        assert_eq!((turn.calls_made(), turn.effects()), (0, Effects::None));
    }
}

#[tokio::test]
async fn no_secret_of_the_turn_is_handed_on() {
    let asked = Asked::default();
    let session = mint(Toolbox::new().with(asked.tool("look")), None);
    let host = TurnHost::new().with_session(Arc::clone(&session));
    let turn = Place::Elsewhere.turn(host, &TurnRequest::new(""));
    turn.redactor().learn("canary-of-the-turn");
    call(&turn, "look", json!({ "key": "canary-of-the-turn" })).await;
    call(&turn, "look_canary-of-the-turn", json!({})).await;
    assert!(!format!("{:?} {:?}", asked.arguments(), session.decisions()).contains("canary"));
    assert_eq!(session.decisions().len(), 2);
}

/// A connection that breaks.
#[derive(Debug)]
struct Broken;

#[async_trait]
impl RemoteSession for Broken {
    async fn call(&self, _: ToolCall) -> Result<ToolResult, Denial> {
        panic!("as it should")
    }

    async fn approve(&self, _: ApprovalRequest) -> Result<(), Denial> {
        panic!("as it should")
    }

    fn withdraw(&self, _: &str) {}
}

#[tokio::test]
async fn a_panic_on_the_way_is_an_error_of_a_call_that_may_have_been_made() {
    let tool = Tool::without_arguments("pay", "", || async {}).with_effects(Effects::Wrote);
    let remote = Session::remote("clerk", vec![tool.definition().clone()], Arc::new(Broken));
    let answer = call(&remote, "pay", json!({})).await;
    assert!(answer.is_error && text(&answer).contains("part of its work may be done"), "{answer:?}");
    assert_eq!((remote.calls_made(), remote.effects()), (1, Effects::Wrote));
    let own = ApprovalRequest::of_harness("Bash", ApprovalAction::Execute, json!({}));
    let why = NotApproved::Failed;
    assert_eq!(remote.approve(own).await, Err(Denial::NotApproved { tool: "Bash".to_owned(), why }));
}

/// Replies of a model, each with its calls; what the model is told of each, how the calls ended, and how the turn did.
async fn replies(
    place: Place,
    limit: u32,
    replies: &[&[&str]],
) -> (Vec<Vec<ToolResult>>, Vec<ToolCallStatus>, Option<ErrorKind>, Effects) {
    let asked = Asked::default();
    let session = mint(
        Toolbox::new().with(asked.tool("look").read_only()).with(asked.tool("submit").terminal().read_only()),
        None,
    );
    let request = TurnRequest::new("Look.").with_limits(Limits::new().with_tool_calls(limit));
    let host = place.host(TurnHost::new().with_session(session), &request);
    let id = BackendId::new("alpha");
    let mut capabilities = Capabilities::new(LoopMode::Native);
    capabilities.access.scoped_only = AccessSupport::Kept(AccessEnforcer::None);
    capabilities.caller_tools = Support::Yes;
    capabilities.limits = LimitSupport::new().with_tool_calls(Enforcement::Ours);
    let finished = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&finished);
    let mut sink = move |event: EventEnvelope| {
        if let TurnEvent::ToolCallFinished(finished) = event.event {
            kept.lock().unwrap().push(finished.status);
        }
    };
    let mut turn = RunningTurn::begin(&id, &capabilities, request, host, &mut sink).unwrap();
    let (mut results, mut failure) = (Vec::new(), None);
    for reply in replies {
        turn.model_call().unwrap();
        let calls = reply.iter().enumerate();
        let calls =
            calls.map(|(number, name)| ToolCall::new(number.to_string(), *name, json!({ "n": number })));
        match turn.answer_calls(calls.collect()).await {
            Ok(answers) => results.push(answers),
            Err(error) => {
                failure = Some(error);
                break;
            }
        }
        if turn.is_submitted() {
            break;
        }
    }
    let outcome = failure.map_or(Ok((FinishReason::Stop, None)), Err);
    let (kind, effects) = match turn.end(outcome).await {
        Ok(result) => (None, result.effects),
        Err(error) => (Some(error.kind()), error.partial().effects),
    };
    let statuses = finished.lock().unwrap().clone();
    (results, statuses, kind, effects)
}

#[tokio::test]
async fn a_model_that_calls_beyond_its_budget_is_told_once_and_stopped() {
    let scripts: [&[&[&str]]; 4] = [
        &[&["look", "look", "look"], &["look"], &["look"]],
        &[&["look"], &["look", "look", "no_such_tool"], &["submit", "look"]],
        &[&["look", "submit", "look", "submit"]],
        &[&["no_such_tool", "look", "look", "submit"]],
    ];
    for script in scripts {
        let here = replies(Place::Here, 2, script).await;
        assert_eq!(replies(Place::Elsewhere, 2, script).await, here, "{script:?}");
    }
    let (results, statuses, kind, _) = replies(Place::Elsewhere, 2, scripts[0]).await;
    assert_eq!((results.len(), kind), (1, Some(ErrorKind::LimitReached(Limit::ToolCalls))));
    let denied = statuses.iter().filter(|status| **status == ToolCallStatus::Denied).count();
    assert_eq!((statuses.len(), denied), (4, 2));
    let (_, statuses, kind, effects) = replies(Place::Elsewhere, 2, &[&["no_such_tool"]]).await;
    assert_eq!((statuses, kind, effects), (vec![ToolCallStatus::Denied], None, Effects::None));
}
