//! One row of the table of providers: its members and their rules.

use std::{collections::BTreeMap, sync::Arc};

use nexus_core::{BackendKind, ProviderCheck, SettingsError, variable_name_fault};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::native::call_route::{CallRoute, StreamFraming};
use crate::native::key_placement::KeyPlacement;
use crate::native::signature::is_scope_name;
use crate::settings::check_web_url;

/// Wires whose kinds send a key in a header of their own by default, and take `key_header` in place of `auth`.
pub(super) const OWN_KEY_HEADERS: [(&str, &str); 2] =
    [("messages", "x-api-key"), ("gemini", "x-goog-api-key")];

/// A provider, as data.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ProviderRow {
    /// Name of the company or program, for messages. Default: the name of the row.
    pub(in crate::generic) title: Option<String>,
    /// Kind of backend that speaks the wire of the server, such as responses, chat or messages.
    pub(in crate::generic) wire: String,
    /// Address of the server. A word in braces stands for the parameter of that name.
    pub(in crate::generic) base_url: String,
    /// Path of a call below base_url, with `{model}` for the name of the model. Default: the path of the wire. Words in braces
    /// stand for parameters here too.
    pub(super) path: Option<String>,
    /// Parameters in the query of every call.
    pub(super) query: BTreeMap<String, String>,
    /// Framing of streamed answers. Default: sse.
    pub(super) framing: StreamFraming,
    /// Members that an entry must have for the address, each with its meaning, such as `{ region: "AWS region" }`.
    pub(super) parameters: BTreeMap<String, String>,
    /// Environment variable that usually holds the key. It is used where an entry names no credential.
    pub(in crate::generic) variable: Option<String>,
    /// Place of the key in a request. Default: bearer.
    pub(super) auth: KeyPlacement,
    /// Signature of requests, where an entry has a credential of the sort `aws`. Its region is the parameter `region`.
    pub(super) sigv4: Option<RowSignature>,
    /// Beginning of the provider's keys, by which a key for another provider is recognised. Only rows of Nexus have an effect.
    pub(super) key_prefix: Option<String>,
    /// The company that runs the server, as the spread of a panel counts it. Default: the host of the server. A cloud counts as
    /// itself, not as the maker of a model, because a row does not know which models an account has there.
    pub(super) vendor: Option<String>,
    /// Headers of every request. Those of the entry win.
    pub(super) headers: BTreeMap<String, String>,
    /// Members of every request. Those of the entry win.
    pub(super) body: Map<String, Value>,
    /// Settings of the kind for what the server does differently. Those of the entry win.
    pub(in crate::generic) settings: Map<String, Value>,
    /// Evidence for the row. Default: documentation, so nothing was sent to the service.
    pub(super) checked: ProviderCheck,
    /// Page that describes the server's interface.
    pub(super) source: Option<String>,
}

/// Signature of requests, as a row states it.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RowSignature {
    /// Name of the service in signatures, such as bedrock.
    pub(super) service: String,
}

/// Settings that a row must not set, with advice.
const RESERVED: [(&str, &str); 13] = [
    ("kind", "set `wire`"),
    ("provider", "a row cannot use another row"),
    ("base_url", "set `base_url` of the row"),
    ("credential", "set `variable`, or name the credential in the entry"),
    ("vendor", "set `vendor` of the row"),
    ("headers", "set `headers` of the row"),
    ("body", "set `body` of the row"),
    ("auth", "set `auth` of the row"),
    ("key_header", "set `auth` of the row"),
    ("path", "set `path` of the row"),
    ("query", "set `query` of the row"),
    ("framing", "set `framing` of the row"),
    ("sigv4", "set `sigv4` of the row"),
];

impl ProviderRow {
    /// Reads a row of a file. `kinds` are the wires of this build. The error names the member.
    pub(super) fn read(value: &Value, kinds: &[Arc<dyn BackendKind>]) -> Result<Self, SettingsError> {
        let row: Self = SettingsError::reading(value)?;
        row.check(kinds)?;
        Ok(row)
    }

