//! Combines the commits of a tree with a person's branch that has moved since.

use std::time::{SystemTime, UNIX_EPOCH};

use super::{
    CommitId, CommitIntent, LandObstacle, Landing, Tree, TreeError, TreeId,
    land::{LandingBranch, rebased_ref},
    text,
};

/// Maximum number of merges while the branch keeps moving.
const MOST_MERGES: usize = 8;
/// Oldest git that can merge without a work tree. Source: git 2.38, `merge-tree --write-tree`.
const JOINS: [u32; 3] = [2, 38, 0];
/// Maximum size of a commit that is replayed, in bytes. Source: our own bound; a message has some kilobytes.
const MAX_COMMIT: u64 = 16 << 20;

/// Way to combine commits with a branch that has moved since.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BranchJoin {
    /// Creates a merge of the branch and the commits, which stay as they are. Impossible if the branch was rewritten: a merge
    /// would bring back the commits that a person removed.
    Merge {
        /// Time of the merge.
        time: SystemTime,
        /// Message of the merge.
        message: String,
    },
    /// Replays each commit on the branch. Author, author's time and message stay; the committer's time is never before that of
    /// the branch, so the same commits on the same branch always give the same ids. A commit whose changes the branch has
    /// already is left out.
    Rebase,
}

/// Commits that were combined with a person's branch. No branch has moved yet: the caller can judge [`commit`](Self::commit), and
/// land exactly that by [`Tree::land_joined`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedCommits {
    tip: CommitId,
    commit: CommitId,
    /// Commit of the branch with which they were combined. `None`: the branch has not moved.
    onto: Option<CommitId>,
}

impl JoinedCommits {
    fn unchanged(tip: &CommitId) -> Self {
        Self { tip: tip.clone(), commit: tip.clone(), onto: None }
    }

    /// Returns the commit to judge and land. It is the given tip if nothing had to be combined.
    pub fn commit(&self) -> &CommitId {
        &self.commit
    }

    /// Returns true if the branch already has all changes of the commits.
    pub fn adds_nothing(&self) -> bool {
        self.onto.as_ref() == Some(&self.commit)
    }
}

impl Tree {
    /// Combines `tip` with the person's branch, and moves no branch. Files are merged line by line, as git does. No merge driver
    /// of the project runs.
    ///
    /// # Errors
    ///
    /// Errors of [`Tree::land`].
    pub fn join_branch(
        &self,
        tip: &CommitId,
        join: &BranchJoin,
    ) -> Result<Result<JoinedCommits, LandObstacle>, TreeError> {
        self.descends_from_base(tip)?;
        self.check(&self.repo.tree_of(tip)?)?;
        let _lock = self.lock()?;
        let LandingBranch { head, now, .. } = match self.landing_branch()? {
            Ok(branch) => branch,
            Err(obstacle) => return Ok(Err(obstacle)),
        };
        let is_on_the_way = now == *head || (self.is_ancestor(head, &now)? && self.is_ancestor(&now, tip)?);
        if is_on_the_way || self.has_landed(tip, &now)? {
            return Ok(Ok(JoinedCommits::unchanged(tip)));
        }
        self.joined_with(tip, now, join)
    }

    /// Moves the branch to commits that [`Tree::join_branch`] combined with it, like [`Tree::land`]. If the branch has moved since
    /// then, the result is [`BranchMoved`](LandObstacle::BranchMoved): nothing lands that the caller has not seen.
    ///
    /// # Errors
    ///
    /// Errors of [`Tree::land`].
    pub fn land_joined(&self, joined: &JoinedCommits) -> Result<Landing, TreeError> {
        match &joined.onto {
            None => self.land(&joined.tip),
            Some(onto) => self.land_onto(&joined.tip, &joined.commit, Some(onto)),
        }
    }

