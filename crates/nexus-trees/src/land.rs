//! Moves the commits of a tree into a person's branch.

use std::{
    collections::BTreeSet,
    fmt, fs,
    io::{self, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    CommitId, Patch, Project, Tree, TreeError, TreeErrorKind,
    commit::ref_name,
    in_the_way, person,
    project::Repository,
    refusal::to_path,
    repo, text,
    uncommitted::{Checkout, copy_index},
};
use nexus_files::FileLock;

/// Longest wait for another landing in the same project. Source: our own bound; a large checkout takes minutes.
const PROJECT_PATIENCE: Duration = Duration::from_secs(120);
/// Content of an index lock while a landing owns it. The lock of git itself is empty or contains an index.
const LEFT_BY: &[u8] = b"locked by a landing of Nexus\n";
/// Maximum number of conflicting paths that a message names.
const SHOWN: usize = 5;

/// Result of a landing.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Landing {
    /// The person's branch was moved, and the files of its checkout with it, if it has one.
    FastForwarded {
        /// The branch, as `refs/heads/main`.
        branch: String,
        /// Earlier commit of the branch.
        from: CommitId,
        /// New commit of the branch.
        to: CommitId,
    },
    /// Nothing in the person's repository was changed.
    Patch {
        /// Changes of the commits against the base.
        patch: Patch,
        /// Reason why the branch was not moved.
        obstacle: LandObstacle,
    },
}

/// Reason why a person's branch was not moved.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LandObstacle {
    /// The project is a plain folder, or its repository is on another machine.
    NoRepository,
    /// The base contains uncommitted files, which only the person may commit.
    UncommittedBase,
    /// The repository had no commit when the tree was created.
    NoCommits,
    /// No branch was checked out when the tree was created.
    DetachedHead,
    /// The branch does not exist any more.
    BranchGone,
    /// The branch has moved since the tree was created.
    BranchMoved {
        /// Present commit of the branch.
        to: CommitId,
    },
    /// The branch has lost its commit of the time when the tree was created, for example by an amended commit.
    BranchRewritten {
        /// Present commit of the branch.
        to: CommitId,
    },
    /// Git cannot merge without a work tree, which a branch that has moved needs.
    GitTooOld,
    /// An operation of git is unfinished in the checkout, such as a rebase.
    InProgress(&'static str),
    /// The checkout is sparse: it has only a part of the files.
    SparseCheckout,
    /// The index of the checkout cannot be copied, for example a split index.
    IndexUnreadable,
    /// Another git works in the checkout, or left a lock there.
    IndexLocked,
    /// Another landing works in the project.
    ProjectLocked,
    /// Files of the checkout block the landing: uncommitted changes, or unversioned files. Contains git's message.
    InTheWay(String),
    /// The branch has moved since, and its changes of these files conflict with the commits.
    Conflict(Vec<PathBuf>),
    /// The name of the new branch is invalid. Contains git's message, or another reason.
    BranchName(String),
    /// A branch of this name exists and points to another commit.
    BranchTaken {
        /// The branch, as `refs/heads/fix`.
        branch: String,
        /// Commit of that branch.
        at: CommitId,
    },
}

