//! Settings of a native backend in `nexus.yaml`: one set of keys for every dialect.

use std::{collections::BTreeMap, time::Duration};

use http::header::{HeaderMap, HeaderName, HeaderValue};
use nexus_core::{BuildContext, SettingsError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::retry::RetryPolicy;
use crate::host_list::HostList;
use crate::http::Network;
use crate::prices::Prices;
use crate::settings::{Billing, CredentialSetting, absolute, check_web_url, read_by_key};

/// Settings of a native backend. Every key may be left out.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NativeSettings {
    /// The server, up to and without /responses.
    pub(crate) base_url: Option<String>,
    pub(crate) credential: Option<CredentialSetting>,
    pub(crate) billing: Option<Billing>,
    /// The model of a request that names none.
    pub(crate) model: Option<String>,
    /// Headers that every request carries as well.
    pub(crate) headers: ExtraHeaders,
    /// Longest time until a connection is made, TLS included.
    #[schemars(range(min = 1))]
    pub(crate) connect_timeout_seconds: u64,
    /// Number of repetitions of one call of the model.
    pub(crate) retries: u32,
    /// Longest wait in all of one call of the model because the server asked for it.
    pub(crate) max_wait_seconds: u64,
    /// Largest event of the stream, or whole answer, in bytes.
    #[schemars(range(min = 1))]
    pub(crate) max_event_bytes: usize,
    /// Number of calls of one answer that run at once.
    #[schemars(range(min = 1))]
    pub(crate) parallel_tools: usize,
    /// After how many same calls with the same answer the turn ends. 0: never.
    pub(crate) repeated_calls: u32,
    /// Size of the model's context in tokens. When it is nearly full, results of older calls and older turns are
    /// dropped. Without it, the size in the server's model list applies, if the list states one; otherwise a
    /// conversation is shortened only after the server rejected it as too long.
    #[schemars(range(min = 1))]
    pub(crate) context_window: Option<u64>,
    /// Model of the same server that summarizes older turns before they are dropped. Its tokens and its cost are part of the
    /// turn. Without it, older turns are dropped without a summary.
    pub(crate) summary_model: Option<String>,
    /// Add the AGENTS.md files of a project to the system text of turns with tools for files.
    pub(crate) project_text: bool,
    /// Hosts that commands in the sandbox may reach, such as pypi.org, *.crates.io, localhost:8080 or 10.0.0.5. Without a port, an entry
    /// allows the ports 443 and 80. Commands have no network if the list is empty.
    pub(crate) command_hosts: HostList,
    /// Prices of models in US dollars for a million tokens, by the model's name, such as `{ gpt-x: { input: 2, output: 8 } }`.
    /// They give the cost of a turn, marked as computed, where the server reports none.
    pub(crate) prices: Prices,
    pub(crate) network: Network,
}

// A header's value may be a key, so `Debug` shows only the headers' names.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct ExtraHeaders(BTreeMap<String, String>);

impl std::fmt::Debug for ExtraHeaders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Default for NativeSettings {
    fn default() -> Self {
        Self {
            base_url: None,
            credential: None,
            billing: None,
            model: None,
            headers: ExtraHeaders::default(),
            connect_timeout_seconds: 10,
            retries: 3,
            max_wait_seconds: 20,
            max_event_bytes: 64 << 20,
            parallel_tools: 8,
            repeated_calls: 10,
            context_window: None,
            summary_model: None,
            project_text: true,
            command_hosts: HostList::default(),
            prices: Prices::default(),
            network: Network::default(),
        }
    }
}

/// Headers that the configuration must not set, with advice.
pub(crate) const RESERVED_HEADERS: [(&str, &str); 9] = [
    ("authorization", "name the token under `credential`"),
    ("proxy-authorization", "write the name and the password into `network.proxy`"),
    ("host", "set `base_url`"),
    ("accept", "its value is always text/event-stream, as required"),
    ("accept-encoding", "it is always identity"),
    ("content-type", "it is always application/json"),
    ("content-length", "Nexus sets it for each request"),
    ("connection", "connections are managed by Nexus: remove it"),
    ("transfer-encoding", "Nexus sets it for each request"),
];

/// Headers that contain keys. A key under `credential` is redacted, while a header is not known to be secret.
const KEY_HEADERS: [&str; 3] = ["api-key", "x-api-key", "x-goog-api-key"];

impl NativeSettings {
    /// Returns the configured credential; without one, Nexus's own login if the settings select a subscription.
    #[cfg(feature = "login")]
    pub(crate) fn credential_or(
        &self,
        own: crate::OwnLogin,
        context: &BuildContext,
    ) -> Result<Option<std::sync::Arc<dyn nexus_core::CredentialSource>>, SettingsError> {
        let reach = crate::own_login::ServerAccess {
            inherit_proxy: self.network.inherit_proxy,
            proxy: self.network.proxy.as_deref(),
            ca_file: self.network.ca_file.as_deref(),
            base_url: self.base_url.as_deref(),
        };
        let billing = self.billing.unwrap_or(Billing::Plan);
        crate::settings::credential_source(self.credential.as_ref(), billing, own, reach, context)
    }

