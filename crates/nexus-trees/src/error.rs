//! Why something could not be done with a tree, named for what the caller can do next.

use std::{error::Error, fmt, io, path::Path};

use nexus_core::{ServiceError, ServiceErrorKind, ServiceFault};
use nexus_files::FileFault;

use super::refusal::RefusedPath;

/// Why something could not be done with a tree, named for what the caller can do next.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TreeErrorKind {
    /// `git` was not found. Install it.
    GitMissing,
    /// The `git` that was found is too old, for Nexus or for this repository. Install a newer one.
    GitTooOld,
    /// Nothing is there: no tree in the workspace, no such commit, no such ref.
    NotFound,
    /// The workspace has a tree already, of another project or with other options.
    AlreadyExists,
    /// The folder cannot be a project: it does not exist, lies inside of a repository, or is a repository that
    /// git does not open.
    NotAProject,
    /// An object of the project's is missing, as in a partial clone. It is not fetched: fetch it and try again.
    MissingObject,
    /// Paths that are not taken: see [`TreeError::paths`].
    Refused,
    /// Trees that were to be merged change the same paths: see [`TreeError::paths`].
    Overlap,
    /// A file changed while it was read. End what is running in the folder, and try again.
    Changed,
    /// More than the [`TreeLimits`](super::TreeLimits) allow.
    TooLarge,
    /// More is to be read than [`TreeOptions::with_read_bound`](super::TreeOptions::with_read_bound) allows. Ask the person, or name a smaller
    /// folder.
    NeedsConsent,
    /// A ref does not have the expected value: another process moved it. Read it, and decide again.
    RefMoved,
    /// A commit does not descend from the base of this tree.
    Unrelated,
    /// An argument, or a file in the workspace, does not have the form that this module writes.
    Malformed,
    /// Another process is writing and did not end in time. Try again.
    InUse,
    /// The caller cancelled.
    Cancelled,
    /// Git did not end in time, and was killed.
    TimedOut,
    /// The disk is full. Free some space.
    NoSpace,
    /// The operating system does not allow it. See to the rights of the file.
    PermissionDenied,
    /// Git failed in another way; its own words are in the message.
    Git,
    /// The operating system reports another failure, which is the source.
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

    /// `what` goes on after the path: "cannot be read".
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

    /// The paths in question, each with the reason. Empty unless the kind is [`Refused`](TreeErrorKind::Refused) or
    /// [`Overlap`](TreeErrorKind::Overlap).
    pub fn paths(&self) -> &[RefusedPath] {
        &self.0.paths
    }
}

/// Most paths that a message names.
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

/// Kinds of failure of a service that works on trees.
pub trait TreeServiceErrorKind: ServiceErrorKind {
    /// Returns the service's own kind and advice for a failure of a tree. `None` leaves it to [`TreeErrorKind::fault`].
    fn of_tree(kind: TreeErrorKind) -> Option<(Self, &'static str)>;
}

impl TreeErrorKind {
    /// Returns the failure that every service has and that is closest to this one.
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
