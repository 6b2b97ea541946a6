//! Files in a participant's scope, checked and opened in one step.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

#[cfg(unix)]
use super::files_by_handle::ByHandle;
use super::{
    PathAccess, PathDenial,
    file_opener::{FolderEntry, Listed, OpenFailure, Opener, Over, WriteMode},
    files_by_name::ByName,
    path_policy::{PathPolicy, denial},
};

/// Maximum number of attempts to open a file that changes meanwhile. Source: our own bound.
const MAX_TRIES: usize = 16;

/// Files within the scope of one participant. Accepts the paths that [`ParticipantScope::check_path`] accepts. Checks each path when it is
/// used, and checks an opened file again before it returns or changes it.
///
/// The calls block, like those of `std::fs`.
///
/// # Swaps between check and use
///
/// Between the check of a path and its use another program can swap files. This type closes these windows:
///
/// | swap | [`check_path`], then opened by name | [`ScopedFiles`], Linux | macOS, the BSDs | elsewhere |
/// | --- | --- | --- | --- | --- |
/// | a symbolic link in place of the file | open | closed: no link is followed | closed | narrowed: looked at again after opening |
/// | a symbolic link in place of a folder above it | open | closed | closed | narrowed |
/// | another name (hard link) of a file elsewhere | open | closed: names are counted after opening | closed | open: names cannot be counted |
/// | a pipe or a device | open | closed: opened without waiting, closed unread | closed | narrowed |
/// | a folder above it moved away, its handle in hand | open | narrowed: the real path is read after opening | narrowed on macOS, else open | open |
/// | a second name, made once the file was opened | open | open: the file stays reachable by its handle | open | open |
/// | a protected file, renamed to a name in scope | open | open: it is in scope then | open | open |
/// | other content, between reading and [`write`](Self::write) | open | open: no lock exists | open | open |
/// | another file under the name, between reading and `replace` | open | closed: the displaced file is checked, and restored | narrowed: looked at before | narrowed |
/// | other content in the same file, between reading and `replace` | open | narrowed: checked before and after | narrowed | narrowed |
///
/// Linux opens with `openat2`, or name by name in a sandbox that forbids it, like macOS and the BSDs. No file is truncated before the
/// opened file has been checked. `replace` exchanges the names of the two files, then checks the old file. If its content is unexpected,
/// `replace` exchanges the names again; until then other programs see the new content. Replacements of this process wait for each other. If
/// the process is killed in between, one of the two files has the name. The other file stays beside it under a name such as
/// `.0123456789abcdef.part`. An earlier kill leaves such a file on systems without unnamed files (Linux has them on most file systems).
/// Writing a whole file replaces a name, follows no link and changes no other file. Only a file that gets this name in the last moment
/// would be lost, as by any rename. No test has run on macOS, the BSDs and Windows: their columns are unproven.
///
/// No system reports that a folder is mounted at a second path. A rule with a path applies there too: the path is recognised by device and
/// inode number, and a missing path by its deepest existing folder. A rule with a glob does not apply there. A folder that is written as a
/// whole is searched for such mounts only if the rules have globs, or if the folder is a mount point itself.
///
/// [`ParticipantScope::check_path`]: super::ParticipantScope::check_path
/// [`check_path`]: super::ParticipantScope::check_path
#[derive(Clone, Debug)]
pub struct ScopedFiles {
    policy: Option<Arc<PathPolicy>>,
}

/// Reason why a file could not be used.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The scope denies the access.
    #[error(transparent)]
    Denied(#[from] PathDenial),
    /// The system returned an error.
    #[error("{path:?} cannot be {}", match access { PathAccess::Read => "read", PathAccess::Write => "written" })]
    Io {
        /// The path, as it was given.
        path: String,
        /// The attempted access.
        access: PathAccess,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// The file changed since it was read. It is left unchanged.
    #[error("{path:?} has changed since it was read; read it again")]
    Stale {
        /// The path, as it was given.
        path: String,
    },
}

impl FileError {
    pub(super) fn io(path: &str, access: PathAccess, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), access, source }
    }
}

