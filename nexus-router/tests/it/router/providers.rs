//! Backends that name a provider: completion by the registry's table and by the rows of the file.

use std::sync::Arc;

use nexus_core::{
    CompletedEntry, ConfigSection, ProviderCheck, ProviderSummary, Providers, Registry, SettingsError,
};
use nexus_router::{Problem, Router, json_schema};
use serde_json::{Map, Value, json};

use super::support::{context, registry};

/// Two providers of the kind `beta-native`: `near`, and `far`, whose address needs a region. Rows of the file have an address
/// alone.
#[derive(Debug)]
struct ProviderTable;

impl ConfigSection for ProviderTable {
    fn name(&self) -> &'static str {
        "providers"
    }

    fn schema(&self) -> Value {
        json!({ "description": "Providers." })
    }

    fn check(&self, value: &Value) -> Result<(), SettingsError> {
        for (name, row) in value.as_object().into_iter().flatten() {
            if !row["base_url"].is_string() {
                return Err(SettingsError {
                    path: vec![name.clone(), "base_url".into()],
                    reason: "is missing".into(),
                });
            }
        }
        Ok(())
    }
}

impl Providers for ProviderTable {
    fn list(&self, section: Option<&Value>) -> Vec<ProviderSummary> {
        let own = section.and_then(Value::as_object).into_iter().flat_map(Map::keys).map(String::as_str);
        let row = |name: &str| ProviderSummary {
            name: name.to_owned(),
            wire: "beta-native".to_owned(),
            base_url: String::new(),
            parameters: if name == "far" { vec!["region".to_owned()] } else { Vec::new() },
            variable: None,
            checked: ProviderCheck::Documentation,
            is_of_the_file: false,
            source: None,
        };
        ["far", "near"].into_iter().chain(own).map(row).collect()
    }

    fn complete(
        &self,
        provider: &str,
        entry: &Map<String, Value>,
        section: Option<&Value>,
    ) -> Result<CompletedEntry, SettingsError> {
        let mut settings = entry.clone();
        let address = match (provider, settings.remove("region")) {
            ("far", Some(region)) => format!("http://{}.test", region.as_str().unwrap_or_default()),
            ("far", None) => return Err(SettingsError::new("region", "is needed")),
            ("near", _) => "http://near.test".to_owned(),
            (own, _) => {
                section.and_then(|rows| rows[own]["base_url"].as_str()).unwrap_or_default().to_owned()
            }
        };
        settings.insert("base_url".to_owned(), address.into());
        Ok(CompletedEntry { kind: "beta-native".to_owned(), settings })
    }
}

fn with_table() -> Registry {
    registry().with_providers(Arc::new(ProviderTable))
}

fn load(backends: &str) -> Result<Router, Vec<Problem>> {
    let text = format!("backends:\n  {backends}\n");
    Router::from_str(&text, with_table(), context()).map_err(|error| error.all().to_vec())
}

fn message(backends: &str) -> String {
    let problems = load(backends).expect_err("the text was accepted");
    assert_eq!(problems.len(), 1, "{problems:?}");
    format!("{}:{} {}", problems[0].position.line, problems[0].position.column, problems[0])
}

#[test]
fn an_entry_with_a_provider_needs_no_kind() {
    for entry in [
        "mine: { provider: near }",
        "mine: { provider: near, kind: beta-native }",
        "mine: { provider: far, region: eu }",
        "beta-native: { provider: near }",
        "mine: { provider: own }\nproviders: { own: { base_url: 'http://own.test' } }",
    ] {
        load(entry).unwrap_or_else(|problems| panic!("{entry}: {problems:?}"));
    }
}

#[test]
fn a_mismatch_is_reported_where_it_is() {
    for (entry, at, words) in [
        ("mine: { provider: naer }", "2:21", "unknown provider \"naer\""),
        ("mine: { provider: another-one }", "2:21", "unknown provider \"another-one\"; valid: far, near"),
        (
            "mine: { provider: near, kind: alpha-cli }",
            "2:33",
            "the provider \"near\" is of kind \"beta-native\": leave `kind` out",
        ),
        ("alpha-cli: { provider: near }", "2:3", "\"alpha-cli\" is the name of a kind"),
        ("mine: { provider: far }", "2:9", "`region` of mine: is needed"),
        ("mine: { provider: near, region: eu }", "2:27", "unknown setting of beta-native \"region\""),
        ("mine: { provider: [near] }", "2:21", "`provider`"),
        (
            "near: { base_url: 'http://x.test' }",
            "2:3",
            "\"near\" is a provider: write `provider: near` in this entry",
        ),
        ("mine: { provider: own }\nproviders: { own: {} }", "3:19", "providers: own.base_url: is missing"),
    ] {
        let shown = message(entry);
        assert!(shown.starts_with(at) && shown.contains(words), "{entry}: {shown}");
    }
    let error = Router::from_str("backends: { a: { provider: near } }", registry(), context()).unwrap_err();
    assert!(error.to_string().contains("this build has no providers"), "{error}");
}

#[test]
fn the_schema_lists_the_providers_and_their_parameters() {
    let schema = json_schema(&with_table());
    let entries = schema["properties"]["backends"]["additionalProperties"]["anyOf"].as_array().unwrap();
    let by_provider = entries.iter().find(|entry| entry["required"] == json!(["provider"])).unwrap();
    let provider = &by_provider["properties"]["provider"];
    assert_eq!(provider["anyOf"][0], json!({ "enum": ["far", "near"] }));
    assert!(by_provider["properties"]["region"].is_object());
    assert_eq!(by_provider["properties"]["kind"], json!({ "const": "beta-native" }));
}
