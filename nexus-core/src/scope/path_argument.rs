//! Arguments of tools that are paths, and why a path is refused.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An argument of a tool that is a path, or a list of paths. A session holds it against the scope before the tool is
/// asked, and hands the tool the path that it checked: absolute, and with no symbolic link in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathArgument {
    /// Where the path stands in the arguments: a JSON Pointer (RFC 6901), in which a `*` stands for every item of a
    /// list and for every value of an object. What is not there, or is `null`, is not checked; whatever else is there
    /// and is neither a text nor a list of texts, nor leads on as the pointer says, has the call denied.
    pub pointer: String,
    /// What the tool does at the path.
    pub access: PathAccess,
}

/// What is done at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathAccess {
    /// It is read, or listed.
    Read,
    /// It is made, changed or removed.
    Write,
}

impl fmt::Display for PathAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
        })
    }
}

/// Why a path is out of scope, in words that a model can act on.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{path:?} cannot be {}: {reason}", match access { PathAccess::Read => "read", PathAccess::Write => "written" })]
pub struct PathDenial {
    /// The path, as it was given.
    pub path: String,
    /// What was to be done.
    pub access: PathAccess,
    /// What stands against it.
    pub reason: String,
}

impl PathDenial {
    /// `path` is refused for `reason`.
    pub fn new(path: impl Into<String>, access: PathAccess, reason: impl Into<String>) -> Self {
        Self { path: path.into(), access, reason: reason.into() }
    }
}
