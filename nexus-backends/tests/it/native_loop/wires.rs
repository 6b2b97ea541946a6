//! Whole turns on Chat Completions, the Messages API and the Gemini API: what is sent back, what is refused, and a conversation that
//! moves between them.

use std::{collections::BTreeMap, sync::Arc};

use nexus_backends::registry;
use nexus_core::{
    BackendId, BuildContext, ConversationMode, ErrorKind, ExecutionBackend, OnLost, OutputSchema,
    PromptBlock, Tool, ToolContent, ToolResult, Toolbox, TurnHost, TurnRequest,
};
use serde_json::{Map, Value, json};

use super::{
    server::{Canned, message, reply, status, stream},
    stage::{TOKEN, backend, host, request, run},
};

/// The wires, with the path of a call and the field of the key.
const WIRES: [(&str, &str, &str); 3] = [
    ("chat", "POST /v1/chat/completions ", "authorization: bearer "),
    ("messages", "POST /v1/messages ", "x-api-key: "),
    ("gemini", "POST /v1/models/grok-4.6:streamGenerateContent?alt=sse ", "x-goog-api-key: "),
];

/// A reply on a wire: thinking, text, and calls with their ids, names and arguments.
pub(super) fn answer(kind: &str, thinking: &str, text: &str, calls: &[(&str, &str, &str)]) -> Vec<u8> {
    let mut body = String::new();
    let mut event = |data: Value| body.push_str(&format!("data: {data}\n\n"));
    if kind == "chat" {
        let chunk = |delta: Value, finish: Value| json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] });
        event(chunk(json!({ "reasoning_content": thinking }), Value::Null));
        event(chunk(json!({ "content": text }), Value::Null));
        for (index, (id, name, arguments)) in calls.iter().enumerate() {
            let function = json!({ "name": name, "arguments": arguments });
            event(chunk(
                json!({ "tool_calls": [{ "index": index, "id": id, "function": function }] }),
                Value::Null,
            ));
        }
        event(chunk(json!({}), json!(if calls.is_empty() { "stop" } else { "tool_calls" })));
        event(json!({ "choices": [], "usage": { "prompt_tokens": 10, "completion_tokens": 5 } }));
        body.push_str("data: [DONE]\n\n");
        return stream(body.as_bytes());
    }
    if kind == "gemini" {
        let chunk =
            |parts: Value| json!({ "candidates": [{ "content": { "parts": parts, "role": "model" } }] });
        event(chunk(json!([{ "text": thinking, "thought": true }])));
        event(chunk(json!([{ "text": text }])));
        for (index, (id, name, arguments)) in calls.iter().enumerate() {
            let args = serde_json::value::RawValue::from_string((*arguments).to_owned()).unwrap();
            let call = format!("{{\"functionCall\":{{\"id\":\"{id}\",\"name\":\"{name}\",\"args\":{args}}}");
            // The signature stands for the thinking, and returns in its place.
            let signature =
                if index == 0 { format!(",\"thoughtSignature\":\"{thinking}\"") } else { String::new() };
            let chunk = chunk(json!(["PART"])).to_string();
            body.push_str(&format!(
                "data: {}\n\n",
                chunk.replace("\"PART\"", &format!("{call}{signature}}}"))
            ));
        }
        body.push_str(
            "data: {\"candidates\":[{\"content\":{},\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":10}}\n\n",
        );
        return stream(body.as_bytes());
    }
    event(
        json!({ "type": "message_start", "message": { "model": "m", "usage": { "input_tokens": 10, "output_tokens": 1 } } }),
    );
    let mut blocks = Vec::new();
    if !thinking.is_empty() {
        let delta = json!({ "type": "thinking_delta", "thinking": thinking });
        let signature = json!({ "type": "signature_delta", "signature": "c2ln" });
        blocks.push((json!({ "type": "thinking", "thinking": "", "signature": "" }), vec![delta, signature]));
    }
    if !text.is_empty() {
        blocks.push((
            json!({ "type": "text", "text": "" }),
            vec![json!({ "type": "text_delta", "text": text })],
        ));
    }
    for (id, name, arguments) in calls {
        let start = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
        blocks.push((start, vec![json!({ "type": "input_json_delta", "partial_json": arguments })]));
    }
    for (index, (start, deltas)) in blocks.into_iter().enumerate() {
        event(json!({ "type": "content_block_start", "index": index, "content_block": start }));
        for delta in deltas {
            event(json!({ "type": "content_block_delta", "index": index, "delta": delta }));
        }
        event(json!({ "type": "content_block_stop", "index": index }));
    }
    let reason = if calls.is_empty() { "end_turn" } else { "tool_use" };
    event(
        json!({ "type": "message_delta", "delta": { "stop_reason": reason }, "usage": { "output_tokens": 5 } }),
    );
    event(json!({ "type": "message_stop" }));
    stream(body.as_bytes())
}

