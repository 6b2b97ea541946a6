//! An API key in the keyring of the system, as `credential: { keyring: NAME }` names it.

use nexus_core::Secret;

use super::{
    StoreError, TokenStore,
    keyring::{KeyringStore, SERVICE},
};
use crate::token_text::unusable;

/// Longest name of a key, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// The entry of one API key in the keyring: service `nexus`, and its name for the user.
#[derive(Clone, Debug)]
pub struct KeyringKey {
    name: String,
    store: KeyringStore,
}

impl KeyringKey {
    /// Creates the key of this name. Sends no request yet.
    ///
    /// # Errors
    ///
    /// [`StoreError`] for a name with other characters than ASCII letters, digits, `-`, `_` and `.`. So a key
    /// never replaces a login.
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

    /// The keys that are kept, by name. What is in them is not read. Blocks.
    ///
    /// # Errors
    ///
    /// [`StoreError`], also where the system's keyring cannot be searched.
    pub fn list() -> Result<Vec<Self>, StoreError> {
        let mut names = KeyringStore::users(SERVICE)?;
        names.sort_unstable();
        names.dedup();
        // Logins stand under the same service, by names that no key can have.
        Ok(names.iter().filter_map(|name| Self::named(name).ok()).collect())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its location, for messages.
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

    /// Puts the key there, in place of the one before. White space around it is left out. Blocks.
    ///
    /// # Errors
    ///
    /// [`StoreError`], also for a text that no request could carry.
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

    /// Removes the key. Returns whether there was one. Blocks.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub fn remove(&self) -> Result<bool, StoreError> {
        self.store.remove()
    }
}
