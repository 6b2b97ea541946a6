//! Files that are ours: opened without following links, read within bounds, replaced as a whole.
//!
//! All of it is the standard library's: its `rename` replaces a file under open readers also on Windows.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use super::{WorkspaceError, WorkspaceErrorKind, WorkspaceId};

/// Ends the name of a file that is not in place yet.
const PENDING: &str = ".new";

/// How often a step is tried on Windows, where a file that somebody just opened or deleted can be refused for a moment.
const WINDOWS_TRIES: u32 = 60;
/// What is waited for in between, at most.
const WINDOWS_PAUSE: Duration = Duration::from_millis(25);

/// How often a file may be another one than a moment before.
const SWAPS: usize = 100;

/// Opens a regular file at the path itself, never at the end of a link.
pub(super) fn open(path: &Path, options: &OpenOptions) -> Result<File, WorkspaceError> {
    let failed = |error| WorkspaceError::from_io(path, "cannot be opened", error);
    for _ in 0..SWAPS {
        let before = fs::symlink_metadata(path).map_err(failed)?;
        refuse_odd_types(path, &before)?;
        let file = patiently(|| options.open(path)).map_err(failed)?;
        // A status that was replaced in between, or a link that was put there.
        if is_same(&before, &file.metadata().map_err(failed)?) {
            return Ok(file);
        }
    }
    Err(WorkspaceError::new(WorkspaceErrorKind::InUse, path, "is being replaced all the time: see by whom"))
}

/// As [`open`], but makes the file where there is none. Says whether it did.
pub(super) fn open_or_make(path: &Path, options: &mut OpenOptions) -> Result<(File, bool), WorkspaceError> {
    // A file that appears or vanishes in between is looked at once more.
    for _ in 0..SWAPS {
        match open(path, options) {
            Err(error) if error.kind() == WorkspaceErrorKind::NotFound => {}
            opened => return opened.map(|file| (file, false)),
        }
        match make(path, options.clone().create_new(true)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => {
                let made = made.map_err(|error| WorkspaceError::from_io(path, "cannot be made", error));
                return made.map(|file| (file, true));
            }
        }
    }
    Err(WorkspaceError::new(WorkspaceErrorKind::InUse, path, "comes and goes: see who deletes it"))
}

/// Reads a whole file of at most `max_bytes`.
pub(super) fn read(path: &Path, max_bytes: u64) -> Result<Vec<u8>, WorkspaceError> {
    let file = open(path, OpenOptions::new().read(true))?;
    let mut bytes = Vec::new();
    file.take(max_bytes.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| WorkspaceError::from_io(path, "cannot be read", error))?;
    if bytes.len() as u64 > max_bytes {
        let reason =
            format!("has more than {max_bytes} bytes, which no file of a workspace has: move it away");
        return Err(WorkspaceError::new(WorkspaceErrorKind::Malformed { line: 1, column: 1 }, path, reason));
    }
    Ok(bytes)
}

/// Replaces a file of `folder` as a whole: it has the old content or the new one, whenever and however this ends.
///
/// The content is written under a name of its own first. So two writers never mix their bytes, even where a lock does
/// not hold what it promises.
pub(super) fn replace(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), WorkspaceError> {
    let path = folder.join(name);
    let pending = folder.join(format!(".{name}.{}{PENDING}", WorkspaceId::random()));
    let written = write_new(&pending, bytes).and_then(|()| patiently(|| fs::rename(&pending, &path)));
    if let Err(error) = written {
        // What cannot be removed now is removed when the workspace is opened.
        let _ = fs::remove_file(&pending);
        return Err(WorkspaceError::from_io(&path, "cannot be written", error));
    }
    sync_folder(folder)
}

/// The files that a writer of `name` left behind when it died, or is writing now.
pub(super) fn pending(folder: &Path, name: &str) -> Vec<PathBuf> {
    let is_pending = |file: &str| {
        let rest = file.strip_prefix('.').and_then(|rest| rest.strip_prefix(name));
        rest.is_some_and(|rest| rest.starts_with('.') && rest.ends_with(PENDING))
    };
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let entries = entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_pending));
    entries.map(|entry| entry.path()).collect()
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = make(path, OpenOptions::new().write(true).create_new(true))?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Makes what was done in the folder survive a loss of power, where the system can.
pub(super) fn sync_folder(folder: &Path) -> Result<(), WorkspaceError> {
    // Windows opens no folder this way and flushes its entries by itself.
    if cfg!(windows) {
        return Ok(());
    }
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            Ok(())
        }
        done => done.map_err(|error| WorkspaceError::from_io(folder, "cannot be flushed to the disk", error)),
    }
}

/// Makes a file that only its owner may read and write. `options` say that it must be new.
fn make(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options.open(path)
}

/// Makes folders that only their owner may enter.
pub(super) fn folder_builder() -> fs::DirBuilder {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes to set"))]
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

/// Does a step; on Windows again for a while, if somebody else has the file open.
pub(super) fn patiently<T>(mut step: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    /// `ERROR_SHARING_VIOLATION` and `ERROR_LOCK_VIOLATION`.
    const TAKEN: [i32; 2] = [32, 33];
    let mut tries = 1;
    loop {
        match step() {
            Err(error)
                if cfg!(windows)
                    && tries < WINDOWS_TRIES
                    && (error.kind() == io::ErrorKind::PermissionDenied
                        || error.raw_os_error().is_some_and(|code| TAKEN.contains(&code))) =>
            {
                thread::sleep(WINDOWS_PAUSE.min(Duration::from_millis(u64::from(tries))));
                tries += 1;
            }
            done => return done,
        }
    }
}

fn refuse_odd_types(path: &Path, found: &fs::Metadata) -> Result<(), WorkspaceError> {
    let what = match found.file_type() {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_dir() => "a folder",
        kind if kind.is_symlink() => "a symbolic link",
        _ => "a pipe, a socket or a device",
    };
    let reason = format!("is {what}, where a workspace has a file: move it away");
    Err(WorkspaceError::new(WorkspaceErrorKind::NotAWorkspace, path, reason))
}

/// Whether the two are one file, as far as the system tells.
pub(super) fn is_same(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        (one.dev(), one.ino()) == (other.dev(), other.ino())
    }
    #[cfg(not(unix))]
    {
        let _ = (one, other);
        true
    }
}
