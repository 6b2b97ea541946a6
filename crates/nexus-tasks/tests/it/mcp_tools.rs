//! The tools over tasks, as a client sees them. A changed text is a changed snapshot, to be read before it is taken:
//! `INSTA_UPDATE=always cargo test -p nexus-turn-tasks --test it mcp_tools`, then `git diff`.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use nexus_core::{BuildContext, Registry};
use nexus_mcp::{
    CallAnswer, CallContext, JsonObject, MAX_ANSWER_BYTES, ServedTool, ToolKind, ToolService as _,
};
use nexus_router::Router;
use nexus_tasks::{TaskError, TaskErrorKind, TaskTools, Tasks, TasksOptions};
use serde_json::{Value, json};

/// Tools over a home that has a configuration without backends.
fn tools(home: &tempfile::TempDir) -> TaskTools {
    let path = home.path().to_owned();
    TaskTools::new(move || {
        let router = Router::from_value(json!({}), Registry::new(), BuildContext::in_home(&path))
            .map_err(|error| TaskError::new(TaskErrorKind::NotConfigured, error.to_string(), "mend it"))?;
        Ok(Tasks::new(router, TasksOptions::in_home(&path)))
    })
}

fn unopened() -> TaskTools {
    TaskTools::new(|| {
        Err(TaskError::new(TaskErrorKind::NotConfigured, "there is no nexus.yaml", "write one"))
    })
}

async fn call(tools: &TaskTools, name: &str, arguments: Value) -> CallAnswer {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    tools.call(name, arguments, CallContext::unattended()).await
}

fn served(name: &str) -> ServedTool {
    unopened().tools().into_iter().find(|tool| tool.name == name).expect("the tool is served")
}

#[test]
fn the_tools_are_described_so() {
    let listed: Vec<Value> = unopened()
        .tools()
        .into_iter()
        .map(|tool| {
            json!({
                "name": tool.name,
                "title": tool.title,
                "description": tool.description,
                "kind": format!("{:?}", tool.kind),
                "long": tool.may_take_long,
                "input": tool.input_schema,
                "output": tool.output_schema,
            })
        })
        .collect();
    let listed: Vec<Value> = listed.into_iter().map(sorted).collect();
    insta::assert_snapshot!(serde_json::to_string_pretty(&listed).unwrap());
}

/// The same, its keys by the alphabet: some build may have turned on that they keep another order.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let map: BTreeMap<String, Value> = map.into_iter().collect();
            map.into_iter().map(|(key, value)| (key, sorted(value))).collect()
        }
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        other => other,
    }
}

#[test]
fn the_instructions_are_these() {
    insta::assert_snapshot!(unopened().info().instructions);
}

#[test]
fn every_client_shows_all_that_is_described() {
    let tools = unopened().tools();
    assert_eq!(tools.len(), 15);
    for tool in &tools {
        assert!(tool.description.chars().count() < 2048, "{}", tool.name);
        assert!(tool.title.is_some() && tool.output_schema.is_some(), "{}", tool.name);
        let waits = tool.input_schema["properties"].get("wait_s").is_some();
        assert_eq!(waits, tool.may_take_long, "{}", tool.name);
    }
    let bytes =
        serde_json::to_vec(&tools.iter().map(|tool| &tool.input_schema).collect::<Vec<_>>()).unwrap().len();
    assert!(bytes < 30_000, "the schemas of all arguments have {bytes} bytes");
}

#[test]
fn the_beginning_of_the_instructions_teaches_the_walk() {
    let instructions = unopened().info().instructions;
    assert!(instructions.chars().count() < 2048);
    let beginning: String = instructions.chars().take(250).collect();
    for word in [
        "task_create",
        "task_orchestrate",
        "task_run_turn",
        "complete, blocked or escalated",
        "task_result",
        "`running: true`",
        "repeat the call",
    ] {
        assert!(beginning.contains(word), "{word} is not in {beginning:?}");
    }
}

#[test]
fn what_only_reads_or_waits_says_so_and_nothing_else_does() {
    let reading: Vec<_> = unopened()
        .tools()
        .into_iter()
        .filter(|tool| tool.kind == ToolKind::ReadOnly)
        .map(|tool| tool.name)
        .collect();
    let expected =
        ["task_status", "task_result", "task_log", "task_list", "task_artifact", "tier_list", "agent_list"];
    assert_eq!(reading, expected);
    for (name, kind) in [("task_cancel", ToolKind::RemovesOnce), ("agent_remove", ToolKind::RemovesOnce)] {
        assert_eq!(served(name).kind, kind);
    }
}

