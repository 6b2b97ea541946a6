//! What a conversation is sent as.

use nexus_core::{BackendId, ModelId, ToolContent};
use serde_json::value::RawValue;

use super::*;
use nexus_core::{Effort, ResumeHandle};

use crate::native::dialect::ModelPlan;
use crate::native::reply::FunctionCall;
use crate::native::stored::StoredConversation;
use crate::native::tools::wire_tool::{ToolForm, WireTool, wire_tools};
use crate::native::wires::responses::shape::PLAIN;
use crate::native::wires::responses::shape::TextShape;
use crate::native::wires::shape::WireShape;

const LITE: Shape = Shape {
    system: SystemPosition::DeveloperMessage,
    text: TextShape::Parts,
    tools: ToolPosition::FirstItem,
    parallel_tool_calls: Some(false),
    tool_choice: true,
    reasoning_context: Some("all_turns"),
    store: true,
    strict: true,
    max_output_tokens: false,
    carry: Carry::AsTheyCame,
    ..PLAIN
};

fn plan(shape: &'static Shape) -> ModelPlan {
    ModelPlan {
        model: ModelId::new("m"),
        shape: WireShape::Responses(*shape),
        efforts: Vec::new(),
        warnings: Vec::new(),
        path: None,
        context_window: None,
    }
}

fn opening<'a>(plan: &'a ModelPlan, tools: &'a [Arc<WireTool>]) -> TurnConstants<'a> {
    TurnConstants {
        plan,
        server: "http://a.test",
        system: Some("Be brief."),
        effort: Some(Effort::Low),
        tools,
        output_format: None,
    }
}

fn begun(opening: &TurnConstants<'_>) -> ResponsesTranscript {
    ResponsesTranscript::new(opening, *opening.plan.shape.responses().unwrap())
}

fn resumed_from(opening: &TurnConstants<'_>, handle: &ResumeHandle) -> Option<ResponsesTranscript> {
    let stored = StoredConversation::of(handle)?;
    ResponsesTranscript::resume(opening, *opening.plan.shape.responses().unwrap(), stored).map(
        |(transcript, left_out)| {
            assert_eq!(left_out, 0);
            transcript
        },
    )
}

fn raw(json: &Value) -> Box<RawValue> {
    RawValue::from_string(json.to_string()).unwrap()
}

fn reasoning() -> OutputItem {
    OutputItem::Reasoning {
        raw: raw(&json!({
            "type": "reasoning", "id": "rs_1", "summary": [], "status": "completed",
            "content": [{ "type": "reasoning_text", "text": "Hm." }], "encrypted_content": "x",
        })),
    }
}

fn call(id: &str) -> OutputItem {
    OutputItem::Call(FunctionCall {
        call_id: id.to_owned(),
        name: "add".to_owned(),
        namespace: None,
        arguments: "{}".to_owned(),
        raw: Some(raw(
            &json!({ "type": "function_call", "id": "fc", "call_id": id, "name": "add", "arguments": "{}" }),
        )),
    })
}

fn body(conversation: &ResponsesTranscript) -> Value {
    serde_json::from_slice(&conversation.request(None)).unwrap()
}

#[test]
fn a_plain_request_has_strings_for_texts() {
    let plan = plan(&PLAIN);
    let tools =
        wire_tools(ToolForm::Responses { strict: false }, &[json!({ "type": "function", "name": "add" })]);
    let mut conversation = begun(&opening(&plan, &tools));
    conversation.user(&[PromptBlock::text("Hello.")]);
    assert_eq!(
        body(&conversation),
        json!({
            "model": "m", "stream": true, "store": false,
            "tools": [{ "type": "function", "name": "add" }],
            "reasoning": { "effort": "low" },
            "include": ["reasoning.encrypted_content"],
            "input": [
                { "type": "message", "role": "system", "content": "Be brief." },
                { "type": "message", "role": "user", "content": "Hello." },
            ],
        })
    );
}

#[test]
fn a_lite_request_opens_with_its_tools() {
    let plan = plan(&LITE);
    let tools =
        wire_tools(ToolForm::Responses { strict: false }, &[json!({ "type": "function", "name": "add" })]);
    let mut conversation = begun(&opening(&plan, &tools));
    conversation.user(&[PromptBlock::text("Hello.")]);
    let body = body(&conversation);
    assert_eq!(body.get("tools"), None);
    assert_eq!(body["parallel_tool_calls"], false);
    assert_eq!(body["reasoning"]["context"], "all_turns");
    assert_eq!(body["input"][0]["type"], "additional_tools");
    assert_eq!(body["input"][0]["tools"][0]["name"], "functions");
    assert_eq!(body["input"][0]["tools"][0]["tools"][0]["name"], "add");
    assert_eq!(body["input"][1]["role"], "developer");
    assert_eq!(body["input"][2]["content"][0]["text"], "Hello.");
}