impl ScopedFiles {
    pub(super) fn new(policy: Option<Arc<PathPolicy>>) -> Self {
        Self { policy }
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    ///
    /// [`FileError`], here and below: the scope denies the access, or the system returns an error.
    pub fn open(&self, path: &str) -> Result<File, FileError> {
        self.run(path, PathAccess::Read, |files, real| files.open(real))
    }

    /// Returns the content of a file.
    pub fn read(&self, path: &str) -> Result<Vec<u8>, FileError> {
        let mut content = Vec::new();
        let read = self.open(path)?.read_to_end(&mut content);
        read.map_err(|error| said_of(path, PathAccess::Read, error.into()))?;
        Ok(content)
    }

    /// Returns the content of a file, as text.
    pub fn read_to_string(&self, path: &str) -> Result<String, FileError> {
        let mut content = String::new();
        let read = self.open(path)?.read_to_string(&mut content);
        read.map_err(|error| said_of(path, PathAccess::Read, error.into()))?;
        Ok(content)
    }

    /// Returns the entries of a folder, by name. Leaves out protected entries, and names that are not Unicode.
    pub fn list(&self, path: &str) -> Result<Vec<FolderEntry>, FileError> {
        let mut entries = self.run(path, PathAccess::Read, |files, real| {
            let mut entries = Vec::new();
            files.list(real, &mut |listed| {
                entries.extend(match listed {
                    Listed::Entry(entry) => Some(entry),
                    Listed::Unnamed => None,
                });
                true
            })?;
            Ok(entries)
        })?;
        entries.sort_unstable();
        Ok(entries)
    }

    /// Opens a file for writing. Creates missing folders above it, if they are in scope themselves.
    pub fn open_for_writing(&self, path: &str, mode: WriteMode) -> Result<File, FileError> {
        self.run(path, PathAccess::Write, |files, real| files.open_for_writing(real, mode))
    }

    /// Writes a whole file, or leaves it unchanged: a reader sees the old content or the new. Creates missing folders above it, if they are
    /// in scope themselves. The new file gets the permissions of the old file, but not its owner. Until the new file takes the name, it is
    /// an owner-only file in the same folder.
    ///
    /// The file is written in place if no other file may be created in its folder. That is so if only the file itself is in scope, or if a
    /// rule protects the names of temporary files. A reader may then see a part, and a failure leaves a part.
    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) -> Result<(), FileError> {
        self.run(path, PathAccess::Write, |files, real| files.replace(real, content.as_ref(), Over::Anything))
    }

    /// Like [`ScopedFiles::write`], for a file that must not exist. An existing file is not changed, and the error is
    /// [`AlreadyExists`](io::ErrorKind::AlreadyExists).
    pub fn write_new(&self, path: &str, content: impl AsRef<[u8]>) -> Result<(), FileError> {
        self.run(path, PathAccess::Write, |files, real| files.replace(real, content.as_ref(), Over::Nothing))
    }

    /// Like [`ScopedFiles::write`], but replaces only a file whose hash is `expected`. Thus no change since the file was read is lost; the
    /// table above lists the limits of that guarantee. Needs the feature `files`.
    ///
    /// # Errors
    ///
    /// [`FileError::Stale`] if the content differs. The file is then not changed.
    #[cfg(feature = "files")]
    pub fn replace(
        &self,
        path: &str,
        expected: &super::ContentHash,
        content: impl AsRef<[u8]>,
    ) -> Result<(), FileError> {
        let is_expected = |file: File| expected.is_of(file);
        self.run(path, PathAccess::Write, |files, real| {
            files.replace(real, content.as_ref(), Over::Matching(&is_expected))
        })
    }

    /// Creates a folder, and missing folders above it, if they are in scope themselves. Does not change an
    /// existing folder.
    pub fn create_folder(&self, path: &str) -> Result<(), FileError> {
        self.run(path, PathAccess::Write, |files, real| files.create_folder(real))
    }

    /// Removes a file. If `path` is a symbolic link, removes the target of the link.
    pub fn remove_file(&self, path: &str) -> Result<(), FileError> {
        self.run(path, PathAccess::Write, |files, real| files.remove_file(real))
    }

    /// Removes a folder with its content, unless it contains a protected path. Removes symbolic links without following them. Rejects the
    /// scope's root, a mount point and folders more than 256 levels deep. After an error, the rest of the content remains.
    pub fn remove_folder(&self, path: &str) -> Result<(), FileError> {
        self.run(path, PathAccess::Write, |files, real| {
            if self.root().is_some_and(|root| root.starts_with(real)) {
                return Err(OpenFailure::Denied(
                    "it is the root of the scope; name the file or folder in it to remove".to_owned(),
                ));
            }
            files.remove_folder(real)
        })
    }

