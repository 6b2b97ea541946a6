//! A repository in a workspace, over the git objects of a project: the files that an agent works on, and the results that are stored.
//!
//! A [`Tree`] belongs to one workspace and one [`Project`], which is a person's repository or a plain folder. It begins with a
//! [`Base`]. Its operations:
//!
//! - check files out into folders: [`Tree::check_out`], [`Tree::restore`], [`Tree::refresh`]
//! - record the files of a folder ([`Tree::snapshot`]) and show differences ([`Tree::changes`], [`Tree::patch`])
//! - create commits from a stored intent ([`Tree::commit`]) and join disjoint commits ([`Tree::merge`])
//! - send commits to other machines ([`Tree::bundle`])
//! - move the person's branch ([`Tree::land`]), also one that has moved since ([`Tree::join_branch`], [`Tree::land_merged`]), or store commits beside it ([`Tree::keep`])
//!
//! A [`FolderHistory`] is apart from trees: it records a person's own folder around turns, shows what a turn changed, and undoes it.
//!
//! Linux only.
//!
//! # Guarantees
//!
//! - **The person's repository** is read, and its objects are used in place. A tree writes one ref, which retains the base. Landing
//!   writes objects, the branch and the files of its checkout; [`Tree::keep`] writes objects and one more ref. A killed git leaves no
//!   lock there.
//! - **Nothing of the project runs**: no hook, monitor, filter, text conversion, driver, helper or signature, with any configuration
//!   and any file of an agent. See [`Git`].
//! - **Folders are hostile**: they have no `.git`; no link in them is followed, no pipe blocks, and every file is read by a handle each
//!   time. Git itself never works in them: it gets contents from us, and returns contents to us.
//! - **A diff is complete**: it compares the ids of contents, and uses only the ignore rules of the base.
//! - **A commit** adds no name that a file system may take for `.git`, no name with control characters, no name that some file systems
//!   do not distinguish from another, no link that leads out, and no change of a submodule or of a file under a filter.
//! - **The same intent is the same commit**, and refs move by compare-and-set: after an interruption the caller repeats the operation.
//!
//! # Odd repositories
//!
//! | the project | outcome |
//! | --- | --- |
//! | is a linked checkout | a project; its own `HEAD`; the ref is where all checkouts have it |
//! | is bare | a project; nothing is uncommitted; landing moves the branch alone |
//! | has a detached head | a project; landing gives a patch |
//! | has no commit | the base is empty, or has the uncommitted files; landing gives a patch |
//! | is shallow | a project |
//! | is a partial clone | a project if all of `HEAD` is there, else [`MissingObject`](TreeErrorKind::MissingObject); nothing is fetched |
//! | uses SHA-256 | a project |
//! | keeps its refs in a reftable | a project with git 2.45, else [`GitTooOld`](TreeErrorKind::GitTooOld) |
//! | is a sparse checkout | a project with all files; landing gives a patch |
//! | belongs to another user | a project, as far as it can be read; all of its settings are ignored |
//! | has a dirty index, or an unfinished merge | the files count; landing gives a patch if they conflict |
//! | has submodules | they are empty folders, and out of scope |
//! | has files under a filter (LFS) | they are pointers, and are not changed |
//! | has names with line ends, that are not UTF-8, or twins | they stay, and can be changed; new ones are refused, except names that are not UTF-8 |
//! | converts line ends | files have their committed form; landing converts as the checkout does |
//! | is a folder in a repository | [`NotAProject`](TreeErrorKind::NotAProject), or a plain folder by [`Project::folder`] |
//! | is a plain folder | its own `.gitignore` files apply; landing gives a patch |
//!
//! # After a crash
//!
//! Nothing needs a repair: open the tree and continue. Repeat an interrupted restore, commit or landing. Unfinished files and locks in the
//! tree's own repository are removed. One case is open: if this process and git die at once while git owns a lock of the
//! person's repository, the lock stays, and the next git reports it to the person.
//!
//! # Blocking
//!
//! Every call runs git and waits for it: in async code, use the runtime's `spawn_blocking`, with a git that ends with the turn
//! ([`Git::with_cancel`]). Processes that a call started are killed when the call ends for any reason.
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
//! let intent = CommitIntent::new(snapshot, base.clone(), SystemTime::now(), "Fix it").with_trailer("Task", "12");
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
mod branch_join;
mod bundle;
mod check;
mod checkout_status;
mod commit;
mod compose;
mod create;
mod diff;
mod error;
mod folder_history;
mod folder_restore;
mod folder_snapshot;
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
mod stored_history;
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
pub use branch_join::{BranchJoin, JoinedCommits};
pub use checkout_status::CheckoutStatus;
pub use commit::CommitIntent;
pub use diff::{ChangedPath, Patch, TreeEntry, Treeish};
pub use error::{TreeError, TreeErrorKind, TreeServiceErrorKind};
pub use folder_history::{FolderHistory, FolderTurn, LaterChanges, RestoredFiles};
pub use git::Git;
pub use id::{CommitId, InvalidObjectId, TreeId};
pub use land::{LandObstacle, Landing};
pub use limits::TreeLimits;
pub use options::TreeOptions;
pub use project::Project;
pub use reading::TreeReading;
pub use refusal::{Refusal, RefusedPath};
pub use stored_history::StoredHistory;

use nexus_core::CancelToken;

use base::Record;
use ignore::IgnoreRules;
use nexus_files::FileLock;
use project::Repository;
use repo::Repo;

/// Name of the file that a process locks to move a ref or to land.
const LOCK: &str = ".lock";
/// Longest wait for another process that moves a ref or lands.
const PATIENCE: Duration = Duration::from_secs(30);
/// Age at which a git lock in the tree's own repository counts as left by a dead git. A live git has it for milliseconds.
const DEAD_LOCK: Duration = Duration::from_secs(2);

/// A repository in a workspace over the objects of a project. See the [crate].
///
/// Any number of these may exist for one workspace, in any number of threads and processes. Between two calls, one idle git
/// may stay to read objects. Clones share it, and it ends with the last of them or with this process. If the repository was
/// replaced meanwhile, another git reads it.
#[derive(Clone, Debug)]
pub struct Tree {
    repo: Repo,
    folder: PathBuf,
    record: Arc<Record>,
    base: Arc<Base>,
    limits: TreeLimits,
}

impl Tree {
    /// Returns the base of the tree.
    pub fn base(&self) -> &Base {
        &self.base
    }

    /// Returns the project. `None` if the tree was created from a bundle.
    pub fn project(&self) -> Option<&Project> {
        self.record.project.as_ref()
    }

    /// Returns the folder of the tree. Its content is private.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Returns git's format of object ids here: `sha1` or `sha256`.
    pub fn object_format(&self) -> &str {
        &self.record.object_format
    }

    /// Sets the size limits.
    #[must_use]
    pub fn with_limits(mut self, limits: TreeLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the git program, time limit and cancel token for further operations on this tree.
    #[must_use]
    pub fn with_git(mut self, git: &Git) -> Self {
        self.repo = self.repo.with_git(git);
        self
    }

    /// Sets a cancel token. When it is cancelled, the running operation fails with [`Cancelled`](TreeErrorKind::Cancelled).
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
            let message = format!("another process has locked {path:?} for {} s", PATIENCE.as_secs());
            TreeError::new(TreeErrorKind::InUse, message)
        })
    }

    /// Removes the lock that a killed git left on a ref of the tree. The caller has the tree's lock, so no other process of
    /// Nexus moves a ref. A git whose parent died may still complete its work.
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
