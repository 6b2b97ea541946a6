//! Finds the program to run, and explains its faults before the turn costs anything.

use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use thiserror::Error;

/// A program that exists and may be executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executable {
    path: PathBuf,
}

/// Identity of one state of an executable file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExecutableStamp {
    path: PathBuf,
    modified: (i64, i64),
    size_bytes: u64,
    device: u64,
    inode: u64,
}

/// Reason why a program cannot run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExecutableError {
    /// No executable file with this name exists in the searched folders.
    #[error("no executable {name:?} was found in {}", places(.looked_in))]
    Missing {
        /// Name or path as given.
        name: OsString,
        /// Searched paths, in order.
        looked_in: Vec<PathBuf>,
    },
    /// The path is a folder.
    #[error("{} is a directory, not an executable", .path.display())]
    Directory {
        /// The folder.
        path: PathBuf,
    },
    /// This user must not execute the file.
    #[error("{} is not executable", .path.display())]
    NotExecutable {
        /// The file.
        path: PathBuf,
    },
    /// The file could not be examined.
    #[error("{} cannot be examined", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
}

/// Bytes at the beginning of a file that identify its format. Source: Linux, `BINPRM_BUF_SIZE`.
const HEAD_BYTES: u64 = 256;

impl Executable {
    /// Finds `name`. A name with a `/` is a path. Otherwise returns the first executable file of that name in the
    /// folders of `search_path`, which is colon-separated like `PATH`; no other folder is searched. Skips relative
    /// folders, because they would name another program after the child's change of directory.
    ///
    /// # Errors
    ///
    /// An [`ExecutableError`] that names the searched paths.
    pub fn find(name: impl AsRef<OsStr>, search_path: Option<&OsStr>) -> Result<Self, ExecutableError> {
        let name = name.as_ref();
        if name.as_encoded_bytes().contains(&b'/') {
            return Self::at(name);
        }
        let mut looked_in = Vec::new();
        let mut nearly = None;
        if !name.is_empty() {
            for folder in search_path.map(std::env::split_paths).into_iter().flatten() {
                if !folder.is_absolute() {
                    continue;
                }
                match Self::at(folder.join(name)) {
                    Ok(found) => return Ok(found),
                    Err(ExecutableError::Missing { .. }) => {}
                    Err(error) => nearly = nearly.or(Some(error)),
                }
                looked_in.push(folder);
            }
        }
        Err(nearly.unwrap_or_else(|| ExecutableError::Missing { name: name.to_owned(), looked_in }))
    }

    /// Returns the program at `path`, which is made absolute.
    ///
    /// # Errors
    ///
    /// An [`ExecutableError`] if the file cannot be executed.
    pub fn at(path: impl AsRef<Path>) -> Result<Self, ExecutableError> {
        let given = path.as_ref();
        let path = std::path::absolute(given)
            .map_err(|source| ExecutableError::Unreadable { path: given.to_owned(), source })?;
        let executable = Self { path };
        executable.check()?;
        Ok(executable)
    }

    /// Returns the path of the program.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the last part of the path, for people and logs.
    #[must_use]
    pub fn file_name(&self) -> &OsStr {
        self.path.file_name().unwrap_or(self.path.as_os_str())
    }

