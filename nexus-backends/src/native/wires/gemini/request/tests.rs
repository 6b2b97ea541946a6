//! Items as this wire sends them.

use std::sync::Arc;

use nexus_core::ModelId;

use super::super::super::writing::MISSING_BEGINNING;
use super::*;
use crate::native::dialect::ModelPlan;
use crate::native::items::{Author, LONE_RESULT, Origin, Sealed};
use crate::native::tools::wire_tool::{ToolForm, wire_tools};
use crate::native::wires::shape::WireShape;

fn shape() -> GeminiShape {
    GeminiShape {
        path: Arc::from("/models/m:streamGenerateContent?alt=sse"),
        thinking: ThinkingControl::Budget,
        pictures: ResultPictures::Inside,
        call_ids: true,
        answer: AnswerFormat::Native,
        body: None,
        generation: None,
    }
}

fn user(parts: &[ItemPart]) -> Item {
    Item::message(Author::User, parts.to_vec())
}

fn said(text: &str) -> Item {
    Item::message(Author::Assistant, vec![ItemPart::text(text)])
}

fn call(id: &str, name: &str, arguments: &str) -> Item {
    Item::call(id, name, arguments)
}

fn result(id: &str, parts: &[ItemPart], is_error: bool) -> Item {
    Item::result(id, parts.to_vec(), is_error)
}

fn sealed(json: &str) -> Item {
    Item::reasoning(Sealed { origin: Origin::default(), json: json.to_owned() })
}

fn text(text: &str) -> ItemPart {
    ItemPart::text(text)
}

fn picture() -> ItemPart {
    ItemPart::Image { media_type: "image/png".to_owned(), data: "AAAA".to_owned() }
}

#[derive(Default)]
struct Request<'a> {
    system: Option<&'a str>,
    effort: Option<Effort>,
    tools: &'a [Value],
    format: Option<&'a Value>,
    bound: Option<u64>,
}

fn raw_body(shape: GeminiShape, items: &[Item], request: &Request<'_>) -> String {
    let plan = ModelPlan {
        model: ModelId::new("m"),
        shape: WireShape::Gemini(shape.clone()),
        efforts: Vec::new(),
        warnings: Vec::new(),
        path: None,
        context_window: None,
    };
    let tools = wire_tools(ToolForm::Gemini, request.tools);
    let opening = TurnConstants {
        plan: &plan,
        server: "http://a.test",
        system: request.system,
        effort: request.effort,
        tools: &tools,
        output_format: request.format,
    };
    let writer = GeminiWriter::new(shape, &opening);
    String::from_utf8(writer.body(
        &writer.head(&opening, "c"),
        &items.iter().collect::<Vec<_>>(),
        request.bound,
    ))
    .unwrap()
}

