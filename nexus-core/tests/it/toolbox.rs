//! A toolbox as a backend sees it: what it offers, and how it answers what models write.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use nexus_core::{
    Effects, Json, QuarantineReason, Tool, ToolCall, ToolContent, ToolFault, ToolResult, ToolRouter, Toolbox,
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

#[derive(Deserialize, JsonSchema)]
struct Add {
    /// The first number.
    a: i64,
    /// The second number.
    b: i64,
}

fn add() -> Tool {
    Tool::new("add", "Adds two whole numbers.", |Add { a, b }| async move {
        a.checked_add(b).ok_or_else(|| ToolFault::new("the sum is too large"))
    })
}

async fn call(tools: &Toolbox, name: &str, arguments: Value) -> ToolResult {
    tools.call(ToolCall::new("c1", name, arguments)).await
}

fn text(result: &ToolResult) -> &str {
    match result.content.as_slice() {
        [ToolContent::Text { text }] => text,
        other => panic!("not one text: {other:?}"),
    }
}

#[tokio::test]
async fn a_typed_tool_is_described_and_answers() {
    let tools = Toolbox::new().with(add().read_only());
    let [definition] = &tools.definitions()[..] else { panic!("not one tool") };
    let schema = json!({
        "type": "object",
        "properties": {
            "a": { "type": "integer", "description": "The first number." },
            "b": { "type": "integer", "description": "The second number." },
        },
        "required": ["a", "b"],
    });
    assert_eq!(definition.input_schema, schema);
    assert_eq!((definition.name.as_str(), definition.effects), ("add", Effects::Read));
    assert!(!definition.terminal);
    assert_eq!(call(&tools, "add", json!({ "a": 2, "b": 3, "why": "extra" })).await, ToolResult::text("5"));
}

#[tokio::test]
async fn an_error_of_the_handler_is_an_error_that_the_model_reads() {
    let tools = Toolbox::new().with(add());
    let result = call(&tools, "add", json!({ "a": i64::MAX, "b": 1 })).await;
    assert!(result.is_error);
    assert_eq!(text(&result), "the sum is too large");
}

#[tokio::test]
async fn bad_arguments_are_answered_with_what_and_where_and_the_schema() {
    let tools = Toolbox::new().with(add());
    let result = call(&tools, "add", json!({ "a": 1, "b": "two" })).await;
    assert!(result.is_error);
    let told = text(&result);
    assert!(
        told.starts_with("the arguments do not fit the tool \"add\": at /b: invalid type: string"),
        "{told}"
    );
    assert!(told.contains("\"required\":[\"a\",\"b\"]"), "{told}");
    for wrong in [Value::Null, json!([1]), json!("{"), json!({ "a": 1 })] {
        assert!(call(&tools, "add", wrong.clone()).await.is_error, "{wrong}");
    }
}

fn called() -> &'static str {
    panic!("the tool was called")
}

#[tokio::test]
async fn whether_arguments_fit_is_told_without_a_call_and_in_the_same_words() {
    let schema = json!({ "properties": { "n": { "type": "integer", "maximum": 3 } } });
    let tools = Toolbox::new()
        .with(add())
        .with(Tool::with_schema("count", "", schema, |_| async { called() }))
        .with(Tool::without_arguments("ping", "", || async { called() }));
    for (tool, fits, wrong) in [
        ("add", json!({ "a": 1, "b": 2 }), json!({ "a": 1, "b": "two" })),
        ("count", json!({ "n": 3 }), json!({ "n": 4 })),
    ] {
        assert_eq!(tools.check_arguments(tool, &fits), Ok(()));
        let problem = tools.check_arguments(tool, &wrong).unwrap_err();
        let told = format!("the arguments do not fit the tool {tool:?}: {problem}");
        assert_eq!(text(&call(&tools, tool, wrong).await), told);
    }
    assert_eq!(tools.check_arguments("ping", &json!([1])), Ok(()));
    // What is not there is for the session to say.
    assert_eq!(tools.check_arguments("unknown", &json!({})), Ok(()));
}