impl fmt::Display for LandObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRepository => f.write_str("the project has no repository here: apply the patch"),
            Self::UncommittedBase => {
                f.write_str("the base contains uncommitted changes: commit them, then apply the patch")
            }
            Self::NoCommits => f.write_str("the repository had no commit: apply the patch"),
            Self::DetachedHead => {
                f.write_str("no branch was checked out: apply the patch to the right branch")
            }
            Self::BranchGone => f.write_str("the branch is gone: apply the patch to another one"),
            Self::BranchMoved { to } => write!(f, "the branch moved to {to}: apply the patch there"),
            Self::BranchRewritten { to } => {
                write!(f, "the branch was rewritten and moved to {to}: apply the patch there")
            }
            Self::GitTooOld => f.write_str(
                "the branch has moved, and git before 2.38 cannot merge it: apply the patch there",
            ),
            Self::InProgress(what) => write!(f, "git is in the middle of {what}: finish that and land again"),
            Self::SparseCheckout => f.write_str("only a part of the files is checked out: apply the patch"),
            Self::IndexUnreadable => {
                f.write_str("the index of the checkout cannot be copied: apply the patch")
            }
            Self::IndexLocked => {
                f.write_str("another git command is running in the checkout: land again when it has ended")
            }
            Self::ProjectLocked => {
                f.write_str("another landing is running in the project: land again when it has ended")
            }
            Self::InTheWay(words) => {
                write!(f, "files are in the way: commit or move them and land again: {words}")
            }
            Self::Conflict(paths) => {
                let named: Vec<_> = paths.iter().take(SHOWN).map(|path| format!("{path:?}")).collect();
                write!(
                    f,
                    "the branch has moved, and its changes conflict with these in {}",
                    named.join(", ")
                )?;
                match paths.len().saturating_sub(SHOWN) {
                    0 => f.write_str(": merge them by hand"),
                    more => write!(f, " and {more} more: merge them by hand"),
                }
            }
            Self::BranchName(reason) => write!(f, "the new branch cannot have this name: {reason}"),
            Self::BranchTaken { branch, at } => {
                write!(f, "{branch} is there already, at {at}: name another branch, or delete this one")
            }
        }
    }
}

/// The person's branch that a landing moves.
pub(super) struct LandingBranch<'t> {
    project: &'t Project,
    person: &'t Repository,
    /// Commit of the branch when the tree was created.
    pub(super) head: &'t CommitId,
    /// The branch, as `refs/heads/main`.
    name: &'t str,
    /// Present commit of the branch.
    pub(super) now: CommitId,
}

/// A branch that points to the landed commit.
pub(super) struct Moved {
    branch: String,
    from: CommitId,
    to: CommitId,
}

/// Returns the name of the tree's ref for the commits that a rebase made of `tip`.
pub(super) fn rebased_ref(tip: &CommitId) -> Result<String, TreeError> {
    ref_name(&format!("rebased/{tip}"))
}

impl From<Moved> for Landing {
    fn from(Moved { branch, from, to }: Moved) -> Self {
        Self::FastForwarded { branch, from, to }
    }
}

impl Tree {
    /// Moves the person's branch to `tip` if that is a fast-forward, together with the files of the checkout
    /// that has the branch; otherwise returns the patch and the reason. Never overwrites uncommitted work: if
    /// it conflicts, the result is a patch. Runs no hooks and filters. Landing a landed commit changes nothing.
    ///
    /// Landings in one project run one after the other, even for different tasks. A landing writes the objects first,
    /// then files and index, then the branch. Meanwhile it owns git's lock of the checkout (`index.lock`), so that a
    /// person's git refuses to change it. If the process is killed in between, at most the task's own changes and that
    /// lock stay in the checkout; landing again completes the changes and removes the lock.
    ///
    /// # Errors
    ///
    /// [`Unrelated`](TreeErrorKind::Unrelated) if `tip` does not descend from the base;
    /// [`Refused`](TreeErrorKind::Refused) as [`Tree::commit`]; errors of git and of the operating system, after
    /// all files were restored.
    pub fn land(&self, tip: &CommitId) -> Result<Landing, TreeError> {
        self.land_onto(tip, tip, None)
    }

    /// Moves the branch to `commit`, which contains the changes of `tip`: `tip` itself, or both combined with `onto`, the only
    /// commit of the branch that may be moved then.
    pub(super) fn land_onto(
        &self,
        tip: &CommitId,
        commit: &CommitId,
        onto: Option<&CommitId>,
    ) -> Result<Landing, TreeError> {
        self.descends_from_base(tip)?;
        self.check(&self.repo.tree_of(tip)?)?;
        // Lock the tree before the project, in this order everywhere, so that two landings cannot block each other.
        let _lock = self.lock()?;
        let Ok(_project) = self.lock_project()? else {
            return self.not_landed(tip, LandObstacle::ProjectLocked);
        };
        match self.fast_forward(commit, onto)? {
            Ok(moved) => Ok(moved.into()),
            Err(obstacle) => self.not_landed(tip, obstacle),
        }
    }

