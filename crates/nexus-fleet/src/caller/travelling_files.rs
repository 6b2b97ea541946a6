//! Travelling files of a turn, at its caller: committed files go to the worker, and the turn's changes come back.

use std::{
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use nexus_core::{BackendId, CancelToken, ErrorKind, ToolAccess, TurnRequest, harness::Failure};
use nexus_trees::{
    CommitId, CommitIntent, Git, Landing, Project, Tree, TreeError, TreeErrorKind, TreeOptions,
};

use crate::{
    bundle_file::{self, failure},
    objects::FileToStore,
    private_folder::{PrivateFolder, path_within},
    settings::FleetSettings,
};

/// Prefix of the names of callers' folders.
const PREFIX: &str = "c-";
/// Maximum number of paths that a message names.
const SHOWN: usize = 5;

/// Travelling files of a turn, at its caller.
#[derive(Debug)]
pub(super) struct CallerFiles {
    tree: Tree,
    /// Git without the turn's cancel token: a change of the person's repository that has begun must be completed.
    git: Git,
    folder: PrivateFolder,
    /// Working directory, relative to the top of the repository.
    pub(super) directory: String,
    pub(super) roots: Vec<String>,
    turn: String,
    backend: BackendId,
    /// True if the access level lets the turn change files.
    may_write: bool,
}

/// Result of applying a change.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// The turn changed nothing.
    Unchanged,
    /// The branch was moved to the new commit, and the files of the checkout with it.
    Landed { branch: String, commit: CommitId },
    /// Nothing was touched; the change is stored under a ref.
    Kept { reference: String, reason: String },
}

impl CallerFiles {
    /// Bundles the committed files of the repository around the working directory. Blocks.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`], with advice: the folder is in no checkout of a repository, or in a
    /// checkout that cannot travel; there is uncommitted work; an extra root is elsewhere; the bundle is too
    /// large. [`ErrorKind::NotInstalled`]: git is missing.
    pub(super) fn take(
        settings: &FleetSettings,
        turn: &str,
        backend: &BackendId,
        request: &TurnRequest,
        cancel: CancelToken,
    ) -> Result<(Self, FileToStore), Failure> {
        let what = "the files of the working directory";
        let failed = |error: TreeError| failure(what, &error);
        let Some(directory) = &request.working_directory else {
            return Err(invalid("the turn has no working directory".to_owned()));
        };
        let top = top_of(directory)?;
        let roots = request.extra_roots.iter().map(|root| from_top(&top, root, "the extra root"));
        let (roots, directory) =
            (roots.collect::<Result<_, _>>()?, from_top(&top, directory, "the working directory")?);
        let git = Git::find().map_err(failed)?;
        let root = settings.workspaces();
        // Remove leftovers of a killed caller, including its ref in the person's repository.
        PrivateFolder::sweep(&root, PREFIX, |folder| {
            if let Err(error) = Tree::delete_in(&git, folder) {
                tracing::debug!(%error, "a ref of an earlier turn remains in its repository");
            }
        });
        let folder =
            PrivateFolder::take(&root, &format!("{PREFIX}{turn}"), Duration::ZERO).map_err(|error| {
                invalid(format!("{}: no folder can be created there: {error}", root.display()))
            })?;
        let most = settings.max_workspace_bytes();
        let options = TreeOptions::new().with_limits(bundle_file::limits(most));
        let project = Project::find(&top).map_err(failed)?;
        let cancelled = git.clone().with_cancel(cancel);
        let tree = Tree::create(&cancelled, folder.path(), &project, &options).map_err(failed)?;
        let files = Self {
            directory,
            roots,
            turn: turn.to_owned(),
            backend: backend.clone(),
            may_write: request.tool_access >= ToolAccess::WorkspaceWrite,
            tree,
            git,
            folder,
        };
        // Build `files` before the check, so that a rejection also removes the tree and its ref.
        files.check(&top)?;
        let bundle = files.folder.path().join("base.bundle");
        let bundle = bundle_file::write(&bundle, most, what, |to| files.tree.bundle_base(to))?;
        Ok((files, bundle))
    }

