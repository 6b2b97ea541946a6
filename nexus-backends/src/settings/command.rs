//! A credential that a program prints: the members of `credential` that accompany `command`.

use std::{path::Path, time::Duration};

use nexus_core::{BuildContext, SettingsError, looks_like_key, variable_name_fault};
use nexus_process::environment::{Environment, NetworkSettings};

use super::CredentialSetting;
use crate::auth::CommandToken;

/// Variables that a program finds its own login by: the person's folders, the agent of a keyring, the name of the user.
const PASSED: [&str; 8] = [
    "HOME",
    "USER",
    "LOGNAME",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
];

/// Longest duration that a member accepts. Source: our own choice.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

/// Returns the token that the program `words` prints.
pub(super) fn token(
    setting: &CredentialSetting,
    words: &[String],
    context: &BuildContext,
) -> Result<CommandToken, SettingsError> {
    let (program, arguments) = match words {
        [program, arguments @ ..] if !program.trim().is_empty() => (program, arguments),
        _ => return Err(wrong("command", "name the program, such as [gcloud, auth, print-access-token]")),
    };
    if words.iter().any(|word| looks_like_key(word)) {
        let reason = "contains a text that looks like a key, and is not shown: every process of the machine can read \
             the arguments of a program";
        return Err(wrong("command", reason));
    }
    if words.iter().any(|word| word.contains('\0')) {
        return Err(wrong("command", "contains a NUL character, which no argument can contain"));
    }
    // A bare name is looked up on the `PATH`; a value with a separator is a path.
    let program = match program.contains('/') {
        true => std::path::absolute(context.base_directory.join(program))
            .map_err(|error| wrong("command", &error.to_string()))?
            .into_os_string(),
        false => program.into(),
    };
    let folder = std::path::absolute(&context.base_directory);
    let folder = folder.unwrap_or_else(|_| Path::new("/").to_owned());
    let token = CommandToken::new(program, folder, environment(&setting.environment, context)?)
        .with_arguments(arguments)
        .with_account(setting.account.clone())
        .with_lifetime(duration("ttl", setting.ttl.as_deref())?)
        .with_time_limit(duration("timeout", setting.timeout.as_deref())?);
    Ok(token)
}

/// Rejects members that belong to `command` if the credential has another source.
pub(super) fn refuse_members(setting: &CredentialSetting) -> Result<(), SettingsError> {
    let named = [
        ("ttl", setting.ttl.is_some()),
        ("timeout", setting.timeout.is_some()),
        ("environment", !setting.environment.is_empty()),
    ];
    match named.iter().find(|(_, is_there)| *is_there) {
        Some((key, _)) => Err(wrong(key, "belongs to a program alone: remove it, or name one as `command`")),
        None => Ok(()),
    }
}

/// Builds the program's environment: the search path, the language, the network settings, what finds the person's own
/// login, and the named variables.
pub(super) fn environment(names: &[String], context: &BuildContext) -> Result<Environment, SettingsError> {
    if let Some(fault) = names.iter().find_map(|name| variable_name_fault(name)) {
        return Err(wrong("environment", fault));
    }
    let host = context.environment.iter().map(|(name, value)| (name.into(), value.into()));
    let environment =
        Environment::from_host(host).network(NetworkSettings::Pass).pass(PASSED).pass(names).build();
    environment.map_err(|error| wrong("environment", &error.to_string()))
}

pub(super) fn duration(key: &str, text: Option<&str>) -> Result<Option<Duration>, SettingsError> {
    let Some(text) = text else { return Ok(None) };
    match humantime::parse_duration(text.trim()) {
        Ok(duration) if duration > Duration::ZERO && duration <= LONGEST => Ok(Some(duration)),
        _ => Err(wrong(key, "must be a duration such as 50m or 30s, of at most 30 days")),
    }
}

fn wrong(key: &str, reason: &str) -> SettingsError {
    SettingsError { path: vec!["credential".to_owned(), key.to_owned()], reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::{Value, json};

    use super::*;

    fn setting(value: Value) -> CredentialSetting {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn an_invalid_member_is_named_and_a_key_is_not_shown() {
        let context = BuildContext::in_home("/nowhere");
        for (value, path) in [
            (json!({ "command": [] }), "command"),
            (json!({ "command": [" "] }), "command"),
            (json!({ "command": ["tool", "sk-ant-canary-0123456789abcdef"] }), "command"),
            (json!({ "command": ["tool", "a\u{0}b"] }), "command"),
            (json!({ "command": ["tool"], "ttl": "soon" }), "ttl"),
            (json!({ "command": ["tool"], "ttl": "0s" }), "ttl"),
            (json!({ "command": ["tool"], "timeout": "1000d" }), "timeout"),
            (
                json!({ "command": ["tool"], "environment": ["sk-ant-canary-0123456789abcdef"] }),
                "environment",
            ),
            (json!({ "env": "A", "ttl": "5m" }), "ttl"),
            (json!({ "file": "a", "environment": ["B"] }), "environment"),
        ] {
            let error = setting(value.clone()).source(&context).unwrap_err();
            assert_eq!(error.path, ["credential", path], "{value}");
            assert!(!error.to_string().contains("canary"), "{error}");
        }
        let error = setting(json!({ "command": ["tool"], "env": "A" })).source(&context).unwrap_err();
        assert_eq!(error.path, ["credential"]);
    }

    #[tokio::test]
    async fn a_program_beside_the_configuration_gets_the_allowed_variables_alone() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("print");
        std::fs::write(&program, "#!/bin/sh\necho \"$HOME:$PROFILE:$API_KEY:$1:$(pwd)\"\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        let environment =
            [("PATH", "/usr/bin:/bin"), ("HOME", "/home/me"), ("PROFILE", "p"), ("API_KEY", "canary")];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let context = BuildContext::in_home("/nowhere")
            .with_base_directory(folder.path())
            .with_environment(environment.into());
        let setting = setting(json!({
            "command": ["./print", "word"], "ttl": "50m", "timeout": "5s", "environment": ["PROFILE"],
        }));
        let source = setting.source(&context).unwrap();
        let credential = source.credential(Duration::ZERO).await.unwrap();
        let folder = folder.path().canonicalize().unwrap();
        assert_eq!(credential.token.expose(), format!("/home/me:p::word:{}", folder.display()));
        assert!(credential.expires_at.is_some());
        assert!(source.describe().ends_with("/print (`credential.command`)"), "{}", source.describe());
    }
}
