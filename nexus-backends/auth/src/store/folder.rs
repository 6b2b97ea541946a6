//! Folder of login files. It is owner-only, and is opened once, so that every step works in the same folder.

use std::{
    ffi::OsString,
    fs,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{ffi::OsStringExt as _, fs::DirBuilderExt as _},
    },
    path::{Path, PathBuf},
};

use nexus_files::shell_word;
use rustix::{
    fs::{CWD, Dir, Mode, OFlags, Stat, fstat, openat},
    io::Errno,
    process::geteuid,
};

/// Mode bits that group and others must not have.
const OTHERS: u32 = 0o077;

/// Folder that only its owner may enter.
#[derive(Debug)]
pub(super) struct OwnerOnlyFolder {
    descriptor: OwnedFd,
    path: PathBuf,
}

impl OwnerOnlyFolder {
    /// Opens the folder; `None` if it does not exist. Errors name the fault, with advice.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, String> {
        let Some(folder) = Self::open_whosever(path)? else { return Ok(None) };
        // Check the opened folder and not its path, which another process could replace.
        let found =
            fstat(&folder.descriptor).map_err(|error| explained("its folder cannot be read", error))?;
        refuse_strangers(&found, "its folder belongs")?;
        let rights = found.st_mode & 0o777;
        if rights & OTHERS != 0 {
            let path = shell_word(path);
            return Err(format!("others may enter its folder (mode {rights:o}): run `chmod 700 {path}`"));
        }
        Ok(Some(folder))
    }

    /// Like [`OwnerOnlyFolder::open`], without the check of owner and mode.
    pub(super) fn open_whosever(path: &Path) -> Result<Option<Self>, String> {
        let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match openat(CWD, path, how, Mode::empty()) {
            Ok(descriptor) => Ok(Some(Self { descriptor, path: path.to_owned() })),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::NOTDIR) => Err(format!("{} is not a folder: move it away", path.display())),
            Err(error) => Err(explained("its folder cannot be opened", error)),
        }
    }

    /// Opens the folder. If it does not exist, creates it with its parents, so that they survive a power failure.
    pub(super) fn make(path: &Path) -> Result<Self, String> {
        if let Some(folder) = Self::open(path)? {
            return Ok(folder);
        }
        let failed = |error: std::io::Error| match Errno::from_io_error(&error) {
            Some(errno) => explained("the folder for it cannot be created", errno),
            None => format!("its folder cannot be created: {error}"),
        };
        let missing: Vec<_> = path.ancestors().take_while(|folder| is_missing(folder)).collect();
        for folder in missing.iter().rev() {
            match fs::DirBuilder::new().mode(0o700).create(folder) {
                // Another process may create the folder at the same time.
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(failed(error)),
                _ => {}
            }
            // Flush the parent, because a power failure could otherwise remove the folder and the login in it.
            let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
            fs::File::open(parent.unwrap_or(Path::new(".")))
                .and_then(|parent| parent.sync_all())
                .map_err(failed)?;
        }
        Self::open(path)?.ok_or_else(|| "its folder vanished: try again".to_owned())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the names in the folder.
    pub(super) fn names(&self) -> Result<Vec<OsString>, String> {
        let unreadable = |error| explained("its folder cannot be listed", error);
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.descriptor).map_err(unreadable)? {
            names.push(OsString::from_vec(entry.map_err(unreadable)?.file_name().to_bytes().to_vec()));
        }
        Ok(names)
    }

    /// Flushes the folder to the disk, if the file system supports it.
    pub(super) fn sync(&self) -> Result<(), String> {
        match rustix::fs::fsync(&self.descriptor) {
            // Some file systems cannot flush a folder. The write itself has succeeded, so continue.
            Ok(()) | Err(Errno::INVAL | Errno::NOTSUP | Errno::NOSYS | Errno::BADF) => Ok(()),
            Err(error) => Err(explained("its folder could not be flushed to the disk", error)),
        }
    }
}

impl AsFd for OwnerOnlyFolder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn is_missing(path: &Path) -> bool {
    !path.as_os_str().is_empty()
        && matches!(fs::metadata(path), Err(error) if error.kind() == std::io::ErrorKind::NotFound)
}

/// Rejects a file or folder of another user. `what` begins the error, as in "it belongs".
pub(super) fn refuse_strangers(found: &Stat, what: &str) -> Result<(), String> {
    let we = geteuid().as_raw();
    match found.st_uid == we {
        true => Ok(()),
        false => Err(format!(
            "{what} to user {}, but this process runs as user {we}: run it as that user, or choose another \
            NEXUS_HOME",
            found.st_uid
        )),
    }
}

/// Rejects a file that other users may access.
pub(super) fn refuse_others(found: &Stat, path: &Path) -> Result<(), String> {
    let rights = found.st_mode & 0o777;
    match rights & OTHERS {
        0 => Ok(()),
        _ => Err(format!("others may read it (mode {rights:o}): run `chmod 600 {}`", shell_word(path))),
    }
}

/// Returns the text of an error: the failed operation, the reason, and advice if there is any.
pub(super) fn explained(what: &str, error: Errno) -> String {
    let way_out = match error {
        Errno::NOSPC | Errno::DQUOT => ": free some space",
        Errno::ROFS => ": choose another NEXUS_HOME",
        Errno::ACCESS | Errno::PERM => ": correct its permissions, or choose another NEXUS_HOME",
        _ => "",
    };
    format!("{what} ({error}){way_out}")
}
