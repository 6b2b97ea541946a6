//! Items as this wire sends them.

use nexus_core::ModelId;

use super::*;
use crate::native::dialect::ModelPlan;
use crate::native::items::{Author, Origin, Sealed};
use crate::native::tools::wire_tool::{ToolForm, wire_tools};
use crate::native::wires::shape::WireShape;

fn shape() -> ChatShape {
    ChatShape {
        system: "system",
        output_bound: Some("max_tokens"),
        parallel_tool_calls: None,
        stream_usage: true,
        strict: true,
        thinking_back: ThinkingBack::WithCalls,
        id_length: 40,
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

fn thinking(json: &str) -> Item {
    Item::reasoning(Sealed { origin: Origin::default(), json: json.to_owned() })
}

fn picture() -> ItemPart {
    ItemPart::Image { media_type: "image/png".to_owned(), data: "AAAA".to_owned() }
}

fn text(text: &str) -> ItemPart {
    ItemPart::text(text)
}

fn messages_of(shape: ChatShape, items: &[Item]) -> Value {
    body_of(shape, items, &[], None, None)["messages"].take()
}

fn body_of(
    shape: ChatShape,
    items: &[Item],
    tools: &[Value],
    format: Option<&Value>,
    bound: Option<u64>,
) -> Value {
    let plan = ModelPlan {
        model: ModelId::new("m"),
        shape: WireShape::Chat(shape.clone()),
        efforts: Vec::new(),
        warnings: Vec::new(),
        path: None,
        context_window: None,
    };
    let tools = wire_tools(ToolForm::Chat, tools);
    let opening = TurnConstants {
        plan: &plan,
        server: "http://a.test",
        system: None,
        effort: Some(Effort::Low),
        tools: &tools,
        output_format: format,
    };
    let writer = ChatWriter(shape);
    let body = writer.body(&writer.head(&opening, "c"), &items.iter().collect::<Vec<_>>(), bound);
    serde_json::from_slice(&body)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&body)))
}

