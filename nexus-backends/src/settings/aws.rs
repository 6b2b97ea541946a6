//! A key of Amazon Web Services: the member `aws` of `credential`.

use std::sync::Arc;

use nexus_core::{BuildContext, SettingsError};
use schemars::JsonSchema;
use serde::Deserialize;

use super::CredentialSetting;
use crate::auth::CredentialSource;

/// Key from the variables `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`, or from a profile.
// A person may write a key in place of the name, so `Debug` shows only if there is one.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct AwsSetting {
    /// Name of a profile in ~/.aws/credentials or ~/.aws/config. Default: the variables.
    profile: Option<String>,
}

impl AwsSetting {
    /// Returns the source of the key. Members of a program belong to the `credential_process` of a profile.
    #[cfg(feature = "aws")]
    pub(super) fn source(
        &self,
        setting: &CredentialSetting,
        context: &BuildContext,
    ) -> Result<Arc<dyn CredentialSource>, SettingsError> {
        use std::path::{Path, PathBuf};

        use super::command;
        use crate::auth::aws::{AwsKeys, ProfilePlace};

        let Some(name) = &self.profile else {
            command::refuse_members(setting)?;
            return Ok(Arc::new(AwsKeys::from_variables(&context.environment)));
        };
        let wrong = |reason: &str| SettingsError {
            path: ["credential", "aws", "profile"].map(str::to_owned).into(),
            reason: reason.to_owned(),
        };
        if nexus_core::looks_like_key(name) || is_key_id(name) {
            return Err(wrong("looks like a key, and is not shown: write the name of a profile"));
        }
        if name.trim().is_empty() || name.chars().any(char::is_control) || name.contains([']', '[']) {
            return Err(wrong("write the name of a profile, such as default"));
        }
        if setting.ttl.is_some() {
            return Err(SettingsError {
                path: vec!["credential".to_owned(), "ttl".to_owned()],
                reason: "is not read here, because `credential_process` prints the end of its key: remove it"
                    .to_owned(),
            });
        }
        let variable = |name: &str| context.environment.get(name).filter(|value| !value.is_empty());
        let home = variable("HOME").map(PathBuf::from);
        let file = |name: &str, default: &str| {
            match variable(name) {
            Some(path) => match (path.strip_prefix("~/"), &home) {
                (Some(rest), Some(home)) => Ok(home.join(rest)),
                _ => Ok(PathBuf::from(path)),
            },
            None => home.as_ref().map(|home| home.join(".aws").join(default)).ok_or_else(|| {
                wrong("the variable HOME, which leads to the profiles, is missing: set it, or AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE")
            }),
        }
        };
        // The program of a profile finds the same profiles as this process.
        let passed = [
            "AWS_CONFIG_FILE",
            "AWS_SHARED_CREDENTIALS_FILE",
            "AWS_CA_BUNDLE",
            "AWS_REGION",
            "AWS_DEFAULT_REGION",
        ];
        let names: Vec<String> =
            passed.iter().map(|&name| name.to_owned()).chain(setting.environment.iter().cloned()).collect();
        let folder = std::path::absolute(&context.base_directory);
        Ok(Arc::new(AwsKeys::from_profile(ProfilePlace {
            name: name.clone(),
            credentials: file("AWS_SHARED_CREDENTIALS_FILE", "credentials")?,
            config: file("AWS_CONFIG_FILE", "config")?,
            folder: folder.unwrap_or_else(|_| Path::new("/").to_owned()),
            environment: command::environment(&names, context)?,
            time_limit: command::duration("timeout", setting.timeout.as_deref())?,
        })))
    }

    /// Fails, because this build has no signatures.
    #[cfg(not(feature = "aws"))]
    pub(super) fn source(
        &self,
        _setting: &CredentialSetting,
        _context: &BuildContext,
    ) -> Result<Arc<dyn CredentialSource>, SettingsError> {
        Err(SettingsError {
            path: vec!["credential".to_owned(), "aws".to_owned()],
            reason: "this build of Nexus lacks the feature `aws`: name another source".to_owned(),
        })
    }
}

/// Returns true for the id of a key. Source: "IAM identifiers" of Amazon Web Services, unique ID prefixes.
#[cfg(feature = "aws")]
fn is_key_id(text: &str) -> bool {
    text.len() >= 16 && ["AKIA", "ASIA"].iter().any(|prefix| text.starts_with(prefix))
}

#[cfg(all(test, feature = "aws"))]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;

    fn source(value: Value, context: &BuildContext) -> Result<Arc<dyn CredentialSource>, SettingsError> {
        serde_json::from_value::<CredentialSetting>(value).unwrap().source(context)
    }

    #[tokio::test]
    async fn a_key_comes_from_the_variables_or_from_the_profile_of_the_home() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(".aws")).unwrap();
        let profile = "[work]\naws_access_key_id=AKIA2\naws_secret_access_key=canary2\n";
        std::fs::write(folder.path().join(".aws/credentials"), profile).unwrap();
        let home = folder.path().to_str().unwrap();
        let variables =
            [("HOME", home), ("AWS_ACCESS_KEY_ID", "AKIA1"), ("AWS_SECRET_ACCESS_KEY", "canary1")];
        let environment = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let context = BuildContext::in_home("/nowhere").with_environment(environment);
        for (setting, token) in [
            (json!({ "aws": {} }), "canary1"),
            (json!({ "aws": { "profile": "work" }, "timeout": "5s", "environment": ["X"] }), "canary2"),
        ] {
            let source = source(setting, &context).unwrap();
            let key = source.credential(Duration::ZERO).await.unwrap();
            assert_eq!(key.token.expose(), token);
            assert!(key.signing.is_some());
        }
    }

    #[test]
    fn a_wrong_member_is_named_and_a_key_is_not_shown() {
        let context = BuildContext::in_home("/nowhere");
        for (value, path) in [
            (json!({ "aws": { "profile": "AKIACANARY0123456789" } }), vec!["credential", "aws", "profile"]),
            (json!({ "aws": { "profile": " " } }), vec!["credential", "aws", "profile"]),
            (json!({ "aws": { "profile": "work" } }), vec!["credential", "aws", "profile"]),
            (json!({ "aws": { "profile": "work" }, "ttl": "5m" }), vec!["credential", "ttl"]),
            (json!({ "aws": {}, "timeout": "5s" }), vec!["credential", "timeout"]),
            (json!({ "aws": {}, "env": "A" }), vec!["credential"]),
            (json!({ "aws": {}, "account": "A" }), vec!["credential"]),
        ] {
            let error = source(value.clone(), &context).unwrap_err();
            assert_eq!(error.path, path, "{value}");
            assert!(!error.to_string().contains("CANARY"), "{error}");
        }
        let setting: CredentialSetting = serde_json::from_value(json!({ "aws": {} })).unwrap();
        assert_eq!(setting.token_source(&context).unwrap_err().path, ["credential", "aws"]);
        assert_eq!(format!("{setting:?}"), "{\"aws\"}");
    }
}
