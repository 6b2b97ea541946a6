//! Path arguments of tools, and reasons for denying a path.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An argument of a tool that is a path, or a list of paths. A session checks it against the scope before the
/// tool runs, and passes the checked path to the tool: absolute, and without symbolic links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathArgument {
    /// Position of the path in the arguments: a JSON Pointer (RFC 6901), in which a `*` stands for every item
    /// of a list and for every value of an object. A value that is missing or `null` is not checked; any other
    /// value that is neither a text nor a list of texts, nor has the next step of the pointer, denies the call.
    pub pointer: String,
    /// The tool's access to the path.
    pub access: PathAccess,
}

/// Access to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathAccess {
    /// The tool reads or lists it.
    Read,
    /// The tool creates, changes or removes it.
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

/// Reason why a path is out of scope, in words that a model can act on.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{path:?} cannot be {}: {reason}", match access { PathAccess::Read => "read", PathAccess::Write => "written" })]
pub struct PathDenial {
    /// The path, as it was given.
    pub path: String,
    /// The attempted access.
    pub access: PathAccess,
    /// The reason.
    pub reason: String,
}

impl PathDenial {
    /// Creates the denial of `path` for `reason`.
    pub fn new(path: impl Into<String>, access: PathAccess, reason: impl Into<String>) -> Self {
        Self { path: path.into(), access, reason: reason.into() }
    }
}
