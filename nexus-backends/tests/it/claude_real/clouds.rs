//! Claude Code at Amazon Bedrock, Vertex AI and a gateway: the credential that the configuration names, and no other.

use std::path::Path;

use nexus_backends::claude::cli::ClaudeCli;
use nexus_core::{ErrorKind, TurnRequest};
use nexus_testkit::sim::{Dialect, Reply, Scenario, Sim};
use serde_json::{Value, json};

use super::support::Stage;

const BEDROCK_MODEL: &str = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";
const VERTEX_MODEL: &str = "claude-sonnet-4-5@20250929";
const TOKEN: &str = "canary-cloud-token";

/// A backend at a service that the simulator plays. Further variables of the host belong to nobody's turn.
fn at(program: &Path, scenario: impl Into<Scenario>, base_path: &str, settings: Value) -> Stage {
    let sim = Sim::start(Dialect::Anthropic, scenario).unwrap();
    let base_url = format!("{}{base_path}", sim.root_url());
    Stage::of(ClaudeCli, program, sim, settings)
        .with("base_url", json!(base_url))
        .with_variable("TOKEN", TOKEN)
        .with_variable("AWS_ACCESS_KEY_ID", "AKIACLOUD")
        .with_variable("AWS_SECRET_ACCESS_KEY", "canary-secret")
        .with_variable("AWS_SESSION_TOKEN", "canary-session")
        .with_variable("AWS_PROFILE", "of-nobody")
        .with_variable("ANTHROPIC_API_KEY", "sk-ant-of-nobody")
}

async fn bedrock_gets_the_named_bearer_key(program: &Path) {
    let settings = json!({ "service": "bedrock", "region": "us-east-1", "credential": { "env": "TOKEN" } });
    let stage = at(program, Scenario::text("Hello."), "", settings);
    let ran = stage.run(TurnRequest::new("Hello.").with_model(BEDROCK_MODEL)).await;
    assert_eq!(ran.result().text, "Hello.");
    let calls = stage.calls();
    let call = &calls[0];
    // Version 2.1.197 does not escape the colon.
    let path = call.path.replace("%3A", ":");
    assert_eq!(path, format!("/model/{BEDROCK_MODEL}/invoke-with-response-stream"));
    assert_eq!((call.bearer(), call.header("x-api-key")), (Some(TOKEN), None));
    assert_eq!(call.conversation.model.as_deref(), Some(BEDROCK_MODEL));
}

async fn bedrock_gets_signed_requests_of_the_named_keys(program: &Path) {
    let settings = json!({ "service": "bedrock", "region": "eu-west-1", "credential": { "aws": {} } });
    let stage = at(program, Scenario::text("Hello."), "", settings);
    let ran = stage.run(TurnRequest::new("Hello.").with_model(BEDROCK_MODEL)).await;
    assert_eq!(ran.result().text, "Hello.");
    let calls = stage.calls();
    let signature = calls[0].header("authorization").unwrap();
    assert!(signature.starts_with("AWS4-HMAC-SHA256 Credential=AKIACLOUD/"), "{signature}");
    assert!(signature.contains("/eu-west-1/bedrock/aws4_request"), "{signature}");
    assert_eq!(calls[0].header("x-amz-security-token"), Some("canary-session"));
}

async fn a_refused_key_of_bedrock_is_no_login(program: &Path) {
    let settings = json!({ "service": "bedrock", "region": "us-east-1", "credential": { "env": "TOKEN" } });
    let stage = at(program, Reply::status(403), "", settings);
    let ran = stage.run(TurnRequest::new("Hello.").with_model(BEDROCK_MODEL)).await;
    let kind = ran.error().kind();
    assert!(matches!(kind, ErrorKind::Unauthenticated | ErrorKind::Forbidden), "{:?}", ran.error());
    assert!(!format!("{:?}", ran.error()).contains(TOKEN));
}

async fn vertex_gets_the_named_access_token(program: &Path) {
    let settings = json!({
        "service": "vertex", "region": "us-east5", "project": "my-project", "credential": { "env": "TOKEN" },
    });
    let stage = at(program, Scenario::text("Hello."), "/v1", settings);
    let ran = stage.run(TurnRequest::new("Hello.").with_model(VERTEX_MODEL)).await;
    assert_eq!(ran.result().text, "Hello.");
    let path = format!(
        "/v1/projects/my-project/locations/us-east5/publishers/anthropic/models/{VERTEX_MODEL}:streamRawPredict"
    );
    let calls = stage.calls();
    assert_eq!((calls[0].path.as_str(), calls[0].bearer()), (path.as_str(), Some(TOKEN)));
    assert_eq!(calls[0].header("x-api-key"), None);
}

async fn a_gateway_gets_the_named_token_as_a_bearer_token(program: &Path) {
    let settings = json!({ "service": "gateway", "credential": { "env": "TOKEN" } });
    let stage = at(program, Scenario::text("Hello."), "", settings);
    let ran = stage.run(TurnRequest::new("Hello.")).await;
    assert_eq!(ran.result().text, "Hello.");
    let calls = stage.calls();
    assert_eq!((calls[0].bearer(), calls[0].header("x-api-key")), (Some(TOKEN), None));
}

mod tests {
    crate::claude_real::support::with_each_program! {
        bedrock_gets_the_named_bearer_key
        bedrock_gets_signed_requests_of_the_named_keys
        a_refused_key_of_bedrock_is_no_login
        vertex_gets_the_named_access_token
        a_gateway_gets_the_named_token_as_a_bearer_token
    }
}
