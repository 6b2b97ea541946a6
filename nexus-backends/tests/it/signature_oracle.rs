//! Signed requests as they were sent, judged by AWS's own signer.
//!
//! Needs `NEXUS_REAL_INFERENCE_PYTHON` and `NEXUS_REAL_SIGNATURE_ORACLE` (see `real/wires/install`):
//!
//! `real/clis/in-namespace cargo test -p nexus-turn-backends --test it signature_oracle:: -- --ignored`

use std::{
    collections::BTreeMap,
    io::Write as _,
    process::{Command, Stdio},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use nexus_core::{BuildContext, EventEnvelope, TurnHost, TurnRequest};
use nexus_testkit::sim::{Dialect, RecordedRequest, Scenario, Sim};
use serde_json::{Value, json};

const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

/// The request of a turn at Bedrock, with its address.
async fn signed(entry: Value, session: Option<&str>) -> (RecordedRequest, String) {
    let sim = Sim::start(Dialect::All, Scenario::text("Hello").strict()).unwrap();
    let registry = nexus_backends::registry();
    let provider = entry["provider"].as_str().unwrap().to_owned();
    let mut entry = entry.as_object().unwrap().clone();
    entry.remove("provider");
    let mut done = registry.providers().unwrap().complete(&provider, &entry, None).unwrap();
    let base_url =
        if provider == "bedrock" { format!("{}/openai/v1", sim.root_url()) } else { sim.root_url() };
    done.settings.insert("base_url".to_owned(), json!(base_url));
    let mut variables = vec![("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"), ("AWS_SECRET_ACCESS_KEY", SECRET)];
    variables.extend(session.map(|session| ("AWS_SESSION_TOKEN", session)));
    let environment: BTreeMap<_, _> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let context = BuildContext::in_home("/nonexistent").with_environment(environment);
    let backend =
        registry.kind(&done.kind).unwrap().build("signed".into(), &done.settings, &context).unwrap();
    let mut sink = |_: EventEnvelope| ();
    let request = TurnRequest::new("Grüße, 水 & 🦀?");
    assert_eq!(backend.run_turn(request, TurnHost::new(), &mut sink).await.unwrap().text, "Hello");
    (sim.main_calls().pop().unwrap(), sim.root_url())
}

/// The signature that AWS's signer computes, and the one that was sent.
fn judged(request: &RecordedRequest, root: &str, body: &[u8], session: Option<&str>) -> (String, String) {
    let variable =
        |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name}: see real/wires/install"));
    let query = request.query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
    let line = json!({
        "method": request.method, "url": format!("{root}{}{query}", request.path), "headers": &*request.headers,
        "body": STANDARD.encode(body), "secret": SECRET, "session": session,
    });
    let mut oracle = Command::new(variable("NEXUS_REAL_INFERENCE_PYTHON"))
        .arg(variable("NEXUS_REAL_SIGNATURE_ORACLE"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python runs");
    oracle.stdin.take().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    let output = oracle.wait_with_output().unwrap();
    let judged: Value = serde_json::from_slice(&output.stdout).expect("the oracle answers");
    let text = |name: &str| judged[name].as_str().unwrap().to_owned();
    (text("expected"), text("found"))
}

#[tokio::test]
#[ignore = "needs AWS's signer; run by .ci/deep"]
async fn a_request_as_it_was_sent_has_the_signature_of_the_vendors_own_signer() {
    for (model, session) in [
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", Some("session/token+=")),
        ("arn:aws:bedrock:eu-west-1:123456789012:application-inference-profile/a~b c", None),
    ] {
        for provider in ["bedrock-anthropic", "bedrock"] {
            let entry = json!({
                "provider": provider, "region": "eu-west-1", "model": model, "credential": { "aws": {} },
                "query": { "b": "2 x", "a": "1/+" }, "headers": { "x-title": "not signed" },
            });
            let (request, root) = signed(entry, session).await;
            let (expected, found) = judged(&request, &root, &request.body, session);
            assert_eq!(expected, found, "{provider} {model}: {}", request.path);
            let (other, found) = judged(&request, &root, b"{}", session);
            assert_ne!(other, found, "the signature covers the body");
        }
    }
}
