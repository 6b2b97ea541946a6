//! What is decided, what is written down of it, and what the model is told.

use std::sync::Arc;

use async_trait::async_trait;
use nexus_core::{
    Decision, DecisionOutcome, Denial, Limits, ParticipantScope, Session, Tool, ToolCall, ToolDefinition,
    ToolResult, ToolRouter, Toolbox, TurnHost, TurnRequest,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::asked::{Asked, call, mint, text, verdict, verdicts};

#[tokio::test]
async fn what_is_decided_is_written_down_in_order_and_can_be_compared() {
    let run = || async {
        let asked = Asked::default();
        let session = mint(Toolbox::new().with(asked.tool("look")), 4);
        let turn = session.for_turn(None);
        for (name, arguments) in [
            ("look", json!({ "a": 1 })),
            ("nothing", Value::Null),
            ("look", json!([1])),
            ("look", json!("{\"a\": ")),
            ("look", Value::Null),
        ] {
            call(&turn, name, arguments).await;
        }
        assert_eq!(asked.arguments(), [json!({ "a": 1 })]);
        assert_eq!(turn.decisions(), session.decisions());
        session.decisions()
    };
    let decisions = run().await;
    assert_eq!(decisions, run().await, "two sessions, two tokens, the same calls");
    let kept: Vec<_> = decisions.iter().map(|decision| (&*decision.tool, &decision.arguments)).collect();
    let wanted = [
        ("look", &json!({ "a": 1 })),
        ("nothing", &json!({})),
        ("look", &json!([1])),
        ("look", &json!("{\"a\": ")),
        ("look", &json!({})),
    ];
    assert_eq!(kept, wanted);
    let written = serde_json::to_string(&decisions).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Decision>>(&written).unwrap(), decisions);
    assert!(
        written.contains("{\"denied\":{\"reason\":\"over_budget\",\"budget\":4,\"terminal\":[]}}"),
        "{written}"
    );
}

#[tokio::test]
async fn what_does_not_fit_the_tool_is_denied_and_counts() {
    #[derive(Deserialize, JsonSchema)]
    struct Page {
        number: u32,
    }
    let page = Tool::new("page", "", |page: Page| async move { page.number });
    let session = mint(Toolbox::new().with(page), 5);
    let told = |result: ToolResult| text(&result).to_owned();
    let unfit = told(call(&session, "page", json!({ "number": "one" })).await);
    assert!(
        unfit.starts_with("the arguments do not fit the tool \"page\": at /number: invalid type"),
        "{unfit}"
    );
    assert!(unfit.contains("JSON Schema"), "{unfit}");
    let torn = told(call(&session, "page", json!("{\"number\": ")).await);
    assert!(torn.contains("are not JSON: EOF while parsing a value at line 1 column 11"), "{torn}");
    let list = told(call(&session, "page", json!([1])).await);
    assert_eq!(list, "the arguments of \"page\" are not a JSON object; write one JSON object");
    assert_eq!(told(call(&session, "page", json!({ "number": 1 })).await), "1");
    assert_eq!(session.calls_made(), 4);
    let denied = verdicts(&session).iter().filter(|(_, verdict)| verdict.is_err()).count();
    assert_eq!(denied, 3);
    assert!(matches!(
        verdict(&session, "page", &json!({ "number": "one" })),
        Some(DecisionOutcome::Denied(Denial::Unfit { .. }))
    ));
    assert_eq!(verdict(&session, "page", &json!({ "number": 1 })), Some(DecisionOutcome::Allowed));
    assert_eq!(verdict(&session, "page", &json!({ "number": 2 })), None);
}

#[tokio::test]
async fn a_tool_that_is_withdrawn_is_as_unknown_as_any_other() {
    let asked = Asked::default();
    let tools = Toolbox::new().with(asked.tool("look")).with(asked.tool("submit").terminal());
    let session = mint(tools, None);
    let turn = session.for_turn(None);
    turn.withdraw("submit");
    let told = call(&turn, "submit", json!({})).await;
    assert_eq!(text(&told), "there is no tool named \"submit\"; there are: look");
    assert!(!turn.has_terminal_tools());
    let other = session.for_turn(None);
    assert!(!call(&other, "submit", json!({})).await.is_error, "it is withdrawn from that turn alone");
}

#[tokio::test]
async fn whatever_serves_the_router_of_a_session_serves_the_session() {
    let asked = Asked::default();
    let session = mint(Toolbox::new().with(asked.tool("look")), 1);
    let router = session.router();
    assert_eq!(router.definitions(), session.definitions());
    for _ in 0..2 {
        router.call(ToolCall::new("1", "look", json!({}))).await;
    }
    assert_eq!((asked.names().len(), session.decisions().len()), (1, 2));
    let host = TurnHost::new().with_tools(router);
    let turn = host.open_turn(&TurnRequest::new("x").with_limits(Limits::new().with_tool_calls(9)));
    assert!(call(&turn, "look", json!({})).await.is_error, "a session around a session keeps both");
}

/// Answers as no tool should.
#[derive(Debug)]
struct Broken;

#[async_trait]
impl ToolRouter for Broken {
    fn definitions(&self) -> Vec<ToolDefinition> {
        ["checks", "calls"].map(|name| ToolDefinition::new(name, "", json!({ "type": "object" }))).to_vec()
    }

    fn check_arguments(&self, tool: &str, _arguments: &Value) -> Result<(), String> {
        assert_ne!(tool, "checks", "canary");
        Ok(())
    }

    async fn call(&self, _call: ToolCall) -> ToolResult {
        panic!("canary")
    }
}

#[tokio::test]
async fn a_router_that_panics_is_an_error_and_the_session_lives_on() {
    let session = Session::mint("clerk", ParticipantScope::unrestricted(), Arc::new(Broken));
    for name in ["checks", "calls", "checks", "calls"] {
        let result = call(&session, name, json!({})).await;
        assert!(result.is_error && !text(&result).contains("canary"), "{result:?}");
    }
    let outcomes: Vec<bool> = verdicts(&session).iter().map(|(_, verdict)| verdict.is_ok()).collect();
    assert_eq!(outcomes, [false, true, false, true]);
}
