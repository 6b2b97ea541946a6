//! Items as this wire sends them.

use nexus_core::ModelId;

use super::*;
use crate::native::dialect::ModelPlan;
use crate::native::items::{Author, Origin, Sealed};
use crate::native::tools::wire_tool::{ToolForm, wire_tools};
use crate::native::wires::shape::WireShape;

const MARK: &str = "ephemeral";

fn shape() -> MessagesShape {
    MessagesShape {
        path: "/v1/messages",
        omits_model: false,
        omits_stream: false,
        max_tokens: 32_000,
        thinking: ThinkingForm::Adaptive,
        cache_marks: false,
        answer: AnswerFormat::Native,
        body: None,
    }
}

fn user(parts: &[ItemPart]) -> Item {
    Item::message(Author::User, parts.to_vec())
}

fn said(text: &str) -> Item {
    Item::message(Author::Assistant, vec![ItemPart::text(text)])
}

fn call(id: &str, arguments: &str) -> Item {
    Item::call(id, "add", arguments)
}

fn result(id: &str, parts: &[ItemPart], is_error: bool) -> Item {
    Item::result(id, parts.to_vec(), is_error)
}

fn text(text: &str) -> ItemPart {
    ItemPart::text(text)
}

#[derive(Default)]
struct Request<'a> {
    system: Option<&'a str>,
    effort: Option<Effort>,
    tools: &'a [Value],
    format: Option<&'a Value>,
    bound: Option<u64>,
}

fn raw_body(shape: MessagesShape, items: &[Item], request: &Request<'_>) -> String {
    let plan = ModelPlan {
        model: ModelId::new("m"),
        shape: WireShape::Messages(shape.clone()),
        efforts: Vec::new(),
        warnings: Vec::new(),
        path: None,
        context_window: None,
    };
    let tools = wire_tools(ToolForm::Messages, request.tools);
    let opening = TurnConstants {
        plan: &plan,
        server: "http://a.test",
        system: request.system,
        effort: request.effort,
        tools: &tools,
        output_format: request.format,
    };
    let writer = MessagesWriter::new(shape, request.effort);
    String::from_utf8(writer.body(
        &writer.head(&opening, "c"),
        &items.iter().collect::<Vec<_>>(),
        request.bound,
    ))
    .unwrap()
}

fn body(shape: MessagesShape, items: &[Item], request: &Request<'_>) -> Value {
    let body = raw_body(shape, items, request);
    serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

fn messages(items: &[Item]) -> Value {
    body(shape(), items, &Request::default())["messages"].take()
}

#[test]
fn results_come_first_in_the_next_message_and_thinking_goes_back_unchanged() {
    let thought = r#"{"type":"thinking","thinking":"Hm.","signature":"c2ln"}"#;
    let sealed = Sealed { origin: Origin::default(), json: thought.to_owned() };
    let picture = ItemPart::Image { media_type: "image/png".to_owned(), data: "AAAA".to_owned() };
    let items = [
        user(&[text("Add.")]),
        Item::reasoning(sealed),
        said("So."),
        call("1", "{ \"a\":  1 }"),
        call("2", "not json"),
        call("3", ""),
        result("2", &[text("two")], true),
        result("1", &[text("one"), picture], false),
        user(&[text("And"), text(" \n")]),
        user(&[text("more?")]),
    ];
    let wanted = json!([
        { "role": "user", "content": [{ "type": "text", "text": "Add." }] },
        { "role": "assistant", "content": [
            { "type": "thinking", "thinking": "Hm.", "signature": "c2ln" },
            { "type": "text", "text": "So." },
            { "type": "tool_use", "id": "1", "name": "add", "input": { "a": 1 } },
            { "type": "tool_use", "id": "2", "name": "add", "input": { "not_json": "not json" } },
            { "type": "tool_use", "id": "3", "name": "add", "input": {} },
        ] },
        { "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": "1", "content": [
                { "type": "text", "text": "one" },
                { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "AAAA" } },
            ] },
            { "type": "tool_result", "tool_use_id": "2", "content": [{ "type": "text", "text": "two" }], "is_error": true },
            { "type": "tool_result", "tool_use_id": "3",
              "content": [{ "type": "text", "text": MISSING_RESULT }], "is_error": true },
            { "type": "text", "text": "And" },
            { "type": "text", "text": "more?" },
        ] },
    ]);
    assert_eq!(messages(&items), wanted);
    let raw = raw_body(shape(), &items, &Request::default());
    assert!(raw.contains(thought) && raw.contains("{ \"a\":  1 }"), "prompt caches compare bytes: {raw}");
}

