//! Private folder of one turn, removed with it.

use std::{
    ffi::OsStr,
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use nexus_files::FileLock;

/// Pause between two attempts to lock a folder that is in use.
const PAUSE: Duration = Duration::from_millis(50);

/// Private folder of one turn, removed with its content when dropped.
///
/// The owner locks the folder while it exists. The operating system releases the lock of a dead process. So an unlocked
/// folder belongs to a dead process, and [`sweep`](Self::sweep) removes it.
#[derive(Debug)]
pub(crate) struct PrivateFolder {
    lock: FileLock,
}

impl PrivateFolder {
    /// Creates the folder `name` in `root`, both owner-only. Removes the leftovers of a dead process, and waits up to
    /// `patience` for a folder in use.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::WouldBlock`]: it is in use. Otherwise errors of the operating system.
    pub(crate) fn take(root: &Path, name: &str, patience: Duration) -> io::Result<Self> {
        nexus_files::make_private_folder(root)?;
        let path = root.canonicalize()?.join(name);
        let began = Instant::now();
        loop {
            if let Some(folder) = Self::try_take(&path)? {
                remove_within(&path)?;
                return Ok(folder);
            }
            if began.elapsed() >= patience {
                return Err(io::Error::new(io::ErrorKind::WouldBlock, "it is in use"));
            }
            thread::sleep(PAUSE);
        }
    }

    fn try_take(path: &Path) -> io::Result<Option<Self>> {
        match nexus_files::create_private_folder(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        Self::lock(path)
    }

    /// Locks an existing folder. `None`: another process has locked or just removed it.
    fn lock(path: &Path) -> io::Result<Option<Self>> {
        match FileLock::try_lock_folder(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            locked => Ok(locked?.map(|lock| Self { lock })),
        }
    }

    /// Returns the absolute path, without links.
    pub(crate) fn path(&self) -> &Path {
        self.lock.path()
    }

    /// Removes folders of dead processes in `root` whose names begin with `beginning`. Calls `before` for each of them
    /// first.
    pub(crate) fn sweep(root: &Path, beginning: &str, before: impl Fn(&Path)) {
        let Ok(root) = root.canonicalize() else { return };
        for entry in fs::read_dir(&root).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(beginning)
                && entry.file_type().is_ok_and(|kind| kind.is_dir())
                && let Ok(Some(folder)) = Self::lock(&entry.path())
            {
                before(folder.path());
            }
        }
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        if let Err(error) = remove_within(self.path()).and_then(|()| fs::remove_dir(self.path())) {
            tracing::warn!(%error, path = %self.path().display(), "the files of a turn remain until the next \
                start");
        }
    }
}

/// Removes the content of a folder. Follows no link.
fn remove_within(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if !entry.file_type()?.is_dir() {
            fs::remove_file(&path)?;
        } else if let Err(error) = fs::remove_dir_all(&path) {
            if error.kind() != io::ErrorKind::PermissionDenied {
                return Err(error);
            }
            // A turn may have removed permissions from its folders, so restore them first.
            open_up(&path)?;
            fs::remove_dir_all(&path)?;
        }
    }
    Ok(())
}

/// Gives the owner all permissions on a folder and on the folders below it.
fn open_up(folder: &Path) -> io::Result<()> {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    Ok(())
}

/// Parses a relative path of travelling files. Accepts only plain names, and no `.git`.
pub(crate) fn path_within(text: &str) -> Option<&Path> {
    let path = Path::new(text);
    let is_name = |part: std::path::Component<'_>| matches!(part, std::path::Component::Normal(name) if name != OsStr::new(".git"));
    path.components().all(is_name).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_it_at_a_time_and_nothing_is_left() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().join("new");
        let folder = PrivateFolder::take(&root, "w-1", Duration::ZERO).unwrap();
        fs::create_dir_all(folder.path().join("a/b")).unwrap();
        fs::write(folder.path().join("a/b/c"), "x").unwrap();
        for path in ["a/b", "a"] {
            fs::set_permissions(folder.path().join(path), Permissions::from_mode(0o000)).unwrap();
        }
        assert_eq!(root.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let taken = PrivateFolder::take(&root, "w-1", Duration::ZERO);
        assert_eq!(taken.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        PrivateFolder::sweep(&root, "w-", |_| panic!("it is in use"));
        drop(folder);
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
        PrivateFolder::take(&root, "w-1", Duration::ZERO).unwrap();
    }

    #[test]
    fn what_a_dead_process_left_is_removed() {
        let root = tempfile::tempdir().unwrap();
        for name in ["w-1", "w-2", "c-1"] {
            fs::create_dir_all(root.path().join(name).join("files/deep")).unwrap();
        }
        std::os::unix::fs::symlink(root.path().join("c-1"), root.path().join("w-2/files/link")).unwrap();
        let taken = PrivateFolder::take(root.path(), "w-1", Duration::ZERO).unwrap();
        assert_eq!(fs::read_dir(taken.path()).unwrap().count(), 0);
        PrivateFolder::sweep(root.path(), "w-", |folder| assert!(folder.ends_with("w-2")));
        assert!(!root.path().join("w-2").exists() && root.path().join("c-1/files/deep").exists());
    }

    #[test]
    fn a_path_that_leads_out_is_none() {
        for inside in ["", "a", "a/b", "a//b/", ".github"] {
            assert!(path_within(inside).is_some(), "{inside}");
        }
        for outside in ["/", "/a", "..", "a/../..", "a/..", ".git", "a/.git/hooks", "./.."] {
            assert!(path_within(outside).is_none(), "{outside}");
        }
    }
}
