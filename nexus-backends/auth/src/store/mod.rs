//! Stores of logins, between runs.
//!
//! A store keeps one text and does not parse it; [`mod@format`] does. Everything here blocks, so it is called on a thread
//! that may block.
//!
//! | store | keeps it in |
//! | --- | --- |
//! | [`FileStore`] | a file of its own, replaced as a whole |
//! | `KeyringStore` | an entry of the system's keyring; with the feature `keyring` |
//! | [`LoginStore`] | either, with the file saying which |
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

/// Largest text of a login that is read or written, in bytes.
const MAX_TEXT_BYTES: u64 = 1 << 20;

/// Keeps the text of one login.
///
/// A writer holds the login's refresh lock; a reader need not.
pub trait TokenStore: fmt::Debug + Send + Sync + 'static {
    /// Returns its location, for messages.
    fn place(&self) -> String;

    /// Identifies the login, at least within this process. Stores that keep the same text return the same value, and stores
    /// that keep different texts do not: state that is kept outside of the store, such as a pending write, is keyed by it. A
    /// wrapper returns the value of the store that it wraps.
    fn identity(&self) -> String;

    /// Reads the text; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// [`StoreError`]. Nothing was changed: an unreadable text is never treated as missing.
    fn read(&self) -> Result<Option<Secret>, StoreError>;

    /// Makes sure, before anything is spent, that a text can be written: the space for it is taken, and what keeps
    /// it from being written is found now.
    ///
    /// # Errors
    ///
    /// [`StoreError`]. Nothing was changed.
    fn prepare(&self) -> Result<Box<dyn PreparedWrite>, StoreError>;

    /// Completes a write whose writer died after the whole text was written and before it was put in place. `is_newer` compares
    /// the text found with the current one. Returns whether it was put in place. The caller holds the lock.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    fn recover(&self, is_newer: &dyn Fn(&Secret, Option<&Secret>) -> bool) -> Result<bool, StoreError>;

    /// Returns the text if it is unreadable and can be moved away for a new one; `None` if it does not exist or
    /// is readable, or the store never stores unreadable texts.
    ///
    /// # Errors
    ///
    /// [`StoreError`]. Nothing was changed: the fault is not in the text.
    fn damaged(&self) -> Result<Option<DamagedText>, StoreError>;

    /// Removes the text, with any leftovers. Returns true if a text existed.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    fn remove(&self) -> Result<bool, StoreError>;
}

/// A write for which everything is ready. Dropped, it leaves the store as it was.
pub trait PreparedWrite: fmt::Debug + Send {
    /// Puts the text in place. When it returns, the text survives a loss of power.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    fn commit(self: Box<Self>, text: &Secret) -> Result<(), StoreError>;
}

/// Why a store cannot be used. It never holds a part of the text.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct StoreError {
    /// Its location.
    pub place: String,
    /// The fault, with advice.
    pub reason: String,
}

impl StoreError {
    /// The store at `place` cannot be used.
    pub fn new(place: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { place: place.into(), reason: reason.into() }
    }
}
