//! Addresses and credentials of the servers.

use std::path::{Path, PathBuf};

use async_nats::ConnectOptions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::NatsError;

/// Addresses of the servers, and the credentials of this program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatsSettings {
    /// URLs of NATS servers. `tls://` requires encryption.
    pub servers: Vec<String>,
    /// Name of the program in the subjects of its inbox, which permissions can include.
    pub name: String,
    /// Credentials. `None`: the servers need none.
    pub credentials: Option<NatsCredentials>,
    /// PEM file of further certificate authorities to trust.
    pub ca_file: Option<PathBuf>,
}

/// Credentials of a program at the servers: exactly one of the three.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FleetCredentials")]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum NatsCredentials {
    /// A credentials file, as `nsc` makes it.
    File(PathBuf),
    /// A file that holds the seed of an NKey and nothing else.
    NkeyFile(PathBuf),
    /// A user, and the file that holds the password and nothing else.
    Password {
        /// The user.
        user: String,
        /// The file.
        file: PathBuf,
    },
}

impl NatsSettings {
    /// Reads the files of the credentials.
    pub(crate) async fn options(&self) -> Result<ConnectOptions, NatsError> {
        let unread = |file: &Path| {
            let file = file.display().to_string();
            move |source| NatsError::CredentialsFile { file, source }
        };
        let mut options = match &self.credentials {
            None => ConnectOptions::new(),
            Some(NatsCredentials::File(file)) => {
                ConnectOptions::with_credentials_file(file).await.map_err(unread(file))?
            }
            Some(NatsCredentials::NkeyFile(file)) => {
                let seed = std::fs::read_to_string(file).map_err(unread(file))?;
                ConnectOptions::with_nkey(seed.trim().to_owned())
            }
            Some(NatsCredentials::Password { user, file }) => {
                let password = std::fs::read_to_string(file).map_err(unread(file))?;
                // Editors end a file with a line break, but spaces may belong to the password.
                let password = password.trim_end_matches(['\r', '\n']).to_owned();
                ConnectOptions::with_user_and_password(user.clone(), password)
            }
        };
        if let Some(file) = &self.ca_file {
            options = options.add_root_certificates(file.clone());
        }
        if self.servers.iter().any(|server| server.starts_with("tls://")) {
            options = options.require_tls(true);
        }
        Ok(options)
    }

    /// Prefix of the subjects on which answers arrive. Permissions of an account can include it.
    pub(crate) fn inbox(&self) -> String {
        format!("_INBOX_{}", self.name)
    }
}