#[test]
fn what_the_model_said_goes_back_as_it_came() {
    let plan = plan(&LITE);
    let mut conversation = begun(&opening(&plan, &[]));
    conversation.model(&[reasoning(), call("call_1")]);
    conversation.tool_output("call_1", false, &ToolResult::error("no"));
    let body = body(&conversation);
    assert_eq!(body["input"][1]["status"], "completed");
    assert_eq!(body["input"][2]["id"], "fc");
    assert_eq!(
        body["input"][3],
        json!({ "type": "function_call_output", "call_id": "call_1", "output": "Error: no" })
    );
}

#[test]
fn bare_items_lose_what_the_server_refuses() {
    let plan = plan(&PLAIN);
    let mut conversation = begun(&opening(&plan, &[]));
    conversation.model(&[reasoning(), call("call_1")]);
    let body = body(&conversation);
    assert_eq!(body["input"][1].get("status"), None);
    assert_eq!(body["input"][1]["summary"], json!([{ "type": "summary_text", "text": "Hm." }]));
    assert_eq!(body["input"][2].get("id"), None);
}

#[test]
fn a_picture_makes_parts_of_an_answer() {
    let result = ToolResult::ok(vec![
        ToolContent::text("Look:"),
        ToolContent::Image { media_type: "image/png".to_owned(), data: "AAAA".to_owned() },
    ]);
    let plan = plan(&PLAIN);
    let mut conversation = begun(&opening(&plan, &[]));
    conversation.tool_output("c", false, &result);
    let output = &body(&conversation)["input"][1]["output"];
    assert_eq!(output[0], json!({ "type": "input_text", "text": "Look:" }));
    assert_eq!(output[1]["image_url"], "data:image/png;base64,AAAA");
    assert_eq!(output[1]["detail"], "auto");
}

#[test]
fn a_kept_conversation_goes_on_where_every_call_has_its_answer() {
    let plan = plan(&PLAIN);
    let mut conversation = begun(&opening(&plan, &[]));
    conversation.user(&[PromptBlock::text("Hello.")]);
    conversation.model(&[reasoning(), call("call_1")]);
    let handle = conversation.keep(&BackendId::new("b"));
    let stored = serde_json::to_string(&handle).unwrap();
    let handle: ResumeHandle = serde_json::from_str(&stored).unwrap();

    let mut resumed = resumed_from(&opening(&plan, &[]), &handle).unwrap();
    assert_eq!(resumed.id(), conversation.id());
    resumed.user(&[PromptBlock::text("And now?")]);
    let body = body(&resumed);
    assert_eq!(body["input"].as_array().unwrap().len(), 3);
    assert_eq!(body["input"][2]["content"], "And now?");
}

#[test]
fn a_resumed_conversation_is_the_same_byte_for_byte() {
    let odd = r#"{"zeta":12345678901234567890123,"type":"message","role":"assistant","alpha":1.0e2,"content":"\u00e9 \/"}"#;
    let thought = r#"{"summary":[], "type":"reasoning","id":"rs_1","encrypted_content":"x"}"#;
    let raw = |json: &str| RawValue::from_string(json.to_owned()).unwrap();
    let message = OutputItem::Message {
        message: "c1.1".into(),
        text: "é /".into(),
        refusal: None,
        raw: Some(raw(odd)),
    };
    let plan = plan(&LITE);
    let mut conversation = begun(&opening(&plan, &[]));
    conversation.user(&[PromptBlock::text("Hello.")]);
    conversation.model(&[OutputItem::Reasoning { raw: raw(thought) }, message]);
    let handle = conversation.keep(&BackendId::new("b"));
    let stored = serde_json::to_string(&handle).unwrap();
    let handle: ResumeHandle = serde_json::from_str(&stored).unwrap();

    let mut resumed = resumed_from(&opening(&plan, &[]), &handle).unwrap();
    assert_eq!(resumed.request(None), conversation.request(None));
    let backend = BackendId::new("b");
    assert_eq!(resumed.keep(&backend), conversation.keep(&backend));
    assert_eq!(resumed.keep(&backend).items().equal_beginning(handle.items()), 3);
    assert!(resumed.drop_reasoning(), "what is reasoning is known still");
}

