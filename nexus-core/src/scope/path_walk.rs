//! Resolves a path name by name, without opening the files on it.

use std::{
    ffi::OsString,
    fs::{self, Metadata},
    io,
    path::{Component, Path, PathBuf},
};

use super::{file_id::FileId, path_identity::PathIdentity};

/// Maximum number of symbolic links that are followed for one path. Source: the limit of Linux.
const MAX_LINKS: usize = 40;

/// Maximum number of names that are resolved for one path, including names in links. Source: our own bound.
const MAX_STEPS: usize = 2048;

/// Target of a path.
#[derive(Debug)]
pub(super) struct Walked {
    /// The real path: absolute and without symbolic links. Names that do not exist yet are at its end.
    pub(super) path: PathBuf,
    /// Kind of its target.
    pub(super) kind: PathKind,
    /// Every path that was passed, including symbolic links.
    pub(super) passed: Vec<PathBuf>,
    /// Symbolic links among the passed paths.
    pub(super) links: Vec<PathBuf>,
    /// Identities of all existing files that were passed.
    pub(super) identities: Vec<FileId>,
    /// Identities of the existing names of the real path alone, from the root of the file system down.
    pub(super) trail: Vec<FileId>,
}

impl Walked {
    /// Returns the identity of the target, if it exists.
    pub(super) fn identity(&self) -> Option<FileId> {
        if self.kind == PathKind::Missing { None } else { self.trail.last().copied() }
    }

    /// Returns the path in comparable form.
    pub(super) fn path_identity(&self) -> PathIdentity {
        PathIdentity::new(&self.path, self.trail.clone())
    }
}

/// Kind of file at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathKind {
    /// Nothing exists there yet.
    Missing,
    /// A folder.
    Folder,
    /// A file.
    File {
        /// Number of names (hard links).
        names: u64,
    },
    /// A pipe, a socket or a device.
    Special,
}

impl PathKind {
    pub(super) fn of(metadata: &Metadata) -> Self {
        match metadata.file_type() {
            kind if kind.is_dir() => Self::Folder,
            kind if kind.is_file() => Self::File { names: name_count(metadata) },
            _ => Self::Special,
        }
    }
}

#[cfg(unix)]
fn name_count(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::nlink(metadata)
}

#[cfg(not(unix))]
fn name_count(_: &Metadata) -> u64 {
    1
}

/// Reason why the target of a path cannot be determined.
#[derive(Debug)]
pub(super) struct Astray {
    /// Path up to which the walk succeeded.
    pub(super) at: PathBuf,
    /// Reason why it stopped.
    pub(super) problem: String,
}

/// Resolves `path`, which is absolute, from the root of the file system, so that every name on it is checked.
pub(super) fn walk(path: &Path) -> Result<Walked, Astray> {
    let mut walk = Walk {
        here: PathBuf::new(),
        kind: PathKind::Folder,
        passed: Vec::new(),
        identities: Vec::new(),
        trail: Vec::new(),
        ahead: Vec::new(),
        links: Vec::new(),
    };
    if !path.is_absolute() {
        return Err(walk.astray("it is neither relative nor absolute"));
    }
    walk.turn_to(path);
    let mut steps = 0;
    while let Some(name) = walk.ahead.pop() {
        steps += 1;
        if steps > MAX_STEPS {
            return Err(walk.astray(format!("it has more than {MAX_STEPS} names")));
        }
        walk.step(name)?;
    }
    let Walk { here: path, kind, passed, identities, trail, links, .. } = walk;
    Ok(Walked { path, kind, passed, links, identities, trail })
}

struct Walk {
    here: PathBuf,
    kind: PathKind,
    passed: Vec<PathBuf>,
    identities: Vec<FileId>,
    trail: Vec<FileId>,
    /// Remaining names, the next one last.
    ahead: Vec<OsString>,
    links: Vec<PathBuf>,
}

impl Walk {
    fn astray(&self, problem: impl Into<String>) -> Astray {
        Astray { at: self.here.clone(), problem: problem.into() }
    }

    /// Inserts the names of `path` before the remaining ones.
    fn turn_to(&mut self, path: &Path) {
        if path.is_absolute() {
            // An absolute link target continues at the root, so the names so far are not part of the real
            // path.
            self.here = path.ancestors().last().unwrap_or(path).to_owned();
            self.trail.clear();
        }
        for part in path.components().rev() {
            match part {
                Component::Normal(name) => self.ahead.push(name.to_owned()),
                Component::ParentDir => self.ahead.push("..".into()),
                Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            }
        }
    }

    fn step(&mut self, name: OsString) -> Result<(), Astray> {
        match self.kind {
            PathKind::Folder => {}
            PathKind::Missing if name == ".." => {
                return Err(self.astray("a `..` in it follows a name that does not exist"));
            }
            PathKind::Missing => {
                self.here.push(name);
                self.passed.push(self.here.clone());
                return Ok(());
            }
            PathKind::File { .. } | PathKind::Special => {
                return Err(self.astray("a parent in it is a file, not a folder"));
            }
        }
        if name == ".." {
            // `here` contains no links, so its parent by name is its real parent.
            self.here.pop();
            self.trail.pop();
            return Ok(());
        }
        let next = self.here.join(name);
        self.passed.push(next.clone());
        let metadata = match fs::symlink_metadata(&next) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                (self.here, self.kind) = (next, PathKind::Missing);
                return Ok(());
            }
            Err(error) => return Err(self.astray(format!("it cannot be inspected: {}", said(&error)))),
        };
        if metadata.is_symlink() {
            return self.follow(&next);
        }
        let identity = FileId::of(&metadata);
        self.identities.extend(identity);
        self.trail.extend(identity);
        (self.here, self.kind) = (next, PathKind::of(&metadata));
        Ok(())
    }

    fn follow(&mut self, link: &Path) -> Result<(), Astray> {
        self.links.push(link.to_owned());
        if self.links.len() > MAX_LINKS {
            return Err(self.astray("it has too many symbolic links, perhaps a loop"));
        }
        if is_of_the_kernel(&self.here) {
            return Err(self.astray("it contains a system link whose target cannot be read"));
        }
        match fs::read_link(link) {
            Ok(target) => {
                self.turn_to(&target);
                Ok(())
            }
            Err(error) => {
                Err(self.astray(format!("a symbolic link in it cannot be followed: {}", said(&error))))
            }
        }
    }
}

/// Returns an error's message, without its number.
pub(super) fn said(error: &io::Error) -> String {
    error.kind().to_string()
}

/// Returns true for a folder such as `/proc`, whose links may lead to other targets than their text names.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_of_the_kernel(folder: &Path) -> bool {
    rustix::fs::statfs(folder).is_ok_and(|system| system.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn is_of_the_kernel(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scope::path_key::key_of;

    #[cfg(unix)]
    #[test]
    fn the_trail_is_that_of_the_real_path() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        std::os::unix::fs::symlink(root.join("a"), root.join("absolute")).unwrap();
        std::os::unix::fs::symlink("a/b", root.join("relative")).unwrap();
        for path in ["a/b/new/er", "absolute/b/new/er", "relative/new/er", "a/../relative/../b/new/er"] {
            let walked = walk(&root.join(path)).unwrap();
            assert_eq!(walked.path, root.join("a/b/new/er"), "{path}");
            let b = FileId::of(&fs::metadata(root.join("a/b")).unwrap());
            assert_eq!(
                (walked.trail.len(), walked.trail.last().copied()),
                (key_of(&walked.path).len() - 2, b)
            );
            assert_eq!(walked.identity(), None);
        }
    }
}
