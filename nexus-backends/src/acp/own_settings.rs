//! Settings of the kind `acp` alone.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use nexus_core::{BuildContext, CredentialSource, SettingsError, variable_name_fault};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::settings::value::SettingValue;

/// Settings of this kind alone, as they are written.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct OwnSettings {
    /// An agent that Nexus knows, by its name in `nexus agent list`.
    pub(super) agent: Option<String>,
    /// Any other program that speaks the protocol on its standard input and output, and its arguments.
    #[schemars(length(min = 1))]
    pub(super) command: Option<Vec<String>>,
    /// The vendor whose model answers, for panels of several vendors. Default: that of the known agent, else the name of the
    /// program.
    vendor: Option<String>,
    /// Variables of the agent: a text, { variable: NAME } of the host's environment, or { credential: … } as for a backend.
    environment: BTreeMap<String, SettingValue>,
    /// Home of the agent. own: a folder of its own, stored with the conversation (the default for a known agent). user: that of the user; in
    /// the sandbox an empty folder at the same path (the default for a `command`).
    home: Option<AgentHome>,
    /// Folders below the user's home with the agent's own login, such as .local/share/opencode. They are writable in the sandbox, so
    /// that the agent can renew its login. Default: none.
    login_folders: Vec<PathBuf>,
}

/// Home of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum AgentHome {
    /// A folder of the conversation.
    Own,
    /// The user's home.
    User,
}

/// Settings of this kind alone, checked.
#[derive(Clone, Debug)]
pub(super) struct CheckedAgentSettings {
    pub(super) texts: BTreeMap<String, String>,
    pub(super) secrets: BTreeMap<String, Arc<dyn CredentialSource>>,
    pub(super) home: Option<AgentHome>,
    /// Paths below the user's home.
    pub(super) login_folders: Vec<PathBuf>,
}

impl CheckedAgentSettings {
    /// Checks the settings. An error names the key.
    pub(super) fn read(own: OwnSettings, context: &BuildContext) -> Result<Self, SettingsError> {
        let (mut texts, mut secrets) = (BTreeMap::new(), BTreeMap::new());
        for (name, value) in own.environment {
            if let Some(fault) = variable_name_fault(&name) {
                let path = ["environment", &name].map(str::to_owned).to_vec();
                return Err(SettingsError { path, reason: fault.to_owned() });
            }
            value.check(&["environment", &name])?;
            match value {
                SettingValue::Text(text) => {
                    texts.insert(name, text);
                }
                SettingValue::Variable { variable } => {
                    // A variable that is not set is left out, as in a shell.
                    if let Some(value) = context.environment.get(&variable) {
                        texts.insert(name, value.clone());
                    }
                }
                SettingValue::Credential { credential } => {
                    let source = credential.token_source(context).map_err(|error| SettingsError {
                        path: ["environment".to_owned(), name.clone()]
                            .into_iter()
                            .chain(error.path)
                            .collect(),
                        reason: error.reason,
                    })?;
                    secrets.insert(name, source);
                }
            }
        }
        let login_folders = own.login_folders.into_iter().map(|folder| below_home(&folder));
        Ok(Self { texts, secrets, home: own.home, login_folders: login_folders.collect::<Result<_, _>>()? })
    }
}

impl CheckedAgentSettings {
    /// Returns the name of the first variable.
    pub(super) fn first_variable(&self) -> Option<&str> {
        self.texts.keys().chain(self.secrets.keys()).map(String::as_str).min()
    }
}

/// Returns a path relative to the home, without `~/`.
fn below_home(folder: &Path) -> Result<PathBuf, SettingsError> {
    let below = folder.strip_prefix("~").unwrap_or(folder);
    let is_plain = below.components().all(|part| matches!(part, Component::Normal(_)))
        && !below.as_os_str().as_encoded_bytes().contains(&0);
    match is_plain && below.components().next().is_some() {
        true => Ok(below.to_owned()),
        false => {
            let reason = format!(
                "{:?} must be a folder below the home, such as .local/share/opencode",
                folder.display().to_string()
            );
            Err(SettingsError::new("login_folders", reason))
        }
    }
}