    /// Returns the identity of the file's current state.
    ///
    /// # Errors
    ///
    /// An [`ExecutableError`] if the file is gone or can no longer be executed.
    pub fn stamp(&self) -> Result<ExecutableStamp, ExecutableError> {
        let metadata = self.check()?;
        Ok(ExecutableStamp {
            path: self.path.clone(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            size_bytes: metadata.size(),
            device: metadata.dev(),
            inode: metadata.ino(),
        })
    }

    /// Returns true if the system can run the file directly: a program for this machine, or a script whose interpreter
    /// exists. A shell would run any other file as a shell script.
    pub(crate) fn is_plain(&self) -> bool {
        let head = |path: &Path| -> io::Result<Vec<u8>> {
            let mut head = Vec::new();
            std::fs::File::open(path)?.take(HEAD_BYTES).read_to_end(&mut head)?;
            Ok(head)
        };
        // Leave a file that may be run but not read to the system.
        let Ok(start) = head(&self.path) else { return true };
        if let Some(line) = start.strip_prefix(b"#!") {
            let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
            let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
            return Path::new(OsStr::from_bytes(&line[..end])).is_file();
        }
        // Source: elf(5): the class and the byte order are at offsets 4 and 5, the machine at 18.
        let machine = |head: &[u8]| Some((head.get(..6)?.to_vec(), head.get(18..20)?.to_vec()));
        let own = std::env::current_exe().and_then(|own| head(&own)).unwrap_or_default();
        start.starts_with(b"\x7fELF") && (own.is_empty() || machine(&start) == machine(&own))
    }

    /// Checks that the program still exists and is executable.
    pub(crate) fn check(&self) -> Result<Metadata, ExecutableError> {
        let path = || self.path.clone();
        let metadata = std::fs::metadata(&self.path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                ExecutableError::Missing { name: self.path.clone().into(), looked_in: vec![path()] }
            }
            _ => ExecutableError::Unreadable { path: path(), source },
        })?;
        if metadata.is_dir() {
            return Err(ExecutableError::Directory { path: path() });
        }
        if !metadata.is_file() || access(&self.path, Access::EXEC_OK).is_err() {
            return Err(ExecutableError::NotExecutable { path: path() });
        }
        Ok(metadata)
    }
}

fn places(folders: &[PathBuf]) -> String {
    if folders.is_empty() {
        return "no folder, because the search path is empty".to_owned();
    }
    let names: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn write(path: &Path, mode: u32) {
        fs::write(path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn the_given_search_path_alone_is_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("first"), folder.path().join("second"));
        fs::create_dir(&first).unwrap();
        fs::create_dir(&second).unwrap();
        write(&first.join("tool"), 0o644);
        write(&second.join("tool"), 0o755);
        let path = std::env::join_paths([&first, &second]).unwrap();
        assert_eq!(Executable::find("tool", Some(&path)).unwrap().path(), second.join("tool"));
        let error = Executable::find("sh", Some(&path)).unwrap_err();
        assert!(
            matches!(&error, ExecutableError::Missing { looked_in, .. } if *looked_in == [first, second])
        );
        assert!(error.to_string().contains("second"), "{error}");
        assert!(matches!(Executable::find("sh", None), Err(ExecutableError::Missing { .. })));
    }

    #[test]
    fn each_obstacle_has_its_own_error() {
        let folder = tempfile::tempdir().unwrap();
        write(&folder.path().join("plain"), 0o644);
        assert!(matches!(Executable::at(folder.path()), Err(ExecutableError::Directory { .. })));
        assert!(matches!(
            Executable::at(folder.path().join("plain")),
            Err(ExecutableError::NotExecutable { .. })
        ));
        assert!(matches!(Executable::at(folder.path().join("absent")), Err(ExecutableError::Missing { .. })));
        assert!(matches!(
            Executable::at(folder.path().join("plain/below")),
            Err(ExecutableError::Missing { .. })
        ));
        let found = Executable::find("plain", Some(folder.path().as_os_str()));
        assert!(matches!(found, Err(ExecutableError::NotExecutable { .. })));
    }

    #[test]
    fn a_replaced_file_has_another_stamp() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tool");
        write(&path, 0o755);
        let executable = Executable::at(&path).unwrap();
        let before = executable.stamp().unwrap();
        assert_eq!(before, executable.stamp().unwrap());
        write(&folder.path().join("new"), 0o755);
        fs::rename(folder.path().join("new"), &path).unwrap();
        assert_ne!(before, executable.stamp().unwrap());
    }
}