#[tokio::test]
async fn a_round_of_tools_goes_back_with_its_thinking() {
    for (kind, path, key) in WIRES {
        let server = Canned::new([
            answer(kind, "Hm.", "Look.", &[("id_1", "echo", "{ \"a\" :1}"), ("id_2", "nowhere", "{}")]),
            answer(kind, "", "Done.", &[]),
        ]);
        let backend = backend(kind, &server.base_url(), json!({}));
        let ran = run(&*backend, request(), host()).await;
        assert_eq!(ran.result().text, "Done.", "{kind}");
        let asked = server.asked();
        assert_eq!(asked.len(), 2);
        for request in &asked {
            assert!(request.head.starts_with(path), "{}", request.head);
            assert!(request.head.to_lowercase().contains(&format!("{key}{TOKEN}")), "{kind}");
        }
        let sent = asked[1].body.to_string();
        for words in ["Look.", "Hm.", "id_1", "id_2", "Hello."] {
            assert!(sent.contains(words), "{kind} sends {words}: {sent}");
        }
        let messages =
            asked[1].body[if kind == "gemini" { "contents" } else { "messages" }].as_array().unwrap();
        let (reply, first, second) = match kind {
            "chat" => {
                assert_eq!(messages[1]["reasoning_content"], "Hm.");
                assert_eq!(messages[1]["tool_calls"][0]["function"]["arguments"], "{ \"a\" :1}");
                (&messages[1]["content"], &messages[2]["content"], &messages[3]["content"])
            }
            "gemini" => {
                assert_eq!(messages[1]["parts"][1]["thoughtSignature"], "Hm.");
                let response = |index: usize| &messages[2]["parts"][index]["functionResponse"]["response"];
                (&messages[1]["parts"][0]["text"], &response(0)["output"], &response(1)["error"])
            }
            _ => {
                let blocks = &messages[1]["content"];
                assert_eq!(blocks[0], json!({ "type": "thinking", "thinking": "Hm.", "signature": "c2ln" }));
                assert_eq!(messages[2]["content"][1]["is_error"], true);
                let text = |index: usize| &messages[2]["content"][index]["content"][0]["text"];
                (&blocks[1]["text"], text(0), text(1))
            }
        };
        assert_eq!((reply, first), (&json!("Look."), &json!("{\"a\":1}")), "{kind}");
        assert!(second.as_str().unwrap().contains("nowhere"), "the model learns that there is no such tool");
        assert_eq!(ran.result().usage.input_tokens, Some(20), "{kind}");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_no_answer() {
    for (kind, ..) in WIRES {
        let whole = answer(kind, "", "Half an answer.", &[]);
        let mark: &[u8] = match kind {
            "chat" => b"data: {\"choices\":[{\"index\":0,\"delta\":{},",
            "gemini" => b"data: {\"candidates\":[{\"content\":{},",
            _ => b"data: {\"type\":\"message_stop\"",
        };
        let end = whole
            .windows(mark.len())
            .position(|window| window == mark)
            .unwrap_or_else(|| panic!("{kind}: {}", String::from_utf8_lossy(&whole)));
        let server = Canned::new([whole[..end].to_vec()]);
        let ran = run(&*backend(kind, &server.base_url(), json!({})), request(), TurnHost::new()).await;
        assert_eq!(ran.error().kind(), ErrorKind::Transport, "{kind}");
        assert_eq!(ran.error().partial().text, "Half an answer.", "{kind}");
    }
}

/// A tool whose result is a picture.
pub(super) fn looking() -> Toolbox {
    Toolbox::new().with(Tool::without_arguments("look", "Looks.", || async {
        ToolResult::ok(vec![ToolContent::Image {
            media_type: "image/png".to_owned(),
            data: "QUJD".to_owned(),
        }])
    }))
}

#[tokio::test]
async fn a_picture_of_a_result_reaches_the_model_and_a_refused_one_is_replaced() {
    for (kind, ..) in WIRES {
        let server = Canned::new([
            answer(kind, "", "", &[("id_1", "look", "{}")]),
            status(
                400,
                &json!({ "error": { "type": "invalid_request_error", "message": "Could not process image" } }),
            ),
            answer(kind, "", "Done.", &[]),
        ]);
        let host = TurnHost::new().with_tools(Arc::new(looking()));
        let ran = run(&*backend(kind, &server.base_url(), json!({})), request(), host).await;
        assert_eq!(ran.result().text, "Done.", "{kind}");
        let asked = server.asked();
        assert!(asked[1].body.to_string().contains("QUJD"), "{kind}");
        assert!(!asked[2].body.to_string().contains("QUJD"), "{kind}");
        assert!(asked[2].body.to_string().contains("a picture was here"), "{kind}");
        assert!(ran.warnings().iter().any(|warning| warning.contains("rejects a picture")), "{kind}");
    }
}

#[tokio::test]
async fn a_schema_may_be_a_tool_and_its_call_is_the_answer() {
    let schema = || {
        let schema =
            json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
        OutputSchema::new(schema).unwrap()
    };
    for (kind, ..) in WIRES {
        let server = Canned::new([
            answer(kind, "", "", &[("id_1", "final_answer", "{\"n\": \"one\"}")]),
            answer(kind, "", "", &[("id_2", "final_answer", "{\"n\": 1}")]),
        ]);
        let backend = backend(kind, &server.base_url(), json!({ "structured_output": "tool" }));
        let ran = run(&*backend, request().with_output(schema()), TurnHost::new()).await;
        assert_eq!(ran.result().output, Some(json!({ "n": 1 })), "{kind}");
        let asked = server.asked();
        assert_eq!(asked.len(), 2, "{kind}: an answer that does not fit is repaired once");
        let (choice, messages) = match kind {
            "gemini" => ("toolConfig", "contents"),
            _ => ("tool_choice", "messages"),
        };
        assert!(asked[0].body[choice].to_string().contains("final_answer"), "{kind}");
        let messages = asked[1].body[messages].to_string();
        assert!(
            !messages.contains("tool_use") && !messages.contains("functionCall"),
            "the answer is text from then on"
        );
    }
}

#[tokio::test]
async fn a_wrong_wire_and_a_wrong_model_are_named_with_the_key_that_fixes_them() {
    for (kind, ..) in WIRES {
        for (reply, fix) in [
            (status(404, &json!({ "detail": "Not Found" })), "set `kind` to `responses` or `"),
            (b"HTTP/1.1 404 No\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n<html><title>x</title></html>".to_vec(), "set `kind`"),
            (b"HTTP/1.1 200 Ok\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n<html><title>x</title></html>".to_vec(), "`base_url`"),
            (status(404, &json!({ "error": { "message": "The model `x` does not exist" } })), "set `model`"),
        ] {
            let server = Canned::new([reply]);
            let ran = run(&*backend(kind, &server.base_url(), json!({})), request(), TurnHost::new()).await;
            let words = ran.error().to_string() + ran.error().message().unwrap_or_default();
            assert!(words.contains(fix), "{kind}: {fix} is not in {words}");
            assert_eq!(server.asked().len(), 1, "{kind}: a repetition would not help");
        }
    }
}

#[tokio::test]
async fn the_token_of_a_plan_is_refused_before_anything_is_sent() {
    for (kind, ..) in WIRES {
        let server = Canned::new([answer(kind, "", "Never.", &[])]);
        let settings =
            json!({ "base_url": server.base_url(), "model": "m", "credential": { "env": "PLAN" } });
        let environment = BTreeMap::from([("PLAN".to_owned(), "sk-ant-oat01-canary".to_owned())]);
        let context = BuildContext::in_home("/nonexistent/nexus").with_environment(environment);
        let backend = registry()
            .kind(kind)
            .unwrap()
            .build(BackendId::new("a"), settings.as_object().unwrap(), &context)
            .unwrap();
        let ran = run(&*backend, request(), TurnHost::new()).await;
        let words = ran.error().to_string() + ran.error().message().unwrap_or_default();
        assert!(words.contains("through Claude Code alone") && !words.contains("canary"), "{words}");
        assert!(server.asked().is_empty(), "{kind}");
    }
}

/// A backend of a kind without a credential, whose id is that of the kind.
fn open_server(kind: &str, base_url: &str) -> Arc<dyn ExecutionBackend> {
    let settings =
        Map::from_iter([("base_url".to_owned(), json!(base_url)), ("model".to_owned(), json!("m"))]);
    let context = BuildContext::in_home("/nonexistent/nexus");
    registry().kind(kind).unwrap().build(BackendId::new(kind), &settings, &context).unwrap()
}

#[tokio::test]
async fn a_conversation_moves_over_the_wires_with_its_words_and_calls() {
    let mut handle = None;
    let picture = PromptBlock::Image { media_type: "image/png".to_owned(), data: "QUJD".to_owned() };
    let kinds = [
        "responses",
        "messages",
        "chat",
        "gemini",
        "chat",
        "messages",
        "gemini",
        "responses",
        "gemini",
        "messages",
        "responses",
        "chat",
        "responses",
    ];
    for (number, kind) in kinds.into_iter().enumerate() {
        let (id, text) = (format!("id_{number}"), format!("Answer {number}."));
        let call = (id.as_str(), "echo", "{ \"n\" :1}");
        let server = match kind {
            "responses" => Canned::new([
                reply(&[super::server::call(&id, "echo", "{ \"n\" :1}")]),
                reply(&[message(&text)]),
            ]),
            _ => Canned::new([answer(kind, "SEAL", "", &[call]), answer(kind, "", &text, &[])]),
        };
        let backend = open_server(kind, &server.base_url());
        let mut turn = TurnRequest::new(format!("Question {number}.")).with_model("m");
        if number == 0 {
            turn.prompt.push(picture.clone());
        }
        turn.conversation = match handle.take() {
            Some(handle) => ConversationMode::Resume { handle, on_lost: OnLost::Fail },
            None => ConversationMode::Keep,
        };
        let ran = run(&*backend, turn, host()).await;
        assert_eq!(ran.result().text, text);
        handle.clone_from(&ran.result().resume);
        let sent = server.asked()[0].body.to_string();
        assert!(sent.contains("QUJD"), "the picture moves too: {sent}");
        for before in 0..number {
            for words in [format!("Question {before}."), format!("Answer {before}."), format!("id_{before}")]
            {
                assert!(sent.contains(&words), "{kind} in turn {number} has {words}: {sent}");
            }
        }
        let is_marked = sent.contains("skip_thought_signature_validator");
        assert_eq!(is_marked, kind == "gemini" && number > 0, "{kind} in turn {number}: {sent}");
        assert!(!sent.contains("SEAL"), "{kind} gets the reasoning of another wire: {sent}");
        let is_warned = ran.warnings().iter().any(|warning| warning.contains("its reasoning is left out"));
        let had_reasoning = number > 0 && kinds[number - 1] != "responses";
        assert_eq!(is_warned, had_reasoning, "{kind} in turn {number}: {:?}", ran.warnings());
    }
}