#[test]
fn a_reply_is_one_message_and_its_results_follow() {
    let items = [
        user(&[text("Add.")]),
        thinking(r#"{"reasoning_content":"Hm."}"#),
        said("So."),
        call("1", "{ \"a\": 1 }"),
        call("2", "not json"),
        result("2", &[text("two")], true),
        result("1", &[text("one")], false),
        said("Done."),
        user(&[text("And")]),
        user(&[text("more?")]),
    ];
    let wanted = json!([
        { "role": "user", "content": "Add." },
        {
            "role": "assistant", "content": "So.", "reasoning_content": "Hm.",
            "tool_calls": [
                { "id": "1", "type": "function", "function": { "name": "add", "arguments": "{ \"a\": 1 }" } },
                { "id": "2", "type": "function",
                  "function": { "name": "add", "arguments": "{\"not_json\":\"not json\"}" } },
            ],
        },
        { "role": "tool", "tool_call_id": "1", "content": "one" },
        { "role": "tool", "tool_call_id": "2", "content": "Error: two" },
        { "role": "assistant", "content": "Done." },
        { "role": "user", "content": "And\n\nmore?" },
    ]);
    assert_eq!(messages_of(shape(), &items), wanted);
}

#[test]
fn a_call_without_a_result_gets_a_named_placeholder_and_a_lone_result_is_text() {
    let items = [user(&[text("a")]), call("1", "{}"), result("9", &[text("lost")], false)];
    let messages = messages_of(shape(), &items);
    assert_eq!(messages[1]["content"], Value::Null);
    assert_eq!(messages[2], json!({ "role": "tool", "tool_call_id": "1", "content": MISSING_RESULT }));
    assert_eq!(messages[3]["role"], "user");
    assert!(messages[3]["content"].as_str().unwrap().ends_with("lost"));
}

#[test]
fn pictures_of_results_follow_after_all_results() {
    let items = [
        user(&[text("Look."), picture()]),
        call("1", "{}"),
        call("2", "{}"),
        result("1", &[picture()], false),
        result("2", &[text("b")], false),
        user(&[text("Well?")]),
    ];
    let messages = messages_of(shape(), &items);
    let url = "data:image/png;base64,AAAA";
    assert_eq!(messages[0]["content"][1]["image_url"]["url"], url);
    let roles: Vec<&str> =
        messages.as_array().unwrap().iter().map(|one| one["role"].as_str().unwrap()).collect();
    assert_eq!(
        roles,
        ["user", "assistant", "tool", "tool", "user"],
        "neighbours of one role are one message"
    );
    assert_eq!(messages[4]["content"][1]["image_url"]["url"], url);
    assert_eq!(messages[4]["content"][2]["text"], "Well?");
    assert_eq!(messages[2]["content"], "[the result is a picture, which follows]");
    let last = messages_of(shape(), items.get(..5).unwrap());
    assert_eq!(last[4]["content"][1]["image_url"]["url"], url, "a request may end with results");
}

#[test]
fn thinking_goes_back_as_the_setting_says() {
    let items = |with_call: bool| {
        let call = with_call.then(|| [call("1", "{}"), result("1", &[text("a")], false)]);
        let begin = [user(&[text("a")]), thinking(r#"{"reasoning":"Hm."}"#), said("b")];
        begin.into_iter().chain(call.into_iter().flatten()).collect::<Vec<_>>()
    };
    for (thinking_back, alone, with_call) in [
        (ThinkingBack::WithCalls, false, true),
        (ThinkingBack::Always, true, true),
        (ThinkingBack::Never, false, false),
    ] {
        let shape = ChatShape { thinking_back, ..shape() };
        let has = |with_call| messages_of(shape.clone(), &items(with_call))[1].get("reasoning").is_some();
        assert_eq!((has(false), has(true)), (alone, with_call), "{thinking_back:?}");
    }
}

#[test]
fn the_head_has_what_the_shape_says() {
    let tool = json!({ "type": "function", "name": "add", "description": "d", "parameters": { "type": "object" }, "strict": false });
    let format =
        json!({ "type": "json_schema", "name": "answer", "schema": { "type": "object" }, "strict": true });
    let more = ChatShape { body: Some(r#"{"thinking":{"type":"enabled"}}"#.into()), ..shape() };
    let body = body_of(more, &[user(&[text("a")])], &[tool], Some(&format), Some(9));
    let wanted = json!({
        "model": "m", "stream": true, "stream_options": { "include_usage": true },
        "tools": [{ "type": "function", "function": { "name": "add", "description": "d", "parameters": { "type": "object" } } }],
        "reasoning_effort": "low", "max_tokens": 9, "thinking": { "type": "enabled" },
        "response_format": { "type": "json_schema",
            "json_schema": { "name": "answer", "schema": { "type": "object" }, "strict": true } },
        "messages": [{ "role": "user", "content": "a" }],
    });
    assert_eq!(body, wanted);
    let bare = ChatShape { stream_usage: false, output_bound: None, ..shape() };
    let body = body_of(bare, &[], &[], None, Some(9));
    assert_eq!(body, json!({ "model": "m", "stream": true, "reasoning_effort": "low", "messages": [] }));
}

#[test]
fn a_schema_may_be_a_tool_that_the_model_must_call() {
    let format = json!({ "type": "json_schema", "name": "answer", "schema": { "type": "object" } });
    let by_tool = ChatShape { answer: AnswerFormat::Tool, ..shape() };
    let alone = body_of(by_tool.clone(), &[], &[], Some(&format), None);
    assert_eq!(alone["tool_choice"]["function"]["name"], ANSWER_TOOL);
    assert_eq!(alone["tools"][0]["function"]["parameters"], json!({ "type": "object" }));
    assert_eq!(alone.get("response_format"), None);
    let tool = json!({ "type": "function", "name": "add", "description": "", "parameters": {} });
    let beside = body_of(by_tool, &[], &[tool], Some(&format), None);
    assert_eq!(
        (beside["tool_choice"].as_str(), beside["tools"].as_array().unwrap().len()),
        (Some("required"), 2)
    );
}

#[test]
fn ids_get_the_form_that_the_server_requires() {
    let items =
        [user(&[text("a")]), call("functions.add:0", "{}"), result("functions.add:0", &[text("b")], false)];
    for length in [9, 40] {
        let messages = messages_of(ChatShape { id_length: length, ..shape() }, &items);
        let id = messages[1]["tool_calls"][0]["id"].as_str().unwrap();
        assert!(
            id.len() <= length && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'),
            "{id}"
        );
        assert_eq!(messages[2]["tool_call_id"], id);
    }
}
