//! What the system tells of changes of files.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

use super::{super::schedule::FileSchedule, scan::watched_folder};

/// Most paths of changes that are kept apart; with more, everything is looked at.
const MAX_TOUCHED: usize = 1000;

/// What the system told of.
#[derive(Debug, Default)]
pub(super) struct Touched {
    paths: Mutex<(HashSet<PathBuf>, bool)>,
    pub(super) wake: Notify,
}

/// What the system watches.
pub(super) struct SystemWatch {
    touched: Arc<Touched>,
    /// Made when the first folder is watched.
    watcher: Option<RecommendedWatcher>,
    folders: HashMap<PathBuf, bool>,
}

impl Touched {
    /// Takes what the system told of. Its thread is held up by nothing else.
    fn told(&self, event: notify::Result<notify::Event>) {
        let mut paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            // To look at a file is to open it.
            Ok(event) if event.kind.is_access() => return,
            Ok(event) if !event.need_rescan() && paths.0.len() + event.paths.len() <= MAX_TOUCHED => {
                paths.0.extend(event.paths);
            }
            _ => paths.1 = true,
        }
        drop(paths);
        self.wake.notify_one();
    }

    pub(super) fn take(&self) -> (HashSet<PathBuf>, bool) {
        std::mem::take(&mut *self.paths.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl SystemWatch {
    pub(super) fn new(touched: &Arc<Touched>) -> Self {
        Self { touched: Arc::clone(touched), watcher: None, folders: HashMap::new() }
    }

    pub(super) fn has(&self, folder: &Path, recursive: bool) -> bool {
        self.folders.get(folder).is_some_and(|&watched| watched || !recursive)
    }

    /// Watches the folder of a trigger anew, whatever was watched by its name.
    pub(super) fn watch(&mut self, schedule: &FileSchedule, is_there: bool) -> notify::Result<()> {
        let folder = watched_folder(schedule);
        let watched = self.folders.remove(folder);
        let recursive = schedule.recursive || watched == Some(true);
        if let (Some(watcher), true) = (&mut self.watcher, watched.is_some()) {
            // What is gone is not watched any more.
            let _ = watcher.unwatch(folder);
        }
        if !is_there {
            return Ok(());
        }
        let watcher = match &mut self.watcher {
            Some(watcher) => watcher,
            none => {
                let touched = Arc::clone(&self.touched);
                none.insert(notify::recommended_watcher(move |event| touched.told(event))?)
            }
        };
        let mode = if recursive { RecursiveMode::Recursive } else { RecursiveMode::NonRecursive };
        watcher.watch(folder, mode)?;
        self.folders.insert(folder.to_owned(), recursive);
        Ok(())
    }

    /// Ends with folders of no trigger.
    pub(super) fn keep<'s>(&mut self, schedules: impl Iterator<Item = &'s FileSchedule>) {
        let needed: HashSet<_> = schedules.map(watched_folder).collect();
        let gone: Vec<_> =
            self.folders.keys().filter(|folder| !needed.contains(folder.as_path())).cloned().collect();
        for folder in gone {
            self.folders.remove(&folder);
            if let Some(watcher) = &mut self.watcher {
                let _ = watcher.unwatch(&folder);
            }
        }
    }
}
