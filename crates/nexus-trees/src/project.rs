//! The source of a tree: a person's repository, or a plain folder.

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use super::{
    CommitId, Git, TreeError, TreeErrorKind,
    git::GitCommand,
    refs,
    text::{self, PathText},
};
use serde::{Deserialize, Serialize};

/// Maximum size of a `.git` file or `commondir`, in bytes.
const MAX_POINTER: u64 = 8 << 10;

/// The source of a tree: a person's repository, or a plain folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    root: PathText,
    repository: Option<Repository>,
}

/// Paths of a project's repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Repository {
    /// Git folder of the checkout: the repository itself, or the part of it for a linked checkout.
    git_dir: PathText,
    /// Folder that all checkouts share.
    common_dir: PathText,
    bare: bool,
}

/// Target of `HEAD`.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) commit: Option<CommitId>,
    pub(super) branch: Option<String>,
}

impl Project {
    /// Finds the project in a folder: the top of a checkout (including a linked one), a bare repository, or a plain folder.
    ///
    /// # Errors
    ///
    /// [`NotFound`](TreeErrorKind::NotFound) and [`NotAProject`](TreeErrorKind::NotAProject), also for a folder below the
    /// top of a repository: name the top, or use [`Project::folder`].
    pub fn find(path: impl AsRef<Path>) -> Result<Self, TreeError> {
        let root = folder(path.as_ref())?;
        if let Some(repository) = repository_of(&root)? {
            return Ok(Self { root: root.into(), repository: Some(repository) });
        }
        if let Some(top) = root.ancestors().skip(1).find(|folder| folder.join(".git").exists()) {
            let message = format!(
                "{root:?} is inside the repository {top:?}: name the repository, or use the folder as a \
                plain one"
            );
            return Err(TreeError::new(TreeErrorKind::NotAProject, message));
        }
        Ok(Self { root: root.into(), repository: None })
    }

    /// Treats the folder as a plain folder, even if it is in a repository or contains one.
    ///
    /// # Errors
    ///
    /// [`NotFound`](TreeErrorKind::NotFound) and [`NotAProject`](TreeErrorKind::NotAProject).
    pub fn folder(path: impl AsRef<Path>) -> Result<Self, TreeError> {
        Ok(Self { root: folder(path.as_ref())?.into(), repository: None })
    }

    /// Returns the folder, or the bare repository, as an absolute path without links.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Returns true if the project is a repository.
    pub fn is_repository(&self) -> bool {
        self.repository.is_some()
    }

    pub(super) fn repository(&self) -> Option<&Repository> {
        self.repository.as_ref()
    }

    /// Returns the folder of the person's files; `None` for a bare repository.
    pub(super) fn checkout(&self) -> Option<&Path> {
        self.repository.as_ref().filter(|repository| !repository.bare).map(|_| self.path())
    }
}

impl Repository {
    pub(super) fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    pub(super) fn common_dir(&self) -> &Path {
        &self.common_dir
    }