    /// Creates a new branch for `tip` in the person's repository. The commits keep their authors, messages and ids. No file
    /// and no other branch changes. Repeating the call changes nothing.
    ///
    /// # Errors
    ///
    /// Errors of [`Tree::land`].
    pub fn land_as_branch(&self, tip: &CommitId, name: &str) -> Result<Landing, TreeError> {
        self.descends_from_base(tip)?;
        self.check(&self.repo.tree_of(tip)?)?;
        let _lock = self.lock()?;
        let Ok(_project) = self.lock_project()? else {
            return self.not_landed(tip, LandObstacle::ProjectLocked);
        };
        let Some((_, person)) = self.person() else {
            return self.not_landed(tip, LandObstacle::NoRepository);
        };
        let base = self.base();
        if base.includes_uncommitted && base.head.as_ref() != Some(&base.commit) {
            return self.not_landed(tip, LandObstacle::UncommittedBase);
        }
        let git = self.repo.git();
        let branch = format!("refs/heads/{name}");
        // Git reads a leading `-` as an option, and `HEAD` as another ref.
        let is_odd = name.starts_with('-') || name == "HEAD";
        let (ended, _) = person.command(git, "check-ref-format").arg(&branch).outcome(b"")?;
        if is_odd || ended.code() != Some(0) {
            let reason = format!("git does not allow {name:?}");
            return self.not_landed(tip, LandObstacle::BranchName(reason));
        }
        if let Some(at) = person.read_ref(git, &branch)? {
            return match at == *tip {
                true => Ok(Moved { branch, from: at.clone(), to: at }.into()),
                false => self.not_landed(tip, LandObstacle::BranchTaken { branch, at }),
            };
        }
        self.give_objects(person, base.head.as_ref(), tip)?;
        match person::move_ref(git, person, &branch, Some(tip), None, &[])? {
            Ok(()) => Ok(Moved { branch, from: base.commit.clone(), to: tip.clone() }.into()),
            // For example, `fix/one` conflicts with a branch `fix`.
            Err(words) => self.not_landed(tip, LandObstacle::BranchName(words)),
        }
    }

    /// Locks landings in the person's repository. `Err`: another landing has held the lock for too long.
    pub(super) fn lock_project(&self) -> Result<Result<Option<FileLock>, ()>, TreeError> {
        let Some((_, person)) = self.person() else { return Ok(Ok(None)) };
        let folder = person.common_dir();
        // Lock the folder itself, so that no file of ours appears in the person's repository.
        let locked = FileLock::lock_folder(folder, PROJECT_PATIENCE);
        let locked = locked.map_err(|error| TreeError::from_io(folder, "cannot be locked", error))?;
        Ok(locked.map(Some).ok_or(()))
    }

    pub(super) fn not_landed(&self, tip: &CommitId, obstacle: LandObstacle) -> Result<Landing, TreeError> {
        let patch = self.patch(&self.base().commit, tip)?;
        Ok(Landing::Patch { patch, obstacle })
    }

    /// Fails for a commit that does not descend from the base.
    pub(super) fn descends_from_base(&self, tip: &CommitId) -> Result<(), TreeError> {
        self.repo.tree_of(tip)?;
        if self.is_ancestor(&self.base().commit, tip)? {
            return Ok(());
        }
        let message = format!("{tip} does not descend from the base {}", self.base().commit);
        Err(TreeError::new(TreeErrorKind::Unrelated, message))
    }

    pub(super) fn is_ancestor(&self, old: &CommitId, new: &CommitId) -> Result<bool, TreeError> {
        let command = self.repo.command("merge-base").args(["--is-ancestor", old.as_str(), new.as_str()]);
        let (ended, _) = command.outcome(b"")?;
        match ended.code() {
            Some(1) => Ok(false),
            _ => ended.success().map(|()| true),
        }
    }

