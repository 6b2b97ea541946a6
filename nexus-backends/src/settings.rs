//! Settings that every backend shares: reading by key, billing, credential source, and paths and URLs in the notation
//! of `nexus.yaml`.

mod aws;
mod command;
#[cfg(feature = "cli")]
pub(crate) mod value;

#[cfg(feature = "cli")]
use std::path::Path;
use std::{fmt, path::PathBuf, sync::Arc};

use self::aws::AwsSetting;
use nexus_core::{BuildContext, SettingsError, looks_like_key, variable_name_fault};
use schemars::JsonSchema;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::auth::{CredentialSource, StaticToken};
use nexus_core::settings_schema;

/// The expected payer: a subscription, or a metered API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Billing {
    Plan,
    Metered,
}

impl Billing {
    /// Returns the name in `nexus.yaml`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Metered => "metered",
        }
    }
}

/// Parses settings; an error names the invalid key. Each key is parsed alone, so every field of `T` needs a default. A
/// number below the minimum of its schema is rejected.
pub(crate) fn read_by_key<T: DeserializeOwned + JsonSchema + 'static>(
    settings: &Map<String, Value>,
) -> Result<T, SettingsError> {
    let schema = settings_schema::shared::<T>();
    for (key, value) in settings {
        let alone = Value::Object(Map::from_iter([(key.clone(), value.clone())]));
        serde_json::from_value::<T>(alone).map_err(|error| SettingsError::new(key, error.to_string()))?;
        let least = schema["properties"][key]["minimum"].as_u64();
        if let (Some(least), Some(number)) = (least, value.as_u64())
            && number < least
        {
            return Err(SettingsError::new(key, format!("must be at least {least}")));
        }
    }
    serde_json::from_value(Value::Object(settings.clone()))
        .map_err(|error| SettingsError { path: Vec::new(), reason: error.to_string() })
}

/// Separates the settings of one kind, `Own`, from the settings that all backends of its sort share.
///
/// Fails if a value of the kind's own settings is invalid; the error names the key.
pub(crate) fn part<Own: DeserializeOwned + JsonSchema + 'static>(
    settings: &Map<String, Value>,
) -> Result<(Own, Map<String, Value>), SettingsError> {
    let keys = settings_schema::shared::<Own>();
    let (own, shared): (Map<_, _>, Map<_, _>) =
        settings.clone().into_iter().partition(|(key, _)| keys["properties"].get(key).is_some());
    Ok((read_by_key(&own)?, shared))
}

/// Makes the path absolute. A relative path is relative to the folder of the configuration.
pub(crate) fn absolute(path: PathBuf, context: &BuildContext) -> PathBuf {
    context.base_directory.join(path)
}

/// Makes the path absolute, as [`absolute`]. `~/` stands for the user's home.
#[cfg(feature = "cli")]
pub(crate) fn absolute_from_home(path: &Path, context: &BuildContext) -> PathBuf {
    match (path.strip_prefix("~"), context.environment.get("HOME")) {
        (Ok(below), Some(home)) => Path::new(home).join(below),
        _ => absolute(path.to_owned(), context),
    }
}

/// Rejects a URL that does not belong to a web server.
pub(crate) fn check_web_url(key: &str, url: Option<&str>) -> Result<(), SettingsError> {
    match url {
        Some(url) if !(url.starts_with("http://") || url.starts_with("https://")) => {
            Err(SettingsError::new(key, "must begin with http:// or https://"))
        }
        // The name and password would be shown wherever the address is.
        Some(url) if has_user(url) => {
            Err(SettingsError::new(key, "must not contain a user name or a password; name a `credential`"))
        }
        _ => Ok(()),
    }
}

/// Returns true if the URL has a user before its host, with an `@`.
fn has_user(url: &str) -> bool {
    let after_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
    after_scheme.split(['/', '?', '#', '\\']).next().is_some_and(|authority| authority.contains('@'))
}

