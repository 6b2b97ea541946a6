//! The checkout of a person, as git shows it to them.

use std::{
    env, fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

/// A repository with a checkout, and a home for its person.
#[derive(Debug)]
pub(crate) struct Checkout {
    folder: TempDir,
}

impl Checkout {
    /// An empty one.
    pub(crate) fn empty() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["home", "project"] {
            fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        let checkout = Self { folder };
        checkout.git(&["init", "-q", "-b", "main"]);
        checkout
    }

    /// One with a commit of these files.
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let checkout = Self::empty();
        for (path, content) in files {
            checkout.write(path, content);
        }
        checkout.commit("first");
        checkout
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    pub(crate) fn write(&self, path: &str, content: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, content).expect("a file");
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub(crate) fn mode(&self, path: &str) -> u32 {
        fs::symlink_metadata(self.path().join(path)).expect("a file").mode() & 0o777
    }

    pub(crate) fn commit(&self, message: &str) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", message]);
    }

    /// Runs git as the person does, and gives what it printed.
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        self.git_in(&self.path(), arguments)
    }

    pub(crate) fn git_in(&self, folder: &Path, arguments: &[&str]) -> String {
        let mut command = Command::new("git");
        command.env_clear().current_dir(folder).env("PATH", env::var_os("PATH").expect("a PATH"));
        command.env("HOME", self.folder.path().join("home")).env("GIT_CONFIG_NOSYSTEM", "1");
        for role in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{role}_NAME"), "Person").env(format!("GIT_{role}_EMAIL"), "p@localhost");
        }
        let output =
            command.args(["-c", "protocol.file.allow=always"]).args(arguments).output().expect("git runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {arguments:?}: {said}");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Everything that a turn could touch: the commit, the branch, what is not committed, and the refs of Nexus.
    pub(crate) fn state(&self) -> [String; 4] {
        [
            self.git(&["rev-parse", "HEAD"]),
            self.git(&["rev-parse", "--abbrev-ref", "HEAD"]),
            self.git(&["status", "--porcelain", "--ignored"]),
            self.refs(),
        ]
    }

    /// The refs of Nexus.
    pub(crate) fn refs(&self) -> String {
        self.git(&["for-each-ref", "--format=%(refname)", "refs/nexus"])
    }
}

/// The names in a folder; none where it is not there.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
