//! One line of `nexus.yaml` moves a work-kind with tools over all three native backends; no Rust changes.

use std::{collections::BTreeMap, sync::Arc};

use nexus::{
    BuildContext, Effects, EventEnvelope, Router, Tool, ToolCallStatus, Toolbox, TurnHost, TurnRequest,
    TurnResult, registry,
};
use nexus_testkit::sim::{Dialect, Reply, Scenario, Sim, ToolCall};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

/// What every model of the test says and does: two calls at once, one with a mistake, then the answer.
fn part() -> Scenario {
    let add = |arguments| ToolCall::function("add", arguments);
    Scenario::new([
        Reply::calls([add(json!({ "a": 2, "b": 3 })), add(json!({ "a": "two", "b": 3 }))]),
        Reply::call(add(json!({ "a": 5, "b": 37 }))),
        Reply::text("42"),
    ])
    .per_conversation()
}

/// The program: it knows a work-kind, a task and its tools, and no vendor.
async fn program(yaml: &str) -> TurnResult {
    let environment = BTreeMap::from([("TOKEN".to_owned(), "canary".to_owned())]);
    let home = tempfile::tempdir().unwrap();
    let context = BuildContext::in_home(home.path()).with_environment(environment);
    let router = Router::builder(registry(), context).from_str(yaml).unwrap();
    let tools = Toolbox::new().with(
        Tool::new("add", "Adds two whole numbers.", |Add { a, b }| async move {
            a.checked_add(b).ok_or("the sum is too large")
        })
        .read_only(),
    );
    let host = TurnHost::new().with_tools(Arc::new(tools));
    let mut events = |_: EventEnvelope| {};
    router.run_turn("sums", TurnRequest::new("What is 2 + 3 + 37?"), host, &mut events).await.unwrap()
}

#[tokio::test]
async fn one_line_moves_a_task_with_tools_over_all_native_backends() {
    let openai = Sim::start(Dialect::Responses, part()).unwrap();
    let xai = Sim::start(Dialect::Xai, part()).unwrap();
    let own = Sim::start(Dialect::Responses, part()).unwrap();
    let yaml = |group: &str| {
        format!(
            "groups: {{ openai: [codex-sub-token], xai: [grok-sub-token], local: [house] }}\n\
             backends:\n\
             \x20 codex-sub-token: {{ base_url: {:?}, credential: {{ env: TOKEN, account: a }} }}\n\
             \x20 grok-sub-token:  {{ base_url: {:?}, credential: {{ env: TOKEN }} }}\n\
             \x20 house:           {{ kind: responses, base_url: {:?} }}\n\
             models: {{ strong: {{ openai: gpt-5.5, xai: grok-4.6, local: qwen3 }} }}\n\
             types:\n\
             \x20 sums: {{ tier: execution, phase: add, group: {group}, model: strong }}\n",
            openai.base_url(),
            xai.base_url(),
            own.base_url(),
        )
    };
    let cases =
        [("openai", "codex-sub-token", &openai), ("xai", "grok-sub-token", &xai), ("local", "house", &own)];
    for (group, backend, sim) in cases {
        let result = program(&yaml(group)).await;
        assert_eq!(result.text, "42", "{group}");
        assert_eq!(result.provenance.backend.as_str(), backend);
        let statuses: Vec<_> = result.tool_calls.iter().map(|call| call.status).collect();
        let wanted = [ToolCallStatus::Succeeded, ToolCallStatus::Denied, ToolCallStatus::Succeeded];
        assert_eq!(statuses, wanted, "{group}");
        assert_eq!(result.effects, Effects::Read, "{group}");
        assert_eq!(sim.main_calls().len(), 3, "{group}");
    }
}
