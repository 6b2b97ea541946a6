//! Changes of the file, as the operating system reports them.

use std::{
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Duration,
};

use nexus_files::FileStamp;
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use rusqlite::Connection;
use tokio::{
    runtime::Handle,
    sync::{Mutex as AsyncMutex, watch},
    task::{AbortHandle, spawn_blocking},
    time::{Instant, sleep, timeout},
};

use super::data_version;

/// Interval of the comparison of the file's stamps and version, because the system may lose a report, and reports no writes of another
/// machine.
const LOOK_ANYWAY: Duration = Duration::from_secs(5);
/// Interval of the comparison of the version after a report.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Time after a report within which its commit becomes visible. Source: our own bound, above the time in which a busy disk flushes a
/// commit. [`LOOK_ANYWAY`] finds a later one.
const VISIBLE_WITHIN: Duration = Duration::from_secs(3);

/// Watch on the database file and its write-ahead log. Each commit of any process writes to one of them.
///
/// The system reports a commit too early. SQLite first writes to the log and flushes it. Only then it makes the commit visible, by a
/// write to shared memory that the system does not report. So after a report a task reads the version of the database until it has
/// changed.
pub(super) struct DatabaseReports {
    changes: Arc<watch::Sender<()>>,
    looking: AbortHandle,
    _watcher: RecommendedWatcher,
}

impl DatabaseReports {
    /// Starts to watch the file at `path`, which `connection` has open. `None` if the system reports no changes, for example because this
    /// user has no more watches.
    pub(super) fn of(
        path: &Path,
        connection: &Arc<AsyncMutex<Connection>>,
        runtime: &Handle,
    ) -> Option<Self> {
        let polled =
            |error: &dyn std::fmt::Display| tracing::debug!(%error, "the file of messages is polled");
        // SQLite creates its log next to the target of a link, so watch the folder of the target.
        let path = &path.canonicalize().inspect_err(|error| polled(error)).ok()?;
        let changes = Arc::new(watch::Sender::new(()));
        let (reported, reports) = watch::channel(());
        let log = log_of(path);
        let names: Vec<OsString> =
            [path, &log].iter().filter_map(|path| Some(path.file_name()?.to_owned())).collect();
        let at_once = Arc::clone(&changes);
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
                at_once.send_replace(());
                reported.send_replace(());
            }
        };
        let begun = notify::recommended_watcher(handler).and_then(|mut watcher| {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            watcher.watch(folder.unwrap_or(Path::new(".")), RecursiveMode::NonRecursive)?;
            Ok(watcher)
        });
        let watcher = begun.inspect_err(|error| polled(error)).ok()?;
        let files = [path.to_owned(), log];
        let stamps = move || files.each_ref().map(stamp);
        // The owner of the connection closes it, even while the task runs.
        let connection = Arc::downgrade(connection);
        let version = move || version_of(Weak::clone(&connection));
        let looking = runtime.spawn(look(reports, Arc::clone(&changes), version, stamps));
        Some(Self { changes, looking: looking.abort_handle(), _watcher: watcher })
    }

    /// Returns a receiver of each change from now on.
    pub(super) fn subscribe(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }
}

impl Drop for DatabaseReports {
    fn drop(&mut self) {
        self.looking.abort();
    }
}

/// Notifies `changes` when the version has changed after a report, and when the version or the stamps have changed without one. Ends when
/// no reporter is left.
async fn look<V: PartialEq, F: Future<Output = V>, S: PartialEq>(
    mut reports: watch::Receiver<()>,
    changes: Arc<watch::Sender<()>>,
    version: impl Fn() -> F,
    stamps: impl Fn() -> S,
) {
    let (mut seen, mut seen_stamps) = (version().await, stamps());
    // A commit may have become visible before this first look.
    changes.send_replace(());
    loop {
        let reported = timeout(LOOK_ANYWAY, reports.changed()).await;
        let mut until = Instant::now();
        match reported {
            Ok(Ok(())) => until += VISIBLE_WITHIN,
            Ok(Err(_)) => return,
            Err(_) => {
                let now = stamps();
                if now != seen_stamps {
                    changes.send_replace(());
                }
                seen_stamps = now;
            }
        }
        let mut is_first = true;
        loop {
            let now = version().await;
            let is_changed = now != seen;
            seen = now;
            if is_changed {
                changes.send_replace(());
            }
            // The first look may find the commit of an earlier report, so look for that of this report too.
            if is_changed && !is_first || Instant::now() >= until {
                break;
            }
            is_first = false;
            sleep(LOOK_EVERY).await;
            if reports.has_changed().unwrap_or(true) {
                break;
            }
        }
    }
}

/// Returns the version of the database. `None` if it cannot be read, or the connection was closed.
async fn version_of(connection: Weak<AsyncMutex<Connection>>) -> Option<i64> {
    let connection = connection.upgrade()?.lock_owned().await;
    spawn_blocking(move || data_version(&connection).ok()).await.ok()?
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A file whose version and stamp a test sets.
    struct Stage {
        version: Arc<AtomicU32>,
        stamp: Arc<AtomicU32>,
        reported: watch::Sender<()>,
        changes: watch::Receiver<()>,
    }

    impl Stage {
        async fn new() -> Self {
            let (version, stamp) = (Arc::<AtomicU32>::default(), Arc::<AtomicU32>::default());
            let (reported, reports) = watch::channel(());
            let (found, mut changes) = watch::channel(());
            let (read, stamps) = (Arc::clone(&version), Arc::clone(&stamp));
            tokio::spawn(look(
                reports,
                Arc::new(found),
                move || std::future::ready(read.load(Ordering::SeqCst)),
                move || stamps.load(Ordering::SeqCst),
            ));
            changes.changed().await.unwrap();
            Self { version, stamp, reported, changes }
        }

        /// Returns true if a change is notified within `time`.
        async fn is_notified(&mut self, time: Duration) -> bool {
            timeout(time, self.changes.changed()).await.is_ok()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_commit_that_is_visible_after_its_report_is_notified() {
        let mut stage = Stage::new().await;
        for after in [0, 30, 400, 2_500] {
            stage.reported.send_replace(());
            sleep(Duration::from_millis(after)).await;
            assert!(!stage.changes.has_changed().unwrap(), "{after}");
            stage.version.fetch_add(1, Ordering::SeqCst);
            assert!(stage.is_notified(LOOK_EVERY * 2).await, "{after}");
        }
        // Of two reports at once, the first is that of a commit that is visible already.
        stage.version.fetch_add(1, Ordering::SeqCst);
        stage.reported.send_replace(());
        assert!(stage.is_notified(LOOK_EVERY).await);
        sleep(Duration::from_secs(1)).await;
        stage.version.fetch_add(1, Ordering::SeqCst);
        assert!(stage.is_notified(LOOK_EVERY * 2).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_without_a_report_is_notified_later() {
        let mut stage = Stage::new().await;
        assert!(!stage.is_notified(LOOK_ANYWAY * 3).await);
        for changed in [Arc::clone(&stage.version), Arc::clone(&stage.stamp)] {
            changed.fetch_add(1, Ordering::SeqCst);
            assert!(stage.is_notified(LOOK_ANYWAY * 2).await);
            assert!(!stage.is_notified(LOOK_ANYWAY * 2).await);
        }
    }
}
