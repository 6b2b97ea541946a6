//! A repository in a workspace, over the git objects of a project: what an agent works on, and what is kept of it.
//!
//! A [`Tree`] belongs to one workspace and one [`Project`], a repository of a person's or a plain folder. It begins with a
//! [`Base`], is laid out in folders ([`Tree::check_out`], [`Tree::restore`], [`Tree::refresh`]), takes what is in them ([`Tree::snapshot`]), shows
//! what differs ([`Tree::changes`], [`Tree::patch`]), makes commits from an intent that was written down before
//! ([`Tree::commit`]), joins disjoint ones ([`Tree::merge`]), sends them to other machines ([`Tree::bundle`]), and moves the
//! person's branch ([`Tree::land`], [`Tree::land_merged`]) or keeps commits beside it ([`Tree::keep`]). Linux only.
//!
//! # What holds
//!
//! - **The person's repository** is read, and its objects are used where they are. Written are one ref, which keeps the base,
//!   and on landing the objects and the branch, with the files of its checkout; on keeping the objects and one more ref. A git that is killed leaves no lock there.
//! - **Nothing of the project runs**: no hook, monitor, filter, text conversion, driver, helper or signature, whatever its
//!   configuration or an agent's files say. See [`Git`].
//! - **Folders are hostile**: they hold no `.git`; no link in them is followed, no pipe is waited for, and every file is read
//!   anew, by a handle. Git itself never works in them: it gets contents from us, and gives us contents.
//! - **A diff is complete**: it goes by the ids of contents, and by the ignore rules of the base alone.
//! - **A commit** takes no new name that can be taken for `.git`, with control characters, or with a twin that only differs in
//!   what some file systems do not tell apart; no new link that leads out; no change of a submodule or of a file under a filter.
//! - **The same intent is the same commit**, and refs move by compare-and-set: whoever is cut off does it again.
//!
//! # What becomes of odd repositories
//!
//! | the project | outcome |
//! | --- | --- |
//! | is a linked checkout | a project; its own `HEAD`; the ref is where all checkouts have it |
//! | is bare | a project; nothing is uncommitted; landing moves the branch alone |
//! | has a detached head | a project; landing gives a patch |
//! | has no commit | the base is empty, or what is there; landing gives a patch |
//! | is shallow | a project |
//! | is a partial clone | a project if all of `HEAD` is there, else [`MissingObject`](TreeErrorKind::MissingObject); nothing is fetched |
//! | uses SHA-256 | a project |
//! | keeps its refs in a reftable | a project with git 2.45, else [`GitTooOld`](TreeErrorKind::GitTooOld) |
//! | is a sparse checkout | a project with all files; landing gives a patch |
//! | belongs to another user | a project, as far as it can be read; none of its settings is obeyed |
//! | has a dirty index, or a merge going on | what is in the files counts; landing gives a patch where that is in the way |
//! | has submodules | they are empty folders, and out of scope |
//! | has files under a filter (LFS) | they are pointers, and are not changed |
//! | has names with line ends, that are not UTF-8, or twins | they stay, and can be changed; new ones are refused, but for those that are not UTF-8 |
//! | converts line ends | files are as they are committed; landing converts as the checkout does |
//! | is a folder in a repository | [`NotAProject`](TreeErrorKind::NotAProject), or a plain folder by [`Project::folder`] |
//! | is a plain folder | its own `.gitignore` files are obeyed; landing gives a patch |
//!
//! # After a crash
//!
//! There is nothing to repair: open the tree and go on. A folder that was being restored is restored again, a commit that was
//! intended is made again, a landing is done again. Half-made files and locks in the tree's own repository are removed.
//! One moment is open: if this process and git die at once while git holds a lock of the person's, it stays, and git
//! says so to the person.
//!
//! # Blocking
//!
//! Every call runs git and waits for it: in async code, call it by the runtime's `spawn_blocking`, with a git that ends with
//! the turn ([`Git::with_cancel`]). What was started is killed when the call ends, however it does.
//!
//! ```no_run
//! use std::time::SystemTime;
//! use nexus_trees::{CommitIntent, Git, Landing, Project, Tree, TreeOptions};
//!
//! # fn example(workspace: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
//! let tree = Tree::create(&Git::find()?, workspace, &Project::find("my-project")?, &TreeOptions::new())?;
//! let base = &tree.base().commit;
//! let folder = workspace.join("now");
//! tree.check_out(base, &folder)?;
//! // … an agent works in the folder …
//! let snapshot = tree.snapshot(&folder)?;
//! println!("{}", tree.patch(base, &snapshot)?.text());
//! let intent = CommitIntent::new(snapshot, base.clone(), SystemTime::now(), "Mend it").with_trailer("Task", "12");
//! // … the intent is written down …
//! let commit = tree.commit(&intent)?;
//! tree.move_ref("head", None, &commit)?;
//! if let Landing::Patch { obstacle, .. } = tree.land(&commit)? {
//!     println!("not landed: {obstacle}");
//! }
//! # Ok(())
//! # }
//! ```

