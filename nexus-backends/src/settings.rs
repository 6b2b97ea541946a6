//! What the settings of every backend share: reading by key, who pays, where the credential comes from, and
//! paths and URLs as `nexus.yaml` writes them.

use std::path::PathBuf;

use nexus_core::{BuildContext, SettingsError};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use crate::auth::{StaticToken, TokenSetting};

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

    /// JSON Schema of the setting.
    pub(crate) fn schema() -> Value {
        json!({ "enum": ["plan", "metered"], "description": "Who is expected to pay: a subscription, or a metered API key." })
    }
}

/// Reads settings; an error names the key that is wrong. `T` takes each key alone: every field has a default.
pub(crate) fn read_by_key<T: DeserializeOwned>(settings: &Map<String, Value>) -> Result<T, SettingsError> {
    for (key, value) in settings {
        let alone = Value::Object(Map::from_iter([(key.clone(), value.clone())]));
        serde_json::from_value::<T>(alone).map_err(|error| SettingsError::new(key, error.to_string()))?;
    }
    serde_json::from_value(Value::Object(settings.clone()))
        .map_err(|error| SettingsError { path: Vec::new(), reason: error.to_string() })
}

/// The path, made absolute: what is relative is so to the folder of the configuration.
pub(crate) fn absolute(path: PathBuf, context: &BuildContext) -> PathBuf {
    context.base_directory.join(path)
}

/// Refuses a URL that is not one of a web server.
pub(crate) fn check_web_url(key: &str, url: Option<&str>) -> Result<(), SettingsError> {
    match url {
        Some(url) if !(url.starts_with("http://") || url.starts_with("https://")) => {
            Err(SettingsError::new(key, "must begin with http:// or https://"))
        }
        _ => Ok(()),
    }
}

/// The credential source that the setting `credential` names.
pub(crate) fn credential_source(
    setting: Option<&TokenSetting>,
    context: &BuildContext,
) -> Result<Option<StaticToken>, SettingsError> {
    let Some(setting) = setting.cloned() else { return Ok(None) };
    setting
        .into_source(&context.environment, &context.base_directory)
        .map(Some)
        .map_err(|reason| SettingsError::new("credential", reason))
}