    /// Like [`Tree::land`], for a branch that may have moved since: it moves to a merge of its commit and `tip`, with `time` and
    /// `message`, as [`BranchJoin::Merge`] describes. If they do not merge, the result is the patch with
    /// [`Conflict`](LandObstacle::Conflict).
    ///
    /// # Errors
    ///
    /// Errors of [`Tree::land`].
    pub fn land_merged(&self, tip: &CommitId, time: SystemTime, message: &str) -> Result<Landing, TreeError> {
        let join = BranchJoin::Merge { time, message: message.to_owned() };
        self.descends_from_base(tip)?;
        self.check(&self.repo.tree_of(tip)?)?;
        let _lock = self.lock()?;
        let Ok(_project) = self.lock_project()? else {
            return self.not_landed(tip, LandObstacle::ProjectLocked);
        };
        let mut next = JoinedCommits::unchanged(tip);
        // A busy branch may move again during each merge, so the number of attempts is bounded.
        let mut merges = 0;
        loop {
            let to = match self.fast_forward(&next.commit, next.onto.as_ref())? {
                Ok(moved) => return Ok(moved.into()),
                Err(LandObstacle::BranchMoved { to }) if merges < MOST_MERGES => to,
                Err(obstacle) => return self.not_landed(tip, obstacle),
            };
            merges += 1;
            next = match self.joined_with(tip, to, &join)? {
                Ok(joined) => joined,
                Err(obstacle) => return self.not_landed(tip, obstacle),
            };
        }
    }

    /// Combines `tip` with `onto`, the present commit of the branch, and checks what that adds to the branch.
    fn joined_with(
        &self,
        tip: &CommitId,
        onto: CommitId,
        join: &BranchJoin,
    ) -> Result<Result<JoinedCommits, LandObstacle>, TreeError> {
        let commit = match join {
            _ if self.repo.git().version() < JOINS => Err(LandObstacle::GitTooOld),
            BranchJoin::Merge { time, message } => self.merge_commit(tip, &onto, *time, message)?,
            BranchJoin::Rebase => self.replay(tip, &onto)?,
        };
        let commit = match commit {
            Ok(commit) => commit,
            Err(obstacle) => return Ok(Err(obstacle)),
        };
        // Each side may be valid alone, and their names still differ only in case. So check the result as well.
        self.check_since(&onto, &self.repo.tree_of(&commit)?)?;
        if *join == BranchJoin::Rebase {
            self.record_rebase(tip, &commit)?;
        }
        Ok(Ok(JoinedCommits { tip: tip.clone(), commit, onto: Some(onto) }))
    }

    fn merge_commit(
        &self,
        tip: &CommitId,
        onto: &CommitId,
        time: SystemTime,
        message: &str,
    ) -> Result<Result<CommitId, LandObstacle>, TreeError> {
        let is_rewritten = match &self.base().head {
            Some(head) => !self.is_ancestor(head, onto)?,
            None => true,
        };
        if is_rewritten {
            return Ok(Err(LandObstacle::BranchRewritten { to: onto.clone() }));
        }
        Ok(match self.joined(onto, tip)? {
            Ok(tree) => {
                let parents = vec![onto.clone(), tip.clone()];
                Ok(self.write_commit(&CommitIntent::of(tree, parents, time, message))?)
            }
            Err(paths) => Err(LandObstacle::Conflict(paths)),
        })
    }

    /// Replays the commits from the base to `tip` on `onto`, the oldest first. Returns the last of them, or `onto` if the branch
    /// has all changes already.
    fn replay(&self, tip: &CommitId, onto: &CommitId) -> Result<Result<CommitId, LandObstacle>, TreeError> {
        let without = format!("^{}", self.base().commit);
        let command =
            self.repo.command("rev-list").args(["--reverse", "--first-parent", tip.as_str(), &without]);
        let listed = String::from_utf8_lossy(&command.run(b"")?).into_owned();
        let mut ids = listed.lines().map(text::id).collect::<Result<Vec<CommitId>, _>>()?;
        // What has landed before is not replayed: a person may have reverted or changed it since.
        let mut landed = 0;
        for (index, id) in ids.iter().enumerate() {
            if self.has_landed(id, onto)? {
                landed = index + 1;
            }
        }
        ids.drain(..landed);
        let mut last = onto.clone();
        for id in ids {
            let commit = RawCommit::read(self, &id)?;
            let Some(parent) = commit.parents.first() else {
                return Err(text::unexpected("a commit without a parent"));
            };
            // A commit with the files of `last` and the parent of `commit` makes that parent the base of the merge.
            let files = self.repo.tree_of(&last)?;
            let ours =
                CommitIntent::of(files.clone(), vec![parent.clone()], UNIX_EPOCH, "files of the branch");
            let tree = match self.joined(&self.write_commit(&ours)?, &commit.id)? {
                Ok(tree) => tree,
                Err(paths) => return Ok(Err(LandObstacle::Conflict(paths))),
            };
            let was_empty = self.repo.tree_of(parent)? == commit.tree;
            if tree != files || was_empty {
                // Take the time from the commits and not from the clock, so that repeated calls give the same ids.
                let earliest = RawCommit::read(self, &last)?.committed_at();
                last = self.write_object(&commit.with_parent(&tree, &last, earliest))?;
            }
        }
        Ok(Ok(last))
    }

