//! Refusals that the loop can do something about: once each, and told.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use nexus_core::{ConversationMode, ErrorKind, TurnHost};
use serde_json::{Value, json};

use super::{
    server::{Canned, call, message, reply, status},
    stage::{TOKEN, backend, host, request, run},
};

fn write_token(path: &Path, token: &str) {
    fs::write(path, token).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

fn refusal(message: &str, param: &Value) -> Vec<u8> {
    status(400, &json!({ "error": { "message": message, "type": "invalid_request_error", "param": param } }))
}

#[tokio::test]
async fn a_refused_token_is_renewed_once_and_only_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    write_token(&path, "stale-token-of-yesterday");
    let unauthorized = || status(401, &json!({ "error": { "message": "Who are you?" } }));
    let server = Canned::new([unauthorized(), unauthorized(), reply(&[message("Never.")])]);
    let settings = json!({ "credential": { "file": path }, "retries": 3 });
    let backend = backend("responses", &server.base_url(), settings);

    // Nobody has replaced the token: there is nothing to try.
    let ran = run(&*backend, request(), TurnHost::new()).await;
    assert_eq!(ran.error().kind(), ErrorKind::Unauthenticated);
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn a_token_that_its_owner_has_replaced_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    write_token(&path, "stale-token-of-yesterday");
    let server = Canned::new([
        reply(&[call("call_1", "swap", "{}")]),
        status(401, &json!({ "error": { "message": "Expired." } })),
        reply(&[message("Welcome back.")]),
    ]);
    let swapped = path.clone();
    let tools = nexus_core::Toolbox::new().with(nexus_core::Tool::without_arguments(
        "swap",
        "Swaps it.",
        move || {
            write_token(&swapped, "fresh-token-of-today");
            async { "swapped" }
        },
    ));
    let settings = json!({ "credential": { "file": path } });
    let backend = backend("responses", &server.base_url(), settings);
    let host = TurnHost::new().with_tools(std::sync::Arc::new(tools));
    let ran = run(&*backend, request(), host).await;
    assert_eq!(ran.result().text, "Welcome back.");
    let asked = server.asked();
    assert_eq!(asked.len(), 3);
    assert!(asked[1].head.contains("stale-token-of-yesterday"));
    assert!(asked[2].head.contains("fresh-token-of-today"));
}

