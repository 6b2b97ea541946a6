//! Opens private files and folders.

use std::{
    fs::{self, DirBuilder, File, Metadata, OpenOptions},
    io,
    path::Path,
};

/// Creates a folder that only its owner may enter, and the missing folders above it. An existing folder keeps its mode.
///
/// # Errors
///
/// The error of the file system, such as `NotADirectory` if a file has the name of a folder.
pub fn make_private_folder(folder: &Path) -> io::Result<()> {
    private_folders().recursive(true).create(folder)
}

/// Creates a folder that only its owner may enter.
///
/// # Errors
///
/// [`AlreadyExists`](io::ErrorKind::AlreadyExists) if the path exists, [`NotFound`](io::ErrorKind::NotFound) if the folder above it does
/// not. Otherwise the error of the file system.
pub fn create_private_folder(folder: &Path) -> io::Result<()> {
    private_folders().create(folder)
}

fn private_folders() -> DirBuilder {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes to set"))]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

/// Opens a regular file with `options`. A created file is private.
///
/// # Errors
///
/// [`InvalidData`](io::ErrorKind::InvalidData) if the path names a link, a folder, a pipe, a socket or a device. Otherwise the error of
/// the file system.
pub fn open_regular(path: &Path, options: &OpenOptions) -> io::Result<File> {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has flags to set"))]
    let mut options = options.clone();
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt as _;
        // Without `NONBLOCK`, a pipe without a writer would block the call.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        options.mode(0o600).custom_flags(flags.bits().cast_signed());
    }
    match options.open(path) {
        Ok(file) => match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(not_regular()),
        },
        // A link or a socket cannot be opened at all. Systems return different errors for that, so check the kind here.
        Err(_) if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) => Err(not_regular()),
        Err(error) => Err(error),
    }
}

fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it is not a regular file")
}

/// Returns true if `path` still leads to `file`, which is false once the file was removed or replaced. Follows links for folders only.
///
/// On systems without file numbers the result is always `true`.
pub fn is_same_file(file: &File, path: &Path) -> bool {
    let Ok(opened) = file.metadata() else { return false };
    let found = if opened.is_dir() { fs::metadata(path) } else { fs::symlink_metadata(path) };
    found.is_ok_and(|found| is_same(&opened, &found))
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        (one.dev(), one.ino()) == (other.dev(), other.ino())
    }
    #[cfg(not(unix))]
    {
        // Other systems have no file numbers to compare.
        let _ = (one, other);
        true
    }
}