#[tokio::test]
async fn wrong_arguments_say_what_is_taken_before_anything_is_opened() {
    let tools = unopened();
    for (name, arguments, expected) in [
        ("task_create", json!({}), "missing field `goal`"),
        ("task_create", json!({ "goal": 7, "project": "/a" }), "at `goal`"),
        (
            "task_create",
            json!({ "goal": "g", "project": "/a", "budget": { "usd": "much" } }),
            "at `budget.usd`",
        ),
        ("task_run_turn", json!({ "task_id": "t", "entry": -1 }), "at `entry`"),
        ("task_run_turn", json!({ "taskId": "t" }), "unknown field `taskId`"),
        ("task_status", json!({ "task_id": "t", "wait_s": "long" }), "at `wait_s`"),
        ("agent_list", json!({ "x": "y".repeat(20_000) }), "unknown field"),
    ] {
        let answer = call(&tools, name, arguments).await;
        assert!(answer.is_error && answer.text.contains(expected), "{name}: {}", answer.text);
        assert!(
            answer.text.contains("It accepts `") && answer.text.contains("Nothing was done"),
            "{}",
            answer.text
        );
        assert!(answer.text.len() < 3_000, "{} bytes", answer.text.len());
    }
    let answer = call(&tools, "task_status", json!({})).await;
    assert!(answer.text.contains("`task_id` (string, required)"), "{}", answer.text);
}

#[tokio::test]
async fn a_configuration_is_loaded_at_the_first_call_and_again_until_it_is_right() {
    let opened = Arc::new(AtomicU32::new(0));
    let home = tempfile::tempdir().unwrap();
    let (path, counter) = (home.path().to_owned(), Arc::clone(&opened));
    let tools = TaskTools::new(move || {
        if counter.fetch_add(1, Ordering::SeqCst) == 0 {
            return Err(TaskError::new(TaskErrorKind::NotConfigured, "there is no nexus.yaml", "write one"));
        }
        let router = Router::from_value(json!({}), Registry::new(), BuildContext::in_home(&path)).unwrap();
        Ok(Tasks::new(router, TasksOptions::in_home(&path)))
    });
    assert_eq!((tools.tools().len(), tools.info().name.as_str()), (15, "nexus-spawn"));
    assert_eq!(opened.load(Ordering::SeqCst), 0);
    let first = call(&tools, "tier_list", json!({})).await;
    assert_eq!((first.is_error, first.text.as_str()), (true, "there is no nexus.yaml; write one"));
    for _ in 0..2 {
        let next = call(&tools, "tier_list", json!({})).await;
        assert!(!next.is_error, "{}", next.text);
    }
    assert_eq!(opened.load(Ordering::SeqCst), 2);
    tools.stop().await;
    let late = call(&tools, "tier_list", json!({})).await;
    assert!(late.is_error && late.text.contains("the server is ending"), "{}", late.text);
}

#[tokio::test]
async fn answers_are_of_their_schemas_and_errors_say_what_to_call() {
    let home = tempfile::tempdir().unwrap();
    let tools = tools(&home);
    for name in ["task_list", "tier_list", "agent_list"] {
        let answer = call(&tools, name, json!({})).await;
        assert!(!answer.is_error, "{name}: {}", answer.text);
        let structured = answer.structured.expect("structured content");
        assert_eq!(serde_json::from_str::<Value>(&answer.text).unwrap(), structured);
        assert!(answer.text.len() <= MAX_ANSWER_BYTES);
        let schema = served(name).output_schema.unwrap();
        jsonschema::validate(&schema, &structured).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    for name in [
        "task_orchestrate",
        "task_run_turn",
        "task_status",
        "task_result",
        "task_log",
        "task_artifact",
        "task_cancel",
        "task_reopen",
    ] {
        for id in ["", "../../etc", "00000000-0000-4000-8000-000000000000", "\u{0}", "nobody"] {
            let mut arguments = JsonObject::new();
            arguments.insert("task_id".to_owned(), id.into());
            if name == "task_artifact" {
                arguments.insert("artifact".to_owned(), "brief".into());
            }
            if name == "task_reopen" {
                arguments.insert("note".to_owned(), "again".into());
            }
            let answer = tools.call(name, arguments, CallContext::unattended()).await;
            assert!(answer.is_error && answer.text.contains("task_list"), "{name} {id:?}: {}", answer.text);
        }
    }
}
