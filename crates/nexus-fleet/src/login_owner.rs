//! The settings of a login that several machines share.

use std::path::PathBuf;

use nexus_core::SettingsError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{protocol::token_fault, sealing_key::PublicKey};

/// The one worker that stores a login, and the machines to which it lends access tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoginOwner {
    /// The owner's pool.
    pub pool: String,
    /// The owner's name in its pool.
    pub worker: String,
    /// The public key of the owner's machine, as `nexus fleet key` prints it there.
    pub key: String,
    /// The public keys of the machines that may get access tokens of the login. Default: none.
    #[serde(default)]
    pub shared_with: Vec<String>,
    /// True if the owner reaches the issuer through the proxy in its environment. Default: false.
    #[serde(default)]
    pub inherit_proxy: bool,
    /// PEM file of certificate authorities that the owner trusts as well before the issuer.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
}

impl LoginOwner {
    /// Checks that these settings can be used.
    ///
    /// # Errors
    ///
    /// [`SettingsError`], which names the key.
    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        for (key, name) in [("pool", &self.pool), ("worker", &self.worker)] {
            if let Some(fault) = token_fault(name) {
                return Err(SettingsError::new(key, format!("cannot be used in a subject: {fault}")));
            }
        }
        PublicKey::read(&self.key).map_err(|fault| SettingsError::new("key", fault))?;
        for (index, key) in self.shared_with.iter().enumerate() {
            PublicKey::read(key).map_err(|fault| SettingsError {
                path: vec!["shared_with".to_owned(), index.to_string()],
                reason: fault.to_owned(),
            })?;
        }
        Ok(())
    }

    /// Returns true if this names the worker `name` of `pool` as the owner.
    pub(crate) fn is_worker(&self, pool: &str, name: &str) -> bool {
        self.pool == pool && self.worker == name
    }

    /// Describes the owner in messages.
    pub(crate) fn describe(&self) -> String {
        format!("worker {} of pool {}", self.worker, self.pool)
    }
}
