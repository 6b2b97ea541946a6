//! Paths that a tree rejects, each with the reason.

use std::{
    ffi::OsString,
    fmt,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
};

/// Reason why a path is rejected.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Refusal {
    /// A component is `.git`, or some file system takes it for `.git`.
    DotGit,
    /// The path contains a control character.
    ControlCharacter,
    /// Some file systems do not distinguish the path from another path of the tree, for example because only the case
    /// differs.
    Twin,
    /// The path is a link that leads out of the tree, or into a `.git`.
    LinkOut,
    /// The path is a submodule, or inside one.
    Submodule,
    /// The base has the path under a filter, such as LFS, so the file in the tree is not the real content.
    Filtered,
    /// The path is a pipe, a socket or a device.
    Special,
    /// Git rejects the path: a link with the name `.gitmodules`, in any of its forms.
    NotForGit,
    /// The path has more folders than a tree may have.
    TooDeep,
    /// Two trees that should be merged change the path.
    Overlap,
}

/// A path of a tree that was rejected.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RefusedPath {
    path: PathBuf,
    refusal: Refusal,
}

impl RefusedPath {
    pub(super) fn new(path: &[u8], refusal: Refusal) -> Self {
        Self { path: to_path(path), refusal }
    }

    /// Returns the path, from the top of the tree.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the reason.
    pub fn refusal(&self) -> Refusal {
        self.refusal
    }
}

impl fmt::Display for RefusedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self.refusal {
            Refusal::DotGit => "can be taken for a `.git`: remove or rename it",
            Refusal::ControlCharacter => "has a control character in its name: rename it",
            Refusal::Twin => {
                "differs from another name only in a way that some file systems ignore: rename it"
            }
            Refusal::LinkOut => "is a link that leads out of the tree: remove it, or let it point inside",
            Refusal::Submodule => "belongs to a submodule, which is out of scope: restore it",
            Refusal::Filtered => "is stored with a filter such as LFS and cannot be changed here: restore it",
            Refusal::Special => "is a pipe, a socket or a device: remove it",
            Refusal::NotForGit => "is a name or link that git does not accept: remove or rename it",
            Refusal::TooDeep => "is in too many nested folders: move it up",
            Refusal::Overlap => "is changed by several participants: give it to one of them",
        };
        write!(f, "{:?} {reason}", self.path)
    }
}

/// Returns the path that these bytes represent.
pub(super) fn to_path(bytes: &[u8]) -> PathBuf {
    OsString::from_vec(bytes.to_vec()).into()
}