    /// Returns a command on the person's repository itself. Only commands that read or move a ref may run there.
    pub(super) fn command<'g>(&self, git: &'g Git, name: &str) -> GitCommand<'g> {
        git.command(&self.git_dir, name)
    }

    pub(super) fn object_format(&self, git: &Git) -> Result<String, TreeError> {
        self.command(git, "rev-parse").arg("--show-object-format").line(b"")
    }

    pub(super) fn head(&self, git: &Git) -> Result<Head, TreeError> {
        let (ended, branch) = self.command(git, "symbolic-ref").args(["-q", "HEAD"]).outcome(b"")?;
        let branch = match ended.code() {
            // Exit code 1: the head is detached.
            Some(1) => None,
            _ => {
                ended.success()?;
                Some(text::line(branch)?)
            }
        };
        Ok(Head { commit: self.read_ref(git, "HEAD")?, branch })
    }

    /// Returns the target of a ref. Reads only the ref.
    pub(super) fn read_ref(&self, git: &Git, name: &str) -> Result<Option<CommitId>, TreeError> {
        refs::read(self.command(git, "rev-parse"), name)
    }

    /// Returns the target of one of our refs. Reads only the ref.
    pub(super) fn read_own_ref(&self, git: &Git, name: &str) -> Result<Option<CommitId>, TreeError> {
        match refs::loose(&self.common_dir, name) {
            Some(commit) => Ok(Some(commit)),
            None => self.read_ref(git, name),
        }
    }

    /// Returns a setting of the repository's own file, without included files.
    pub(super) fn setting(&self, git: &Git, name: &str) -> Result<Option<String>, TreeError> {
        self.setting_in(&self.common_dir.join("config"), "--no-includes", git, name)
    }

    fn setting_in(
        &self,
        file: &Path,
        includes: &str,
        git: &Git,
        name: &str,
    ) -> Result<Option<String>, TreeError> {
        let command = self.command(git, "config").path_option("--file=", file);
        let (ended, output) = command.args([includes, "--get", name]).outcome(b"")?;
        if ended.refusal()?.is_none() { text::line(output).map(Some) } else { Ok(None) }
    }

    /// Returns a setting of the repository, or else of its user. Skips an unreadable file of the user.
    fn effective_setting(&self, git: &Git, name: &str) -> Result<Option<String>, TreeError> {
        let own = self.setting(git, name)?;
        let users = || {
            // A later file overrides an earlier one, so search from the last.
            let mut files = git.user_configuration().iter().rev().filter(|file| file.is_file());
            files.find_map(|file| self.setting_in(file, "--includes", git, name).ok().flatten())
        };
        Ok(own.or_else(users))
    }

    /// Returns the user's file of paths that git ignores in every repository. Source: gitignore(5).
    pub(super) fn user_ignore(&self, git: &Git) -> Result<Option<PathBuf>, TreeError> {
        let Some(named) = self.effective_setting(git, "core.excludesFile")? else {
            return Ok(git.default_ignore().map(Path::to_owned));
        };
        let path = match (named.strip_prefix("~/"), git.home()) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => PathBuf::from(named),
        };
        // An empty value switches it off.
        Ok(Some(path).filter(|path| path.is_absolute()))
    }

    /// Returns the settings that determine the bytes of a checked-out file. None of them names a program.
    pub(super) fn conversions(&self, git: &Git) -> Result<Vec<String>, TreeError> {
        let mut settings = Vec::new();
        for name in ["core.autocrlf", "core.eol", "core.safecrlf", "core.fileMode", "core.symlinks"] {
            if let Some(value) = self.effective_setting(git, name)? {
                settings.push(format!("{name}={value}"));
            }
        }
        Ok(settings)
    }

    /// Returns the operation of git that is unfinished here, such as "a rebase".
    pub(super) fn in_progress(&self) -> Option<&'static str> {
        let states = [
            ("MERGE_HEAD", "a merge"),
            ("rebase-merge", "a rebase"),
            ("rebase-apply", "a rebase"),
            ("CHERRY_PICK_HEAD", "a cherry-pick"),
            ("REVERT_HEAD", "a revert"),
            ("BISECT_LOG", "a bisection"),
        ];
        states.into_iter().find(|(file, _)| self.git_dir.join(file).exists()).map(|(_, what)| what)
    }
}

fn folder(path: &Path) -> Result<PathBuf, TreeError> {
    let root = path.canonicalize().map_err(|error| TreeError::from_io(path, "cannot be opened", error))?;
    if root.is_dir() {
        return Ok(root);
    }
    Err(TreeError::new(TreeErrorKind::NotAProject, format!("{root:?} is not a folder: name a folder")))
}

fn repository_of(root: &Path) -> Result<Option<Repository>, TreeError> {
    let dot_git = root.join(".git");
    let (git_dir, bare) = if dot_git.is_dir() {
        (dot_git, false)
    } else if dot_git.is_file() {
        let text = pointer(&dot_git)?;
        let Some(target) = text.strip_prefix(b"gitdir: ") else {
            return Err(not_a_project(&dot_git, "does not name the path of its repository"));
        };
        (root.join(OsStr::from_bytes(target)), false)
    } else if root.join("HEAD").exists() && root.join("objects").is_dir() && root.join("refs").is_dir() {
        (root.to_owned(), true)
    } else {
        return Ok(None);
    };
    let git_dir =
        git_dir.canonicalize().map_err(|error| TreeError::from_io(&git_dir, "cannot be opened", error))?;
    // A linked checkout has its own `HEAD` and index, and shares objects and branches with the repository.
    let common_dir = match git_dir.join("commondir") {
        file if file.exists() => git_dir.join(OsStr::from_bytes(&pointer(&file)?)),
        _ => git_dir.clone(),
    };
    let common_dir = common_dir
        .canonicalize()
        .map_err(|error| TreeError::from_io(&common_dir, "cannot be opened", error))?;
    if !common_dir.join("objects").is_dir() {
        return Err(not_a_project(&git_dir, "is not a repository: it has no objects"));
    }
    Ok(Some(Repository { git_dir: git_dir.into(), common_dir: common_dir.into(), bare }))
}

/// Reads the path in a file that contains nothing else.
fn pointer(file: &Path) -> Result<Vec<u8>, TreeError> {
    let failed = |error| TreeError::from_io(file, "cannot be read", error);
    let found = fs::metadata(file).map_err(failed)?;
    if !found.is_file() || found.len() > MAX_POINTER {
        return Err(not_a_project(file, "holds no path"));
    }
    let mut bytes = fs::read(file).map_err(failed)?;
    while bytes.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
        bytes.pop();
    }
    Ok(bytes)
}

fn not_a_project(path: &Path, what: &str) -> TreeError {
    TreeError::new(TreeErrorKind::NotAProject, format!("{path:?} {what}: name another folder"))
}