    /// Returns the person's branch that the commits may move, with its present commit.
    pub(super) fn landing_branch(&self) -> Result<Result<LandingBranch<'_>, LandObstacle>, TreeError> {
        let base = self.base();
        let Some((project, person)) = self.person() else { return Ok(Err(LandObstacle::NoRepository)) };
        if base.includes_uncommitted && base.head.as_ref() != Some(&base.commit) {
            return Ok(Err(LandObstacle::UncommittedBase));
        }
        let Some(head) = base.head.as_ref() else { return Ok(Err(LandObstacle::NoCommits)) };
        let Some(name) = base.branch.as_deref() else { return Ok(Err(LandObstacle::DetachedHead)) };
        let Some(now) = person.read_ref(self.repo.git(), name)? else {
            return Ok(Err(LandObstacle::BranchGone));
        };
        Ok(Ok(LandingBranch { project, person, head, name, now }))
    }

    /// Returns true if the branch already contains `tip`, or the commits that a rebase made of it.
    pub(super) fn has_landed(&self, tip: &CommitId, now: &CommitId) -> Result<bool, TreeError> {
        if self.is_ancestor(tip, now)? {
            return Ok(true);
        }
        match self.repo.read_ref(&rebased_ref(tip)?)? {
            Some(rebased) => self.is_ancestor(&rebased, now),
            None => Ok(false),
        }
    }

    /// Moves the branch to `tip`. With `onto`, only from that commit. Without, from the base or a commit between both.
    pub(super) fn fast_forward(
        &self,
        tip: &CommitId,
        onto: Option<&CommitId>,
    ) -> Result<Result<Moved, LandObstacle>, TreeError> {
        let LandingBranch { project, person, head, name, now } = match self.landing_branch()? {
            Ok(found) => found,
            Err(obstacle) => return Ok(Err(obstacle)),
        };
        let (git, branch) = (self.repo.git(), name.to_owned());
        if self.has_landed(tip, &now)? {
            return Ok(Ok(Moved { branch, from: now.clone(), to: now }));
        }
        // Without `onto`, the branch may be anywhere between the base and `tip`, for example after an interrupted
        // landing.
        let may_move = match onto {
            Some(onto) => now == *onto,
            None => now == *head || (self.is_ancestor(head, &now)? && self.is_ancestor(&now, tip)?),
        };
        if !may_move {
            let is_rewritten = onto.is_none() && !self.is_ancestor(head, &now)?;
            return Ok(Err(match is_rewritten {
                true => LandObstacle::BranchRewritten { to: now },
                false => LandObstacle::BranchMoved { to: now },
            }));
        }
        let mut update = match self.checkout_of(project, person, &branch)? {
            Some((folder, owner)) => match self.plan(&folder, &owner, &now, tip)? {
                Ok(update) => Some(update),
                Err(obstacle) => return Ok(Err(obstacle)),
            },
            None => None,
        };
        // Write the objects before the files and the branch: a ref must never point to a missing object.
        self.give_objects(person, Some(&now), tip)?;
        if let Some(update) = &mut update
            && let Err(obstacle) = self.carry_out(update, &now, tip)?
        {
            return Ok(Err(obstacle));
        }
        let moved = person::move_ref(git, person, &branch, Some(tip), Some(&now), &[]);
        if matches!(moved, Ok(Ok(()))) {
            return Ok(Ok(Moved { branch, from: now, to: tip.clone() }));
        }
        // Git may have been killed after it had moved the branch.
        let found = person.read_ref(git, &branch)?;
        if found.as_ref() == Some(tip) {
            return Ok(Ok(Moved { branch, from: now, to: tip.clone() }));
        }
        if let Some(update) = &update {
            self.put_back(update, &now, tip)?;
        }
        match (moved?, found) {
            (_, Some(to)) if to != now => Ok(Err(LandObstacle::BranchMoved { to })),
            (_, None) => Ok(Err(LandObstacle::BranchGone)),
            (Err(words), _) => {
                Err(TreeError::new(TreeErrorKind::Git, format!("{branch} cannot be moved: {words}")))
            }
            (Ok(()), _) => Err(text::unexpected("git reported success, but moved no branch")),
        }
    }

    /// Returns the checkout of the branch.
    fn checkout_of(
        &self,
        project: &Project,
        person: &Repository,
        branch: &str,
    ) -> Result<Option<(PathBuf, Repository)>, TreeError> {
        let git = self.repo.git();
        if let Some(folder) = project.checkout()
            && person.head(git)?.branch.as_deref() == Some(branch)
        {
            return Ok(Some((folder.to_owned(), person.clone())));
        }
        // The branch may be checked out in another worktree of the repository.
        let listed =
            person.command(git, "for-each-ref").args(["--format=%(worktreepath)", branch]).run(b"")?;
        let path = listed.strip_suffix(b"\n").unwrap_or(&listed);
        if path.is_empty() {
            return Ok(None);
        }
        let found = Project::find(Path::new(repo::os(path)));
        let Some(found) = found.ok().filter(|found| found.checkout().is_some()) else { return Ok(None) };
        let owner = found.repository().filter(|owner| owner.common_dir() == person.common_dir());
        Ok(owner.map(|owner| (found.path().to_owned(), owner.clone())))
    }

    /// Checks if the checkout can be updated. Changes nothing in it.
    fn plan<'t>(
        &'t self,
        folder: &Path,
        owner: &Repository,
        now: &CommitId,
        tip: &CommitId,
    ) -> Result<Result<CheckoutUpdate<'t>, LandObstacle>, TreeError> {
        if let Some(what) = owner.in_progress() {
            return Ok(Err(LandObstacle::InProgress(what)));
        }
        let index = owner.git_dir().join("index");
        let locked = IndexLock::take(&index);
        let locked = locked.map_err(|error| TreeError::from_io(&index, "cannot be locked", error))?;
        let Some(lock) = locked else { return Ok(Err(LandObstacle::IndexLocked)) };
        // Remember the version under the lock, because programs without locks may replace the index.
        let identity = identity(&index);
        let checkout = Checkout::open(&self.repo, owner, folder, now.as_str(), &[])?;
        if !checkout.is_copy() {
            return Ok(Err(LandObstacle::IndexUnreadable));
        }
        let flags = checkout.command("ls-files").args(["-z", "-t"]).run(b"")?;
        let skipped: BTreeSet<&[u8]> =
            repo::records(&flags).filter_map(|record| record.strip_prefix(b"S ")).collect();
        // Single files may have the same flag (`update-index --skip-worktree`) without this file. Git leaves them alone.
        if !skipped.is_empty() && owner.git_dir().join("info/sparse-checkout").is_file() {
            return Ok(Err(LandObstacle::SparseCheckout));
        }
        let changes = self.repo.differences(now.as_str(), tip.as_str())?;
        if let Some(change) = changes.iter().find(|change| skipped.contains(change.path.as_slice())) {
            let path = to_path(&change.path);
            let words =
                format!("git ignores changes of {path:?} (`update-index --no-skip-worktree` ends that)");
            return Ok(Err(LandObstacle::InTheWay(words)));
        }
        if let Some(obstacle) = self.in_the_way(&checkout, folder, now, tip)? {
            return Ok(Err(obstacle));
        }
        // Copy before the refresh, so that a rollback restores the index byte for byte.
        let original = checkout.index().with_extension("original");
        copy_index(&checkout.index(), &original)
            .map_err(|error| TreeError::from_io(&original, "cannot be written", error))?;
        checkout.refresh("--refresh")?;
        // `-n` tests everything and writes nothing, so an obstacle is found before the first file changes.
        let dry = checkout.command("read-tree").args(["-n", "-m", "-u", now.as_str(), tip.as_str()]);
        if let Some(words) = dry.outcome(b"")?.0.refusal()? {
            return Ok(Err(LandObstacle::InTheWay(words)));
        }
        Ok(Ok(CheckoutUpdate {
            folder: folder.to_owned(),
            index,
            lock,
            identity,
            placed: None,
            original,
            checkout,
        }))
    }

    /// Returns files that block a landing and that git overlooks: ignored files, and a change without a new
    /// time stamp.
    fn in_the_way(
        &self,
        checkout: &Checkout<'_>,
        folder: &Path,
        now: &CommitId,
        tip: &CommitId,
    ) -> Result<Option<LandObstacle>, TreeError> {
        let changes = self.repo.differences(now.as_str(), tip.as_str())?;
        let words = |path: &[u8], what| LandObstacle::InTheWay(format!("{:?} {what}", to_path(path)));
        if let Some(path) = in_the_way::changed(checkout, folder, &changes)? {
            return Ok(Some(words(&path, "is changed")));
        }
        let found = in_the_way::unversioned(folder, &self.repo.entries(now.as_str())?, &changes)?;
        Ok(found.map(|path| words(&path, "is not under version control")))
    }

    /// Updates files and index of the checkout. If an obstacle appears meanwhile, restores all files and
    /// returns it.
    fn carry_out(
        &self,
        update: &mut CheckoutUpdate<'_>,
        now: &CommitId,
        tip: &CommitId,
    ) -> Result<Result<(), LandObstacle>, TreeError> {
        // Check again, because packing may have taken a while.
        if let Some(obstacle) = self.in_the_way(&update.checkout, &update.folder, now, tip)? {
            return Ok(Err(obstacle));
        }
        let command = update.checkout.command("read-tree").args(["-m", "-u", now.as_str(), tip.as_str()]);
        let obstacle = match command.outcome(b"").and_then(|(ended, _)| ended.refusal()) {
            Ok(None) => match update.replace_index(&update.checkout.index(), update.identity) {
                Ok(Some(placed)) => {
                    update.placed = Some(placed);
                    return Ok(Ok(()));
                }
                Ok(None) => Ok(Err(LandObstacle::IndexLocked)),
                Err(error) => Err(TreeError::from_io(&update.index, "cannot be replaced", error)),
            },
            // Git found no obstacle, but then failed to write.
            Ok(Some(words)) if words.contains("unable to ") => {
                let message = format!(
                    "{:?} cannot be updated: {words}: check its permissions and the free space on its disk",
                    update.folder
                );
                Err(TreeError::new(TreeErrorKind::Git, message))
            }
            Ok(Some(words)) => Ok(Err(LandObstacle::InTheWay(words))),
            Err(error) => Err(error),
        };
        self.put_back(update, now, tip)?;
        obstacle
    }

    /// Restores the files and the index of the checkout. The landing still owns the lock, so no other git has changed them.
    fn put_back(&self, update: &CheckoutUpdate<'_>, now: &CommitId, tip: &CommitId) -> Result<(), TreeError> {
        let index = update.checkout.index();
        // The update changed this copy, so restore it before the files are compared with it.
        copy_index(&update.original, &index)
            .map_err(|error| TreeError::from_io(&index, "cannot be written", error))?;
        self.put_files_back(&update.checkout, &update.folder, now, tip)?;
        // If a person or another landing replaced the file meanwhile, their version stays.
        if let Some(placed) = update.placed {
            update.replace_index(&index, Some(placed)).map_err(|error| {
                TreeError::from_io(&update.index, "cannot be restored to its earlier content", error)
            })?;
        }
        Ok(())
    }

    /// Writes the objects that `tip` has and `now` does not have into the person's repository, as one pack. The pack appears
    /// completely or not at all.
    pub(super) fn give_objects(
        &self,
        person: &Repository,
        now: Option<&CommitId>,
        tip: &CommitId,
    ) -> Result<(), TreeError> {
        let scratch = self.repo.scratch()?;
        let command = self.repo.command("pack-objects").args(["--quiet", "--revs", "--delta-base-offset"]);
        let without = now.map(|now| format!("^{now}\n")).unwrap_or_default();
        // `^now` leaves out the objects that the person's repository has already.
        let name = command.arg(scratch.join("pack")).line(format!("{tip}\n{without}").as_bytes())?;
        let folder = person.common_dir().join("objects/pack");
        fs::create_dir_all(&folder).map_err(|error| TreeError::from_io(&folder, "cannot be made", error))?;
        // Write the index last: git reports an index without its pack as an error, but ignores a pack without an index.
        for ending in ["pack", "idx"] {
            let file = format!("pack-{name}.{ending}");
            let to = folder.join(&file);
            person::place(&scratch.join(&file), &to, 0o444)
                .map_err(|error| TreeError::from_io(&to, "cannot be written", error))?;
        }
        Ok(())
    }
}

