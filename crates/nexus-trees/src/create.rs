//! Creation of a tree, and opening an existing one.

use std::{
    fs,
    io::BufRead,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::{
    Base, CommitId, CommitIntent, Git, Project, Tree, TreeError, TreeErrorKind, TreeId, TreeLimits,
    TreeOptions,
    base::{Record, new_pin},
    bundle, check,
    ignore::IgnoreRules,
    person,
    project::{Head, Repository},
    refusal::to_path,
    repo::{GITLINK, Repo},
    snapshot, text,
    uncommitted::{Checkout, Uncommitted},
};

/// The folder of a tree in its workspace.
const FOLDER: &str = ".tree";
/// Prefix of the name of a tree that is being created.
const UNFINISHED: &str = ".tree-new-";
/// Age at which an unfinished tree counts as left by a dead process.
const STALE: Duration = Duration::from_secs(60 * 60);

impl Tree {
    /// Creates the tree of a workspace in its folder `.tree`, or opens it if it exists. The base is the project's `HEAD`, or
    /// the content of a plain folder.
    ///
    /// Writes one ref in the person's repository, `refs/nexus/base/…`, which retains the base. [`Tree::delete`] removes it.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](TreeErrorKind::AlreadyExists) if the workspace has a tree of another project;
    /// [`NotAProject`](TreeErrorKind::NotAProject), [`GitTooOld`](TreeErrorKind::GitTooOld) for a repository that git does
    /// not open; [`MissingObject`](TreeErrorKind::MissingObject) in a partial clone; [`TooLarge`](TreeErrorKind::TooLarge)
    /// and [`NeedsConsent`](TreeErrorKind::NeedsConsent), before a byte is read;
    /// [`PermissionDenied`](TreeErrorKind::PermissionDenied), [`NoSpace`](TreeErrorKind::NoSpace), errors of git.
    pub fn create(
        git: &Git,
        workspace: impl AsRef<Path>,
        project: &Project,
        options: &TreeOptions,
    ) -> Result<Self, TreeError> {
        let workspace = absolute(workspace.as_ref())?;
        // Another call, perhaps of a killed process, may have created the tree already.
        match Self::open(git, &workspace) {
            Err(error) if error.kind() == TreeErrorKind::NotFound => {}
            opened => {
                let opened = opened?;
                if opened.record.project.as_ref() == Some(project)
                    && opened.base.includes_uncommitted == options.include_uncommitted
                {
                    return Ok(opened.with_limits(options.limits.clone()));
                }
                let message = format!(
                    "{workspace:?} has a tree of another project: open it, or choose another workspace"
                );
                return Err(TreeError::new(TreeErrorKind::AlreadyExists, message));
            }
        }
        let staging = Staging::make(&workspace)?;
        let (format, objects) = match project.repository() {
            Some(person) => {
                (person.object_format(git).map_err(unopened)?, Some(person.common_dir().join("objects")))
            }
            None => ("sha1".to_owned(), None),
        };
        let repo = Repo::make(git, &staging, &format, objects.as_deref())?;
        let mut base = match project.repository() {
            Some(person) => base_of_repository(&repo, project, person, options)?,
            None => base_of_folder(&repo, &staging, project, options)?,
        };
        complete(&repo, &staging, &mut base)?;
        // `open` creates the ref after the tree is in place. A ref without a tree would never be removed.
        let pin = project.repository().map(|_| new_pin());
        Record::new(Some(project.clone()), pin, format, &base).write(&staging)?;
        staging.put_in_place(&workspace)?;
        Self::open(git, &workspace).map(|tree| tree.with_limits(options.limits.clone()))
    }

    /// Creates a tree from a bundle of [`Tree::bundle_base`], on a machine without the project.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](TreeErrorKind::AlreadyExists) if the workspace has a tree;
    /// [`Malformed`](TreeErrorKind::Malformed) if it is not such a bundle;
    /// [`TooLarge`](TreeErrorKind::TooLarge), also for files that exceed the limits once they are checked out;
    /// errors of git and of the operating system.
    pub fn create_from_bundle(
        git: &Git,
        workspace: impl AsRef<Path>,
        from: &mut (dyn BufRead + Send),
        options: &TreeOptions,
    ) -> Result<Self, TreeError> {
        let workspace = absolute(workspace.as_ref())?;
        let staging = Staging::make(&workspace)?;
        // Read only the head, so that an unsuitable bundle is rejected before its objects are unpacked.
        let head = bundle::read_head(from)?;
        if !head.prerequisites.is_empty() {
            let message = "this is the bundle of a change: a tree can be created only from the bundle of a \
                base";
            return Err(TreeError::new(TreeErrorKind::Malformed, message));
        }
        let repo = Repo::make(git, &staging, &head.object_format, None)?;
        // The bundle does not have the history before the base.
        repo.write("shallow", format!("{}\n", head.tip).as_bytes())?;
        bundle::unpack(&repo, from, options.limits.total_bytes)?;
        // Walk over all objects, which fails if the bundle lacks one.
        repo.command("rev-list").args(["--objects", "--quiet", head.tip.as_str()]).run(b"")?;
        bundle::bounded(&repo, &head.tip, &options.limits)?;
        let mut base = plain_base(head.tip);
        complete(&repo, &staging, &mut base)?;
        Record::new(None, None, head.object_format, &base).write(&staging)?;
        staging.put_in_place(&workspace)?;
        Self::open(git, &workspace).map(|tree| tree.with_limits(options.limits.clone()))
    }

    /// Opens the tree of a workspace. Removes leftovers of a killed process that are older than an hour. Creates the ref
    /// that retains the base again if it is missing.
    ///
    /// # Errors
    ///
    /// [`NotFound`](TreeErrorKind::NotFound) if the workspace has no tree, or if its project is gone;
    /// [`Malformed`](TreeErrorKind::Malformed); [`MissingObject`](TreeErrorKind::MissingObject) if the base was lost.
    pub fn open(git: &Git, workspace: impl AsRef<Path>) -> Result<Self, TreeError> {
        let workspace = absolute(workspace.as_ref())?;
        let folder = workspace.join(FOLDER);
        if !folder.join("tree.json").exists() {
            let message = format!("{workspace:?} has no tree: create it");
            return Err(TreeError::new(TreeErrorKind::NotFound, message));
        }
        let record = Record::read(&folder)?;
        let repo = Repo::at(git, &folder);
        let base = Arc::new(record.base());
        let tree = Self { repo, folder, record: Arc::new(record), base, limits: TreeLimits::default() };
        sweep(&workspace, UNFINISHED);
        sweep(&tree.folder.join("scratch"), "");
        sweep(&tree.repo.path().join("objects/pack"), "tmp_");
        sweep(tree.repo.path(), "fast_import_crash_");
        tree.pin()?;
        match tree.repo.tree_of(&tree.base().commit) {
            Err(error) if error.kind() == TreeErrorKind::NotFound => {
                let message = format!("{:?} has lost its base: {error}; create the tree again", tree.folder);
                Err(TreeError::new(TreeErrorKind::MissingObject, message))
            }
            found => found.map(|_| tree),
        }
    }

    /// Removes the tree from its workspace, and its ref from the person's repository. Checked-out folders stay.
    ///
    /// # Errors
    ///
    /// Errors of git and of the operating system. A repository that is gone, or that git does not open, is not
    /// an error.
    pub fn delete(self) -> Result<(), TreeError> {
        Self::delete_at(self.repo.git(), &self.folder, &self.record)
    }

    /// Like [`Tree::delete`], for the tree of a workspace that may be impossible to open: its project is gone or has lost
    /// the base. Does nothing if the workspace has no tree.
    ///
    /// # Errors
    ///
    /// [`Malformed`](TreeErrorKind::Malformed), and errors of [`Tree::delete`].
    pub fn delete_in(git: &Git, workspace: impl AsRef<Path>) -> Result<(), TreeError> {
        let folder = absolute(workspace.as_ref())?.join(FOLDER);
        if !folder.join("tree.json").exists() {
            return Ok(());
        }
        Self::delete_at(git, &folder, &Record::read(&folder)?)
    }

    fn delete_at(git: &Git, folder: &Path, record: &Record) -> Result<(), TreeError> {
        if let Some(person) = record.project.as_ref().and_then(Project::repository)
            && let Some(pin) = &record.pin
            && person.git_dir().exists()
            && let Some(found) = pinned(git, person, pin)?
            && let Err(words) = person::move_ref(git, person, pin, None, Some(&found), &[])?
        {
            return Err(TreeError::new(TreeErrorKind::Git, format!("{pin} cannot be removed: {words}")));
        }
        // Remove the record of the ref last. After an interruption, another call still finds the ref.
        fs::remove_dir_all(folder).map_err(|error| TreeError::from_io(folder, "cannot be removed", error))
    }

    /// Creates the ref in the person's repository that retains the base, so that git's garbage collection does not remove
    /// it.
    fn pin(&self) -> Result<(), TreeError> {
        let base = self.base();
        let (Some((project, person)), Some(pin), Some(head)) = (self.person(), &self.record.pin, &base.head)
        else {
            return Ok(());
        };
        if !person.git_dir().exists() {
            let message = format!(
                "the project {:?} no longer exists: restore it, or delete the workspace",
                project.path()
            );
            return Err(TreeError::new(TreeErrorKind::NotFound, message));
        }
        let git = self.repo.git();
        if person.read_own_ref(git, pin)?.as_ref() == Some(head) {
            return Ok(());
        }
        // Only this tree has a ref of this name, so an existing lock belongs to a killed git.
        let _lock = self.lock()?;
        person::remove_own_lock(person, pin);
        // The ref is not the person's, so write no log for it.
        let quiet = ["core.logAllRefUpdates=false".to_owned()];
        let moved = person::move_ref(git, person, pin, Some(head), None, &quiet)?;
        match (moved, person.read_ref(git, pin)?) {
            (_, Some(found)) if found == *head => Ok(()),
            (Err(words), _) => {
                let refs = person.common_dir().join("refs");
                let (kind, way_out) = match rustix::fs::access(&refs, rustix::fs::Access::WRITE_OK) {
                    Ok(()) => (TreeErrorKind::Git, ""),
                    Err(_) => (TreeErrorKind::PermissionDenied, ": the project must be writable for one ref"),
                };
                Err(TreeError::new(kind, format!("{pin} cannot be created: {words}{way_out}")))
            }
            (Ok(()), _) => Err(text::unexpected("git reported success, but created no ref")),
        }
    }
}

/// Returns the target of the ref that retains a base. `None` if git does not open the repository: then no ref has to be
/// removed.
fn pinned(git: &Git, person: &Repository, pin: &str) -> Result<Option<CommitId>, TreeError> {
    match person.read_ref(git, pin) {
        Err(error) if error.kind() == TreeErrorKind::Git => match person.object_format(git) {
            Err(unopened) if unopened.kind() == TreeErrorKind::Git => Ok(None),
            _ => Err(error),
        },
        read => read,
    }
}

fn base_of_repository(
    repo: &Repo,
    project: &Project,
    person: &Repository,
    options: &TreeOptions,
) -> Result<Base, TreeError> {
    let git = repo.git();
    // `shallow` lists where the history of a shallow clone ends. Without it, git would miss the earlier commits.
    if let Ok(shallow) = fs::read(person.common_dir().join("shallow")) {
        repo.write("shallow", &shallow)?;
    }
    let Head { commit: head, branch } = person.head(git)?;
    let empty = repo.write_tree(&super::repo::GitEntries::new())?;
    let before = head.as_ref().map_or_else(|| empty.as_str(), CommitId::as_str);
    if let Some(head) = &head {
        present(repo, head)?;
    }
    let mut uncommitted = Uncommitted::default();
    let mut tree = None;
    if let Some(folder) = project.checkout() {
        let checkout = Checkout::open(repo, person, folder, before, &options.exclude_files)?;
        uncommitted = checkout.uncommitted(before)?;
        if options.include_uncommitted && !uncommitted.paths.is_empty() {
            options.announce(folder, &checkout.sizes(&uncommitted, &options.limits)?)?;
            tree = Some(checkout.tree(before, &uncommitted)?);
        }
    }
    let commit = match (tree, &head) {
        (None, Some(head)) => head.clone(),
        (tree, _) => {
            let tree = tree.unwrap_or(empty);
            own_commit(
                repo,
                tree,
                head.clone(),
                options.clock.now(),
                "Uncommitted changes of the project \
                folder",
            )?
        }
    };
    let paths = |paths: std::collections::BTreeSet<Vec<u8>>| paths.iter().map(|path| to_path(path)).collect();
    Ok(Base {
        head,
        branch,
        uncommitted: paths(uncommitted.paths),
        includes_uncommitted: options.include_uncommitted,
        left_out: paths(uncommitted.left_out),
        ..plain_base(commit)
    })
}

fn base_of_folder(
    repo: &Repo,
    staging: &Path,
    project: &Project,
    options: &TreeOptions,
) -> Result<Base, TreeError> {
    let rules = IgnoreRules::write(staging.join("first-rules"), repo, &super::repo::GitEntries::new())?;
    let tree = snapshot::of_plain_folder(repo, &rules, project.path(), options)?;
    let commit = own_commit(repo, tree, None, options.clock.now(), "The folder")?;
    Ok(Base { includes_uncommitted: options.include_uncommitted, ..plain_base(commit) })
}

fn plain_base(commit: CommitId) -> Base {
    Base {
        commit,
        head: None,
        branch: None,
        uncommitted: Vec::new(),
        includes_uncommitted: false,
        left_out: Vec::new(),
        filtered: Vec::new(),
        submodules: Vec::new(),
        has_filters: false,
    }
}

/// Adds properties that follow from the content of the base, and the base's ignore rules.
fn complete(repo: &Repo, staging: &Path, base: &mut Base) -> Result<(), TreeError> {
    let entries = repo.entries(base.commit.as_str())?;
    IgnoreRules::write(staging.join("rules"), repo, &entries)?;
    let files = entries.iter().filter(|(_, entry)| entry.mode != GITLINK).map(|(path, _)| path.as_slice());
    base.has_filters = check::has_filters(repo, &entries)?;
    base.filtered = check::filtered(repo, &entries, files)?.iter().map(|path| to_path(path)).collect();
    let submodules = entries.iter().filter(|(_, entry)| entry.mode == GITLINK);
    base.submodules = submodules.map(|(path, _)| to_path(path)).collect();
    let update = repo.command("update-ref").args(["refs/nexus/base", base.commit.as_str()]);
    update.run(b"").map(drop)
}

/// Fails for a commit with missing objects, as in a partial clone.
fn present(repo: &Repo, commit: &CommitId) -> Result<(), TreeError> {
    repo.tree_of(commit).map_err(|error| match error.kind() {
        TreeErrorKind::NotFound => {
            let message = format!("the commit {commit} is missing: the repository is incomplete; fetch it");
            TreeError::new(TreeErrorKind::MissingObject, message)
        }
        _ => error,
    })?;
    let entries = repo.entries(commit.as_str())?;
    let (paths, ids): (Vec<_>, Vec<_>) = entries
        .iter()
        .filter(|(_, entry)| entry.mode != GITLINK)
        .map(|(path, entry)| (path, entry.id.as_str()))
        .unzip();
    let missing = repo.missing(&ids)?;
    let Some(path) = missing.first().and_then(|at| paths.get(*at)) else { return Ok(()) };
    let message = format!(
        "the content of {} files is missing, such as {:?}: the project is a partial clone, and Nexus fetches \
         nothing; run `git fetch --refetch --no-filter` to get all",
        missing.len(),
        to_path(path)
    );
    Err(TreeError::new(TreeErrorKind::MissingObject, message))
}

fn own_commit(
    repo: &Repo,
    tree: TreeId,
    parent: Option<CommitId>,
    time: SystemTime,
    message: &str,
) -> Result<CommitId, TreeError> {
    let intent = CommitIntent::of(tree, parent.into_iter().collect(), time, message);
    let command = repo.command("hash-object").args(["-t", "commit", "-w", "--stdin"]);
    text::id(&command.line(intent.object()?.as_bytes())?)
}

fn unopened(error: TreeError) -> TreeError {
    match error.kind() {
        TreeErrorKind::Git => {
            TreeError::new(TreeErrorKind::NotAProject, format!("the repository cannot be opened: {error}"))
        }
        _ => error,
    }
}

fn absolute(path: &Path) -> Result<PathBuf, TreeError> {
    std::path::absolute(path).map_err(|error| TreeError::from_io(path, "is no path", error))
}

/// Folder of a tree that is being created. It is removed on drop, unless it was moved into place.
struct Staging(PathBuf);

impl std::ops::Deref for Staging {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Staging {
    fn make(workspace: &Path) -> Result<Self, TreeError> {
        let path = workspace.join(format!("{UNFINISHED}{}", nexus_files::random_name()));
        nexus_files::create_private_folder(&path)
            .map_err(|error| TreeError::from_io(&path, "cannot be made", error))?;
        Ok(Self(path))
    }

    fn put_in_place(&self, workspace: &Path) -> Result<(), TreeError> {
        let folder = workspace.join(FOLDER);
        match fs::rename(&self.0, &folder) {
            Ok(()) => nexus_files::sync_folder(workspace)
                .map_err(|error| TreeError::from_io(workspace, "cannot be flushed to the disk", error)),
            // Another process was faster, or something else has this name.
            Err(_) if folder.exists() => {
                let message = format!("{folder:?} already exists: open it, or choose another workspace");
                Err(TreeError::new(TreeErrorKind::AlreadyExists, message))
            }
            Err(error) => Err(TreeError::from_io(&folder, "cannot be made", error)),
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // If the removal fails, the folder is removed when it is stale.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes leftovers of dead processes in a folder, whose names begin with `beginning`.
fn sweep(folder: &Path, beginning: &str) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let is_old = || {
            let modified = entry.metadata().and_then(|found| found.modified());
            modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age > STALE))
        };
        if entry.file_name().to_string_lossy().starts_with(beginning) && is_old() {
            let path = entry.path();
            // A leftover blocks nothing, and the next call tries to remove it again.
            let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        }
    }
}
