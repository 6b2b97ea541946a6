//! Where a login rests between runs.
//!
//! A store keeps one text, and knows nothing of what it says; [`mod@format`] does. Everything here blocks: callers are on
//! a thread that may.
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
mod key;
#[cfg(feature = "keyring")]
mod keyring;
mod login_store;
mod memory;
mod pending;
mod strict;

use std::fmt;

use nexus_core::Secret;

pub use file::FileStore;
pub use format::StoredLogin;
#[cfg(feature = "keyring")]
pub use key::KeyringKey;
#[cfg(feature = "keyring")]
pub use keyring::KeyringStore;
pub use login_store::{LoginStore, StorePlace};
pub use memory::MemoryStore;

/// Largest text of a login that is read or written, in bytes.
const MAX_TEXT_BYTES: u64 = 1 << 20;

/// Keeps the text of one login.
///
/// Whoever writes holds the login's lock; whoever reads need not.
pub trait TokenStore: fmt::Debug + Send + Sync + 'static {
    /// Where it is, for messages.
    fn place(&self) -> String;

    /// Tells the login apart from every other one, in this process at least. Stores that keep the same text say the
    /// same, and no two that keep different ones do: whatever is known of a login beside its store goes by this, up
    /// to tokens that could not be written. A store around another one passes on what that says.
    fn identity(&self) -> String;

    /// Reads the text; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`StoreError`], and then nothing was changed: what cannot be read is never taken for nothing.
    fn read(&self) -> Result<Option<Secret>, StoreError>;

    /// Makes sure, before anything is spent, that a text can be written: the space for it is taken, and what keeps
    /// it from being written is found now.
    ///
    /// # Errors
    ///
    /// [`StoreError`]. Nothing was changed.
    fn prepare(&self) -> Result<Box<dyn PreparedWrite>, StoreError>;

    /// Finishes a write whose writer died when its text was whole and not yet in its place. `is_newer` judges the
    /// text found, against the one in place. Returns whether one was put in place. The caller holds the lock.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    fn recover(&self, is_newer: &dyn Fn(&Secret, Option<&Secret>) -> bool) -> Result<bool, StoreError>;

    /// Removes the text, and whatever else was kept of it. Returns whether there was one.
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
    /// Where it is.
    pub place: String,
    /// What is wrong, and the way out.
    pub reason: String,
}

impl StoreError {
    /// The store at `place` cannot be used.
    pub fn new(place: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { place: place.into(), reason: reason.into() }
    }
}
