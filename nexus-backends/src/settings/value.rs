//! Value of a variable or a header: a text, a variable of the host, or a credential.

use nexus_core::{SettingsError, looks_like_key, variable_name_fault};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

use super::CredentialSetting;

/// Value of a variable or a header.
#[derive(Clone, Debug, JsonSchema)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "a configuration has few of them")]
pub(crate) enum SettingValue {
    /// The value itself, which is no secret.
    Text(String),
    /// The variable of the host with this name.
    Variable {
        /// Name of the variable.
        variable: String,
    },
    /// A credential.
    Credential {
        /// Its source.
        credential: CredentialSetting,
    },
}

impl<'de> Deserialize<'de> for SettingValue {
    fn deserialize<Source: Deserializer<'de>>(source: Source) -> Result<Self, Source::Error> {
        // A person may have written a secret, so no error repeats the value.
        let wrong =
            || Source::Error::custom("must be a text, `{ variable: NAME }` or `{ credential: { … } }`");
        let value = match Value::deserialize(source)? {
            Value::String(text) => return Ok(Self::Text(text)),
            Value::Number(number) => return Ok(Self::Text(number.to_string())),
            Value::Bool(value) => return Ok(Self::Text(value.to_string())),
            Value::Object(members) if members.len() == 1 => members,
            _ => return Err(wrong()),
        };
        match (value.get("variable"), value.get("credential")) {
            (Some(Value::String(name)), None) => Ok(Self::Variable { variable: name.clone() }),
            (None, Some(setting)) => {
                let credential = CredentialSetting::deserialize(setting).map_err(|_| wrong())?;
                Ok(Self::Credential { credential })
            }
            _ => Err(wrong()),
        }
    }
}

impl SettingValue {
    /// Rejects a secret in the file. `path` leads to the value.
    pub(crate) fn check(&self, path: &[&str]) -> Result<(), SettingsError> {
        let wrong = |reason: &str| {
            let path = path.iter().map(|key| (*key).to_owned()).collect();
            Err(SettingsError { path, reason: reason.to_owned() })
        };
        match self {
            Self::Text(text) if text.contains('\0') => wrong("contains a NUL character"),
            Self::Text(text) if looks_like_key(text) => wrong(
                "looks like a key, and is not shown: name its source, such as `{ credential: { env: NAME } }`",
            ),
            Self::Credential { credential } if credential.is_aws() => {
                wrong("`credential: { aws: … }` signs requests, and is no token: name another source")
            }
            Self::Text(_) | Self::Credential { .. } => Ok(()),
            Self::Variable { variable } => variable_name_fault(variable).map_or(Ok(()), wrong),
        }
    }
}