#[tokio::test]
async fn reasoning_that_cannot_be_read_is_left_out() {
    let reasoning =
        json!({ "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "of-another" });
    let words = "The encrypted_content of item rs_1 could not be decrypted.";
    let server = Canned::new([
        reply(&[reasoning, message("I shall.")]),
        refusal(words, &Value::Null),
        reply(&[message("Heron.")]),
    ]);
    let one = backend("responses", &server.base_url(), json!({}));
    let ran = run(&*one, request().with_conversation(ConversationMode::Keep), TurnHost::new()).await;
    let handle = ran.result().resume.clone().unwrap();

    // The same server with another account.
    let another = backend("responses", &server.base_url(), json!({}));
    let ran =
        run(&*another, request().with_conversation(ConversationMode::resume(handle)), TurnHost::new()).await;
    assert_eq!(ran.result().text, "Heron.");
    assert!(ran.warnings().iter().any(|text| text.contains("reasoning")), "{:?}", ran.warnings());
    let asked = server.asked();
    let kinds = |body: &Value| -> Vec<String> {
        let items = body["input"].as_array().unwrap().iter();
        items.map(|item| item["type"].as_str().unwrap_or("message").to_owned()).collect()
    };
    assert!(kinds(&asked[1].body).contains(&"reasoning".to_owned()));
    assert!(!kinds(&asked[2].body).contains(&"reasoning".to_owned()));
}

#[tokio::test]
async fn one_tool_that_is_refused_does_not_cost_the_others() {
    let words = "Invalid schema for function 'echo'.";
    let server = Canned::new([refusal(words, &json!("tools[0].parameters")), reply(&[message("Done.")])]);
    let backend = backend("responses", &server.base_url(), json!({}));
    let ran = run(&*backend, request(), host()).await;
    assert_eq!(ran.result().text, "Done.");
    assert!(ran.warnings().iter().any(|text| text.contains("\"echo\"")), "{:?}", ran.warnings());
    let names = |body: &Value| -> Vec<String> {
        body["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let asked = server.asked();
    assert_eq!(names(&asked[0].body), ["echo", "submit"]);
    assert_eq!(names(&asked[1].body), ["submit"]);
}

#[tokio::test]
async fn a_credential_that_the_server_repeats_is_told_to_nobody() {
    let refused = refusal(&format!("No tool for {TOKEN}."), &json!("tools[0]"));
    let broken_off =
        json!({ "status": "incomplete", "incomplete_details": { "reason": TOKEN }, "output": [] });
    let server = Canned::new([refused, status(200, &broken_off)]);
    let ran = run(&*backend("responses", &server.base_url(), json!({})), request(), host()).await;
    assert_eq!(ran.error().kind(), ErrorKind::Incomplete);
    assert!(server.asked()[0].head.contains(TOKEN));
    assert!(
        ran.warnings().iter().any(|text| text.contains("No tool for [redacted].")),
        "{:?}",
        ran.warnings()
    );
    assert!(!format!("{:?} {:?}", ran.warnings(), ran.error()).contains(TOKEN));
}

#[tokio::test]
async fn a_refusal_that_nothing_mends_is_final() {
    let server = Canned::new([refusal("No.", &Value::Null)]);
    let ran =
        run(&*backend("responses", &server.base_url(), json!({ "retries": 3 })), request(), host()).await;
    assert_eq!(ran.error().kind(), ErrorKind::InvalidRequest);
    assert_eq!(server.asked().len(), 1);
    assert!(!format!("{:?}", ran.error()).contains(TOKEN));
}

#[tokio::test]
async fn a_token_that_the_list_of_models_refuses_is_renewed_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    write_token(&path, "fresh-token-of-today");
    // The list is refused once: the source has no other token, so the turn ends there.
    let server = Canned::new([status(401, &json!({ "error": { "message": "Expired." } }))]);
    let settings = json!({ "credential": { "file": path, "account": "a" } });
    let ran =
        run(&*backend("codex-sub-token", &server.base_url(), settings), request(), TurnHost::new()).await;
    assert_eq!(ran.error().kind(), ErrorKind::Unauthenticated);
    assert_eq!(server.asked().len(), 1);
    assert!(server.asked()[0].head.starts_with("GET "), "{}", server.asked()[0].head);
}

#[tokio::test]
async fn no_token_that_was_lent_is_repeated_whichever_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    write_token(&path, "stale-token-of-yesterday");
    let echo = |code: u16| {
        let words = "stale-token-of-yesterday is no better than fresh-token-of-today";
        status(code, &json!({ "error": { "message": words } }))
    };
    let odd = json!({ "type": "novelty", "echo": "Bearer stale-token-of-yesterday" });
    let server = Canned::new([reply(&[odd, call("call_1", "swap", "{}")]), echo(401), echo(400)]);
    let swapped = path.clone();
    let swap = nexus_core::Tool::without_arguments("swap", "Swaps it.", move || {
        write_token(&swapped, "fresh-token-of-today");
        async { "swapped" }
    });
    let tools = nexus_core::Toolbox::new().with(swap);
    let backend = backend("responses", &server.base_url(), json!({ "credential": { "file": path } }));
    let ran = run(&*backend, request(), TurnHost::new().with_tools(std::sync::Arc::new(tools))).await;
    let told = format!("{:?} {:?}", ran.error(), ran.events);
    assert!(told.contains("is no better than") && told.contains("novelty"), "{told}");
    assert!(!told.contains("token-of"), "{told}");
}

#[tokio::test]
async fn a_tool_that_the_server_refused_is_not_called() {
    let server = Canned::new([
        refusal("Invalid schema for function 'echo'.", &json!("tools[0].parameters")),
        reply(&[call("1", "echo", "{}")]),
        reply(&[message("Done.")]),
    ]);
    let backend = backend("responses", &server.base_url(), json!({}));
    let ran = run(&*backend, request(), host()).await;
    assert_eq!(ran.result().tool_calls[0].status, nexus_core::ToolCallStatus::Denied);
}

#[tokio::test]
async fn what_the_server_did_by_itself_is_not_asked_for_again() {
    let item = json!({ "type": "mcp_call", "id": "mcp_1", "name": "delete_row", "arguments": "{}", "output": "gone" });
    let done = json!({ "type": "response.output_item.done", "output_index": 0, "item": item });
    let torn = super::server::stream(format!("data: {done}\n\n").as_bytes());
    let server = Canned::new([torn, reply(&[message("Never.")])]);
    let backend = backend("responses", &server.base_url(), json!({ "retries": 3 }));
    let ran = run(&*backend, request(), TurnHost::new()).await;
    assert_eq!(ran.error().kind(), ErrorKind::Transport);
    assert_eq!(server.asked().len(), 1);
    assert_eq!(ran.error().partial().tool_calls.len(), 1);
}

#[tokio::test]
async fn limits_hold_between_repetitions() {
    let failed = json!({ "type": "response.failed", "response": {
        "error": { "code": "server_error", "message": "Out of sorts." },
        "usage": { "input_tokens": 1, "output_tokens": 500, "cost": 2.5 },
    }});
    let body = super::server::stream(format!("data: {failed}\n\n").as_bytes());
    let settings = json!({ "retries": 3, "cost": "reported" });
    let limits = nexus_core::Limits::new();

    let server = Canned::new([body.clone(), reply(&[message("Never.")])]);
    let backend_at = |server: &Canned| backend("responses", &server.base_url(), settings.clone());
    let costly = request().with_limits(limits.clone().with_cost(nexus_core::Usd(1.0)));
    let ran = run(&*backend_at(&server), costly, TurnHost::new()).await;
    assert_eq!(ran.error().kind(), ErrorKind::LimitReached(nexus_core::Limit::Cost));
    assert_eq!(ran.error().partial().cost.map(|cost| cost.usd), Some(nexus_core::Usd(2.5)));
    assert_eq!(server.asked().len(), 1);

    let server = Canned::new([body, reply(&[message("Never.")])]);
    let once = request().with_limits(limits.with_model_calls(1));
    let ran = run(&*backend_at(&server), once, TurnHost::new()).await;
    assert_eq!(ran.error().kind(), ErrorKind::VendorFailure);
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn a_renewed_credential_is_billed_as_configured_or_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    write_token(&path, "eyJhbGciOiJub25lIn0.e30.token-of-a-plan");
    let refused = status(401, &json!({ "error": { "message": "Expired." } }));
    let models = status(404, &json!({}));
    let server =
        Canned::new([models, reply(&[call("call_1", "swap", "{}")]), refused, reply(&[message("Never.")])]);
    let swapped = path.clone();
    let swap = nexus_core::Tool::without_arguments("swap", "Swaps it.", move || {
        write_token(&swapped, "sk-proj-0123456789abcdef0123456789");
        async { "swapped" }
    });
    let tools = nexus_core::Toolbox::new().with(swap);
    let settings = json!({ "credential": { "file": path, "account": "a" }, "billing": "plan" });
    let backend = backend("codex-sub-token", &server.base_url(), settings);
    let ran = run(&*backend, request(), TurnHost::new().with_tools(std::sync::Arc::new(tools))).await;
    assert_eq!(ran.error().kind(), ErrorKind::BillingMismatch);
    assert!(server.asked().iter().all(|asked| !asked.head.contains("sk-proj")));
}

/// The types of the items, and of the parts of each, that a request sent.
fn sent(body: &Value) -> String {
    body["input"].to_string()
}

/// A prompt with a picture.
fn with_picture() -> nexus_core::TurnRequest {
    let mut request = request().with_conversation(ConversationMode::Keep);
    request
        .prompt
        .push(nexus_core::PromptBlock::Image { media_type: "image/png".into(), data: "AAAA".into() });
    request
}

#[tokio::test]
async fn a_picture_that_is_refused_is_replaced_once_and_never_sent_again() {
    for words in ["image input is not supported by this model", "Could not process image"] {
        let server = Canned::deciding(move |index, asked| match sent(&asked.body).contains("input_image") {
            true => refusal(words, &Value::Null),
            false => reply(&[message(if index < 2 { "Blind." } else { "Still." })]),
        });
        let backend = backend("responses", &server.base_url(), json!({}));
        let ran = run(&*backend, with_picture(), TurnHost::new()).await;
        assert_eq!(ran.result().text, "Blind.", "{words}");
        let warned = ran.warnings().iter().filter(|text| text.contains("picture")).count();
        assert_eq!(warned, 1, "{:?}", ran.warnings());
        assert!(sent(&server.asked()[1].body).contains("picture"), "{}", server.asked()[1].body);
        let handle = ran.result().resume.clone().unwrap();
        let again = request().with_conversation(ConversationMode::resume(handle));
        assert_eq!(run(&*backend, again, TurnHost::new()).await.result().text, "Still.");
        assert_eq!(server.asked().len(), 3);
    }
}

#[tokio::test]
async fn a_picture_of_a_tool_that_is_refused_costs_no_other_picture() {
    let server = Canned::deciding(|_, asked| match sent(&asked.body) {
        sent if sent.contains("base64,BBBB") => refusal("Could not process image", &Value::Null),
        sent if sent.contains("function_call_output") => reply(&[message("Seen.")]),
        _ => reply(&[call("call_1", "look", "{}")]),
    });
    let look = nexus_core::Tool::without_arguments("look", "Looks.", || async {
        nexus_core::ToolResult::ok(vec![nexus_core::ToolContent::Image {
            media_type: "image/png".into(),
            data: "BBBB".into(),
        }])
    });
    let host = TurnHost::new().with_tools(std::sync::Arc::new(nexus_core::Toolbox::new().with(look)));
    let ran = run(&*backend("responses", &server.base_url(), json!({})), with_picture(), host).await;
    assert_eq!(ran.result().text, "Seen.");
    let last = server.asked().pop().unwrap().body;
    assert!(sent(&last).contains("base64,AAAA"), "{last}");
}

#[tokio::test]
async fn items_that_the_server_does_not_know_are_left_out() {
    let reasoning = json!({ "type": "reasoning", "id": "rs_1", "summary": [] });
    let server = Canned::deciding(move |index, asked| match sent(&asked.body).contains("\"rs_1\"") {
        true => status(
            404,
            &json!({ "error": {
                "message": "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.",
                "type": "invalid_request_error", "param": "input",
            }}),
        ),
        false if index == 0 => reply(&[reasoning.clone(), call("call_1", "echo", "{}")]),
        false => reply(&[message("Done.")]),
    });
    let ran = run(&*backend("responses", &server.base_url(), json!({})), request(), host()).await;
    assert_eq!(ran.result().text, "Done.");
    assert_eq!(server.asked().len(), 3);
}

#[tokio::test]
async fn arguments_that_are_not_json_go_back_as_json_and_the_model_reads_why() {
    for arguments in
        [r#"{"query":"a"}{"query":"b"}"#, r#"{"query":"\ud83d"}"#, r#"{"a":1,"a":2}"#, "NaN", "", "{"]
    {
        let server = Canned::deciding(move |index, asked| {
            let input = asked.body["input"].as_array().unwrap().iter();
            let calls = input.filter(|item| item["type"] == "function_call");
            let are_json = calls.clone().all(|call| {
                serde_json::from_str::<Value>(call["arguments"].as_str().unwrap())
                    .is_ok_and(|it| it.is_object())
            });
            match (index, are_json) {
                (0, _) => reply(&[call("call_1", "echo", arguments)]),
                (_, true) => reply(&[message("Mended.")]),
                (_, false) => refusal("invalid tool call arguments", &Value::Null),
            }
        });
        let ran = run(&*backend("responses", &server.base_url(), json!({})), request(), host()).await;
        assert_eq!(ran.result().text, "Mended.", "{arguments}");
        let asked = server.asked();
        let outputs = sent(&asked[1].body);
        // Nothing at all are the arguments of a tool that takes none.
        assert!(arguments.is_empty() || outputs.contains("not JSON"), "{arguments}: {outputs}");
        assert!(
            arguments.is_empty() || outputs.contains(&arguments.escape_default().to_string()[..1]),
            "{outputs}"
        );
    }
}

#[tokio::test]
async fn a_field_that_the_server_refuses_is_named_with_its_setting() {
    for (refused, setting) in [
        (
            json!({ "error": { "message": "Unknown parameter: 'include'.", "param": "include" } }),
            "encrypted_reasoning: false",
        ),
        (
            json!({ "error": { "message": "Unsupported parameter: 'prompt_cache_key'" } }),
            "prompt_cache_key: false",
        ),
        (
            json!({ "detail": [{ "type": "extra_forbidden", "loc": ["body", "store"], "msg": "Extra inputs are not permitted" }] }),
            "store: omit",
        ),
        (
            json!({ "error": { "message": "input[2].status: unexpected property", "param": "input[2].status" } }),
            "items: bare",
        ),
        (json!({ "error": { "message": "Unknown parameter: 'input[1].id'" } }), "items: bare"),
        (json!({ "error": { "message": "max_output_tokens is not supported" } }), "max_output_tokens: false"),
    ] {
        let server = Canned::new([status(400, &refused)]);
        let ran = run(&*backend("responses", &server.base_url(), json!({})), request(), host()).await;
        let error = ran.error().to_string();
        assert!(error.contains(setting) && error.contains("nexus.yaml"), "{refused}: {error}");
    }
}

#[tokio::test]
async fn switches_leave_out_what_a_server_refuses() {
    let server = Canned::new([
        reply(&[
            json!({ "type": "function_call", "id": "fc_1", "status": "completed", "call_id": "c", "name": "echo", "arguments": "{}" }),
        ]),
        reply(&[message("Done.")]),
    ]);
    let settings = json!({ "store": "omit", "items": "bare", "strict": false, "max_output_tokens": false,
        "encrypted_reasoning": false, "prompt_cache_key": false });
    let limits = nexus_core::Limits::new().with_output_tokens(1_000);
    let ran =
        run(&*backend("responses", &server.base_url(), settings), request().with_limits(limits), host())
            .await;
    assert_eq!(ran.result().text, "Done.");
    let body = server.asked()[1].body.clone();
    for key in ["store", "include", "prompt_cache_key", "max_output_tokens"] {
        assert!(body.get(key).is_none(), "{key}: {body}");
    }
    assert!(!body.to_string().contains("strict") && !sent(&body).contains("fc_1"), "{body}");
}

#[tokio::test]
async fn a_refused_flag_costs_the_flag_and_not_the_tool() {
    let words = "Unknown parameter: 'tools[0].strict'.";
    let server = Canned::deciding(move |_, asked| match asked.body["tools"][0].get("strict") {
        Some(_) => refusal(words, &json!("tools[0].strict")),
        None => reply(&[message("Done.")]),
    });
    let ran = run(&*backend("responses", &server.base_url(), json!({})), request(), host()).await;
    assert_eq!(ran.result().text, "Done.");
    let last = server.asked().pop().unwrap().body;
    assert_eq!(last["tools"].as_array().unwrap().len(), 2, "{last}");
}

#[tokio::test]
async fn the_head_of_a_stream_says_when_to_try_again() {
    let body = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nretry-after: 37\r\nconnection: close\r\n\r\ndata: {\"type\":\"error\",\"error\":{\"code\":429,\"message\":\"over\"}}\n\n";
    let server = Canned::new([body.as_bytes().to_vec()]);
    let ran = run(&*backend("responses", &server.base_url(), json!({})), request(), host()).await;
    assert_eq!(ran.error().kind(), ErrorKind::RateLimited);
    assert_eq!(ran.error().retry(), nexus_core::Retry::After(std::time::Duration::from_secs(37)));
}