/// Update of a checkout.
#[derive(Debug)]
struct CheckoutUpdate<'t> {
    folder: PathBuf,
    /// The person's index, which is locked, with its identity.
    index: PathBuf,
    lock: IndexLock,
    identity: Option<FileVersion>,
    /// Version of the index that this landing wrote.
    placed: Option<FileVersion>,
    /// Copy of the original index.
    original: PathBuf,
    checkout: Checkout<'t>,
}

impl CheckoutUpdate<'_> {
    /// Replaces the index of the checkout, if the lock is still ours and no other program has replaced the index. Returns
    /// the version of the new one.
    fn replace_index(&self, new: &Path, expected: Option<FileVersion>) -> io::Result<Option<FileVersion>> {
        if !self.lock.is_ours() || identity(&self.index) != expected {
            return Ok(None);
        }
        let mode = fs::metadata(&self.index).map_or(0o644, |found| found.mode() & 0o777);
        let pending = self.index.with_file_name(format!("tmp_{}", nexus_files::random_name()));
        person::place(new, &pending, mode)?;
        // Take the identity before the rename: afterwards another program may have replaced the file.
        let placed = identity(&pending);
        if let Err(error) = fs::rename(&pending, &self.index) {
            let _ = fs::remove_file(&pending);
            return Err(error);
        }
        Ok(placed)
    }
}

