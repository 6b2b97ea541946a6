//! Waiting for changes of one piece of work.

use std::{path::PathBuf, time::Duration};

use tokio::time::sleep;

use super::LockedWork;
use crate::watch::{LOOK_AGAIN, Watch};

/// Time within which several changes count as one.
const BURST: Duration = Duration::from_millis(50);

/// Watches one piece of work: its status, its events, its agents' turns, and the process that works on it.
#[derive(Debug)]
pub struct WorkWatch {
    folder: PathBuf,
    lock: &'static str,
    watch: Watch,
}

impl WorkWatch {
    /// Starts to watch. Must run in a Tokio runtime.
    pub fn of<W: LockedWork>(work: &W) -> Self {
        let folder = work.workspace().path().to_owned();
        Self { watch: Watch::of_content(&folder, W::LOCK), folder, lock: W::LOCK }
    }

    /// Waits for the next change since the watch began or this last returned, at most 5 s. Changes within 50 ms count as
    /// one.
    ///
    /// On Linux the system reports each change (inotify). On other systems, or when the user's watches are used up, this
    /// returns every 150 ms.
    pub async fn changed(&mut self) {
        let is_watched = self.watch.wait(LOOK_AGAIN).await;
        sleep(BURST).await;
        if !is_watched {
            self.watch = Watch::of_content(&self.folder, self.lock);
        }
    }
}
