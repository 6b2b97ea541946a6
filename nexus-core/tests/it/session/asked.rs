//! Tools that record, a session of them, and what came of it.

use std::sync::{Arc, Mutex};

use nexus_core::{
    Decision, DecisionOutcome, Denial, ParticipantScope, Session, Tool, ToolCall, ToolContent, ToolResult,
    Toolbox,
};
use serde_json::{Value, json};

/// Tools that write down what they are asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked(Arc<Mutex<Vec<(String, Value)>>>);

impl Asked {
    pub(crate) fn tool(&self, name: &'static str) -> Tool {
        let asked = self.clone();
        Tool::with_schema(
            name,
            "Writes down what it is asked.",
            json!({ "type": "object" }),
            move |arguments: Value| {
                asked.0.lock().unwrap().push((name.to_owned(), arguments));
                async { "done" }
            },
        )
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|(name, _)| name.clone()).collect()
    }

    pub(crate) fn arguments(&self) -> Vec<Value> {
        self.0.lock().unwrap().iter().map(|(_, arguments)| arguments.clone()).collect()
    }
}

pub(crate) fn mint(tools: Toolbox, tool_calls: impl Into<Option<u32>>) -> Arc<Session> {
    assert!(tools.quarantined().is_empty(), "{:?}", tools.quarantined());
    Session::mint_with_budget("clerk", ParticipantScope::unrestricted(), Arc::new(tools), tool_calls)
}

pub(crate) async fn call(session: &Session, name: &str, arguments: Value) -> ToolResult {
    session.call(session.token(), ToolCall::new("1", name, arguments)).await
}

pub(crate) fn text(result: &ToolResult) -> &str {
    match result.content.as_slice() {
        [ToolContent::Text { text }] => text,
        other => panic!("not one text: {other:?}"),
    }
}

/// What was decided, by tool.
pub(crate) fn verdicts(session: &Session) -> Vec<(String, Result<(), Denial>)> {
    let decisions = session.decisions().into_iter();
    decisions
        .map(|decision| {
            let verdict = match decision.outcome {
                DecisionOutcome::Allowed => Ok(()),
                DecisionOutcome::Denied(denial) => Err(denial),
            };
            (decision.tool, verdict)
        })
        .collect()
}

/// What was decided last about such a call, if there was one.
pub(crate) fn verdict(session: &Session, tool: &str, arguments: &Value) -> Option<DecisionOutcome> {
    let decisions = session.decisions();
    let alike = |decision: &Decision| decision.tool == tool && decision.arguments == *arguments;
    decisions.into_iter().rfind(alike).map(|decision| decision.outcome)
}