    /// Parses the settings; an error names the key.
    pub(crate) fn read(settings: &Map<String, Value>, context: &BuildContext) -> Result<Self, SettingsError> {
        settings.get("prices").map_or(Ok(()), Prices::check)?;
        let mut read: Self = read_by_key(settings)?;
        read.network.ca_file = read.network.ca_file.map(|path| absolute(path, context));
        check_web_url("base_url", read.base_url.as_deref())?;
        read.extra_headers()?;
        read.command_hosts.check("command_hosts")?;
        if read.summary_model.as_ref().is_some_and(|model| model.trim().is_empty()) {
            return Err(SettingsError::new("summary_model", "must be the name of a model, or left out"));
        }
        Ok(read)
    }

    /// Returns the headers under `headers`. They are never shown, because a header may contain a key.
    pub(crate) fn extra_headers(&self) -> Result<HeaderMap, SettingsError> {
        let wrong = |name: &str, reason: String| SettingsError {
            path: vec!["headers".to_owned(), name.to_owned()],
            reason,
        };
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers.0 {
            let header = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| wrong(name, "this is not a valid header name".into()))?;
            if let Some((_, remedy)) = RESERVED_HEADERS.iter().find(|(reserved, _)| header == *reserved) {
                return Err(wrong(name, format!("this header cannot be set here: {remedy}")));
            }
            if KEY_HEADERS.iter().any(|key| header == *key) {
                return Err(wrong(name, "this header has a key: name the key under `credential`".to_owned()));
            }
            let mut value = HeaderValue::from_str(value)
                .map_err(|_| wrong(name, "this is not a valid header value".into()))?;
            value.set_sensitive(true);
            headers.insert(header, value);
        }
        Ok(headers)
    }

    /// Returns the limits for repetitions of a failed call.
    pub(crate) fn retry_policy(&self) -> RetryPolicy {
        RetryPolicy { retries: self.retries, max_wait: Duration::from_secs(self.max_wait_seconds) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use nexus_core::settings_schema;

    fn read(settings: Value) -> Result<NativeSettings, SettingsError> {
        let Value::Object(settings) = settings else { panic!("settings are an object") };
        NativeSettings::read(&settings, &BuildContext::in_home("/home").with_base_directory("/base"))
    }

    #[test]
    fn an_error_names_the_key() {
        for (settings, path) in [
            (json!({ "retrys": 2 }), vec!["retrys"]),
            (json!({ "retries": -1 }), vec!["retries"]),
            (json!({ "parallel_tools": 0 }), vec!["parallel_tools"]),
            (json!({ "prices": { "a": { "input": -1, "output": 0 } } }), vec!["prices", "a", "input"]),
            (json!({ "summary_model": " " }), vec!["summary_model"]),
            (json!({ "summary_model": ["a"] }), vec!["summary_model"]),
            (json!({ "base_url": "localhost" }), vec!["base_url"]),
            (json!({ "headers": { "Authorization": "canary" } }), vec!["headers", "Authorization"]),
            (json!({ "headers": { "X-Api-Key": "canary" } }), vec!["headers", "X-Api-Key"]),
            (json!({ "headers": { "a b": "canary" } }), vec!["headers", "a b"]),
            (json!({ "headers": { "x": "canary\n" } }), vec!["headers", "x"]),
            (json!({ "command_hosts": "pypi.org" }), vec!["command_hosts"]),
            (json!({ "command_hosts": ["pypi.org", "*"] }), vec!["command_hosts"]),
        ] {
            let error = read(settings).unwrap_err();
            assert_eq!(error.path, path);
            assert!(!error.to_string().contains("canary"), "{error}");
        }
    }

    #[test]
    fn every_key_has_the_default_that_the_schema_states() {
        let defaults = read(json!({})).unwrap();
        let schema = settings_schema::of::<NativeSettings>();
        let stated = |key: &str| schema["properties"][key]["default"].as_u64().unwrap();
        assert_eq!(stated("connect_timeout_seconds"), defaults.connect_timeout_seconds);
        assert_eq!(stated("retries"), u64::from(defaults.retries));
        assert_eq!(stated("max_wait_seconds"), defaults.max_wait_seconds);
        assert_eq!(stated("max_event_bytes"), defaults.max_event_bytes as u64);
        assert_eq!(stated("parallel_tools"), defaults.parallel_tools as u64);
        assert_eq!(stated("repeated_calls"), u64::from(defaults.repeated_calls));
    }

    #[test]
    fn no_password_is_shown() {
        let settings = read(json!({ "network": { "proxy": "http://me:canary@proxy.test" } })).unwrap();
        assert!(!format!("{settings:?}").contains("canary"));
        let settings = read(json!({ "headers": { "x-team-key": "canary" } })).unwrap();
        assert!(!format!("{:?}", settings.extra_headers().unwrap()).contains("canary"));
        assert!(!format!("{settings:?}").contains("canary"));
    }
}
