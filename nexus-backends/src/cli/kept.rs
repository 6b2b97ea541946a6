//! Stored conversations: turns that use one, and its deletion.
//!
//! A turn that resumes a conversation holds a shared lock on a file that belongs to the conversation. A caller that
//! deletes the conversation takes an exclusive lock. So no running program loses its files, and no ending turn restores
//! a deleted file. The kernel releases the lock of a process that dies.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use nexus_core::{BackendId, ForgetError, Forgotten, harness::run_blocking};
use nexus_files::FileLock;

/// Folder of the locks, below `$NEXUS_HOME`. The stored conversations are beside it.
const LOCKS: &str = "sessions/locks";
/// Extension of a folder that is being deleted. No handle contains it.
const GONE: &str = "gone";
/// Maximum length of a lock's name, in bytes. Longer names with the same beginning share a lock, which is harmless.
const MAX_NAME_BYTES: usize = 200;

/// Files that a CLI stores of one conversation. [`Cli::kept`](super::Cli::kept) returns them for a handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptConversation {
    name: String,
    places: Vec<StoredPath>,
}

/// Stored file or folder of a conversation, with the root that must contain it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StoredPath {
    root: PathBuf,
    path: PathBuf,
    is_folder: bool,
}

/// Longest time that a turn waits for a running deletion, before it begins without a lock.
const DELETION_PATIENCE: Duration = Duration::from_secs(60);

impl KeptConversation {
    /// Creates a conversation with this name, such as `VENDOR-UUID`. All its handles have the same name, and no other
    /// conversation of Nexus has it.
    pub fn new(name: &str) -> Self {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
        let letters = name.chars().map(|letter| if is_plain(letter) { letter } else { '_' });
        Self { name: letters.take(MAX_NAME_BYTES).collect(), places: Vec::new() }
    }

    /// Adds a file, which must be below `root` after symbolic links are resolved.
    #[must_use]
    pub fn with_file(mut self, root: impl Into<PathBuf>, path: impl Into<PathBuf>) -> Self {
        self.places.push(StoredPath { root: root.into(), path: path.into(), is_folder: false });
        self
    }

    /// Adds a folder with its content. It must be below `root` after symbolic links are resolved.
    #[must_use]
    pub fn with_folder(mut self, root: impl Into<PathBuf>, path: impl Into<PathBuf>) -> Self {
        self.places.push(StoredPath { root: root.into(), path: path.into(), is_folder: true });
        self
    }

    /// Takes the shared lock for a turn, after a running deletion has ended. If the lock file cannot be created or
    /// locked, the turn continues without the lock, and a deletion fails for the same reason.
    pub(super) async fn begin_use(&self, nexus_home: &Path) -> Option<FileLock> {
        let path = self.lock_path(nexus_home);
        let lock = run_blocking(move || {
            make_folder_of(&path)?;
            let lock = FileLock::lock_shared(&path, DELETION_PATIENCE)?;
            lock.ok_or_else(|| io::Error::from(io::ErrorKind::TimedOut))
        });
        match lock.await {
            Ok(Ok(lock)) => Some(lock),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the lock of the conversation cannot be taken");
                None
            }
            Err(_) => None,
        }
    }

    /// Deletes the conversation, unless a turn uses it.
    pub(crate) fn forget(&self, nexus_home: &Path, backend: &BackendId) -> Result<Forgotten, ForgetError> {
        let failed = |place: &Path, error: io::Error| ForgetError::Failed {
            backend: backend.clone(),
            place: place.to_owned(),
            source: Arc::new(error),
        };
        let lock_path = self.lock_path(nexus_home);
        let locked = make_folder_of(&lock_path).and_then(|()| FileLock::try_lock(&lock_path));
        let Some(lock) = locked.map_err(|error| failed(&lock_path, error))? else {
            return Err(ForgetError::InUse { backend: backend.clone() });
        };
        let mut found = FoundFiles::default();
        for place in &self.places {
            place.delete(&mut found).map_err(|error| failed(&place.path, error))?;
        }
        // Turns that wait for this lock will find that the conversation is gone.
        let _ = lock.remove();
        Ok(match found.is_any {
            true => Forgotten::Deleted { files: found.files, bytes: found.bytes },
            false => Forgotten::WasGone,
        })
    }

    fn lock_path(&self, nexus_home: &Path) -> PathBuf {
        nexus_home.join(LOCKS).join(&self.name)
    }
}

