//! Settings of one dialect in addition to those of every native backend.

#[cfg(feature = "login")]
use std::sync::Arc;

use nexus_core::SettingsError;
#[cfg(feature = "login")]
use nexus_core::{BackendId, BuildContext, ExecutionBackend};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::settings::NativeSettings;
#[cfg(feature = "login")]
use super::{dialect::Dialect, kind};
pub(crate) use crate::settings::part;
use nexus_core::settings_schema;

/// Returns the schema of every native backend's settings, with those of a dialect, `Own`.
pub(crate) fn schema<Own: JsonSchema + 'static>() -> Value {
    settings_schema::with_own::<NativeSettings, Own>()
}

/// Endpoint of a vendor's subscription, as a backend kind. If the settings name no credential, the backend uses Nexus's
/// own login.
#[cfg(feature = "login")]
#[derive(Debug)]
pub(crate) struct SubscriptionEndpoint {
    pub(crate) base_url: &'static str,
    pub(crate) login: crate::OwnLogin,
}

#[cfg(feature = "login")]
impl SubscriptionEndpoint {
    /// Builds a backend. `dialect` creates the endpoint's dialect from the settings.
    pub(crate) fn build<D: Dialect>(
        &self,
        id: BackendId,
        settings: &Map<String, Value>,
        context: &BuildContext,
        dialect: impl FnOnce(&NativeSettings) -> D,
    ) -> Result<Arc<dyn ExecutionBackend>, SettingsError> {
        let mut settings = NativeSettings::read(settings, context)?;
        settings.base_url.get_or_insert_with(|| self.base_url.to_owned());
        let credential = settings.credential_or(self.login, context)?;
        kind::build(id, Arc::new(dialect(&settings)), credential, &settings, context)
    }
}

/// The setting of a kind whose server asks for the version of its vendor's program.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct ClientVersion {
    /// The version of the vendor's program that we keep up with.
    client_version: Option<String>,
}

impl ClientVersion {
    const KEY: &str = "client_version";

    /// Separates this setting from the others. Its value, or else `default`, must fit into a header and a query.
    pub(crate) fn part(
        settings: &Map<String, Value>,
        default: &str,
    ) -> Result<(String, Map<String, Value>), SettingsError> {
        let (own, shared) = part::<Self>(settings)?;
        let version = own.client_version.unwrap_or_else(|| default.to_owned());
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        match !version.is_empty() && version.chars().all(fits) {
            true => Ok((version, shared)),
            false => Err(SettingsError::new(Self::KEY, format!("must be a version such as {default}"))),
        }
    }

    /// Returns the schema of every native backend's settings, and of this one.
    pub(crate) fn schema(default: &str) -> Value {
        let mut schema = schema::<Self>();
        schema["properties"][Self::KEY]["default"] = default.into();
        schema
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, Default, Deserialize, JsonSchema, PartialEq)]
    #[serde(default)]
    struct Own {
        size: Option<u32>,
    }

    fn parted(settings: &Value) -> Result<(Own, Map<String, Value>), SettingsError> {
        part(settings.as_object().unwrap())
    }

    #[test]
    fn what_is_not_the_dialects_is_left_to_the_others() {
        let (own, shared) = parted(&json!({ "size": 3, "model": "x" })).unwrap();
        assert_eq!(own, Own { size: Some(3) });
        assert_eq!(Value::Object(shared), json!({ "model": "x" }));
    }

    #[test]
    fn an_error_names_the_key() {
        assert_eq!(parted(&json!({ "size": "big" })).unwrap_err().path, ["size"]);
    }

    #[test]
    fn a_version_that_no_query_could_hold_is_refused() {
        let version = |settings: Value| {
            ClientVersion::part(settings.as_object().unwrap(), "1.2.3").map(|(version, _)| version)
        };
        assert_eq!(version(json!({})).unwrap(), "1.2.3");
        assert_eq!(version(json!({ "client_version": "2.0.0-rc_1" })).unwrap(), "2.0.0-rc_1");
        for wrong in ["", "1 2", "1&x=2", "1\n2"] {
            assert_eq!(version(json!({ "client_version": wrong })).unwrap_err().path, ["client_version"]);
        }
    }

    #[test]
    fn the_schema_has_both() {
        let schema = schema::<Own>();
        assert!(schema["properties"]["size"].is_object());
        assert!(schema["properties"]["base_url"].is_object());
    }
}
