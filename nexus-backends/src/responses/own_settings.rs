//! Settings that one dialect takes beside those of every native backend.

use nexus_core::SettingsError;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use super::settings::NativeSettings;
use crate::settings::read_by_key;

/// Parts what belongs to the dialect, by its `keys`, from what every native backend takes.
///
/// Fails where a value of the dialect's own cannot be used; the error names the key.
pub(crate) fn part<Own: DeserializeOwned>(
    settings: &Map<String, Value>,
    keys: &[&str],
) -> Result<(Own, Map<String, Value>), SettingsError> {
    let (own, shared): (Map<_, _>, Map<_, _>) =
        settings.clone().into_iter().partition(|(key, _)| keys.contains(&key.as_str()));
    Ok((read_by_key(&own)?, shared))
}

/// The schema of every native backend's settings, with the `own` properties of a dialect.
pub(crate) fn schema(own: Value) -> Value {
    let mut schema = NativeSettings::schema();
    if let (Some(Value::Object(all)), Value::Object(own)) = (schema.get_mut("properties"), own) {
        all.extend(own);
    }
    schema
}

/// The setting of a kind whose server asks for the version of its vendor's program.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ClientVersion {
    client_version: Option<String>,
}

impl ClientVersion {
    const KEY: &str = "client_version";

    /// Parts the setting from the others. Its value, or else `default`, can stand in a header and in a query.
    pub(crate) fn part(
        settings: &Map<String, Value>,
        default: &str,
    ) -> Result<(String, Map<String, Value>), SettingsError> {
        let (own, shared) = part::<Self>(settings, &[Self::KEY])?;
        let version = own.client_version.unwrap_or_else(|| default.to_owned());
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        match !version.is_empty() && version.chars().all(fits) {
            true => Ok((version, shared)),
            false => Err(SettingsError::new(Self::KEY, format!("must be a version such as {default}"))),
        }
    }

    /// The schema of every native backend's settings, and of this one.
    pub(crate) fn schema(default: &str) -> Value {
        let description =
            format!("The version of the vendor's program that we keep up with. Default: {default}.");
        schema(json!({ "client_version": { "type": "string", "description": description } }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(default)]
    struct Own {
        size: Option<u32>,
    }

    fn parted(settings: &Value) -> Result<(Own, Map<String, Value>), SettingsError> {
        part(settings.as_object().unwrap(), &["size"])
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
        let schema = schema(json!({ "size": { "type": "integer" } }));
        assert!(schema["properties"]["size"].is_object());
        assert!(schema["properties"]["base_url"].is_object());
    }
}