#[tokio::test]
async fn bad_arguments_never_reach_the_handler() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let schema = json!({ "properties": { "n": { "type": "integer", "maximum": 3 } } });
    let tools = Toolbox::new().with(Tool::with_schema("count", "", schema, move |arguments: Value| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move { Json(arguments) }
    }));
    let refused = call(&tools, "count", json!({ "n": 4 })).await;
    assert!(refused.is_error && text(&refused).contains("at /n: 4 is greater than"), "{refused:?}");
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    let taken = call(&tools, "count", json!({ "n": 3 })).await;
    assert_eq!(taken, ToolResult::ok(vec![ToolContent::json(json!({ "n": 3 }))]));
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_tool_without_arguments_takes_whatever_is_written() {
    let tools = Toolbox::new().with(Tool::without_arguments("ping", "Answers.", || async { "pong" }));
    for arguments in [json!({}), Value::Null, json!(""), json!({ "x": 1 })] {
        assert_eq!(call(&tools, "ping", arguments).await, ToolResult::text("pong"));
    }
}

#[tokio::test]
async fn optional_arguments_may_all_be_missing() {
    #[derive(Deserialize, JsonSchema)]
    struct Page {
        number: Option<u32>,
    }
    let tools = Toolbox::new()
        .with(Tool::new("page", "", |page: Page| async move { page.number.unwrap_or(1) }).terminal());
    assert_eq!(call(&tools, "page", Value::Null).await, ToolResult::text("1"));
    assert!(tools.definitions()[0].terminal);
}

#[tokio::test]
async fn a_panic_is_an_error_without_its_message_and_the_tool_lives_on() {
    #[derive(JsonSchema)]
    #[schemars(transparent)]
    struct Explosive(Map<String, Value>);
    impl<'de> Deserialize<'de> for Explosive {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            let read = Map::deserialize(from)?;
            assert!(read.contains_key("safe"), "canary-3");
            Ok(Self(read))
        }
    }
    let fuse = Arc::new(AtomicUsize::new(0));
    let lit = Arc::clone(&fuse);
    let tools = Toolbox::new()
        .with(Tool::without_arguments("closure", "", move || {
            assert!(lit.fetch_add(1, Ordering::SeqCst) > 0, "canary-1");
            async {}
        }))
        .with(Tool::without_arguments("future", "", || async {
            tokio::task::yield_now().await;
            "canary-2".parse::<u8>().expect("a number");
        }))
        .with(Tool::new("reader", "", |explosive: Explosive| async move { explosive.0.len() }));
    for name in ["closure", "future", "reader"] {
        let result = call(&tools, name, json!({})).await;
        assert!(result.is_error);
        assert!(text(&result).contains("panicked") && !text(&result).contains("canary"), "{result:?}");
    }
    assert_eq!(call(&tools, "closure", json!({})).await, ToolResult::text("done"));
    assert_eq!(call(&tools, "reader", json!({ "safe": true })).await, ToolResult::text("1"));
}

#[tokio::test]
async fn one_bad_tool_is_left_out_and_the_others_work() {
    let bare = |name: &str| Tool::without_arguments(name, "", || async { "bare" });
    let with = |name: &str, schema: Value| Tool::with_schema(name, "", schema, |_| async { "schema" });
    let tools = Toolbox::new()
        .with(add())
        .with(bare("add"))
        .with(bare(""))
        .with(bare("a b"))
        .with(bare("größe"))
        .with(bare(&"x".repeat(65)))
        .with(with("text", json!({ "type": "string" })))
        .with(with("nonsense", json!({ "type": "nonsense" })))
        .with(with("pattern", json!({ "properties": { "a": { "pattern": "(" } } })))
        .with(Tool::new("list", "", |_: Vec<u8>| async {}))
        .with(bare("read").reading("path"))
        .with(bare("write").reading("/from").writing(""))
        .with(bare(&"x".repeat(64)));
    let names: Vec<_> = tools.definitions().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["add".to_owned(), "x".repeat(64)]);
    let left_out: Vec<_> =
        tools.quarantined().iter().map(|tool| (tool.name.as_str(), &tool.reason)).collect();
    assert_eq!(left_out[0], ("add", &QuarantineReason::NameTaken));
    assert!(left_out[1..5].iter().all(|(_, reason)| **reason == QuarantineReason::NameNotAllowed));
    assert_eq!(left_out[5], ("text", &QuarantineReason::NotAnObjectSchema));
    assert!(matches!(left_out[6], ("nonsense", QuarantineReason::NotASchema { .. })));
    assert!(matches!(left_out[7], ("pattern", QuarantineReason::NotASchema { .. })));
    assert_eq!(left_out[8], ("list", &QuarantineReason::NotAnObjectSchema));
    let not_a_pointer = |pointer: &str| QuarantineReason::NotAPointer { pointer: pointer.to_owned() };
    assert_eq!(left_out[9..], [("read", &not_a_pointer("path")), ("write", &not_a_pointer(""))]);
    assert_eq!(call(&tools, "add", json!({ "a": 1, "b": 1 })).await, ToolResult::text("2"));
    assert!(tools.quarantined()[0].to_string().contains("an earlier tool has its name"));
}

