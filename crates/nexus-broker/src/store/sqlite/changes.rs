//! Changes of the file, as the operating system reports them.

use std::{
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use nexus_files::FileStamp;
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::{sync::watch, task::AbortHandle};

/// Interval of the comparison of the file's stamps, because the system may lose a report, and reports no writes of another machine.
const LOOK_ANYWAY: Duration = Duration::from_secs(5);

/// Watch on the database file and its write-ahead log. Each commit of any process writes to one of them.
pub(super) struct FileChanges {
    changes: Arc<watch::Sender<()>>,
    looking: AbortHandle,
    _watcher: RecommendedWatcher,
}

impl FileChanges {
    /// Starts to watch the file at `path`. `None` if the system reports no changes, for example because this user has no more watches.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let changes = Arc::new(watch::Sender::new(()));
        let log = log_of(path);
        let names: Vec<OsString> =
            [path, &log].iter().filter_map(|path| Some(path.file_name()?.to_owned())).collect();
        let reported = Arc::clone(&changes);
        let handler = move |event: notify::Result<notify::Event>| {
            let is_named = |path: &PathBuf| {
                path.file_name().is_some_and(|name| names.iter().any(|known| name == OsStr::new(known)))
            };
            let is_change = match event {
                // Opening a file counts as access.
                Ok(event) if event.kind.is_access() => false,
                Ok(event) => event.need_rescan() || event.paths.iter().any(is_named),
                Err(_) => true,
            };
            if is_change {
                reported.send_replace(());
            }
        };
        let begun = notify::recommended_watcher(handler).and_then(|mut watcher| {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            watcher.watch(folder.unwrap_or(Path::new(".")), RecursiveMode::NonRecursive)?;
            Ok(watcher)
        });
        let watcher =
            begun.inspect_err(|error| tracing::debug!(%error, "the file of messages is polled")).ok()?;
        let files = [path.to_owned(), log];
        let found = Arc::clone(&changes);
        let looking = tokio::spawn(async move {
            let mut seen = files.each_ref().map(stamp);
            loop {
                tokio::time::sleep(LOOK_ANYWAY).await;
                let now = files.each_ref().map(stamp);
                if now != seen {
                    found.send_replace(());
                }
                seen = now;
            }
        });
        Some(Self { changes, looking: looking.abort_handle(), _watcher: watcher })
    }

    /// Returns a receiver of each change from now on.
    pub(super) fn subscribe(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }
}

impl Drop for FileChanges {
    fn drop(&mut self) {
        self.looking.abort();
    }
}

/// Returns the path of the write-ahead log of a database.
fn log_of(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

/// Returns the stamp of a file. A local disk answers at once.
fn stamp(path: impl AsRef<Path>) -> Option<FileStamp> {
    fs::metadata(path).ok().as_ref().and_then(FileStamp::of)
}
