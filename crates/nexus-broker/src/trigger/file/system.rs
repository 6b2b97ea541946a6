//! Changes of files that the operating system reports.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

use super::{super::schedule::FileSchedule, scan::watched_folder};

/// Maximum number of separate changed paths. With more, all files are scanned.
const MAX_TOUCHED: usize = 1000;

/// Longest time to set up the watch of a folder.
const WATCH_WITHIN: Duration = Duration::from_secs(5);

/// Paths of the reported changes.
#[derive(Debug, Default)]
pub(super) struct Touched {
    paths: Mutex<(HashSet<PathBuf>, bool)>,
    pub(super) wake: Notify,
}

/// Folders that the system watches.
pub(super) struct SystemWatch {
    touched: Arc<Touched>,
    /// The watcher, created when the first folder is watched.
    watcher: Arc<Mutex<Option<RecommendedWatcher>>>,
    folders: HashMap<PathBuf, bool>,
}

impl Touched {
    /// Records a report of the system. This runs in the thread of the watcher, which must not block on anything else.
    fn told(&self, event: notify::Result<notify::Event>) {
        let mut paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            // Opening a file counts as access, and a scan opens files. So ignore access.
            Ok(event) if event.kind.is_access() => return,
            Ok(event) if !event.need_rescan() && paths.0.len() + event.paths.len() <= MAX_TOUCHED => {
                paths.0.extend(event.paths);
            }
            _ => paths.1 = true,
        }
        // Release the lock before the wake, because the woken task takes it.
        drop(paths);
        self.wake.notify_one();
    }

    pub(super) fn take(&self) -> (HashSet<PathBuf>, bool) {
        std::mem::take(&mut *self.paths.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl SystemWatch {
    pub(super) fn new(touched: &Arc<Touched>) -> Self {
        Self { touched: Arc::clone(touched), watcher: Arc::default(), folders: HashMap::new() }
    }

    pub(super) fn has(&self, folder: &Path, recursive: bool) -> bool {
        self.folders.get(folder).is_some_and(|&watched| watched || !recursive)
    }

    /// Replaces the watch of a trigger's folder, because another folder may have the same name now.
    ///
    /// A folder that does not answer blocks a thread and its watcher. The other folders then get a new watcher at their next
    /// scan.
    pub(super) async fn watch(&mut self, schedule: &FileSchedule, is_there: bool) -> notify::Result<()> {
        let folder = watched_folder(schedule).to_owned();
        let watched = self.folders.remove(&folder);
        let recursive = schedule.recursive || watched == Some(true);
        if watched.is_none() && !is_there {
            return Ok(());
        }
        let (watcher, touched) = (Arc::clone(&self.watcher), Arc::clone(&self.touched));
        let begun = folder.clone();
        let watching = tokio::task::spawn_blocking(move || {
            let mut watcher = watcher.lock().unwrap_or_else(PoisonError::into_inner);
            if let (Some(watcher), true) = (&mut *watcher, watched.is_some()) {
                // This fails for a deleted folder, which is not watched any more.
                let _ = watcher.unwatch(&begun);
            }
            if !is_there {
                return Ok(());
            }
            let watcher = match &mut *watcher {
                Some(watcher) => watcher,
                none => none.insert(notify::recommended_watcher(move |event| touched.told(event))?),
            };
            let mode = if recursive { RecursiveMode::Recursive } else { RecursiveMode::NonRecursive };
            watcher.watch(&begun, mode)
        });
        match tokio::time::timeout(WATCH_WITHIN, watching).await {
            Ok(Ok(watching)) => watching?,
            Ok(Err(error)) => return Err(notify::Error::generic(&error.to_string())),
            Err(_) => {
                self.watcher = Arc::default();
                self.folders.clear();
                return Err(notify::Error::generic("the file system does not respond"));
            }
        }
        if is_there {
            self.folders.insert(folder, recursive);
        }
        Ok(())
    }

    /// Stops watching folders that no trigger uses any more.
    pub(super) async fn keep<'s>(&mut self, schedules: impl Iterator<Item = &'s FileSchedule>) {
        let needed: HashSet<_> = schedules.map(watched_folder).collect();
        let gone: Vec<_> =
            self.folders.keys().filter(|folder| !needed.contains(folder.as_path())).cloned().collect();
        if gone.is_empty() {
            return;
        }
        self.folders.retain(|folder, _| !gone.contains(folder));
        let watcher = Arc::clone(&self.watcher);
        let ending = tokio::task::spawn_blocking(move || {
            if let Some(watcher) = &mut *watcher.lock().unwrap_or_else(PoisonError::into_inner) {
                for folder in gone {
                    let _ = watcher.unwatch(&folder);
                }
            }
        });
        // Reports about these folders have no effect, so a timeout is harmless. The wait only ensures that a
        // folder is unwatched before it is watched again.
        let _ = tokio::time::timeout(WATCH_WITHIN, ending).await;
    }
}