    /// Checks the members, as far as that needs no entry.
    pub(super) fn check(&self, kinds: &[Arc<dyn BackendKind>]) -> Result<(), SettingsError> {
        let wrong = |path: &[&str], reason: &str| {
            Err(SettingsError {
                path: path.iter().map(|&key| key.to_owned()).collect(),
                reason: reason.to_owned(),
            })
        };
        let Some(kind) = kinds.iter().find(|kind| kind.name() == self.wire) else {
            let known = kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
            return wrong(&["wire"], &format!("must be a wire of this build: {known}"));
        };
        if self.base_url.trim().is_empty() {
            return wrong(&["base_url"], "name the address of the server");
        }
        check_web_url("base_url", Some(&self.base_url))?;
        let path = self.path.as_deref().unwrap_or("/");
        // Every word in braces is a parameter, except the model in a path.
        let names = placeholders(&self.base_url).map(|name| ("base_url", name));
        let in_path = placeholders(path).filter(|name| *name != "model").map(|name| ("path", name));
        for (key, name) in names.chain(in_path) {
            if !self.parameters.contains_key(name) {
                return wrong(&[key], &format!("`{{{name}}}` is not among `parameters`: add it there"));
            }
        }
        // Any value is good enough here, because only the form of the path is checked.
        let filled = self.parameters.keys().fold(path.to_owned(), |path, name| fill(&path, name, "x"));
        if let Some(fault) = CallRoute::path_fault(&filled) {
            return wrong(&["path"], fault);
        }
        if let Some(RowSignature { service }) = &self.sigv4 {
            if !is_scope_name(service) {
                return wrong(
                    &["sigv4", "service"],
                    "must consist of at most 63 lower-case letters, digits and `-`",
                );
            }
            // The region is a part of each signature.
            if !self.parameters.contains_key("region") {
                return wrong(&["sigv4"], "needs the parameter `region`: add it to `parameters`");
            }
        }
        let schema = kind.settings_schema();
        let is_setting = |key: &str| schema["properties"].get(key).is_some();
        let call = [
            ("path", self.path.is_some()),
            ("query", !self.query.is_empty()),
            ("framing", self.framing != StreamFraming::default()),
            ("sigv4", self.sigv4.is_some()),
        ];
        if let Some((key, _)) = call.iter().find(|(key, is_there)| *is_there && !is_setting(key)) {
            return wrong(&[key], &format!("the wire {} writes it itself: remove it", self.wire));
        }
        for name in self.parameters.keys() {
            let is_word = !name.is_empty()
                && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
            if !is_word {
                return wrong(&["parameters", name], "must consist of lower-case letters, digits and `_`");
            }
            // An entry has its parameters beside its settings, so their names must differ.
            if is_setting(name) {
                return wrong(&["parameters", name], "is a setting of the wire: choose another name");
            }
        }
        if let Some(fault) = self.variable.as_deref().and_then(variable_name_fault) {
            return wrong(&["variable"], fault);
        }
        if self.auth == KeyPlacement::None && self.variable.is_some() {
            return wrong(
                &["variable"],
                "is not read, because `auth: none` sends no key: remove one of the two",
            );
        }
        self.auth.check("auth")?;
        if let Some((_, header)) = OWN_KEY_HEADERS.iter().find(|(wire, _)| *wire == self.wire) {
            let is_possible = match &self.auth {
                KeyPlacement::Bearer | KeyPlacement::None => true,
                KeyPlacement::Header(name) => name.eq_ignore_ascii_case(header),
                KeyPlacement::Query(_) => false,
            };
            if !is_possible {
                let reason = format!("this wire sends a key as bearer, or in the header {header}");
                return wrong(&["auth"], &reason);
            }
        }
        for key in self.settings.keys() {
            if let Some((_, advice)) = RESERVED.iter().find(|(reserved, _)| reserved == key) {
                return wrong(&["settings", key], advice);
            }
            if !is_setting(key) {
                return wrong(&["settings", key], &format!("is not a setting of the wire {}", self.wire));
            }
        }
        if !self.body.is_empty() && !is_setting("body") {
            return wrong(&["body"], &format!("the wire {} has no further members", self.wire));
        }
        Ok(())
    }
}

/// Replaces a parameter in a base URL or a path.
pub(super) fn fill(text: &str, parameter: &str, value: &str) -> String {
    text.replace(&format!("{{{parameter}}}"), value)
}

/// Returns the words in braces of a base URL or a path.
pub(super) fn placeholders(base_url: &str) -> impl Iterator<Item = &str> {
    base_url.split('{').skip(1).filter_map(|rest| rest.split_once('}').map(|(name, _)| name))
}
