//! What the tests share: a person's repository, and a workspace beside it.

use std::{
    collections::BTreeMap,
    env, fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nexus_trees::{CommitId, CommitIntent, Git, Project, Tree, TreeError, TreeErrorKind, TreeOptions};

/// The git of the `PATH`. Without one, the test that asks ends here.
pub(crate) fn git() -> Option<Git> {
    match Git::find() {
        Ok(git) => Some(git),
        Err(error) => {
            assert!(env::var_os("NEXUS_TEST_GIT").is_none(), "{error}");
            eprintln!("NOT TESTED: {error}");
            None
        }
    }
}

/// Ends the test where there is no git.
macro_rules! needs_git {
    () => {
        match crate::kit::git() {
            Some(git) => git,
            None => return,
        }
    };
}
pub(crate) use needs_git;

/// A place with a person's project and a workspace.
pub(crate) struct Place {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) git: Git,
}

impl Place {
    /// An empty place.
    pub(crate) fn new(git: &Git) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["workspace", "project", "home"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder, git: git.clone() }
    }

    /// With a repository of one commit, of these files.
    pub(crate) fn with(git: &Git, files: &[(&str, &str)]) -> Self {
        let place = Self::new(git);
        place.person(&["init", "-q", "-b", "main"]);
        for (path, content) in files {
            write(&place.project().join(path), content);
        }
        place.person(&["add", "-A"]);
        place.person(&["commit", "-q", "--allow-empty", "-m", "first"]);
        place
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }

    /// A folder that a tree can be checked out to.
    pub(crate) fn out(&self, name: &str) -> PathBuf {
        self.workspace().join(name)
    }

    /// Runs git as the person does, in the project. Gives what it printed.
    pub(crate) fn person(&self, args: &[&str]) -> String {
        self.person_in(&self.project(), args)
    }

    pub(crate) fn person_in(&self, folder: &Path, args: &[&str]) -> String {
        let output = self.person_command(folder, args).output().unwrap();
        assert!(
            output.status.success(),
            "git {args:?}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    pub(crate) fn person_command(&self, folder: &Path, args: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.env_clear().current_dir(folder).env("PATH", env::var_os("PATH").unwrap());
        command.env("HOME", self.folder.path().join("home")).env("GIT_CONFIG_NOSYSTEM", "1");
        for role in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{role}_NAME"), "Person").env(format!("GIT_{role}_EMAIL"), "p@localhost");
        }
        command.args(["-c", "protocol.file.allow=always"]).args(args);
        command
    }

    pub(crate) fn create(&self) -> Result<Tree, TreeError> {
        self.create_with(&TreeOptions::new())
    }

    pub(crate) fn create_with(&self, options: &TreeOptions) -> Result<Tree, TreeError> {
        let project = Project::find(self.project())?;
        Tree::create(&self.git, self.workspace(), &project, options)
    }

    /// A tree, and its base checked out.
    pub(crate) fn checked_out(&self) -> (Tree, PathBuf) {
        let tree = self.create().unwrap();
        let folder = self.out("now");
        tree.check_out(&tree.base().commit, &folder).unwrap();
        (tree, folder)
    }

    /// What is in the person's repository, but the refs that keep bases.
    pub(crate) fn repository(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = listing(&self.project().join(".git"));
        files.retain(|path, _| !path.starts_with("refs/nexus"));
        files
    }

    /// The files of the person's that are refs which keep bases.
    pub(crate) fn pins(&self) -> Vec<PathBuf> {
        let mut files = listing(&self.project().join(".git"));
        files.retain(|path, content| path.starts_with("refs/nexus") && content.as_slice() != b"folder");
        files.into_keys().collect()
    }
}

/// A commit of what is in a folder.
pub(crate) fn commit(tree: &Tree, folder: &Path, parent: &CommitId) -> Result<CommitId, TreeError> {
    let snapshot = tree.snapshot(folder)?;
    tree.commit(&CommitIntent::new(snapshot, parent.clone(), at(1_000_000_000), "Change it"))
}

pub(crate) fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Every path below a folder: kind, mode, content.
pub(crate) fn listing(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut todo = vec![folder.to_owned()];
    while let Some(next) = todo.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            let about = fs::symlink_metadata(&path).unwrap();
            let content = if about.is_dir() {
                todo.push(path.clone());
                b"folder".to_vec()
            } else if about.is_symlink() {
                [b"link ", fs::read_link(&path).unwrap().as_os_str().as_encoded_bytes()].concat()
            } else if about.is_file() {
                let bytes = fs::read(&path).unwrap_or_default();
                [format!("file {:o} ", about.mode() & 0o7777).into_bytes(), bytes].concat()
            } else {
                b"special".to_vec()
            };
            found.insert(path.strip_prefix(folder).unwrap().to_owned(), content);
        }
    }
    found
}

/// The paths of an error, as text.
pub(crate) fn refused(error: &TreeError) -> Vec<String> {
    let path = |refused: &nexus_trees::RefusedPath| {
        format!("{} {:?}", refused.path().to_string_lossy(), refused.refusal())
    };
    error.paths().iter().map(path).collect()
}

/// The kind of an error that must be one.
pub(crate) fn kind<T: std::fmt::Debug>(result: Result<T, TreeError>) -> TreeErrorKind {
    result.unwrap_err().kind()
}

/// Makes a program of shell. A child writes it: what this process has open for writing, if only in a child of another thread's that
/// is not its own program yet, cannot be started.
pub(crate) fn script(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut writing = Command::new("/bin/sh");
    writing
        .args(["-c", "printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .arg(text);
    assert!(writing.status().unwrap().success());
}

/// The git that the person runs, by its path.
pub(crate) fn real_git() -> PathBuf {
    let path = env::var_os("PATH").unwrap();
    env::split_paths(&path).map(|folder| folder.join("git")).find(|file| file.is_file()).unwrap()
}

/// Whether this process may do everything.
pub(crate) fn is_root() -> bool {
    rustix_uid() == 0
}

fn rustix_uid() -> u32 {
    fs::metadata("/proc/self").unwrap().uid()
}
