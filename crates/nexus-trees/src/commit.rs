//! Commits of stored intents, and the refs of a tree.

use std::time::{SystemTime, UNIX_EPOCH};

use nexus_files::rfc3339;
use serde::{Deserialize, Serialize};

use super::{CommitId, Tree, TreeError, TreeErrorKind, TreeId, git::AUTHOR, text};

/// Prefix of the refs of a tree, in its own repository.
const REFS: &str = "refs/nexus/";

/// Everything that determines a commit. The same intent always gives the same commit: a program that stores the
/// intent first can repeat it after a crash.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitIntent {
    /// Content of the commit.
    pub tree: TreeId,
    /// Parents of the commit.
    pub parents: Vec<CommitId>,
    /// Time of the commit, in whole seconds.
    #[serde(with = "rfc3339::as_micros")]
    pub time: SystemTime,
    /// Message of the commit.
    pub message: String,
    /// Trailers at the end of the message, such as `Task: 12`, in order.
    pub trailers: Vec<(String, String)>,
}

impl CommitIntent {
    /// Describes a commit of `tree` with the parent `parent`.
    pub fn new(tree: TreeId, parent: CommitId, time: SystemTime, message: impl Into<String>) -> Self {
        Self { tree, parents: vec![parent], time, message: message.into(), trailers: Vec::new() }
    }

    /// Describes a commit with any number of parents.
    pub(super) fn of(tree: TreeId, parents: Vec<CommitId>, time: SystemTime, message: &str) -> Self {
        Self { tree, parents, time, message: message.to_owned(), trailers: Vec::new() }
    }

    /// Adds a trailer.
    #[must_use]
    pub fn with_trailer(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.trailers.push((name.into(), value.into()));
        self
    }

    /// Returns the commit object as git stores it. Source: gitformat-commit, and `commit_tree_extended` in git.
    pub(super) fn object(&self) -> Result<String, TreeError> {
        let malformed = |what: String| Err(TreeError::new(TreeErrorKind::Malformed, what));
        let seconds = self.time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let (name, email) = AUTHOR;
        let mut object = format!("tree {}\n", self.tree);
        for parent in &self.parents {
            object += &format!("parent {parent}\n");
        }
        for role in ["author", "committer"] {
            object += &format!("{role} {name} <{email}> {seconds} +0000\n");
        }
        if self.message.contains('\0') {
            return malformed("the message of a commit has a NUL in it".to_owned());
        }
        object += &format!("\n{}\n", self.message.trim());
        if !self.trailers.is_empty() {
            object.push('\n');
        }
        for (name, value) in &self.trailers {
            let is_name =
                !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            if !is_name || value.chars().any(char::is_control) {
                return malformed(format!(
                    "{name:?}: {value:?} is not a trailer: write letters, digits and `-` in one line"
                ));
            }
            object += &format!("{name}: {value}\n");
        }
        Ok(object)
    }
}

impl Tree {
    /// Creates the commit of an intent, and moves no ref. The same intent gives the same id.
    ///
    /// # Errors
    ///
    /// [`Refused`](TreeErrorKind::Refused), with every path, if the tree adds files that no tree may have: a
    /// `.git` in any form, control characters, names that some file systems do not distinguish, links that lead
    /// out, changes of submodules and of files under a filter. [`NotFound`](TreeErrorKind::NotFound) if the
    /// tree or a parent does not exist; [`Malformed`](TreeErrorKind::Malformed) for a malformed message or
    /// trailer; errors of git.
    pub fn commit(&self, intent: &CommitIntent) -> Result<CommitId, TreeError> {
        let object = intent.object()?;
        for parent in &intent.parents {
            self.repo.tree_of(parent)?;
        }
        if self.repo.root(intent.tree.as_str())? != intent.tree.as_str() {
            return Err(self.repo.no_object("tree", intent.tree.as_str()));
        }
        self.check(&intent.tree)?;
        self.write_object(object.as_bytes())
    }

    /// Creates the commit of an intent whose tree was already checked.
    pub(super) fn write_commit(&self, intent: &CommitIntent) -> Result<CommitId, TreeError> {
        self.write_object(intent.object()?.as_bytes())
    }

    /// Writes a commit object.
    pub(super) fn write_object(&self, commit: &[u8]) -> Result<CommitId, TreeError> {
        let id = self.repo.command("hash-object").args(["-t", "commit", "-w", "--stdin"]).line(commit)?;
        text::id(&id)
    }

    /// Returns the tree of a commit.
    ///
    /// # Errors
    ///
    /// [`NotFound`](TreeErrorKind::NotFound) if the commit does not exist.
    pub fn tree_of(&self, commit: &CommitId) -> Result<TreeId, TreeError> {
        self.repo.tree_of(commit)
    }

    /// Returns the target of one of this tree's refs.
    ///
    /// # Errors
    ///
    /// [`Malformed`](TreeErrorKind::Malformed) if the name is malformed; errors of git.
    pub fn read_ref(&self, name: &str) -> Result<Option<CommitId>, TreeError> {
        self.repo.read_ref(&ref_name(name)?)
    }

    /// Moves one of this tree's refs if it has the expected value: `from`, or missing. Refs are in the tree's
    /// own repository; names are letters, digits, `-` and `_`, in parts that `/` separates.
    ///
    /// Removes a lock that a killed git left.
    ///
    /// # Errors
    ///
    /// [`RefMoved`](TreeErrorKind::RefMoved) if it has another value; [`NotFound`](TreeErrorKind::NotFound) if
    /// the commit does not exist; [`InUse`](TreeErrorKind::InUse) if another process does not end in time;
    /// [`Malformed`](TreeErrorKind::Malformed) if the name is malformed.
    pub fn move_ref(&self, name: &str, from: Option<&CommitId>, to: &CommitId) -> Result<(), TreeError> {
        let name = ref_name(name)?;
        self.repo.tree_of(to)?;
        let _lock = self.lock()?;
        self.unlock_refs(&name)?;
        let zeros = "0".repeat(to.as_str().len());
        let old = from.map_or(zeros.as_str(), CommitId::as_str);
        let command = self.repo.command("update-ref").args(["--no-deref", &name, to.as_str(), old]);
        let (ended, _) = command.outcome(b"")?;
        if ended.code() == Some(0) {
            return Ok(());
        }
        let found = self.repo.read_ref(&name)?;
        if found.as_ref() == Some(to) && ended.code().is_none() {
            // Git was killed after it had moved the ref.
            return Ok(());
        }
        if found.as_ref() == from {
            return Err(ended.failure());
        }
        let found = found.map_or_else(|| "not there".to_owned(), |found| found.to_string());
        let expected = from.map_or_else(|| "nothing".to_owned(), ToString::to_string);
        let message = format!("{name} is {found}, but {expected} was expected: another process moved it");
        Err(TreeError::new(TreeErrorKind::RefMoved, message))
    }
}

/// Returns the full name of a ref of this tree.
pub(super) fn ref_name(name: &str) -> Result<String, TreeError> {
    let is_part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    if name.len() <= 100 && name.split('/').all(is_part) {
        return Ok(format!("{REFS}{name}"));
    }
    let message = format!(
        "{name:?} is not a ref: write letters, digits, `-` and `_`, in parts that `/` \
        separates"
    );
    Err(TreeError::new(TreeErrorKind::Malformed, message))
}