fn body(shape: GeminiShape, items: &[Item], request: &Request<'_>) -> Value {
    let body = raw_body(shape, items, request);
    serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

fn contents(items: &[Item]) -> Value {
    body(shape(), items, &Request::default())["contents"].take()
}

#[test]
fn results_follow_their_calls_in_order_with_the_ids_that_the_server_gave() {
    let items = [
        user(&[text("Add.")]),
        said("So."),
        call("fc.1:x", "add", "{ \"a\":  1 }"),
        call("unnamed_call_1_2", "add", "not json"),
        call("3", "2 odd", ""),
        result("3", &[text("three"), picture()], false),
        result("fc.1:x", &[text("one")], true),
        user(&[text("And"), text(" \n")]),
        user(&[text("more?"), picture()]),
        result("9", &[text("nine")], false),
    ];
    let blob = json!({ "inlineData": { "mimeType": "image/png", "data": "AAAA" } });
    let wanted = json!([
        { "role": "user", "parts": [{ "text": "Add." }] },
        { "role": "model", "parts": [
            { "text": "So." },
            { "functionCall": { "id": "fc.1:x", "name": "add", "args": { "a": 1 } } },
            { "functionCall": { "name": "add", "args": { "not_json": "not json" } } },
            { "functionCall": { "id": "3", "name": "_2_odd", "args": {} } },
        ] },
        { "role": "user", "parts": [
            { "functionResponse": { "id": "fc.1:x", "name": "add", "response": { "error": "one" } } },
            { "functionResponse": { "name": "add", "response": { "error": MISSING_RESULT } } },
            { "functionResponse": {
                "id": "3", "name": "_2_odd", "response": { "output": "three" }, "parts": [blob],
            } },
            { "text": "And" },
            { "text": "more?" },
            blob,
            { "text": LONE_RESULT },
            { "text": "nine" },
        ] },
    ]);
    assert_eq!(contents(&items), wanted);
    let raw = raw_body(shape(), &items, &Request::default());
    assert!(raw.contains("{ \"a\":  1 }"), "prompt caches compare bytes: {raw}");
    let without = raw_body(GeminiShape { call_ids: false, ..shape() }, &items, &Request::default());
    assert!(!without.contains("\"id\""), "{without}");
}

#[test]
fn pictures_of_results_may_follow_all_results() {
    let items = [
        call("1", "look", "{}"),
        call("2", "look", "{}"),
        result("1", &[picture()], false),
        result("2", &[text("two")], false),
    ];
    let shape = GeminiShape { pictures: ResultPictures::Beside, ..shape() };
    let body = body(shape, &items, &Request::default());
    let parts = body["contents"][2]["parts"].as_array().unwrap();
    assert_eq!(parts.len(), 4);
    assert_eq!(parts[0]["functionResponse"].get("parts"), None);
    assert_eq!(parts[2]["text"], "[pictures of the result of look]");
    assert_eq!(parts[3]["inlineData"]["data"], "AAAA");
}

#[test]
fn neighbours_of_one_role_are_one_content_and_the_first_is_the_users() {
    let items = [said("a"), said("b"), user(&[]), user(&[text("c")]), said(""), user(&[text("d")])];
    let wanted = json!([
        { "role": "user", "parts": [{ "text": MISSING_BEGINNING }] },
        { "role": "model", "parts": [{ "text": "a" }, { "text": "b" }] },
        { "role": "user", "parts": [{ "text": "c" }, { "text": "d" }] },
    ]);
    assert_eq!(contents(&items), wanted);
}

#[test]
fn a_signature_is_in_the_part_in_which_it_came() {
    let items = [
        user(&[text("a")]),
        sealed(r#"{"thoughtSignature":"VA==","thought":"Hm."}"#),
        sealed(r#"{"thoughtSignature":"QQ==","range":[3,5]}"#),
        sealed(r#"{"thoughtSignature":"Qg==","range":[6,6]}"#),
        said("Looé."),
        sealed(r#"{"thoughtSignature":"Qw==","range":[0,0]}"#),
        sealed(r#"{"thoughtSignature":"RA=="}"#),
        call("1", "x", "{}"),
        call("2", "y", "{}"),
        sealed(r#"{"thoughtSignature":"RQ==","range":[0,0]}"#),
    ];
    let wanted = json!([
        { "text": "Hm.", "thought": true, "thoughtSignature": "VA==" },
        { "text": "Loo" },
        { "text": "é", "thoughtSignature": "QQ==" },
        { "text": "." },
        { "text": "", "thoughtSignature": "Qg==" },
        { "text": "", "thoughtSignature": "Qw==" },
        { "functionCall": { "id": "1", "name": "x", "args": {} }, "thoughtSignature": "RA==" },
        { "functionCall": { "id": "2", "name": "y", "args": {} } },
        { "text": "", "thoughtSignature": "RQ==" },
    ]);
    assert_eq!(contents(&items)[1]["parts"], wanted);
    let empty_first = [
        sealed(r#"{"thoughtSignature":"QQ==","range":[0,0]}"#),
        sealed(r#"{"thoughtSignature":"Qg==","thought":"Hm."}"#),
        sealed(r#"{"thoughtSignature":"Qw==","range":[0,1]}"#),
        said("c"),
    ];
    let wanted = json!([
        { "text": "", "thoughtSignature": "QQ==" },
        { "text": "Hm.", "thought": true, "thoughtSignature": "Qg==" },
        { "text": "c", "thoughtSignature": "Qw==" },
    ]);
    assert_eq!(contents(&empty_first)[1]["parts"], wanted);
    // A range that does not fit the text is no reason to lose the text.
    let other = [sealed(r#"{"thoughtSignature":"QQ==","range":[1,99]}"#), sealed("[]"), said("é")];
    assert_eq!(contents(&other)[1]["parts"], json!([{ "text": "é" }]));
}

#[test]
fn a_call_of_another_model_is_marked_where_models_require_a_signature() {
    let items = [call("1", "x", "{}"), call("2", "y", "{}"), result("1", &[], false), call("3", "x", "{}")];
    let marked = GeminiShape { thinking: ThinkingControl::Level, ..shape() };
    let raw = raw_body(marked, &items, &Request::default());
    assert_eq!(raw.matches(MOVED_CALL).count(), 2, "one for each reply: {raw}");
    assert!(!raw_body(shape(), &items, &Request::default()).contains(MOVED_CALL));
}

#[test]
fn system_text_tools_and_more_members_are_beside_the_contents() {
    let tool = |name: &str, parameters: Value| json!({ "type": "function", "name": name, "description": "d", "parameters": parameters });
    let schema = json!({ "type": "object", "properties": { "a": { "type": "string" } } });
    let closed = json!({ "type": "object", "properties": {}, "additionalProperties": false });
    let tools = [
        tool("add", schema.clone()),
        tool("now", closed),
        tool("any", json!({ "type": "object", "properties": {} })),
        tool("texts", json!({ "type": "object", "additionalProperties": { "type": "string" } })),
    ];
    let shape = GeminiShape {
        thinking: ThinkingControl::Nothing,
        body: Some("{\"safetySettings\":[]}".into()),
        generation: Some("{\"temperature\":0.5}".into()),
        ..shape()
    };
    let request = Request { system: Some("Be brief."), tools: &tools, bound: Some(7), ..Request::default() };
    let wanted = json!({
        "systemInstruction": { "parts": [{ "text": "Be brief." }] },
        "tools": [{ "functionDeclarations": [
            { "name": "add", "description": "d", "parametersJsonSchema": schema },
            { "name": "now", "description": "d" },
            {
                "name": "any", "description": "d",
                "parametersJsonSchema": { "type": "object", "additionalProperties": true },
            },
            {
                "name": "texts", "description": "d",
                "parametersJsonSchema": { "type": "object", "additionalProperties": { "type": "string" } },
            },
        ] }],
        "safetySettings": [],
        "contents": [{ "role": "user", "parts": [{ "text": "a" }] }],
        "generationConfig": { "maxOutputTokens": 7, "temperature": 0.5 },
    });
    let items = [user(&[text("a")])];
    assert_eq!(body(shape.clone(), &items, &request), wanted);
    let bare = GeminiShape { body: None, generation: None, ..shape };
    assert_eq!(
        raw_body(bare, &items, &Request::default()),
        r#"{"contents":[{"role":"user","parts":[{"text":"a"}]}]}"#
    );
}

#[test]
fn an_effort_is_a_level_or_a_budget_that_leaves_room_for_the_answer() {
    let with = |thinking, effort, bound| {
        let shape = GeminiShape { thinking, ..shape() };
        let body = body(shape, &[], &Request { effort, bound, ..Request::default() });
        body["generationConfig"]["thinkingConfig"].clone()
    };
    let level = |effort| with(ThinkingControl::Level, effort, None);
    assert_eq!(level(Some(Effort::High)), json!({ "includeThoughts": true, "thinkingLevel": "high" }));
    assert_eq!(level(None), json!({ "includeThoughts": true }));
    assert_eq!(with(ThinkingControl::Nothing, Some(Effort::High), None), Value::Null);
    for (effort, bound, budget) in [
        (Effort::Low, None, 4_096),
        (Effort::Max, None, 24_576),
        (Effort::Low, Some(3_000), 1_976),
        (Effort::Minimal, Some(1_536), 512),
    ] {
        let config = with(ThinkingControl::Budget, Some(effort), bound);
        assert_eq!(config["thinkingBudget"], budget, "{effort} {bound:?}");
    }
    for bound in [0, 100, 1_535] {
        let config = with(ThinkingControl::Budget, Some(Effort::Low), Some(bound));
        assert_eq!(config, json!({ "includeThoughts": true }), "{bound} tokens leave no room for both");
    }
}

#[test]
fn a_schema_is_a_format_or_a_function_that_the_model_must_call() {
    let format = json!({ "type": "json_schema", "name": "answer", "schema": { "type": "object" } });
    let tools = [json!({ "type": "function", "name": "add", "description": "", "parameters": {} })];
    let with = |answer, tools| {
        let shape = GeminiShape { answer, ..shape() };
        body(shape, &[], &Request { tools, format: Some(&format), ..Request::default() })
    };
    let native = with(AnswerFormat::Native, &tools);
    assert_eq!(native["generationConfig"]["responseMimeType"], "application/json");
    assert_eq!(native["generationConfig"]["responseJsonSchema"], json!({ "type": "object" }));
    assert_eq!(native.get("toolConfig"), None);
    let alone = with(AnswerFormat::Tool, &[]);
    let calling = &alone["toolConfig"]["functionCallingConfig"];
    assert_eq!(calling, &json!({ "mode": "ANY", "allowedFunctionNames": [ANSWER_TOOL] }));
    assert_eq!(
        alone["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"],
        json!({ "type": "object" })
    );
    assert_eq!(alone["generationConfig"].get("responseMimeType"), None);
    let both = with(AnswerFormat::Tool, &tools);
    assert_eq!(both["toolConfig"]["functionCallingConfig"], json!({ "mode": "ANY" }));
    assert_eq!(with(AnswerFormat::Instructed, &[]).get("tools"), None);
}

#[test]
fn a_called_name_gets_the_form_that_the_server_requires() {
    for (name, sent) in
        [("add", "add"), ("_a", "_a"), ("2x", "_2x"), ("-x", "_-x"), ("", "unnamed"), ("é", "_")]
    {
        assert_eq!(function_name(name), sent);
    }
    assert_eq!(function_name(&"1".repeat(99)).len(), 64);
}