#[test]
fn a_conversation_that_begins_with_the_model_gets_a_named_beginning() {
    let messages = messages(&[said("a"), user(&[text("b")])]);
    assert_eq!(messages[0]["content"][0]["text"], MISSING_BEGINNING);
    assert_eq!(messages[1]["role"], "assistant");
}

#[test]
fn marks_are_at_the_system_text_and_at_the_last_message() {
    let marked = MessagesShape { cache_marks: true, ..shape() };
    let tool =
        json!({ "type": "function", "name": "add", "description": "d", "parameters": { "type": "object" } });
    let tools = [tool];
    let items = [user(&[text("a")]), call("1", "{}"), result("1", &[text("b")], false)];
    let request = Request { system: Some("Be brief."), tools: &tools, ..Request::default() };
    let with_system = body(marked.clone(), &items, &request);
    assert_eq!(with_system["system"][0]["cache_control"]["type"], MARK);
    assert_eq!(
        with_system["tools"][0],
        json!({ "name": "add", "description": "d", "input_schema": { "type": "object" } })
    );
    assert_eq!(with_system["messages"][2]["content"][0]["cache_control"]["type"], MARK);
    assert_eq!(with_system["messages"][0]["content"][0].get("cache_control"), None);
    let without = body(marked.clone(), &items[..1], &Request { tools: &tools, ..Request::default() });
    assert_eq!(without["tools"][0]["cache_control"]["type"], MARK);
    assert_eq!(without["messages"][0]["content"][0]["cache_control"]["type"], MARK);
    assert_eq!(raw_body(marked, &items, &request).matches(MARK).count(), 2);
    assert!(!raw_body(shape(), &items, &request).contains(MARK));
}

#[test]
fn an_effort_is_a_step_or_a_budget_within_the_bounds() {
    let items = [user(&[text("a")])];
    let with = |thinking, effort, bound| {
        let shape = MessagesShape { thinking, ..shape() };
        body(shape, &items, &Request { effort, bound, ..Request::default() })
    };
    let adaptive = with(ThinkingForm::Adaptive, Some(Effort::High), None);
    assert_eq!(adaptive["output_config"], json!({ "effort": "high" }));
    assert_eq!(adaptive["thinking"]["type"], "adaptive");
    assert_eq!(adaptive["max_tokens"], 32_000);
    for (effort, bound, budget, max_tokens) in [
        (Effort::Low, None, json!({ "type": "enabled", "budget_tokens": 4_096 }), 32_000),
        (Effort::Max, None, json!({ "type": "enabled", "budget_tokens": 30_976 }), 32_000),
        (Effort::Low, Some(3_000), json!({ "type": "enabled", "budget_tokens": 1_976 }), 3_000),
        (Effort::Low, Some(1_500), Value::Null, 1_500),
        (Effort::Low, Some(0), Value::Null, 1),
    ] {
        let body = with(ThinkingForm::Budget, Some(effort), bound);
        assert_eq!(
            (&body["thinking"], &body["max_tokens"]),
            (&budget, &json!(max_tokens)),
            "{effort} {bound:?}"
        );
        assert_eq!(body.get("output_config"), None);
    }
    let silent = with(ThinkingForm::Adaptive, None, Some(7));
    assert_eq!((silent.get("thinking"), silent.get("output_config")), (None, None));
    assert_eq!(silent["max_tokens"], 7);
}

#[test]
fn a_schema_is_a_format_or_a_tool_that_the_model_must_call() {
    let format = json!({ "type": "json_schema", "name": "answer", "schema": { "type": "object" } });
    let tools = [json!({ "type": "function", "name": "add", "description": "", "parameters": {} })];
    let with = |answer, tools, effort| {
        let shape = MessagesShape { answer, ..shape() };
        body(shape, &[], &Request { tools, effort, format: Some(&format), ..Request::default() })
    };
    let native = with(AnswerFormat::Native, &[], None);
    assert_eq!(
        native["output_config"],
        json!({ "format": { "type": "json_schema", "schema": { "type": "object" } } })
    );
    assert_eq!(native.get("tools"), None);
    let alone = with(AnswerFormat::Tool, &[], None);
    assert_eq!(alone["tool_choice"], json!({ "type": "tool", "name": ANSWER_TOOL }));
    assert_eq!(alone["tools"][0]["input_schema"], json!({ "type": "object" }));
    assert_eq!(with(AnswerFormat::Tool, &tools, None)["tool_choice"], json!({ "type": "any" }));
    let thinking = with(AnswerFormat::Tool, &tools, Some(Effort::Low));
    assert_eq!(thinking.get("tool_choice"), None, "the API rejects both together");
}
