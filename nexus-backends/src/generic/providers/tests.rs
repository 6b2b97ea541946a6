use std::sync::Arc;

use nexus_core::{BackendKind, BuildContext, ConfigSection as _, Providers as _, SettingsError};
use serde_json::{Map, Value, json};

use super::*;

fn entry(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        other => panic!("{other} is no mapping"),
    }
}

fn kinds() -> Vec<Arc<dyn BackendKind>> {
    crate::generic::VENDOR.kinds().collect()
}

fn rows() -> ProviderRows {
    ProviderRows::new(kinds())
}

fn completed(provider: &str, value: Value) -> Result<(String, Value), SettingsError> {
    let done = rows().complete(provider, &entry(value), None)?;
    Ok((done.kind, done.settings.into()))
}

#[test]
fn every_row_parses_expands_and_builds() {
    let all: Rows = serde_json::from_str(include_str!("table.json")).unwrap();
    assert!(all.len() >= 26, "{}", all.len());
    for (name, row) in &all {
        row.check(&kinds()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(row.source.as_deref().is_some_and(|source| source.starts_with("https://")), "{name}");
        assert_eq!(row.title.as_deref().map(str::is_empty), Some(false), "{name}");
        let mut settings = Map::from_iter([("model".to_owned(), json!("any"))]);
        settings.extend(row.parameters.keys().map(|key| (key.clone(), json!("some-1"))));
        let done = rows().complete(name, &settings, None).unwrap();
        assert!(!done.settings["base_url"].as_str().unwrap().contains(['{', '}']), "{name}");
        let kind = crate::generic::VENDOR.kinds().find(|kind| kind.name() == done.kind).unwrap();
        let built = kind.build(name.as_str().into(), &done.settings, &BuildContext::in_home("/nowhere"));
        let backend = built.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(backend.capabilities().server.is_some(), "{name}");
    }
}

#[test]
fn an_entry_is_completed_and_its_own_settings_win() {
    let (kind, settings) = completed("mistral", json!({ "model": "m" })).unwrap();
    let expected = json!({
        "model": "m", "base_url": "https://api.mistral.ai/v1", "call_ids": "short",
        "credential": { "env": "MISTRAL_API_KEY" },
    });
    assert_eq!((kind.as_str(), settings), ("chat", expected));

    let own = json!({ "call_ids": "any", "credential": { "file": "key" } });
    let (_, settings) = completed("mistral", own).unwrap();
    assert_eq!((&settings["call_ids"], &settings["credential"]), (&json!("any"), &json!({ "file": "key" })));

    let (_, settings) = completed("azure", json!({ "resource": "mine" })).unwrap();
    assert_eq!(settings["base_url"], "https://mine.openai.azure.com/openai/v1");
    assert_eq!(settings["auth"], json!({ "header": "api-key" }));
    assert_eq!(settings.get("resource"), None);
    let (_, settings) = completed("anthropic", json!({})).unwrap();
    assert_eq!((settings.get("auth"), settings.get("key_header")), (None, None));
}

#[test]
fn a_key_of_a_provider_goes_to_the_providers_address_alone() {
    let (_, settings) = completed("mistral", json!({ "base_url": "http://127.0.0.1:1/v1" })).unwrap();
    assert_eq!(settings.get("credential"), None);
    let own = json!({ "base_url": "http://127.0.0.1:1/v1", "region": "x" });
    let (_, settings) = completed("bedrock", own).unwrap();
    assert_eq!((settings.get("credential"), settings.get("region")), (None, None));
}

/// The vendor of an entry, as a panel counts it.
fn vendor(kind: &str, settings: &Value) -> String {
    let kind = crate::generic::VENDOR.kinds().find(|known| known.name() == kind).unwrap();
    kind.vendor(settings.as_object().unwrap(), &BuildContext::in_home("home")).as_str().to_owned()
}

#[test]
fn one_company_is_one_vendor_by_its_provider_or_its_address() {
    for (provider, entry, expected) in [
        ("openai", json!({}), "openai"),
        ("openai", json!({ "base_url": "https://api.anthropic.com/v1" }), "anthropic"),
        ("openai", json!({ "base_url": "https://gateway.test/v1" }), "gateway.test"),
        ("openai", json!({ "base_url": "https://gateway.test/v1", "vendor": "openai" }), "openai"),
        ("gemini", json!({}), "google"),
        ("vertex", json!({ "project": "p", "region": "us-central1" }), "google"),
        ("azure", json!({ "resource": "one" }), "azure"),
        ("bedrock", json!({ "region": "us-east-1" }), "aws"),
        ("vertex-anthropic", json!({ "project": "p", "region": "us-east5" }), "google"),
        ("bedrock-anthropic", json!({ "region": "us-east-1" }), "aws"),
        ("azure-deployments", json!({ "resource": "one" }), "azure"),
        ("groq", json!({}), "api.groq.com"),
    ] {
        let (kind, settings) = completed(provider, entry.clone()).unwrap();
        assert_eq!(vendor(&kind, &settings), expected, "{provider} {entry}");
    }
    for (settings, expected) in [
        (json!({ "base_url": "https://generativelanguage.googleapis.com/v1beta/openai" }), "google"),
        (json!({ "base_url": "https://europe-west1-aiplatform.googleapis.com/v1" }), "google"),
        (json!({ "base_url": "https://two.openai.azure.com/openai/v1" }), "azure"),
        (json!({ "base_url": "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1" }), "aws"),
        (json!({ "base_url": "https://a.b.openai.azure.com/v1" }), "a.b.openai.azure.com"),
        (
            json!({ "base_url": "https://two.openai.azure.com.evil.test/v1" }),
            "two.openai.azure.com.evil.test",
        ),
        (json!({ "vendor": "generativelanguage.googleapis.com" }), "google"),
        (json!({ "vendor": "google" }), "google"),
    ] {
        assert_eq!(vendor("chat", &settings), expected, "{settings}");
    }
}

#[test]
fn a_row_without_keys_sends_none() {
    let (_, settings) = completed("sglang", json!({})).unwrap();
    assert_eq!((&settings["auth"], settings.get("credential")), (&json!("none"), None));
    let error = completed("sglang", json!({ "credential": { "env": "HOUSE_KEY" } })).unwrap_err();
    assert_eq!(error.path, ["credential"]);
    assert!(error.to_string().contains("set `auth`"), "{error}");
    let own = json!({ "credential": { "env": "HOUSE_KEY" }, "auth": "bearer" });
    assert_eq!(completed("sglang", own).unwrap().1["auth"], "bearer");
}

#[test]
fn a_missing_or_unusable_parameter_is_named() {
    let error = completed("bedrock", json!({})).unwrap_err();
    assert_eq!(
        error.to_string(),
        "region: the provider bedrock needs it: write `region:` with the AWS region, such as us-east-1"
    );
    for value in [json!("a.evil.test/"), json!(""), json!(3), json!("x".repeat(64))] {
        assert_eq!(completed("bedrock", json!({ "region": value })).unwrap_err().path, ["region"]);
    }
    assert_eq!(completed("vertex", json!({ "region": "a" })).unwrap_err().path, ["project"]);
}

#[test]
fn the_path_the_query_and_the_signature_of_a_row_are_completed() {
    let section = json!({ "mine": {
        "wire": "messages", "base_url": "https://{region}.a.test", "path": "/{stage}/{model}/call",
        "query": { "version": "1", "mode": "x" }, "framing": "aws-event-stream", "sigv4": { "service": "bedrock" },
        "parameters": { "region": "region", "stage": "stage" },
    } });
    rows().check(&section).unwrap();
    let own = entry(json!({ "region": "eu-1", "stage": "beta", "query": { "version": "2" } }));
    let settings = rows().complete("mine", &own, Some(&section)).unwrap().settings;
    assert_eq!(settings["base_url"], "https://eu-1.a.test");
    assert_eq!(
        (&settings["path"], &settings["framing"]),
        (&json!("/beta/{model}/call"), &json!("aws-event-stream"))
    );
    assert_eq!(settings["query"], json!({ "version": "2", "mode": "x" }));
    assert_eq!(settings["sigv4"], json!({ "service": "bedrock", "region": "eu-1" }));
    let error = completed("bedrock-anthropic", json!({ "region": "US_EAST" })).unwrap_err();
    assert_eq!(error.path, ["region"]);
    // An entry with an address of its own keeps the form of the calls, and signs them if it names a region.
    let own = json!({ "base_url": "http://127.0.0.1:1", "region": "us-east-1", "credential": { "aws": {} } });
    let (_, settings) = completed("bedrock-anthropic", own).unwrap();
    assert_eq!(
        (&settings["path"], settings.get("region")),
        (&json!("/model/{model}/invoke-with-response-stream"), None)
    );
    assert_eq!(settings["sigv4"]["region"], "us-east-1");
    let (_, settings) = completed("bedrock-anthropic", json!({ "base_url": "http://127.0.0.1:1" })).unwrap();
    assert_eq!((settings.get("sigv4"), settings.get("credential")), (None, None));
}

#[test]
fn headers_and_members_of_a_row_are_completed_one_by_one() {
    let section = json!({ "mine": {
        "wire": "chat", "base_url": "https://a.test/v1", "auth": { "query": "key" }, "variable": "MY_KEY",
        "headers": { "X-Title": "row", "x-org": "row" }, "body": { "a": 1, "b": 1 },
    } });
    rows().check(&section).unwrap();
    let own = entry(json!({ "headers": { "x-title": "own" }, "body": { "b": 2 } }));
    let settings = rows().complete("mine", &own, Some(&section)).unwrap().settings;
    assert_eq!(settings["headers"], json!({ "x-title": "own", "x-org": "row" }));
    assert_eq!(settings["body"], json!({ "a": 1, "b": 2 }));
    assert_eq!(settings["auth"], json!({ "query": "key" }));
    let listed = rows().list(Some(&section));
    let mine = listed.iter().find(|row| row.name == "mine").unwrap();
    assert!(mine.is_of_the_file && listed.len() == table().len() + 1);
}

#[test]
fn an_error_of_a_row_names_the_row_and_the_member() {
    let base = json!({ "wire": "chat", "base_url": "https://a.test/v1" });
    for (members, path) in [
        (json!({ "wire": "smoke" }), vec!["x", "wire"]),
        (json!({ "wire": "codex-cli" }), vec!["x", "wire"]),
        (json!({ "base_url": "a.test" }), vec!["x", "base_url"]),
        (json!({ "base_url": "https://me:canary@a.test" }), vec!["x", "base_url"]),
        (json!({ "base_url": "https://{zone}.test" }), vec!["x", "base_url"]),
        (json!({ "parameters": { "model": "m" } }), vec!["x", "parameters", "model"]),
        (json!({ "parameters": { "A b": "m" } }), vec!["x", "parameters", "A b"]),
        (json!({ "variable": "sk-proj-canary-0123456789" }), vec!["x", "variable"]),
        (json!({ "auth": { "header": "a b" } }), vec!["x", "auth", "header"]),
        (json!({ "auth": "none", "variable": "HOUSE_KEY" }), vec!["x", "variable"]),
        (json!({ "settings": { "vendor": "y" } }), vec!["x", "settings", "vendor"]),
        (json!({ "wire": "messages", "auth": { "query": "key" } }), vec!["x", "auth"]),
        (json!({ "settings": { "call_id": "short" } }), vec!["x", "settings", "call_id"]),
        (json!({ "settings": { "base_url": "y" } }), vec!["x", "settings", "base_url"]),
        (json!({ "wire": "responses", "body": { "a": 1 } }), vec!["x", "body"]),
        (json!({ "path": "no-slash" }), vec!["x", "path"]),
        (json!({ "path": "/{zone}/{model}" }), vec!["x", "path"]),
        (json!({ "path": "/{model}/{model}" }), vec!["x", "path"]),
        (json!({ "framing": "lines" }), vec!["x", "framing"]),
        (json!({ "sigv4": { "service": "bedrock" } }), vec!["x", "sigv4"]),
        (json!({ "sigv4": { "service": "a b" } }), vec!["x", "sigv4", "service"]),
        (json!({ "wire": "gemini", "path": "/{model}" }), vec!["x", "path"]),
        (json!({ "settings": { "path": "/x" } }), vec!["x", "settings", "path"]),
        (json!({ "checked": "twice" }), vec!["x", "checked"]),
        (json!({ "colour": 1 }), vec!["x", "colour"]),
    ] {
        let mut row = base.clone();
        row.as_object_mut().unwrap().extend(entry(members.clone()));
        let error = rows().check(&json!({ "x": row })).unwrap_err();
        assert_eq!(error.path, path, "{members}: {error}");
        assert!(!error.to_string().contains("canary"), "{error}");
    }
    assert_eq!(rows().check(&json!({ "x": {} })).unwrap_err().path, ["x", "wire"]);
}