#[test]
fn a_tool_whose_path_leads_nowhere_in_its_schema_is_left_out() {
    #[derive(Deserialize, JsonSchema)]
    struct Files {
        files: BTreeMap<String, String>,
    }
    let named = |name: &str| Tool::new(name, "", |Files { files }| async move { drop(files) });
    let open = Tool::with_schema("open", "", json!({ "type": "object" }), |_| async {});
    let tools = Toolbox::new()
        .with(named("typo").reading("/files/*").writing("/flies/a"))
        .with(named("deep").writing("/files/*/to"))
        .with(named("good").writing("/files/*").reading("/files/a"))
        .with(open.writing("/anything/*/at/all"))
        .with(Tool::without_arguments("none", "", || async {}).writing("/path"));
    let left_out: Vec<_> =
        tools.quarantined().iter().map(|tool| (&*tool.name, tool.reason.clone())).collect();
    let wanted = [("typo", "/flies/a"), ("deep", "/files/*/to"), ("none", "/path")]
        .map(|(name, pointer)| (name, QuarantineReason::NoSuchArgument { pointer: pointer.to_owned() }));
    assert_eq!(left_out, wanted);
    assert!(tools.quarantined()[0].to_string().contains("\"/flies/a\" does not match an argument"));
    assert_eq!(tools.definitions().len(), 2);
}

#[tokio::test]
async fn an_unknown_name_is_answered_with_the_nearest_and_the_list() {
    let tools = Toolbox::new().with(add()).with(Tool::without_arguments("list_books", "", || async {}));
    let result = call(&tools, "list_book", json!({})).await;
    assert!(result.is_error);
    let told = text(&result);
    assert!(told.contains("did you mean \"list_books\"?") && told.contains("add, list_books"), "{told}");
    let far = call(&tools, &"z".repeat(1 << 20), json!({})).await;
    assert!(text(&far).len() < 400 && !text(&far).contains("did you mean"), "{far:?}");
    assert!(call(&Toolbox::new(), "add", json!({})).await.is_error);
}

#[tokio::test]
async fn a_tagged_enum_is_an_object_and_reports_a_wrong_tag() {
    #[derive(Deserialize, JsonSchema)]
    #[serde(tag = "shape", rename_all = "lowercase")]
    enum Shape {
        Circle { radius: f64 },
        Square { side: f64 },
    }
    let tools = Toolbox::new().with(Tool::new("area", "", |shape: Shape| async move {
        match shape {
            Shape::Circle { radius } => radius * radius * 3.0,
            Shape::Square { side } => side * side,
        }
    }));
    assert_eq!(tools.definitions()[0].input_schema["type"], "object");
    assert_eq!(call(&tools, "area", json!({ "shape": "square", "side": 2.0 })).await, ToolResult::text("4"));
    let wrong = call(&tools, "area", json!({ "shape": "star" })).await;
    assert!(text(&wrong).contains("unknown variant `star`"), "{wrong:?}");
}

#[tokio::test]
async fn calls_of_one_tool_run_at_once() {
    let meeting = Arc::new(tokio::sync::Barrier::new(3));
    let tools = Toolbox::new().with(Tool::without_arguments("meet", "", move || {
        let meeting = Arc::clone(&meeting);
        async move {
            meeting.wait().await;
        }
    }));
    let three = futures::future::join_all((0..3).map(|_| call(&tools, "meet", json!({}))));
    let results = tokio::time::timeout(std::time::Duration::from_secs(60), three).await.unwrap();
    assert!(results.iter().all(|result| *result == ToolResult::text("done")));
}

#[test]
fn a_toolbox_can_be_shared_and_printed() {
    fn shared<T: fmt::Debug + Clone + Send + Sync + 'static>(value: &T) -> String {
        format!("{value:?}")
    }
    let printed = shared(&Toolbox::new().with(add()));
    assert!(printed.contains("\"add\""), "{printed}");
}
