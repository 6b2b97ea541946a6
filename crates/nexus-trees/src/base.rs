//! The base of a tree, and the file that records it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{CommitId, Project, TreeError, TreeErrorKind, text::PathText};

const NAME: &str = "tree.json";
const VERSION: u64 = 1;
/// Maximum size of the record file, in bytes. It names every file under a filter.
const MAX_BYTES: u64 = 256 << 20;

/// Prefix of the refs in a person's repository that retain bases.
const PINS: &str = "refs/nexus/base/";

/// The content that a tree begins with.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// The commit. It is the person's own, unless it includes uncommitted files or the project had no commit.
    pub commit: CommitId,
    /// The person's commit that was checked out; `None` in a plain folder or a repository without commits.
    pub head: Option<CommitId>,
    /// The person's branch, as `refs/heads/main`; `None` for a detached head or a plain folder.
    pub branch: Option<String>,
    /// Uncommitted files, in order. [`Base::includes_uncommitted`] is true if they are in the base.
    pub uncommitted: Vec<PathBuf>,
    /// True if uncommitted files are in the base.
    pub includes_uncommitted: bool,
    /// Uncommitted files that are not in the base in any case: changed files under a filter, and repositories
    /// in the checkout.
    pub left_out: Vec<PathBuf>,
    /// Files that the project stores under a filter, such as LFS. In the tree they are pointers, and cannot be changed.
    pub filtered: Vec<PathBuf>,
    /// Submodules: empty folders in the tree, which cannot be changed.
    pub submodules: Vec<PathBuf>,
    /// True if the project may have files under a filter, including files that do not exist yet.
    pub has_filters: bool,
}

/// Stored description of a tree.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    version: u64,
    pub(super) project: Option<Project>,
    /// The ref in the person's repository that retains the base commit.
    pub(super) pin: Option<String>,
    pub(super) object_format: String,
    commit: CommitId,
    head: Option<CommitId>,
    branch: Option<String>,
    includes_uncommitted: bool,
    uncommitted: Vec<PathText>,
    left_out: Vec<PathText>,
    filtered: Vec<PathText>,
    submodules: Vec<PathText>,
    /// `None` in records from before this field existed.
    #[serde(default)]
    has_filters: Option<bool>,
}

impl Record {
    pub(super) fn new(
        project: Option<Project>,
        pin: Option<String>,
        object_format: String,
        base: &Base,
    ) -> Self {
        let texts = |paths: &[PathBuf]| paths.iter().cloned().map(PathText::from).collect();
        Self {
            version: VERSION,
            project,
            pin,
            object_format,
            commit: base.commit.clone(),
            head: base.head.clone(),
            branch: base.branch.clone(),
            includes_uncommitted: base.includes_uncommitted,
            uncommitted: texts(&base.uncommitted),
            left_out: texts(&base.left_out),
            filtered: texts(&base.filtered),
            submodules: texts(&base.submodules),
            has_filters: Some(base.has_filters),
        }
    }

    pub(super) fn base(&self) -> Base {
        let paths = |texts: &[PathText]| texts.iter().map(|path| path.to_path_buf()).collect();
        Base {
            commit: self.commit.clone(),
            head: self.head.clone(),
            branch: self.branch.clone(),
            uncommitted: paths(&self.uncommitted),
            includes_uncommitted: self.includes_uncommitted,
            left_out: paths(&self.left_out),
            filtered: paths(&self.filtered),
            submodules: paths(&self.submodules),
            has_filters: self.has_filters.unwrap_or(true),
        }
    }

    pub(super) fn read(folder: &Path) -> Result<Self, TreeError> {
        let path = folder.join(NAME);
        let read = nexus_files::read_bounded(&path, MAX_BYTES);
        let read = read.map_err(|error| TreeError::from_io(&path, "cannot be read", error))?;
        let bytes =
            read.ok_or_else(|| TreeError::from_io(&path, "cannot be read", std::io::ErrorKind::NotFound))?;
        let record: Self = serde_json::from_slice(&bytes).map_err(|error| {
            let message = format!("{path:?} was changed by another program: {error}; create the tree again");
            TreeError::new(TreeErrorKind::Malformed, message)
        })?;
        if record.version != VERSION {
            let message = format!(
                "{path:?} has version {}, which this version of Nexus does not support: update Nexus",
                record.version
            );
            return Err(TreeError::new(TreeErrorKind::Malformed, message));
        }
        // Check the name: deleting the tree deletes this ref in the person's repository, and its lock by its path.
        if let Some(pin) = record.pin.as_deref().filter(|pin| !is_pin(pin)) {
            let message = format!("{path:?} names {pin:?}, which is not a ref of a tree: restore the file");
            return Err(TreeError::new(TreeErrorKind::Malformed, message));
        }
        Ok(record)
    }

    pub(super) fn write(&self, folder: &Path) -> Result<(), TreeError> {
        let bytes = serde_json::to_vec_pretty(self)
            .map_err(|error| TreeError::new(TreeErrorKind::Malformed, error.to_string()))?;
        let path = folder.join(NAME);
        nexus_files::replace(&path, &bytes)
            .map_err(|error| TreeError::from_io(&path, "cannot be written", error))
    }
}

/// Returns a unique name for a ref that retains a base.
pub(super) fn new_pin() -> String {
    format!("{PINS}{}", nexus_files::random_name())
}

/// Returns true if [`new_pin`] can have created a ref of this name.
fn is_pin(name: &str) -> bool {
    let is_id = |id: &str| {
        (1..=64).contains(&id.len()) && id.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9'))
    };
    name.strip_prefix(PINS).is_some_and(is_id)
}
