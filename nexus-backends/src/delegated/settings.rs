//! What `nexus.yaml` says about a delegated backend: one set of keys for every CLI.

use std::path::PathBuf;

use nexus_core::{BuildContext, SettingsError};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::auth::{StaticToken, TokenSetting};

/// Settings of a delegated backend. Every key may be left out.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    /// The program: a path, or a name to look for on the `PATH`.
    pub(crate) executable: Option<PathBuf>,
    /// Where the credential comes from. Without it the CLI's own login is used, if it has one.
    pub(crate) credential: Option<TokenSetting>,
    /// Who is expected to pay.
    pub(crate) billing: Option<Billing>,
    /// The vendor's endpoint, for a gateway or a simulator.
    pub(crate) base_url: Option<String>,
    /// Folder for the redacted raw output of each process, for bug reports.
    pub(crate) record: Option<PathBuf>,
    /// Longest line taken whole, in bytes. Default: 64 MiB.
    pub(crate) max_line_bytes: Option<usize>,
    /// What of the host's network settings the CLI is given.
    pub(crate) network: NetworkSettings,
}

/// What of the host's network settings a CLI is given.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NetworkSettings {
    /// Pass the host's proxy variables on. Default: no.
    pub(crate) inherit_proxy: bool,
    /// File of certificate authorities, in PEM, to trust as well.
    pub(crate) ca_file: Option<PathBuf>,
}

/// Who pays for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Billing {
    /// A subscription.
    Plan,
    /// A metered API key.
    Metered,
}

impl Billing {
    /// The word in `nexus.yaml`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Metered => "metered",
        }
    }
}

impl Settings {
    /// Reads the settings; an error names the key.
    pub(crate) fn read(settings: &Map<String, Value>, context: &BuildContext) -> Result<Self, SettingsError> {
        for (key, value) in settings {
            let alone = Value::Object(Map::from_iter([(key.clone(), value.clone())]));
            serde_json::from_value::<Self>(alone)
                .map_err(|error| SettingsError::new(key, error.to_string()))?;
        }
        let mut read: Self = serde_json::from_value(Value::Object(settings.clone()))
            .map_err(|error| SettingsError { path: Vec::new(), reason: error.to_string() })?;
        let absolute = |path: PathBuf| context.base_directory.join(path);
        read.record = read.record.map(absolute);
        read.network.ca_file = read.network.ca_file.map(absolute);
        // A bare name is looked for on the `PATH`; anything with a separator is a path.
        read.executable = read.executable.map(|path| match path.components().count() {
            0 | 1 => path,
            _ => absolute(path),
        });
        if let Some(url) = &read.base_url
            && !(url.starts_with("http://") || url.starts_with("https://"))
        {
            return Err(SettingsError::new("base_url", "must begin with http:// or https://"));
        }
        Ok(read)
    }

    /// The credential source that the settings name.
    pub(crate) fn credential_source(
        &self,
        context: &BuildContext,
    ) -> Result<Option<StaticToken>, SettingsError> {
        let Some(setting) = self.credential.clone() else { return Ok(None) };
        setting
            .into_source(&context.environment, &context.base_directory)
            .map(Some)
            .map_err(|reason| SettingsError::new("credential", reason))
    }

    /// JSON Schema of the settings.
    pub(crate) fn schema() -> Value {
        json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "executable": { "type": "string", "description": "The program: a path, or a name to look for on the PATH." },
                "credential": TokenSetting::schema(),
                "billing": { "enum": ["plan", "metered"], "description": "Who is expected to pay: a subscription, or a metered API key." },
                "base_url": { "type": "string", "description": "The vendor's endpoint, for a gateway or a simulator." },
                "record": { "type": "string", "description": "Folder for the redacted raw output of each process, for bug reports." },
                "max_line_bytes": { "type": "integer", "minimum": 1024, "description": "Longest line taken whole, in bytes. Default: 67108864." },
                "network": {
                    "type": "object",
                    "additionalProperties": false,
                    "properties": {
                        "inherit_proxy": { "type": "boolean", "description": "Pass the host's proxy variables on. Default: false." },
                        "ca_file": { "type": "string", "description": "File of certificate authorities, in PEM, to trust as well." },
                    },
                },
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(settings: Value) -> Result<Settings, SettingsError> {
        let Value::Object(settings) = settings else { panic!("settings are an object") };
        Settings::read(&settings, &BuildContext::new("/home", "/base"))
    }

    #[test]
    fn an_error_names_the_key() {
        assert_eq!(read(json!({ "billing": "both" })).unwrap_err().path, ["billing"]);
        assert_eq!(read(json!({ "excutable": "x" })).unwrap_err().path, ["excutable"]);
        assert_eq!(read(json!({ "base_url": "localhost" })).unwrap_err().path, ["base_url"]);
    }

    #[test]
    fn paths_are_relative_to_the_configuration() {
        let settings = read(json!({ "executable": "bin/x", "record": "rec" })).unwrap();
        assert_eq!(settings.executable.unwrap(), PathBuf::from("/base/bin/x"));
        assert_eq!(settings.record.unwrap(), PathBuf::from("/base/rec"));
        assert_eq!(read(json!({ "executable": "x" })).unwrap().executable.unwrap(), PathBuf::from("x"));
    }
}