#![cfg(target_os = "linux")]

mod base;
mod blobs;
mod bundle;
mod check;
mod checkout_status;
mod commit;
mod compose;
mod create;
mod diff;
mod error;
mod git;
mod handle;
mod id;
mod ignore;
mod in_the_way;
mod keep;
mod land;
mod limits;
mod link_target;
mod listing;
mod merge;
mod names;
mod objects;
mod options;
mod person;
mod process;
mod project;
mod put_back;
mod reading;
mod refresh;
mod refs;
mod refusal;
mod repo;
mod restore;
mod scan;
mod snapshot;
mod text;
mod uncommitted;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

pub use base::Base;
pub use checkout_status::CheckoutStatus;
pub use commit::CommitIntent;
pub use diff::{ChangedPath, Patch, TreeEntry, Treeish};
pub use error::{TreeError, TreeErrorKind, TreeServiceErrorKind};
pub use git::Git;
pub use id::{CommitId, InvalidObjectId, TreeId};
pub use land::{LandObstacle, Landing};
pub use limits::TreeLimits;
pub use options::TreeOptions;
pub use project::Project;
pub use reading::TreeReading;
pub use refusal::{Refusal, RefusedPath};

use nexus_core::CancelToken;

use base::Record;
use ignore::IgnoreRules;
use nexus_files::FileLock;
use project::Repository;
use repo::Repo;

/// The file whose lock is the right to move a ref or to land.
const LOCK: &str = ".lock";
/// How long another process is waited for that moves a ref or lands.
const PATIENCE: Duration = Duration::from_secs(30);
/// How old a lock in our own repository must be before it is taken for a dead git's. Git holds one for milliseconds.
const DEAD_LOCK: Duration = Duration::from_secs(2);

/// A repository in a workspace over the objects of a project. See the [crate].
///
/// Any number of them may be of the same workspace, in any number of threads and processes. Between two calls it keeps at most one git,
/// which waits to read objects: clones share it, and it ends when the last of them is dropped, or this process ends. A repository that was
/// replaced meanwhile is read by another one.
#[derive(Clone, Debug)]
pub struct Tree {
    repo: Repo,
    folder: PathBuf,
    record: Arc<Record>,
    base: Arc<Base>,
    limits: TreeLimits,
}

impl Tree {
    /// What it begins with.
    pub fn base(&self) -> &Base {
        &self.base
    }

    /// The project, unless it came as a bundle.
    pub fn project(&self) -> Option<&Project> {
        self.record.project.as_ref()
    }

    /// The folder that it is kept in. Nothing in it is for others.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// How git names objects here: `sha1` or `sha256`.
    pub fn object_format(&self) -> &str {
        &self.record.object_format
    }

    /// Sets what is too large.
    #[must_use]
    pub fn with_limits(mut self, limits: TreeLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Runs another git, or the same with another time limit or cancel token.
    #[must_use]
    pub fn with_git(mut self, git: &Git) -> Self {
        self.repo = self.repo.with_git(git);
        self
    }

    /// Ends what it is doing when `cancel` is cancelled, by [`Cancelled`](TreeErrorKind::Cancelled).
    #[must_use]
    pub fn with_cancel(self, cancel: CancelToken) -> Self {
        let git = self.repo.git().clone().with_cancel(cancel);
        self.with_git(&git)
    }

    fn rules(&self) -> IgnoreRules {
        IgnoreRules::at(self.folder.join("rules"))
    }

    fn person(&self) -> Option<(&Project, &Repository)> {
        let project = self.record.project.as_ref()?;
        Some((project, project.repository()?))
    }

    fn lock(&self) -> Result<FileLock, TreeError> {
        let path = self.folder.join(LOCK);
        let locked = FileLock::lock(&path, PATIENCE);
        locked.map_err(|error| TreeError::from_io(&path, "cannot be locked", error))?.ok_or_else(|| {
            let message = format!("{path:?} has been held by another process for {} s", PATIENCE.as_secs());
            TreeError::new(TreeErrorKind::InUse, message)
        })
    }

    /// Removes the lock that a git which was killed left on a ref of ours. Whoever calls holds our lock, so that no other host
    /// moves a ref; a git whose host died may still end its work.
    fn unlock_refs(&self, name: &str) -> Result<(), TreeError> {
        let lock = self.repo.path().join(format!("{name}.lock"));
        let Ok(found) = fs::symlink_metadata(&lock) else { return Ok(()) };
        let age = found.modified().ok().and_then(|modified| modified.elapsed().ok()).unwrap_or_default();
        thread::sleep(DEAD_LOCK.saturating_sub(age));
        match fs::remove_file(&lock) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(TreeError::from_io(&lock, "cannot be removed", error))
            }
            _ => Ok(()),
        }
    }
}