/// The index lock of git: a file that only one program at a time can create.
#[derive(Debug)]
struct IndexLock {
    path: PathBuf,
    /// Open file of the lock, so that no other file gets its inode number.
    file: fs::File,
}

impl IndexLock {
    /// Takes the lock. `None`: another git owns it. Takes over the lock of a killed landing: the caller has the
    /// project's lock, so no other landing runs.
    fn take(index: &Path) -> io::Result<Option<Self>> {
        let path = index.with_extension("lock");
        if is_left(&path) {
            fs::remove_file(&path)?;
        }
        let mut file = match fs::File::create_new(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            made => made?,
        };
        let written = file.write_all(LEFT_BY);
        let lock = Self { path, file };
        written.map(|()| Some(lock))
    }

    fn is_ours(&self) -> bool {
        let is = |found: fs::Metadata| (found.dev(), found.ino());
        let ours = self.file.metadata().map(is);
        ours.is_ok_and(|ours| fs::symlink_metadata(&self.path).is_ok_and(|found| is(found) == ours))
    }
}

impl Drop for IndexLock {
    fn drop(&mut self) {
        if self.is_ours() {
            // If the file stays, git reports it to the person, and the next landing takes it over.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns true if a landing created the lock.
fn is_left(path: &Path) -> bool {
    let Ok(found) = fs::symlink_metadata(path) else { return false };
    // Check the size first: git's own lock may contain a large index.
    found.is_file() && found.len() == LEFT_BY.len() as u64 && fs::read(path).is_ok_and(|text| text == LEFT_BY)
}

/// Stamp that differs between a file and its replacement.
type FileVersion = [i64; 4];

fn identity(path: &Path) -> Option<FileVersion> {
    let found = fs::symlink_metadata(path).ok()?;
    Some([found.ino().cast_signed(), found.len().cast_signed(), found.mtime(), found.mtime_nsec()])
}
