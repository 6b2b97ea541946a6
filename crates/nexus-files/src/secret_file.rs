//! A secret in a private file.

use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use crate::whole::create_once;

/// Largest secret that is read, in bytes.
const MAX_BYTES: u64 = 4096;

/// A secret in a private file that is created once and never changed.
///
/// Neither the errors nor `Debug` show the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretFile {
    path: PathBuf,
}

/// Reason why a secret cannot be read.
#[derive(Debug)]
pub enum SecretFileError {
    /// The file is missing.
    Missing,
    /// Users other than the owner may read or write the file. The field is its mode, such as `0o640`.
    Exposed(u32),
    /// The file cannot be read, is too large, is not UTF-8, or is not a regular file.
    Unreadable(io::Error),
}

impl SecretFile {
    /// Names the secret at `path`. Reads and creates nothing yet.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the file and its folder. Returns `false`, and changes nothing, if the file exists. Readers never see a part of the
    /// secret.
    ///
    /// # Errors
    ///
    /// The error of the file system. No file is created then.
    pub fn create(&self, secret: &[u8]) -> io::Result<bool> {
        create_once(&self.path, secret)
    }

    /// Reads the secret, unchanged. Follows links, because container runtimes mount secrets as links.
    ///
    /// # Errors
    ///
    /// A [`SecretFileError`].
    pub fn read(&self) -> Result<String, SecretFileError> {
        let file = match open_at_end_of_links(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(SecretFileError::Missing),
            opened => opened?,
        };
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a regular file").into());
        }
        if let Some(mode) = exposed_mode(&found) {
            return Err(SecretFileError::Exposed(mode));
        }
        // Reserve space for the largest secret, so that no reallocation leaves copies in memory.
        let mut text = String::with_capacity(MAX_BYTES as usize + 1);
        file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
        if text.len() as u64 > MAX_BYTES {
            let reason = format!("it has more than {MAX_BYTES} bytes, the limit for a secret");
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason).into());
        }
        Ok(text)
    }

    /// Removes the file. Succeeds if it is missing.
    ///
    /// # Errors
    ///
    /// The error of the file system.
    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

fn open_at_end_of_links(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt as _;
        // Without `NONBLOCK`, a pipe without a writer would block the call.
        options.custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed());
    }
    options.open(path)
}

#[cfg(unix)]
fn exposed_mode(found: &fs::Metadata) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = found.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then_some(mode)
}

#[cfg(not(unix))]
fn exposed_mode(_found: &fs::Metadata) -> Option<u32> {
    None
}

impl From<io::Error> for SecretFileError {
    fn from(error: io::Error) -> Self {
        Self::Unreadable(error)
    }
}

impl fmt::Display for SecretFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("there is no such file"),
            Self::Exposed(mode) => {
                write!(f, "other users can access it (mode {mode:o}): run `chmod 600`, or create a new file")
            }
            Self::Unreadable(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SecretFileError {}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_secret_is_created_once_and_read_by_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let secret = SecretFile::at(folder.path().join("keys/token"));
        assert!(matches!(secret.read(), Err(SecretFileError::Missing)));
        assert!(secret.create(b"one").unwrap());
        assert!(!secret.create(b"two").unwrap());
        assert_eq!(secret.read().unwrap(), "one");
        for mode in [0o640, 0o604, 0o620] {
            fs::set_permissions(secret.path(), fs::Permissions::from_mode(mode)).unwrap();
            let error = secret.read().unwrap_err();
            assert!(matches!(error, SecretFileError::Exposed(found) if found == mode), "{error}");
        }
        secret.remove().unwrap();
        secret.remove().unwrap();
        assert!(secret.create(b"mounted").unwrap());
        let link = SecretFile::at(folder.path().join("link"));
        std::os::unix::fs::symlink(secret.path(), link.path()).unwrap();
        assert_eq!(link.read().unwrap(), "mounted");
        assert!(!link.create(b"new").unwrap());
        secret.remove().unwrap();
        for content in [vec![0xff], vec![b'a'; 5000]] {
            assert!(secret.create(&content).unwrap());
            let error = secret.read().unwrap_err();
            assert!(matches!(error, SecretFileError::Unreadable(_)), "{error}");
            secret.remove().unwrap();
        }
    }
}
