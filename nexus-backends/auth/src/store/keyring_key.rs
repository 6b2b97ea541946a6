//! API key in the keyring of the system, as configured by `credential: { keyring: NAME }`.

use nexus_core::Secret;

use super::{
    StoreError, TokenStore,
    keyring::{KeyringStore, SERVICE},
};
use crate::token_text::unusable;

/// Maximum length of a key's name, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// Keyring entry of one API key: the service is `nexus`, the user is the key's name.
#[derive(Clone, Debug)]
pub struct KeyringKey {
    name: String,
    store: KeyringStore,
}

impl KeyringKey {
    /// Creates the key with this name. Sends no request yet.
    ///
    /// # Errors
    ///
    /// [`StoreError`] for a name with other characters than ASCII letters, digits, `-`, `_` and `.`. This rule prevents
    /// a key from replacing a login.
    pub fn named(name: &str) -> Result<Self, StoreError> {
        if nexus_core::looks_like_key(name) {
            let reason = "the name of the key looks like a key and is not shown: choose a name such as \
                          `work`, and pass the key on standard input";
            return Err(StoreError::new("the keyring", reason.to_owned()));
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(is_plain) {
            return Err(StoreError::new(
                "the keyring",
                format!(
                    "{name:?} is not a valid name of a key: write up to {MAX_NAME_BYTES} letters, digits, \
                     hyphens, dots and underscores"
                ),
            ));
        }
        Ok(Self { name: name.to_owned(), store: KeyringStore::new(SERVICE, name) })
    }

    /// Returns the stored keys, sorted by name, without reading their values. Blocks.
    ///
    /// # Errors
    ///
    /// [`StoreError`], also if the system's keyring cannot be searched.
    pub fn list() -> Result<Vec<Self>, StoreError> {
        let mut names = KeyringStore::users(SERVICE)?;
        names.sort_unstable();
        names.dedup();
        // Logins use the same service, but their user names contain `@`, which a key's name cannot contain.
        Ok(names.iter().filter_map(|name| Self::named(name).ok()).collect())
    }

    /// Returns the name of the key.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the location of the key, for messages.
    pub fn place(&self) -> String {
        self.store.place()
    }

    /// Reads the key; `None` if it does not exist. Blocks.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub fn read(&self) -> Result<Option<Secret>, StoreError> {
        self.store.read()
    }

    /// Stores the key and replaces an earlier one. Trims white space around it. Blocks.
    ///
    /// # Errors
    ///
    /// [`StoreError`], also for a text that no HTTP header can contain.
    pub fn set(&self, key: &Secret) -> Result<(), StoreError> {
        let key = key.expose().trim();
        if key.is_empty() {
            return Err(StoreError::new(self.place(), "the key is empty"));
        }
        if let Some(reason) = unusable(key) {
            return Err(StoreError::new(self.place(), format!("the text is not a key: {reason}")));
        }
        self.store.prepare()?.commit(&Secret::new(key))
    }

    /// Removes the key. Returns true if it existed. Blocks.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub fn remove(&self) -> Result<bool, StoreError> {
        self.store.remove()
    }
}