    /// Rejects files that cannot travel there and back.
    fn check(&self, top: &Path) -> Result<(), Failure> {
        let base = self.tree.base();
        let refused = |what: String| Err(invalid(format!("{}: {what}", top.display())));
        if base.head.is_none() {
            return refused(
                "the repository has no commit, but only committed files are sent to the worker: commit them"
                    .into(),
            );
        }
        if base.branch.is_none() {
            let what = "no branch is checked out for the commit of the changes: `git switch` to one";
            return refused(what.to_owned());
        }
        if !base.submodules.is_empty() {
            let what = "has submodules, which are not sent to the worker: run the turn with \
                `fleet.workspace: shared`";
            return refused(format!("{} {what}", named(&base.submodules)));
        }
        let mut uncommitted = base.uncommitted.clone();
        uncommitted.extend(base.left_out.iter().cloned());
        if !uncommitted.is_empty() {
            return refused(format!(
                "{} is not committed, but only committed files are sent to the worker: commit it, run `git \
                 stash -u`, or name it in `.gitignore`",
                named(&uncommitted)
            ));
        }
        Ok(())
    }

    /// Returns the path for the bundle of a change.
    pub(super) fn change_file(&self) -> PathBuf {
        self.folder.path().join("change.bundle")
    }

    /// Applies the change in [`change_file`](Self::change_file) if the checkout is unchanged and clean; otherwise stores it.
    /// Blocks, and always completes.
    ///
    /// # Errors
    ///
    /// Nothing was changed. [`ErrorKind::Protocol`]: the bundle has no change of this turn, or a change that trees reject.
    /// Otherwise [`ErrorKind::InvalidRequest`]: the change can neither be applied nor stored.
    pub(super) fn apply(&self) -> Result<Arrival, Failure> {
        let tree = self.tree.clone().with_git(&self.git);
        let path = self.change_file();
        let file = File::open(&path).map_err(|error| invalid(format!("{}: {error}", path.display())))?;
        let made = self.commit(&tree, &mut BufReader::new(file)).map_err(|error| match error.kind() {
            TreeErrorKind::Malformed
            | TreeErrorKind::NotFound
            | TreeErrorKind::Refused
            | TreeErrorKind::TooLarge
            | TreeErrorKind::Unrelated => {
                let reason =
                    format!("the changes from the worker are invalid, and nothing was modified: {error}");
                Failure::new(ErrorKind::Protocol, reason)
            }
            _ => failure("the change of the turn, which is lost", &error),
        })?;
        let Some(commit) = made else { return Ok(Arrival::Unchanged) };
        let reason = match land(&tree, &commit) {
            Ok(Ok(branch)) => return Ok(Arrival::Landed { branch, commit }),
            Ok(Err(reason)) => reason,
            Err(error) => error.to_string(),
        };
        // Store the commit under a ref, because the tree of this turn is deleted with its objects.
        let reference = tree.keep(&format!("fleet/{}", self.turn), &commit).map_err(|error| {
            failure(&format!("the change of the turn was not applied, because {reason}"), &error)
        })?;
        Ok(Arrival::Kept { reference, reason })
    }

    /// Creates one commit of our own with the result of the worker's commits. `None`: nothing changed.
    fn commit(&self, tree: &Tree, bundle: &mut BufReader<File>) -> Result<Option<CommitId>, TreeError> {
        // Take only the files of the result: author and message of a worker's commits cannot be trusted.
        let tip = tree.apply_bundle(bundle)?;
        let base = &tree.base().commit;
        let made = tree.tree_of(&tip)?;
        if made == tree.tree_of(base)? {
            return Ok(None);
        }
        let message = format!("Changes of a turn of {}", self.backend);
        let intent = CommitIntent::new(made, base.clone(), SystemTime::now(), message)
            .with_trailer("Nexus-Turn", self.turn.as_str());
        tree.commit(&intent).map(Some)
    }

