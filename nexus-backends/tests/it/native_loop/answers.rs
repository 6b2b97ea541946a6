//! Every recorded body and every status, through the whole loop.

use std::{collections::BTreeMap, fs, path::PathBuf, time::Duration};

use nexus_core::{ErrorKind, Retry, TurnHost};
use serde_json::json;

use super::{
    server::{Canned, message, reply, status, stream},
    stage::{backend, request, run},
};

/// How a turn ends whose model sends one of the recorded bodies first, and "Then this." to every further request.
/// `Ok` is the text of the answer.
const BODIES: &[(&str, Result<&str, ErrorKind>)] = &[
    ("responses/code-mode-exec", Ok("Then this.")),
    ("responses/custom-tool-call", Ok("Then this.")),
    ("responses/empty", Err(ErrorKind::Incomplete)),
    ("responses/end-turn-false", Ok("Then this.")),
    ("responses/error-event", Err(ErrorKind::VendorFailure)),
    ("responses/failed-context-length", Err(ErrorKind::ContextExceeded)),
    ("responses/failed-insufficient-quota", Err(ErrorKind::UsageLimit)),
    ("responses/failed-invalid-prompt", Err(ErrorKind::Refused)),
    ("responses/failed-overloaded", Err(ErrorKind::Overloaded)),
    ("responses/failed-rate-limit", Err(ErrorKind::RateLimited)),
    ("responses/failed-server-error", Err(ErrorKind::VendorFailure)),
    ("responses/failed-usage-limit", Err(ErrorKind::UsageLimit)),
    ("responses/function-call", Ok("Then this.")),
    ("responses/function-call-namespaced", Ok("Then this.")),
    ("responses/function-calls-parallel", Ok("Then this.")),
    ("responses/incomplete-content-filter", Err(ErrorKind::Refused)),
    ("responses/incomplete-max-output-tokens", Err(ErrorKind::Incomplete)),
    ("responses/message-phases", Ok("Final.")),
    ("responses/no-completed", Err(ErrorKind::Transport)),
    ("responses/reasoning-function-call", Ok("Then this.")),
    ("responses/reasoning-summary-text", Ok("")),
    ("responses/refusal", Err(ErrorKind::Refused)),
    ("responses/text", Ok("")),
    ("responses/text-comments-done", Ok("")),
    ("responses/text-crlf", Ok("")),
    ("responses/text-data-only", Ok("")),
    ("responses/text-garbage-events", Ok("")),
    ("responses/text-long", Ok("")),
    ("responses/text-minimal", Ok("Only item.done.")),
    ("responses/text-multi-data-lines", Ok("")),
    ("responses/text-no-usage", Ok("")),
    ("responses/text-only-deltas", Ok("")),
    ("responses/text-only-in-completed", Ok("")),
    ("responses/text-rate-limit-event", Ok("Then this.")),
    ("responses/text-unicode", Ok("")),
    ("responses/two-messages", Ok("")),
    ("responses/unknown-item", Ok("")),
    ("responses/web-search", Ok("")),
    ("xai/args-empty", Ok("Then this.")),
    ("xai/calls-only-in-completed", Ok("Then this.")),
    ("xai/comments-crlf", Ok("Hello from grok.")),
    ("xai/completed-empty-output", Ok("Hello from grok.")),
    ("xai/deltas-disagree", Ok("")),
    ("xai/doom-loop", Ok("Hello from grok.")),
    ("xai/dup-calls", Ok("Then this.")),
    ("xai/error-event", Err(ErrorKind::VendorFailure)),
    ("xai/error-flat", Err(ErrorKind::VendorFailure)),
    ("xai/failed", Err(ErrorKind::VendorFailure)),
    ("xai/hosted-search", Ok("Hello from grok.")),
    ("xai/hosted-then-call", Ok("Then this.")),
    ("xai/incomplete-length", Err(ErrorKind::Incomplete)),
    ("xai/no-usage", Ok("Hello from grok.")),
    ("xai/null-fields", Ok("Hello from grok.")),
    ("xai/parallel-calls", Ok("Then this.")),
    ("xai/reasoning-summary", Ok("Hello from grok.")),
    ("xai/reasoning-text", Ok("Hello from grok.")),
    ("xai/reasoning-text-then-call", Ok("Then this.")),
    ("xai/reasoning-then-call", Ok("Then this.")),
    ("xai/status-in-completed-failed", Err(ErrorKind::VendorFailure)),
    ("xai/text-only-in-completed", Ok("")),
    ("xai/unknown-event", Ok("Hello from grok.")),
    ("xai/unknown-item", Ok("Hello from grok.")),
];

