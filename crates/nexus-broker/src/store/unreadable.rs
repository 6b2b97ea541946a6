//! Records that this version cannot read: each is named in the log of the program once, and keeps nothing else waiting.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use crate::error::BrokerError;

/// Maximum number of logged records that are remembered. Further ones are logged at each read.
const MAX_REMEMBERED: usize = 10_000;

/// Records that were logged.
#[derive(Debug, Default)]
pub(crate) struct Told(Mutex<BTreeSet<String>>);

impl Told {
    /// Warns of a record, if this is the first time or the reason is another.
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