fn make_folder_of(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), nexus_files::make_private_folder)
}

/// Number and total size of the deleted files.
#[derive(Debug, Default)]
struct FoundFiles {
    is_any: bool,
    files: u64,
    bytes: u64,
}

impl StoredPath {
    fn delete(&self, found: &mut FoundFiles) -> io::Result<()> {
        let (Some(folder), Some(name)) = (self.path.parent(), self.path.file_name()) else { return Ok(()) };
        let (Some(root), Some(folder)) = (real(&self.root)?, real(folder)?) else { return Ok(()) };
        if !folder.starts_with(&root) {
            return Err(io::Error::other(format!("it is outside of {}", root.display())));
        }
        let path = folder.join(name);
        if self.is_folder {
            // Delete the remains of an interrupted deletion first.
            let gone = path.with_added_extension(GONE);
            if kind(&path)?.is_some_and(|kind| kind.is_dir()) {
                delete_folder(&gone, found)?;
                // After the rename the folder no longer belongs to the conversation, even if some of its files remain.
                fs::rename(&path, &gone)?;
            }
            return delete_folder(&gone, found);
        }
        match kind(&path)? {
            // A symbolic link is removed itself, not its target.
            Some(kind) if !kind.is_dir() => {
                found.count(&path)?;
                fs::remove_file(&path)
            }
            _ => Ok(()),
        }
    }
}

fn delete_folder(folder: &Path, found: &mut FoundFiles) -> io::Result<()> {
    if kind(folder)?.is_none() {
        return Ok(());
    }
    found.is_any = true;
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            match kind(&path)? {
                Some(kind) if kind.is_dir() => open.push(path),
                _ => found.count(&path)?,
            }
        }
    }
    fs::remove_dir_all(folder)
}

impl FoundFiles {
    fn count(&mut self, path: &Path) -> io::Result<()> {
        self.is_any = true;
        self.files += 1;
        self.bytes += fs::symlink_metadata(path)?.len();
        Ok(())
    }
}

fn kind(path: &Path) -> io::Result<Option<fs::FileType>> {
    there(fs::symlink_metadata(path).map(|metadata| metadata.file_type()))
}

fn real(path: &Path) -> io::Result<Option<PathBuf>> {
    there(fs::canonicalize(path))
}