/// Source of a credential: one of `env`, `file`, `keyring`, `command`, `aws` and `source`, with an optional `account`.
// A user may put a key into any of the fields by mistake, so `Debug` shows only which of them are set.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("oneOf" = [{ "required": ["env"] }, { "required": ["file"] }, { "required": ["keyring"] }, { "required": ["command"] }, { "required": ["aws"] }, { "required": ["source"] }]))]
pub(crate) struct CredentialSetting {
    /// Variable of the host's environment that holds the token.
    env: Option<String>,
    /// File, readable by its owner alone, that holds the token and nothing else.
    file: Option<PathBuf>,
    /// Name of the API key in the keyring of the system, as `nexus key set NAME` stores it.
    keyring: Option<String>,
    /// Program with its arguments that prints the token on one line, such as [gcloud, auth, print-access-token].
    command: Option<Vec<String>>,
    /// Key of Amazon Web Services, which signs requests: from variables, or from a profile.
    aws: Option<AwsSetting>,
    /// Lifetime of a token that the program printed, such as 50m. Default: not known, and reused for 5m.
    ttl: Option<String>,
    /// Longest run of the program. Default: 30s.
    timeout: Option<String>,
    /// Further variables of the host that the program gets, by name.
    environment: Vec<String>,
    /// Name of a credential source that the host's program registers.
    source: Option<String>,
    /// Account that the token belongs to, if the vendor requires its name.
    account: Option<String>,
}

impl fmt::Debug for CredentialSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = [
            ("env", self.env.is_some()),
            ("file", self.file.is_some()),
            ("keyring", self.keyring.is_some()),
            ("command", self.command.is_some()),
            ("aws", self.aws.is_some()),
            ("source", self.source.is_some()),
            ("account", self.account.is_some()),
        ];
        f.debug_set().entries(named.iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name)).finish()
    }
}

impl CredentialSetting {
    /// Rejects a key in place of the name of its location. The error never repeats the key.
    fn refuse_keys(&self) -> Result<(), SettingsError> {
        let wrong = |key: &str, reason: &str| SettingsError {
            path: vec!["credential".to_owned(), key.to_owned()],
            reason: reason.to_owned(),
        };
        if let Some(fault) = self.env.as_deref().and_then(variable_name_fault) {
            return Err(wrong("env", fault));
        }
        let file = self.file.as_ref().map(|file| file.to_string_lossy().into_owned());
        let names = [
            ("file", file, "name a file that contains the key, with mode 600"),
            ("keyring", self.keyring.clone(), "store the key with `nexus key set NAME`, and write NAME here"),
            ("source", self.source.clone(), "write the name of a source that the program registers"),
            ("account", self.account.clone(), "write the name of the account"),
        ];
        for (key, name, advice) in names {
            // Only the last part of a path matters, because folders may have any name.
            let last = name.as_deref().map(|name| name.rsplit('/').next().unwrap_or_default());
            if last.is_some_and(looks_like_key) {
                return Err(wrong(key, &format!("looks like a key, and is not shown: {advice}")));
            }
        }
        Ok(())
    }

    /// Returns true if the host's program lends the credential.
    pub(crate) fn is_of_the_host(&self) -> bool {
        self.source.is_some()
    }

    /// Reads the variable, remembers the file, or finds the source. An error names the setting.
    pub(crate) fn source(&self, context: &BuildContext) -> Result<Arc<dyn CredentialSource>, SettingsError> {
        self.refuse_keys()?;
        let wrong = |reason: String| SettingsError::new("credential", reason);
        if let Some(setting) = &self.aws {
            let others = [&self.env, &self.keyring, &self.source, &self.account];
            if self.file.is_some() || self.command.is_some() || others.iter().any(|other| other.is_some()) {
                return Err(wrong("`aws` is a source of its own: remove the other members".into()));
            }
            return setting.source(self, context);
        }
        if self.command.is_none() {
            command::refuse_members(self)?;
        }
        let token = match (&self.env, &self.file, &self.keyring, &self.command, &self.source) {
            (Some(name), None, None, None, None) => StaticToken::from_environment(name, &context.environment),
            (None, Some(file), None, None, None) => StaticToken::from_file(context.base_directory.join(file)),
            (None, None, Some(name), None, None) => token_in_keyring(name).map_err(wrong)?,
            (None, None, None, Some(words), None) => {
                return command::token(self, words, context).map(|token| Arc::new(token) as _);
            }
            (None, None, None, None, Some(name)) => {
                return self.source_of_the_host(name, context).map_err(wrong);
            }
            _ => {
                return Err(wrong(
                    "name one of `env`, `file`, `keyring`, `command`, `aws` and `source`".into(),
                ));
            }
        };
        Ok(Arc::new(match &self.account {
            Some(account) => token.with_account(account),
            None => token,
        }))
    }

