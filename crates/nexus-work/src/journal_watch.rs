//! Waiting for entries of a home's journal.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use nexus_core::{LostWork, harness::run_blocking};
use nexus_files::{Journal, JournalRead};

use super::watch::Watch;

/// Longest time between two scans of the state. A scan finds changes that are missing in the journal.
const SCAN_EVERY: Duration = Duration::from_secs(60 * 60);

/// A reader of the journal of a home. It waits on one file for any change of the home.
#[derive(Debug)]
pub struct JournalWatch {
    journal: Arc<Journal>,
    seen: u64,
    scanned_at: Option<Instant>,
    scan_every: Duration,
    watch: Option<Watch>,
}

impl JournalWatch {
    /// Creates a reader that has read nothing: its first result is a rescan.
    pub fn of(journal: Arc<Journal>) -> Self {
        Self { journal, seen: 0, scanned_at: None, scan_every: SCAN_EVERY, watch: None }
    }

    /// Sets the interval of rescans. An hour by default.
    #[must_use]
    pub fn with_scans_every(mut self, scan_every: Duration) -> Self {
        self.scan_every = scan_every;
        self
    }

    /// Waits up to `timeout` for entries that this reader has not returned yet. Returns `None` after that.
    ///
    /// The first call, and one call an hour, returns [`JournalRead::Rescan`] at once. The caller then scans the state.
    /// Changes before that are not returned as entries; a change during the scan is.
    ///
    /// On Linux the system reports each entry (inotify). On other systems, or when the user's watches are used up, the file
    /// is read every 100 ms.
    ///
    /// # Errors
    ///
    /// Errors of [`Journal::read_after`].
    pub async fn changed(&mut self, timeout: Duration) -> io::Result<Option<JournalRead>> {
        let began = Instant::now();
        if self.scanned_at.is_none_or(|scanned_at| scanned_at.elapsed() >= self.scan_every) {
            // Read the number before the caller scans, so that no entry during the scan is missed.
            let last = self.read(|journal| journal.last_seq()).await?;
            return Ok(Some(self.rescan(last)));
        }
        loop {
            let seen = self.seen;
            match self.read(move |journal| journal.read_after(seen)).await? {
                JournalRead::Entries(entries) => {
                    if let Some(last) = entries.last() {
                        self.seen = last.seq;
                        return Ok(Some(JournalRead::Entries(entries)));
                    }
                }
                JournalRead::Rescan { last } => return Ok(Some(self.rescan(last))),
            }
            let left = timeout.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            match &self.watch {
                // Read once more after this: an entry may have been written before the watch began.
                None => self.watch = Some(Watch::of_file(self.journal.path())),
                Some(watch) => {
                    // The watched folder is gone or was moved, so the next round begins another watch.
                    if !watch.wait(left).await {
                        self.watch = None;
                    }
                }
            }
        }
    }

    fn rescan(&mut self, last: u64) -> JournalRead {
        (self.seen, self.scanned_at) = (last, Some(Instant::now()));
        JournalRead::Rescan { last }
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Journal) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let journal = Arc::clone(&self.journal);
        run_blocking(move || read(&journal)).await.unwrap_or_else(|_| Err(io::Error::other(LostWork)))
    }
}
