//! Reads and writes whole files.

use std::{
    fs::{self, File, OpenOptions},
    hash::{BuildHasher as _, Hasher as _, RandomState},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use crate::open::{make_private_folder, open_regular};

/// Name suffix of a file that is not complete yet.
const UNFINISHED: &str = ".new";

/// Reads a regular file of at most `max_bytes` bytes. Returns `None` if it is missing.
///
/// # Errors
///
/// [`InvalidData`](io::ErrorKind::InvalidData) if the file is larger, or not a regular file. Otherwise the error of the file system.
pub fn read_bounded(path: &Path, max_bytes: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match open_regular(path, OpenOptions::new().read(true)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut bytes = Vec::new();
    file.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        let reason = format!("it has more than {max_bytes} bytes, the limit for a file of this kind");
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    Ok(Some(bytes))
}

/// Replaces a whole file. Creates the file and its folder if they are missing. Readers see the old content or the new one, even after a
/// crash or a power failure. The file is private.
///
/// # Errors
///
/// The error of the file system. The old content stays, unless only flushing the folder fails: then the new content is in place.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = folder_of(path);
    make_private_folder(folder)?;
    let unfinished = unfinished_path(folder, path);
    let written = write_new(&unfinished, bytes).and_then(|()| fs::rename(&unfinished, path));
    if let Err(error) = written {
        // Ignore an error: a file that cannot be removed stays until `remove_unfinished`.
        let _ = fs::remove_file(&unfinished);
        return Err(error);
    }
    sync_folder(folder)
}

/// Creates a private file with `bytes`, and its folder. Returns `false`, and writes nothing, if the path exists.
///
/// Readers never see a part of the content, because it is written under another name and then linked. Of several concurrent callers, one
/// succeeds.
///
/// # Errors
///
/// The error of the file system, for example if it does not support hard links.
pub fn create_once(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    let folder = folder_of(path);
    make_private_folder(folder)?;
    if fs::symlink_metadata(path).is_ok() {
        return Ok(false);
    }
    let unfinished = unfinished_path(folder, path);
    // Creating a hard link fails if the name exists, so it never replaces a file.
    let linked = write_new(&unfinished, bytes).and_then(|()| fs::hard_link(&unfinished, path));
    let _ = fs::remove_file(&unfinished);
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        linked => linked.and_then(|()| sync_folder(folder)).map(|()| true),
    }
}

/// Returns the unfinished files in `folder` for `name`: of writers that died, and of writers that still run.
pub fn unfinished(folder: &Path, name: &str) -> Vec<PathBuf> {
    let prefix = format!(".{name}.");
    let is_unfinished =
        |found: &str| found.strip_prefix(&prefix).is_some_and(|rest| rest.ends_with(UNFINISHED));
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let entries = entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_unfinished));
    entries.map(|entry| entry.path()).collect()
}

/// Removes all unfinished files in `folder` that dead writers left. The caller must own the lock that excludes other writers.
pub fn remove_unfinished(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.starts_with('.') && name.ends_with(UNFINISHED)) {
            // Ignore an error: an unfinished file is harmless.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Flushes a folder's entries to the disk, so that a created or renamed file survives a power failure.
///
/// # Errors
///
/// The error of the file system, except if the system cannot flush folders.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    // Windows cannot open a folder this way, and flushes its entries itself.
    if cfg!(windows) {
        return Ok(());
    }
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            Ok(())
        }
        done => done,
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Returns a random name of 16 lower-case hexadecimal digits, for temporary files. Do not use it as a secret.
pub fn random_name() -> String {
    // The keys of `RandomState` come from the operating system.
    let mut random = RandomState::new().build_hasher();
    random.write_u32(std::process::id());
    format!("{:016x}", random.finish())
}

fn unfinished_path(folder: &Path, path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    folder.join(format!(".{name}.{}{UNFINISHED}", random_name()))
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = open_regular(path, OpenOptions::new().write(true).create_new(true))?;
    file.write_all(bytes)?;
    file.sync_all()
}