    /// Like [`source`](Self::source), for a backend that cannot sign requests.
    pub(crate) fn token_source(
        &self,
        context: &BuildContext,
    ) -> Result<Arc<dyn CredentialSource>, SettingsError> {
        if self.is_aws() {
            return Err(SettingsError {
                path: vec!["credential".to_owned(), "aws".to_owned()],
                reason: "a token is sent here, and no request is signed: name another source".to_owned(),
            });
        }
        self.source(context)
    }

    /// Returns true if the credential is a key of Amazon Web Services.
    pub(crate) fn is_aws(&self) -> bool {
        self.aws.is_some()
    }

    fn source_of_the_host(
        &self,
        name: &str,
        context: &BuildContext,
    ) -> Result<Arc<dyn CredentialSource>, String> {
        if self.account.is_some() {
            return Err("a `source` already names its account".into());
        }
        context.credential_sources.get(name).cloned().ok_or_else(|| {
            let known: Vec<_> = context.credential_sources.keys().map(String::as_str).collect();
            match known.is_empty() {
                true => format!("the program registers no source of credentials, so {name:?} does not exist"),
                false => {
                    format!("the program registers no source {name:?}; it registers {}", known.join(", "))
                }
            }
        })
    }
}

/// Returns the configured credential; otherwise Nexus's own login, unless the backend is metered, because such a login
/// is a subscription.
#[cfg(feature = "login")]
pub(crate) fn credential_source(
    named: Option<&CredentialSetting>,
    billing: Billing,
    own: crate::OwnLogin,
    reach: crate::own_login::ServerAccess<'_>,
    context: &BuildContext,
) -> Result<Option<Arc<dyn CredentialSource>>, SettingsError> {
    match (named, billing) {
        (Some(setting), _) => setting.token_source(context).map(Some),
        (None, Billing::Plan) => own.source(context, reach).map(Some),
        (None, Billing::Metered) => Ok(None),
    }
}

#[cfg(feature = "keyring")]
fn token_in_keyring(name: &str) -> Result<StaticToken, String> {
    crate::auth::store::KeyringKey::named(name).map(StaticToken::from_keyring).map_err(|error| error.reason)
}

#[cfg(not(feature = "keyring"))]
fn token_in_keyring(_name: &str) -> Result<StaticToken, String> {
    Err("this build of Nexus lacks the feature `keyring`: name `env` or `file`".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn source(setting: Value) -> Result<Arc<dyn CredentialSource>, SettingsError> {
        let setting: CredentialSetting = serde_json::from_value(setting).unwrap();
        setting.source(&BuildContext::in_home("/nowhere/home").with_base_directory("/nowhere"))
    }

    #[test]
    fn an_address_holds_no_user_and_no_password() {
        for url in [
            "http://a.test/v1",
            "https://a.test:8443",
            "http://a.test/u@b",
            "https://a.test?u=a@b",
            "http://[::1]/",
        ] {
            assert!(check_web_url("base_url", Some(url)).is_ok(), "{url}");
        }
        for url in [
            "http://me:canary@a.test/v1",
            "https://canary@a.test",
            "http://:canary@a.test?x",
            "http://a@canary@a.test",
        ] {
            let error = check_web_url("base_url", Some(url)).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("canary"), "{url}");
        }
    }

    #[test]
    fn a_credential_has_one_place() {
        for setting in
            [json!({}), json!({ "env": "A", "keyring": "b" }), json!({ "file": "a", "keyring": "b" })]
        {
            let error = source(setting).unwrap_err().to_string();
            assert_eq!(
                error,
                "credential: name one of `env`, `file`, `keyring`, `command`, `aws` and `source`"
            );
        }
    }

    #[cfg(feature = "keyring")]
    #[test]
    fn a_key_in_the_keyring_is_named_by_its_name() {
        let source_of = |name: &str| source(json!({ "keyring": name }));
        assert_eq!(source_of("openai").unwrap().describe(), "the keyring (service nexus, user openai)");
        for name in ["", "openai-codex@/home", "two words"] {
            let error = source_of(name).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("credential: {name:?} is not a valid name of a key")),
                "{error}"
            );
        }
    }

    #[cfg(not(feature = "keyring"))]
    #[test]
    fn a_build_without_keyrings_says_so() {
        let error = source(json!({ "keyring": "openai" })).unwrap_err().to_string();
        assert_eq!(
            error,
            "credential: this build of Nexus lacks the feature `keyring`: name `env` or `file`"
        );
    }
}