/// Converts the error for a missing file into `None`.
fn there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct Bench(tempfile::TempDir);

    impl Bench {
        fn new() -> Self {
            let bench = Self(tempfile::tempdir().unwrap());
            fs::create_dir_all(bench.path("sessions/x/one/deep")).unwrap();
            fs::write(bench.path("sessions/x/one/deep/a"), "12345").unwrap();
            fs::write(bench.path("sessions/x/one/b"), "123").unwrap();
            fs::write(bench.path("outside"), "mine").unwrap();
            bench
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn folder(&self, name: &str) -> KeptConversation {
            KeptConversation::new("x-one").with_folder(self.path("sessions/x"), self.path(name))
        }

        fn forget(&self, kept: &KeptConversation) -> Result<Forgotten, ForgetError> {
            kept.forget(self.0.path(), &"x".into())
        }
    }

    #[test]
    fn a_folder_goes_with_all_that_is_in_it_and_is_counted() {
        let bench = Bench::new();
        symlink(bench.path("outside"), bench.path("sessions/x/one/link")).unwrap();
        symlink(bench.0.path(), bench.path("sessions/x/one/up")).unwrap();
        let kept = bench.folder("sessions/x/one");
        let Ok(Forgotten::Deleted { files: 4, bytes }) = bench.forget(&kept) else { panic!() };
        assert!(bytes > 8);
        assert!(!bench.path("sessions/x/one").exists());
        assert_eq!(fs::read(bench.path("outside")).unwrap(), b"mine");
        assert_eq!(bench.forget(&kept).unwrap(), Forgotten::WasGone);
        assert_eq!(fs::read_dir(bench.path(LOCKS)).unwrap().count(), 0, "no lock is left");
    }

    #[test]
    fn a_deletion_that_was_interrupted_is_finished() {
        let bench = Bench::new();
        fs::rename(bench.path("sessions/x/one"), bench.path("sessions/x/one.gone")).unwrap();
        let kept = bench.folder("sessions/x/one");
        assert_eq!(bench.forget(&kept).unwrap(), Forgotten::Deleted { files: 2, bytes: 8 });
        assert_eq!(fs::read_dir(bench.path("sessions/x")).unwrap().count(), 0);
    }

    #[test]
    fn nothing_outside_of_the_root_is_deleted() {
        let bench = Bench::new();
        symlink(bench.0.path(), bench.path("sessions/x/up")).unwrap();
        for (root, path) in [
            ("sessions/x", "outside"),
            ("sessions/x", "sessions/x/../../outside"),
            ("sessions/x", "sessions/x/up/outside"),
            ("sessions/x/one", "sessions/x/one"),
        ] {
            let (root, path) = (bench.path(root), bench.path(path));
            let kept = KeptConversation::new("x").with_file(&root, &path).with_folder(&root, &path);
            assert!(matches!(bench.forget(&kept), Err(ForgetError::Failed { .. })), "{path:?}");
        }
        assert!(bench.path("outside").exists() && bench.path("sessions/x/one/b").exists());
        // A link where the conversation should be.
        let kept =
            KeptConversation::new("x").with_file(bench.path("sessions/x"), bench.path("sessions/x/up"));
        assert!(matches!(bench.forget(&kept), Ok(Forgotten::Deleted { files: 1, .. })));
        assert!(bench.path("outside").exists() && !bench.path("sessions/x/up").exists());
    }

    #[test]
    fn a_file_is_no_folder_and_a_folder_is_no_file() {
        let bench = Bench::new();
        let root = bench.path("sessions/x");
        let as_file = KeptConversation::new("x").with_file(&root, bench.path("sessions/x/one"));
        assert_eq!(bench.forget(&as_file).unwrap(), Forgotten::WasGone);
        let as_folder = KeptConversation::new("x").with_folder(&root, bench.path("sessions/x/one/b"));
        assert_eq!(bench.forget(&as_folder).unwrap(), Forgotten::WasGone);
        assert!(bench.path("sessions/x/one/b").exists());
    }

    #[tokio::test]
    async fn what_turns_work_in_stays_until_the_last_has_ended() {
        let bench = Bench::new();
        let kept = bench.folder("sessions/x/one");
        let first = kept.begin_use(bench.0.path()).await.unwrap();
        let second = kept.begin_use(bench.0.path()).await.unwrap();
        for turn in [first, second] {
            assert!(matches!(bench.forget(&kept), Err(ForgetError::InUse { .. })));
            assert!(bench.path("sessions/x/one/b").exists());
            drop(turn);
        }
        assert!(matches!(bench.forget(&kept), Ok(Forgotten::Deleted { .. })));
    }

    #[test]
    fn whatever_a_conversation_is_called_its_lock_is_a_file_in_the_folder_of_locks() {
        let bench = Bench::new();
        for name in ["../../outside", "/etc/passwd", "a\0b", "", &"n".repeat(5_000)] {
            let path = KeptConversation::new(name).lock_path(bench.0.path());
            let folder = bench.path(LOCKS);
            assert!(path == folder || path.parent() == Some(&folder), "{path:?}");
        }
    }
}