    /// Makes a file executable for all users who may read it, or for none. A later replacement retains that. On
    /// systems without such a permission it is [`Unsupported`](io::ErrorKind::Unsupported).
    pub fn set_executable(&self, path: &str, is_executable: bool) -> Result<(), FileError> {
        self.run(path, PathAccess::Write, |files, real| files.set_executable(real, is_executable))
    }

    /// Returns the readable paths: the shortest list of existing paths that contains all of them, in order.
    /// Writable paths are readable. Each is relative to the scope's root if it is below it, else absolute; for
    /// files without a scope it is the working directory.
    pub fn readable(&self) -> Vec<String> {
        let Some(policy) = self.policy.as_deref() else { return vec![".".to_owned()] };
        let mut grants: Vec<&Path> = policy.read.iter().chain(&policy.write).map(PathBuf::as_path).collect();
        grants.sort_unstable();
        // A folder sorts directly before the paths below it, so this removes every path with a granted folder
        // above it.
        grants.dedup_by(|grant, above| grant.starts_with(above));
        let readable = grants.into_iter().filter_map(|grant| {
            let path = self.relative(grant);
            // A granted path may be protected or may not exist.
            let real = policy.check(&path, PathAccess::Read).ok()?;
            real.exists().then_some(path)
        });
        readable.collect()
    }

    /// Returns a path for display: relative to the scope's root if the path is below it.
    pub fn relative(&self, path: &Path) -> String {
        let below = self.root().and_then(|root| path.strip_prefix(root).ok()).unwrap_or(path);
        let text = below.to_string_lossy();
        if text.is_empty() { ".".to_owned() } else { text.into_owned() }
    }

    /// Returns the real path for display.
    pub(super) fn place_of(&self, path: &str, access: PathAccess) -> Result<String, FileError> {
        match self.policy.as_deref() {
            Some(policy) => Ok(self.relative(&policy.check(path, access)?)),
            None => Ok(path.trim_end_matches('/').to_owned())
                .map(|path| if path.is_empty() { "/".to_owned() } else { path }),
        }
    }

    /// Returns true for a folder, false for a file. Opens nothing.
    pub(super) fn is_folder(&self, path: &str) -> Result<bool, FileError> {
        self.run(path, PathAccess::Read, |_, real| Ok(std::fs::metadata(real)?.is_dir()))
    }

    /// Opens a file for reading. Rejects pipes and devices, which could block.
    #[cfg(feature = "files")]
    pub(crate) fn open_file(&self, path: &str) -> Result<File, FileError> {
        // With a scope, the opener detects pipes itself. Without one, opening a pipe would wait for its
        // writer, so look first.
        if self.policy.is_none()
            && !std::fs::metadata(path).is_ok_and(|found| found.is_file() || found.is_dir())
        {
            let missing = std::fs::metadata(path).map(|_| io::ErrorKind::Unsupported.into());
            return Err(FileError::io(path, PathAccess::Read, missing.unwrap_or_else(|error| error)));
        }
        self.open(path)
    }

    fn root(&self) -> Option<&Path> {
        self.policy.as_deref().map(|policy| policy.root.as_path())
    }

    /// Checks the path and runs an operation on it. Repeats both if the file changed meanwhile.
    pub(super) fn run<T>(
        &self,
        path: &str,
        access: PathAccess,
        act: impl Fn(&dyn Opener, &Path) -> Result<T, OpenFailure>,
    ) -> Result<T, FileError> {
        for _ in 0..MAX_TRIES {
            // Check the path again in each attempt, because the change may have moved its target out of
            // scope.
            let done = match self.policy.as_deref() {
                #[cfg(unix)]
                Some(policy) => act(&ByHandle(policy), &policy.check(path, access)?),
                #[cfg(not(unix))]
                Some(policy) => act(&ByName(Some(policy)), &policy.check(path, access)?),
                None => act(&ByName(None), Path::new(path)),
            };
            match done {
                Ok(done) => return Ok(done),
                Err(OpenFailure::Changed) => {}
                Err(trouble) => return Err(said_of(path, access, trouble)),
            }
        }
        Err(said_of(path, access, OpenFailure::Changed))
    }
}

fn said_of(path: &str, access: PathAccess, trouble: OpenFailure) -> FileError {
    match trouble {
        OpenFailure::Changed => {
            FileError::Denied(denial(path, access, "it changed repeatedly while it was opened".to_owned()))
        }
        OpenFailure::Stale => FileError::Stale { path: path.to_owned() },
        OpenFailure::Denied(reason) => FileError::Denied(denial(path, access, reason)),
        OpenFailure::Io(source) => FileError::io(path, access, source),
    }
}