    /// Returns true if changes of this turn may be applied.
    pub(super) fn may_write(&self) -> bool {
        self.may_write
    }
}

impl Drop for CallerFiles {
    fn drop(&mut self) {
        // Deleting the tree removes its ref in the person's repository.
        if let Err(error) = self.tree.clone().with_git(&self.git).delete() {
            tracing::debug!(%error, "a ref of the turn remains in its repository until the next turn");
        }
    }
}

/// Moves the branch if the checkout is unchanged since the turn began. Returns the branch, or the reason why it was not
/// moved.
fn land(tree: &Tree, commit: &CommitId) -> Result<Result<String, String>, TreeError> {
    let base = tree.base();
    let Some(now) = tree.checkout_status()? else { return Ok(Err("the checkout is gone".to_owned())) };
    if now.branch != base.branch {
        return Ok(Err("another branch is now checked out".to_owned()));
    }
    if now.head != base.head {
        return Ok(Err("the branch has moved in the meantime".to_owned()));
    }
    if !now.uncommitted.is_empty() {
        return Ok(Err(format!(
            "{} has uncommitted changes that were made during the turn",
            named(&now.uncommitted)
        )));
    }
    Ok(match tree.land(commit)? {
        Landing::FastForwarded { branch, .. } => Ok(branch),
        Landing::Patch { obstacle, .. } => Err(obstacle.to_string()),
        _ => Err("this version does not know its state".to_owned()),
    })
}

/// Returns the top of the checkout that contains a folder.
fn top_of(directory: &Path) -> Result<PathBuf, Failure> {
    let shown = directory.display();
    let real = directory
        .canonicalize()
        .map_err(|error| invalid(format!("the working directory {shown}: {error}")))?;
    if let Some(top) = real.ancestors().find(|folder| folder.join(".git").symlink_metadata().is_ok()) {
        return Ok(top.to_owned());
    }
    let is_bare = |folder: &&Path| {
        folder.join("HEAD").is_file() && folder.join("objects").is_dir() && folder.join("refs").is_dir()
    };
    Err(invalid(match real.ancestors().find(is_bare) {
        Some(bare) => format!(
            "the working directory {shown} is in the bare repository {}, which has no files: name a checkout of it",
            bare.display()
        ),
        None => format!(
            "the working directory {shown} is not in a git repository, but `fleet.workspace: git` sends only \
             committed files: run `git init` and commit, or set `fleet.workspace: shared`"
        ),
    }))
}

/// Returns a folder of a checkout relative to its top.
fn from_top(top: &Path, folder: &Path, what: &str) -> Result<String, Failure> {
    let refused = |why: &str| invalid(format!("{what} {} {why}", folder.display()));
    let real = folder.canonicalize().map_err(|error| refused(&format!("cannot be opened: {error}")))?;
    let Ok(below) = real.strip_prefix(top) else {
        return Err(refused(&format!(
            "is outside of the repository {}, but only its committed files are sent to the worker: leave it \
            out, or set `fleet.workspace: shared`",
            top.display()
        )));
    };
    let text = below.to_str().ok_or_else(|| refused("is not UTF-8: rename it"))?;
    path_within(text).ok_or_else(|| refused("is within a `.git`: name a folder of the checkout"))?;
    Ok(text.to_owned())
}

fn invalid(reason: String) -> Failure {
    Failure::new(ErrorKind::InvalidRequest, reason)
}

/// Lists the first paths, and the number of further ones.
fn named(paths: &[PathBuf]) -> String {
    let first: Vec<_> = paths.iter().take(SHOWN).map(|path| format!("{path:?}")).collect();
    match paths.len().saturating_sub(SHOWN) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}
