//! Waiting until something changes in one piece of work.

use std::{path::PathBuf, time::Duration};

use tokio::time::sleep;

use super::LockedWork;
use crate::watch::{LOOK_AGAIN, Watch};

/// Time in which changes are taken for one.
const BURST: Duration = Duration::from_millis(50);

/// Watch over one piece of work: its status, its events, the turns of its agents, and the process that works on it.
#[derive(Debug)]
pub struct WorkWatch {
    folder: PathBuf,
    lock: &'static str,
    watch: Watch,
}

impl WorkWatch {
    /// Watches from now on. Runs in a Tokio runtime.
    pub fn of<W: LockedWork>(work: &W) -> Self {
        let folder = work.workspace().path().to_owned();
        Self { watch: Watch::of_content(&folder, W::LOCK), folder, lock: W::LOCK }
    }

    /// Waits for the next change since the watch began or this returned last, and for 5 s at most. Changes within 50 ms are taken for one.
    ///
    /// On Linux the system reports each change (inotify). Elsewhere, or when the user has no more watches, this returns every 150 ms.
    pub async fn changed(&mut self) {
        let is_watched = self.watch.wait(LOOK_AGAIN).await;
        sleep(BURST).await;
        if !is_watched {
            self.watch = Watch::of_content(&self.folder, self.lock);
        }
    }
}