#[test]
fn a_handle_of_the_first_version_goes_back_byte_for_byte_to_its_origin() {
    let list = r#"[{"type":"message","role":"user","content":"Hello."},{"summary":[], "type":"reasoning","id":"rs_1"},
        {"type":"function_call","id":"fc","call_id":"a","name":"add","arguments":"{ }"},
        {"type":"function_call_output","call_id":"a","output":"2"},{"type":"web_search_call","id":"ws"}]"#;
    let mut state = json!({ "version": 1, "conversation": uuid::Uuid::new_v4().to_string(), "items": list });
    let plan = plan(&PLAIN);
    let opening = opening(&plan, &[]);
    let input = |transcript: &ResponsesTranscript| {
        let request = transcript.request(None);
        let request = String::from_utf8(request.to_vec()).unwrap();
        request.split_once("\"input\":[").unwrap().1.to_owned()
    };
    let items: Vec<&RawValue> = serde_json::from_str(list).unwrap();
    let sent: Vec<&str> = items.iter().map(|item| item.get()).collect();
    for origin in [None, Some(opening.origin("responses"))] {
        if let Some(origin) = origin {
            state["origin"] = serde_json::to_value(origin).unwrap();
        }
        let handle = ResumeHandle::new(BackendId::new("b"), state.clone());
        let resumed = resumed_from(&opening, &handle).unwrap();
        let all = format!(",{}]}}", sent.join(","));
        assert!(input(&resumed).ends_with(&all), "{}", input(&resumed));
        assert!(resumed.calls_before().contains("a"));
        // So does the handle of this version that follows it.
        let again = resumed_from(&opening, &resumed.keep(&BackendId::new("b"))).unwrap();
        assert_eq!(again.request(None), resumed.request(None));
    }
    // Elsewhere only the parts that every server understands go on.
    state["origin"]["model"] = json!("another");
    let stored = StoredConversation::of(&ResumeHandle::new(BackendId::new("b"), state)).unwrap();
    let shape = *opening.plan.shape.responses().unwrap();
    let (elsewhere, left_out) = ResponsesTranscript::resume(&opening, shape, stored).unwrap();
    assert_eq!(left_out, 2);
    assert!(!input(&elsewhere).contains("\"id\""), "{}", input(&elsewhere));
}

#[test]
fn a_handle_that_holds_something_else_holds_no_conversation() {
    let plan = plan(&PLAIN);
    for state in [
        json!(null),
        json!({ "version": 3, "conversation": "00000000-0000-0000-0000-000000000000", "items": "[]" }),
        json!({ "version": 1, "conversation": "x", "items": "[]" }),
        json!({ "version": 1, "conversation": "00000000-0000-0000-0000-000000000000", "items": "[1]" }),
        json!({ "version": 1, "conversation": "00000000-0000-0000-0000-000000000000", "items": "[{},[]]" }),
        json!({ "version": 1, "conversation": "00000000-0000-0000-0000-000000000000", "items": "[{]" }),
    ] {
        let handle = ResumeHandle::new(BackendId::new("b"), state);
        assert!(resumed_from(&opening(&plan, &[]), &handle).is_none(), "{handle:?}");
    }
}

#[test]
fn reasoning_can_be_left_out_wherever_it_stands() {
    for items in [vec![reasoning(), call("a")], vec![call("a"), reasoning()], vec![reasoning()]] {
        let plan = plan(&LITE);
        let mut conversation = begun(&opening(&plan, &[]));
        conversation.user(&[PromptBlock::text("Hello.")]);
        let count = items.len();
        conversation.model(&items);
        conversation.is_whole();
        assert!(conversation.drop_reasoning());
        let input = body(&conversation)["input"].as_array().unwrap().clone();
        assert_eq!(input.len(), 2 + count - 1);
        assert!(input.iter().all(|item| item["type"] != "reasoning"));
        assert!(input.iter().all(|item| item.get("id").is_none()), "{input:?}");
        let resumed = resumed_from(&opening(&plan, &[]), &conversation.keep(&BackendId::new("b"))).unwrap();
        assert_eq!(body(&resumed)["input"].as_array().unwrap()[1..], input[1..]);
        assert!(!conversation.drop_reasoning());
    }
}

#[test]
fn the_bound_on_output_is_sent_where_it_is_taken() {
    let (plain, lite) = (plan(&PLAIN), plan(&LITE));
    let bound = |plan: &ModelPlan, tokens| -> Value {
        let conversation = begun(&opening(plan, &[]));
        let body: Value = serde_json::from_slice(&conversation.request(Some(tokens))).unwrap();
        body["max_output_tokens"].clone()
    };
    assert_eq!(bound(&plain, 500), 500);
    assert_eq!(bound(&plain, 3), 16);
    assert_eq!(bound(&lite, 500), Value::Null);
}