    /// Records that the commits of `tip` became `commit`, so that landing `tip` again changes nothing. The caller has the tree's
    /// lock.
    fn record_rebase(&self, tip: &CommitId, commit: &CommitId) -> Result<(), TreeError> {
        let name = rebased_ref(tip)?;
        self.unlock_refs(&name)?;
        self.repo.command("update-ref").args(["--no-deref", &name, commit.as_str()]).run(b"").map(drop)
    }
}

/// A commit as git stores it. Source: gitformat-commit.
struct RawCommit {
    id: CommitId,
    tree: TreeId,
    parents: Vec<CommitId>,
    /// Header lines after the parents, each with its further lines.
    headers: Vec<Vec<u8>>,
    message: Vec<u8>,
}

impl RawCommit {
    fn read(tree: &Tree, id: &CommitId) -> Result<Self, TreeError> {
        let found = tree.repo.reader()?.object(id.as_str(), MAX_COMMIT)?;
        let object = found.filter(|object| object.kind == "commit");
        let bytes = object.ok_or_else(|| tree.repo.no_object("commit", id.as_str()))?.bytes;
        let end = bytes.windows(2).position(|pair| pair == b"\n\n").unwrap_or(bytes.len());
        let message = bytes.get(end + 2..).unwrap_or_default().to_vec();
        let mut commit = Self {
            id: id.clone(),
            tree: text::tree_in(&bytes)?,
            parents: Vec::new(),
            headers: Vec::new(),
            message,
        };
        for line in bytes[..end].split(|byte| *byte == b'\n').skip(1) {
            if let Some(parent) = line.strip_prefix(b"parent ") {
                commit.parents.push(text::id(&String::from_utf8_lossy(parent))?);
                continue;
            }
            match commit.headers.last_mut().filter(|_| line.starts_with(b" ")) {
                Some(header) => {
                    header.push(b'\n');
                    header.extend_from_slice(line);
                }
                None => commit.headers.push(line.to_vec()),
            }
        }
        Ok(commit)
    }

    /// Returns the committer's time in seconds, or 0 if the line is malformed.
    fn committed_at(&self) -> u64 {
        let committer = self.headers.iter().find(|header| header.starts_with(b"committer "));
        committer.and_then(|line| time_in(line)).map_or(0, |(_, seconds)| seconds)
    }

    /// Returns the object of this commit with another tree and parent. The committer's time is at least `earliest`. A signature
    /// would not match any more, so it is left out.
    fn with_parent(&self, tree: &TreeId, parent: &CommitId, earliest: u64) -> Vec<u8> {
        let mut object = format!("tree {tree}\nparent {parent}\n").into_bytes();
        let is_left_out =
            // `gpgsig` also matches `gpgsig-sha256`, the signature of the other object format.
            |header: &[u8]| [&b"gpgsig"[..], b"mergetag"].iter().any(|name| header.starts_with(name));
        for header in self.headers.iter().filter(|header| !is_left_out(header)) {
            match time_in(header)
                .filter(|(_, seconds)| header.starts_with(b"committer ") && *seconds < earliest)
            {
                Some((before, _)) => {
                    object.extend_from_slice(before);
                    object.extend_from_slice(format!(" {earliest} +0000").as_bytes());
                }
                None => object.extend_from_slice(header),
            }
            object.push(b'\n');
        }
        object.push(b'\n');
        object.extend_from_slice(&self.message);
        object
    }
}

/// Returns the text before the time of an author's or committer's line, and the time in seconds.
fn time_in(line: &[u8]) -> Option<(&[u8], u64)> {
    // Split from the end, because a name may contain spaces.
    let mut parts = line.rsplitn(3, |byte| *byte == b' ');
    let (_zone, seconds, before) = (parts.next()?, parts.next()?, parts.next()?);
    Some((before, std::str::from_utf8(seconds).ok()?.parse().ok()?))
}
