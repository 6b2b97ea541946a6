//! Every row of the table of providers before the server that nobody here wrote, at its own path where the server has that.

use nexus_core::{BuildContext, ErrorKind, TurnHost};
use serde_json::json;

use super::request;
use super::server::{Server, run_backend};

/// Rows whose own path the server has. Any other row is moved to the usual path of its wire.
const OWN_PATHS: [&str; 4] = ["azure", "azure-deployments", "bedrock-anthropic", "vertex-gemini"];

/// Rows of a path that the server does not have: it answers Claude at Vertex AI with 404.
const UNKNOWN: [&str; 1] = ["vertex-anthropic"];

#[tokio::test]
#[ignore = "needs a server of somebody else's; run by .ci/deep"]
async fn a_turn_of_each_row_is_answered() {
    let server = Server::start("rows");
    let registry = nexus_backends::registry();
    let providers = registry.providers().unwrap();
    let rows = providers.list(None);
    assert!(rows.len() >= 26);
    for row in rows {
        let mut entry = json!({ "model": "gpt-5.5", "credential": { "env": "KEY" }, "retries": 0 });
        for parameter in &row.parameters {
            entry[parameter] = json!("some-1");
        }
        if row.variable.is_none() && row.base_url.starts_with("http://127.0.0.1") {
            entry.as_object_mut().unwrap().remove("credential");
        }
        if row.name == "bedrock-anthropic" {
            entry["model"] = json!("anthropic.claude-3-haiku-20240307-v1:0");
        }
        let mut done = providers.complete(&row.name, entry.as_object().unwrap(), None).unwrap();
        let own_path =
            done.settings["base_url"].as_str().unwrap().splitn(4, '/').nth(3).unwrap_or_default().to_owned();
        let path = match (OWN_PATHS.contains(&&*row.name) || UNKNOWN.contains(&&*row.name), row.wire.as_str())
        {
            (true, _) => own_path,
            (false, "gemini") => "v1beta".to_owned(),
            (false, _) => "v1".to_owned(),
        };
        done.settings.insert("base_url".to_owned(), json!(server.url(&path)));
        let variables = [("KEY".to_owned(), "canary-of-a-row".to_owned())];
        let context = BuildContext::in_home(server.folder()).with_environment(variables.into());
        let built =
            registry.kind(&done.kind).unwrap().build(row.name.as_str().into(), &done.settings, &context);
        let backend = built.unwrap_or_else(|error| panic!("{}: {error}", row.name));
        let ran = run_backend(&*backend, request("Say hello."), TurnHost::new(), |_| ()).await;
        if UNKNOWN.contains(&&*row.name) {
            let kind = ran.outcome.unwrap_err().kind();
            assert!(
                matches!(kind, ErrorKind::InvalidRequest | ErrorKind::ModelUnavailable),
                "{}: {kind:?}",
                row.name
            );
            continue;
        }
        let streamed = ran.streamed();
        let result = ran.outcome.unwrap_or_else(|error| panic!("{}: {error}", row.name));
        assert_eq!(
            (result.text.as_str(), streamed.as_str()),
            ("Hello from a fixture.", "Hello from a fixture."),
            "{}",
            row.name
        );
    }
}
