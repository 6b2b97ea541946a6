//! Errors of operations on trees, named for what the caller can do next.

use std::{error::Error, fmt, io, path::Path};

use nexus_core::{ServiceError, ServiceErrorKind, ServiceFault};
use nexus_files::FileFault;

use super::refusal::RefusedPath;

/// Kind of a failure, named for what the caller can do next.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TreeErrorKind {
    /// `git` was not found. The user must install it.
    GitMissing,
    /// The `git` that was found is too old, for Nexus or for this repository. The user must install a newer one.
    GitTooOld,
    /// The tree, the commit or the ref does not exist.
    NotFound,
    /// The workspace has a tree already, of another project or with other options.
    AlreadyExists,
    /// The folder cannot be a project: it does not exist, lies inside of a repository, or is a repository that
    /// git does not open.
    NotAProject,
    /// An object of the project is missing, as in a partial clone. Nexus does not fetch it: fetch it and try again.
    MissingObject,
    /// The tree rejects some paths: see [`TreeError::paths`].
    Refused,
    /// The trees to merge change the same paths: see [`TreeError::paths`].
    Overlap,
    /// A file changed while it was read. End the programs that use the folder, and try again.
    Changed,
    /// The data exceeds the [`TreeLimits`](super::TreeLimits).
    TooLarge,
    /// The data exceeds [`TreeOptions::with_read_bound`](super::TreeOptions::with_read_bound). Ask the person, or name a
    /// smaller folder.
    NeedsConsent,
    /// A ref does not have the expected value: another process moved it. Read it, and decide again.
    RefMoved,
    /// A commit does not descend from the base of this tree.
    Unrelated,
    /// An argument, a bundle, or a file of the tree in the workspace is malformed.
    Malformed,
    /// Another process writes to the same data and did not end in time. Try again.
    InUse,
    /// The caller cancelled the operation.
    Cancelled,
    /// Git did not end in time, and was killed.
    TimedOut,
    /// The disk is full. Free some space.
    NoSpace,
    /// The operating system does not allow the access. Check the permissions of the file.
    PermissionDenied,
    /// Git failed in another way; the message contains its error output.
    Git,
    /// The operating system reported another failure, which is the `source`.
    Io,
}

/// Failure of an operation on a tree: its kind, the path, and advice.
#[derive(Debug)]
pub struct TreeError(Box<TreeErrorFields>);

/// Fields of a [`TreeError`], which boxes them.
#[derive(Debug)]
struct TreeErrorFields {
    kind: TreeErrorKind,
    message: String,
    paths: Vec<RefusedPath>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl TreeError {
    pub(super) fn new(kind: TreeErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(TreeErrorFields { kind, message: message.into(), paths: Vec::new(), source: None }))
    }

    /// Converts an error at a path. `what` continues the sentence after the path: "cannot be read".
    pub(super) fn from_io(path: &Path, what: &str, source: impl Into<io::Error>) -> Self {
        let source = source.into();
        let fault = FileFault::of(&source);
        let kind = match fault {
            FileFault::NotFound => TreeErrorKind::NotFound,
            FileFault::NotAllowed | FileFault::ReadOnly => TreeErrorKind::PermissionDenied,
            FileFault::DiskFull | FileFault::QuotaReached => TreeErrorKind::NoSpace,
            FileFault::Unexpected => TreeErrorKind::Malformed,
            FileFault::AlreadyExists | FileFault::Other => TreeErrorKind::Io,
        };
        let explanation = fault.explanation();
        let separator = if explanation.is_empty() { "" } else { ": " };
        let mut error = Self::new(kind, format!("{path:?} {what}{separator}{explanation}"));
        error.0.source = Some(source.into());
        error
    }

    pub(super) fn with_paths(
        kind: TreeErrorKind,
        message: impl Into<String>,
        paths: Vec<RefusedPath>,
    ) -> Self {
        let mut error = Self::new(kind, message);
        error.0.paths = paths;
        error
    }

    /// Returns the kind of failure.
    pub fn kind(&self) -> TreeErrorKind {
        self.0.kind
    }

    /// Returns the rejected paths, each with the reason. Empty unless the kind is [`Refused`](TreeErrorKind::Refused) or
    /// [`Overlap`](TreeErrorKind::Overlap).
    pub fn paths(&self) -> &[RefusedPath] {
        &self.0.paths
    }
}

/// Maximum number of paths that a message names.
const SHOWN: usize = 10;

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        for (at, path) in self.0.paths.iter().take(SHOWN).enumerate() {
            write!(f, "{} {path}", if at == 0 { ":" } else { ";" })?;
        }
        match self.0.paths.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

impl Error for TreeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

/// Error kinds of a service that works on trees.
pub trait TreeServiceErrorKind: ServiceErrorKind {
    /// Returns the service's own kind and advice for a failure of a tree. For `None`, [`TreeErrorKind::fault`] decides the
    /// kind.
    fn of_tree(kind: TreeErrorKind) -> Option<(Self, &'static str)>;
}

impl TreeErrorKind {
    /// Returns the kind of fault, common to all services, that is closest to this failure.
    pub fn fault(self) -> ServiceFault {
        match self {
            Self::Malformed => ServiceFault::Damaged,
            Self::InUse | Self::Changed | Self::RefMoved => ServiceFault::InUse,
            Self::Cancelled => ServiceFault::Interrupted,
            Self::NoSpace => ServiceFault::NoSpace,
            Self::PermissionDenied => ServiceFault::PermissionDenied,
            _ => ServiceFault::Failed,
        }
    }
}

impl<K: TreeServiceErrorKind> From<TreeError> for ServiceError<K> {
    fn from(error: TreeError) -> Self {
        let failure = Self::with_causes(error.kind().fault(), &error);
        match K::of_tree(error.kind()) {
            Some((kind, advice)) => Self::new(kind, failure.message, advice),
            None => failure,
        }
    }
}
