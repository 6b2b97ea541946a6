//! Persistent stores of logins.
//!
//! A store contains one text and does not parse it; [`mod@format`] does. All operations block, so they run on threads
//! for blocking work.
//!
//! | store | location of the login |
//! | --- | --- |
//! | [`FileStore`] | its own file, replaced atomically |
//! | `KeyringStore` | an entry of the system's keyring; with the feature `keyring` |
//! | [`LoginStore`] | the file, or the keyring if the file points to it |
//! | [`MemoryStore`] | the memory of the process |

mod file;
#[cfg(test)]
mod fixture;
mod folder;
pub mod format;
#[cfg(feature = "keyring")]
mod keyring;
#[cfg(feature = "keyring")]
mod keyring_key;
mod login_store;
mod memory;
mod pending;
mod strict;

use std::fmt;

use nexus_core::Secret;

pub use file::{DamagedText, FileStore};
pub use format::StoredLogin;
#[cfg(feature = "keyring")]
pub use keyring::KeyringStore;
#[cfg(feature = "keyring")]
pub use keyring_key::KeyringKey;
pub use login_store::{LoginStore, StorePlace};
pub use memory::MemoryStore;

/// Maximum size of a login's text that is read or written, in bytes.
const MAX_TEXT_BYTES: u64 = 1 << 20;

/// Stores the text of one login.
///
/// A writer holds the login's refresh lock; a reader needs no lock.
pub trait TokenStore: fmt::Debug + Send + Sync + 'static {
    /// Returns the location of the store, for messages.
    fn place(&self) -> String;

    /// Identifies the login, at least within this process. Two stores return the same value exactly if they store the
    /// same text. State outside the store, such as a pending write, is keyed by this value. A wrapper returns the value
    /// of the store that it wraps.
    fn identity(&self) -> String;

    /// Reads the text; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// [`StoreError`]. Nothing was changed: an unreadable text is never treated as missing.
    fn read(&self) -> Result<Option<Secret>, StoreError>;

    /// Prepares a write before a token is spent: allocates space for the text, and detects now what would prevent the
    /// write.
    ///
    /// # Errors
    ///
    /// [`StoreError`]. Nothing was changed.
    fn prepare(&self) -> Result<Box<dyn PreparedWrite>, StoreError>;

    /// Completes a write whose writer died between writing the whole text and putting it in place. `is_newer` compares
    /// the pending text with the current one. Returns true if the pending text was put in place. The caller holds the
    /// lock.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    fn recover(&self, is_newer: &dyn Fn(&Secret, Option<&Secret>) -> bool) -> Result<bool, StoreError>;

    /// Returns the text if it is unreadable and can be moved away for a new one. Returns `None` if the text does not
    /// exist, is readable, or is in a store that cannot contain an unreadable text.
    ///
    /// # Errors
    ///
    /// [`StoreError`]. Nothing was changed: the fault is not in the text.
    fn damaged(&self) -> Result<Option<DamagedText>, StoreError>;

    /// Removes the text and all leftovers of writes. Returns true if a text existed.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    fn remove(&self) -> Result<bool, StoreError>;
}

/// Prepared write. Dropping it leaves the store unchanged.
pub trait PreparedWrite: fmt::Debug + Send {
    /// Puts the text in place. When it returns, the text survives a power failure.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    fn commit(self: Box<Self>, text: &Secret) -> Result<(), StoreError>;
}

/// Reason why a store cannot be used. It contains no part of the text.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct StoreError {
    /// Location of the store.
    pub place: String,
    /// The fault, with advice.
    pub reason: String,
}

impl StoreError {
    /// Creates an error about the store at `place`.
    pub fn new(place: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { place: place.into(), reason: reason.into() }
    }
}
