//! Notes on the payers of detected backends.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use nexus_core::BackendId;

/// Notes on the payer of metered backends. Each is reported at the first turn on its backend.
#[derive(Debug, Default)]
pub(crate) struct PayerNotices(Mutex<BTreeMap<BackendId, String>>);

impl PayerNotices {
    #[cfg(feature = "yaml")]
    pub(crate) fn new(notes: BTreeMap<BackendId, String>) -> Self {
        Self(Mutex::new(notes))
    }

    /// Reports that a turn starts on the backend.
    pub(crate) fn report(&self, backend: &BackendId) {
        let note = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(backend);
        // The lock has ended here, so the subscriber of the log runs without it.
        if let Some(note) = note {
            tracing::warn!("{note}");
        }
    }
}
