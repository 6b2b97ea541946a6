//! Settings of a call's address, framing and signature, which the kinds for any server share.

use std::collections::BTreeMap;

use nexus_core::SettingsError;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::native::call_route::{CallRoute, StreamFraming};
use crate::native::signature::SignatureScope;
use crate::settings::part;
use nexus_core::settings_schema;

/// Address, framing and signature of calls.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct CallSettings {
    /// Path of a call below base_url, such as `/models/{model}:streamRawPredict`. `{model}` stands for the name of the
    /// model, percent-encoded. Default: the path of the wire.
    path: Option<String>,
    /// Parameters in the query of every call, such as `{ api-version: "2024-10-21" }`.
    query: BTreeMap<String, String>,
    /// Framing of streamed answers: server-sent events, or the binary messages of Amazon Web Services. Default: sse.
    framing: StreamFraming,
    /// Scope of the signature of requests, for a credential of the sort `aws`.
    sigv4: Option<SignatureScope>,
}

impl CallSettings {
    /// Separates these settings from the others, and checks them.
    pub(super) fn part(settings: &Map<String, Value>) -> Result<(Self, Map<String, Value>), SettingsError> {
        let (own, others) = part::<Self>(settings)?;
        if let Some(fault) = own.path.as_deref().and_then(CallRoute::path_fault) {
            return Err(SettingsError::new("path", fault));
        }
        if let Some(name) = own.query.keys().find(|name| name.is_empty()) {
            return Err(SettingsError {
                path: vec!["query".to_owned(), name.clone()],
                reason: "name the parameter".to_owned(),
            });
        }
        if let Some(scope) = &own.sigv4 {
            scope.check("sigv4")?;
        }
        Ok((own, others))
    }

    /// Adds these settings to the schema of a kind.
    pub(super) fn add_to(schema: &mut Value) {
        let own = settings_schema::of::<Self>();
        if let (Some(all), Some(own)) = (schema["properties"].as_object_mut(), own["properties"].as_object())
        {
            all.extend(own.clone());
        }
    }

    /// Returns the address and the framing of calls.
    pub(super) fn route(&self) -> CallRoute {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(&self.query);
        // A blank as `+` has two readings, so a signature of it may be refused.
        let query = query.finish().replace('+', "%20");
        let query = Some(query).filter(|query| !query.is_empty());
        CallRoute { path: self.path.clone(), query, framing: self.framing }
    }

    /// Returns the scope of signatures.
    pub(super) fn scope(&self) -> Option<SignatureScope> {
        self.sigv4.clone()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_settings_of_a_call_are_read_and_a_fault_names_its_key() {
        let settings = json!({
            "path": "/deployments/{model}/x", "query": { "api-version": "a b" }, "framing": "aws-event-stream",
            "sigv4": { "service": "bedrock", "region": "eu-west-1" }, "model": "m",
        });
        let (own, others) = CallSettings::part(settings.as_object().unwrap()).unwrap();
        let route = own.route();
        assert_eq!(route.query.as_deref(), Some("api-version=a%20b"));
        assert_eq!(
            (route.framing, Value::Object(others)),
            (StreamFraming::AwsEventStream, json!({ "model": "m" }))
        );
        for (settings, path) in [
            (json!({ "path": "x" }), vec!["path"]),
            (json!({ "query": { "": "x" } }), vec!["query", ""]),
            (json!({ "query": ["x"] }), vec!["query"]),
            (json!({ "framing": "lines" }), vec!["framing"]),
            (json!({ "sigv4": { "service": "a b", "region": "x" } }), vec!["sigv4", "service"]),
            (json!({ "sigv4": { "service": "bedrock", "region": "" } }), vec!["sigv4", "region"]),
        ] {
            assert_eq!(
                CallSettings::part(settings.as_object().unwrap()).unwrap_err().path,
                path,
                "{settings}"
            );
        }
    }
}
