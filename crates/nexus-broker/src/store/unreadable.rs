//! Log of unreadable records. Each is logged once, and does not block the other records.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use crate::error::BrokerError;

/// Maximum number of messages in [`Told`]. Further errors are logged at each read.
const MAX_REMEMBERED: usize = 10_000;

/// Messages of the read errors that were already logged, at most `MAX_REMEMBERED`. The same message is logged once.
#[derive(Debug, Default)]
pub(crate) struct Told(Mutex<BTreeSet<String>>);

impl Told {
    /// Logs a warning about an unreadable record, unless the same message was logged before.
    pub(crate) fn warn(&self, error: &BrokerError) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.contains(&error.message) {
            return;
        }
        if told.len() < MAX_REMEMBERED {
            told.insert(error.message.clone());
        }
        tracing::warn!(%error, "a record cannot be read and is skipped");
    }
}