fn recordings() -> BTreeMap<String, Vec<u8>> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts/native");
    let mut found = BTreeMap::new();
    for folder in ["responses", "xai"] {
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "sse") {
                let name = format!("{folder}/{}", path.file_stem().unwrap().to_string_lossy());
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

#[tokio::test]
async fn every_recorded_body_has_one_outcome() {
    let recordings = recordings();
    let listed: Vec<&str> = BODIES.iter().map(|(name, _)| *name).collect();
    let unlisted: Vec<_> = recordings.keys().filter(|name| !listed.contains(&name.as_str())).collect();
    assert!(unlisted.is_empty(), "recordings without a row: {unlisted:?}");
    for (name, wanted) in BODIES {
        let body = recordings.get(*name).unwrap_or_else(|| panic!("there is no recording {name}"));
        let server = Canned::new([stream(body), reply(&[message("Then this.")])]);
        let kind = if name.starts_with("xai") { "grok-sub-token" } else { "responses" };
        // The catalogue of models is asked for first where the dialect has one.
        let server = if kind == "grok-sub-token" {
            Canned::new([status(404, &json!({})), stream(body), reply(&[message("Then this.")])])
        } else {
            server
        };
        let backend = backend(kind, &server.base_url(), json!({}));
        let ran = run(&*backend, request(), TurnHost::new()).await;
        match (&ran.outcome, wanted) {
            (Ok(result), Ok(text)) => {
                assert!(!result.text.is_empty(), "{name}");
                assert!(text.is_empty() || result.text == *text, "{name}: {}", result.text);
                assert!(result.messages.iter().all(|message| message.complete), "{name}");
            }
            (Err(error), Err(kind)) => assert_eq!(error.kind(), *kind, "{name}: {error}"),
            (outcome, wanted) => panic!("{name}: wanted {wanted:?}, saw {outcome:?}"),
        }
    }
}

#[tokio::test]
async fn a_used_up_plan_in_the_stream_says_until_when() {
    let body = recordings().remove("responses/failed-usage-limit").unwrap();
    let server = Canned::new([stream(&body)]);
    let ran = run(&*backend("responses", &server.base_url(), json!({})), request(), TurnHost::new()).await;
    let reset = std::time::UNIX_EPOCH + Duration::from_secs(1_795_224_496);
    assert_eq!(ran.error().retry(), Retry::At(reset));
}

#[tokio::test]
async fn every_status_has_an_outcome() {
    let wanted = |status: u16| match status {
        401 => ErrorKind::Unauthenticated,
        402 => ErrorKind::UsageLimit,
        403 => ErrorKind::Forbidden,
        408 | 425 => ErrorKind::Transport,
        429 => ErrorKind::RateLimited,
        503 | 529 => ErrorKind::Overloaded,
        409 | 500.. => ErrorKind::VendorFailure,
        _ => ErrorKind::InvalidRequest,
    };
    for code in 300..600 {
        let server = Canned::new([status(code, &json!({ "error": { "message": "Because." } }))]);
        let ran =
            run(&*backend("responses", &server.base_url(), json!({})), request(), TurnHost::new()).await;
        let error = ran.error();
        assert_eq!(error.kind(), wanted(code), "{code}: {error}");
        assert!(error.to_string().contains(&code.to_string()), "{code}: {error}");
        assert_eq!(server.asked().len(), 1, "{code}");
    }
}

#[tokio::test]
async fn no_error_and_no_event_holds_the_token() {
    let token = super::stage::TOKEN;
    let echo = json!({ "error": { "message": format!("Incorrect API key provided: {token}") } });
    for code in [400, 401, 403, 429, 500] {
        let server = Canned::new([status(code, &echo)]);
        let settings = json!({ "retries": 1, "max_wait_seconds": 1 });
        let ran = run(&*backend("responses", &server.base_url(), settings), request(), TurnHost::new()).await;
        let told = format!("{:?} {:?}", ran.error(), ran.events);
        assert!(told.contains("Incorrect API key provided"), "{code}: {told}");
        assert!(!told.contains(token), "{code}: {told}");
        assert!(server.asked().iter().all(|asked| asked.head.contains(token)), "the server was sent it");
    }
}
