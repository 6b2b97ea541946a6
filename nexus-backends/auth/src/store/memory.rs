//! A store that ends with its process: for tests, and for hosts that persist logins themselves.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use nexus_core::Secret;

use super::{DamagedText, PreparedWrite, StoreError, TokenStore};

/// Stores the text in memory. Clones share it.
#[derive(Clone)]
pub struct MemoryStore {
    kept: Arc<StoredText>,
}

/// Number of a store, and its login as text.
struct StoredText {
    /// Unique number of the store.
    number: u64,
    text: Mutex<Option<Secret>>,
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::with(None)
    }

    /// Creates a store that contains `text`, for hosts that persist it between runs.
    pub fn holding(text: Secret) -> Self {
        Self::with(Some(text))
    }

    fn with(text: Option<Secret>) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self { kept: Arc::new(StoredText { number, text: Mutex::new(text) }) }
    }

    fn replace(&self, text: Option<Secret>) -> Option<Secret> {
        std::mem::replace(&mut *self.kept.text.lock().unwrap_or_else(PoisonError::into_inner), text)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryStore")
    }
}

impl TokenStore for MemoryStore {
    fn place(&self) -> String {
        "the memory of this process".to_owned()
    }

    /// Clones have the same identity, because they share the text.
    fn identity(&self) -> String {
        format!("memory {}", self.kept.number)
    }

    fn read(&self) -> Result<Option<Secret>, StoreError> {
        Ok(self.kept.text.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn prepare(&self) -> Result<Box<dyn PreparedWrite>, StoreError> {
        Ok(Box::new(PendingMemory(self.clone())))
    }

    /// Nothing to recover: a text in memory is never partially written.
    fn recover(&self, _is_newer: &dyn Fn(&Secret, Option<&Secret>) -> bool) -> Result<bool, StoreError> {
        Ok(false)
    }

    fn damaged(&self) -> Result<Option<DamagedText>, StoreError> {
        Ok(None)
    }

    fn remove(&self) -> Result<bool, StoreError> {
        Ok(self.replace(None).is_some())
    }
}

#[derive(Debug)]
struct PendingMemory(MemoryStore);

impl PreparedWrite for PendingMemory {
    fn commit(self: Box<Self>, text: &Secret) -> Result<(), StoreError> {
        self.0.replace(Some(text.clone()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::fixture::{is_newer, login};

    #[test]
    fn clones_share_one_text() {
        let store = MemoryStore::new();
        let other = store.clone();
        assert_eq!(store.identity(), other.identity());
        assert_ne!(store.identity(), MemoryStore::new().identity());
        assert_eq!(store.read().unwrap(), None);
        let (pending, dropped) = (store.prepare().unwrap(), store.prepare().unwrap());
        pending.commit(&login(1).to_text()).unwrap();
        drop(dropped);
        assert_eq!(other.read().unwrap(), Some(login(1).to_text()));
        assert!(!other.recover(&is_newer).unwrap());
        assert!(other.remove().unwrap());
        assert!(!store.remove().unwrap());
        assert_eq!(MemoryStore::holding(login(2).to_text()).read().unwrap(), Some(login(2).to_text()));
    }
}
