//! What the tests share: a person's project, a task's tree over it, and checks.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, UNIX_EPOCH},
};

use nexus_core::CancelToken;
use nexus_process::sandbox::Sandbox;
use nexus_tasks::{
    Checks, ProbeDraft, ProbeFile, ProbeSides, ProbeStore, SandboxKind, SandboxSettings, SuiteRun,
    TaskSettings,
};
use nexus_trees::{CommitId, CommitIntent, Git, Project, Tree, TreeOptions};

/// Whether this machine has a git and a sandbox. Where it has none, the tests that need one say so and pass, unless a variable
/// says that there must be one.
pub(crate) async fn has_all() -> bool {
    if let Err(error) = Sandbox::new().check().await {
        assert!(env::var_os("NEXUS_TEST_SANDBOX").is_none(), "{error}");
        eprintln!("NOT TESTED: {error}");
        return false;
    }
    has_git()
}

pub(crate) fn has_git() -> bool {
    match Git::find() {
        Ok(_) => true,
        Err(error) => {
            assert!(env::var_os("NEXUS_TEST_GIT").is_none(), "{error}");
            eprintln!("NOT TESTED: {error}");
            false
        }
    }
}

/// Whether the system's Python is where a sandbox has it.
pub(crate) fn has_python() -> bool {
    let is_there = Path::new("/usr/bin/python3").exists();
    if !is_there {
        eprintln!("NOT TESTED: there is no /usr/bin/python3");
    }
    is_there
}

/// A project, and a task over it.
pub(crate) struct Kit {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) tree: Tree,
}

impl Kit {
    /// A project of one commit with these files. A text that begins with `#!` can be executed.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        Self::beside(files, &[])
    }

    /// With files that are not in git.
    pub(crate) fn beside(files: &[(&str, &str)], unversioned: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("project");
        for name in ["project", "task", "home"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        for (path, content) in files {
            write(&project.join(path), content);
        }
        let git = |args: &[&str]| {
            let mut command = Command::new("git");
            command.env_clear().current_dir(&project).env("PATH", env::var_os("PATH").unwrap()).args(args);
            command.env("HOME", folder.path().join("home")).env("GIT_CONFIG_NOSYSTEM", "1");
            for role in ["AUTHOR", "COMMITTER"] {
                command.env(format!("GIT_{role}_NAME"), "P").env(format!("GIT_{role}_EMAIL"), "p@localhost");
            }
            let output = command.output().unwrap();
            assert!(output.status.success(), "{output:?}");
        };
        git(&["init", "-q", "-b", "main"]);
        git(&["add", "-A"]);
        git(&["commit", "-q", "--allow-empty", "-m", "first"]);
        for (path, content) in unversioned {
            write(&project.join(path), content);
        }
        let found = Project::find(&project).unwrap();
        let tree =
            Tree::create(&Git::find().unwrap(), folder.path().join("task"), &found, &TreeOptions::new())
                .unwrap();
        Self { folder, tree }
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    /// The folder for copies.
    pub(crate) fn copies(&self) -> PathBuf {
        self.folder.path().join("task/checks")
    }

    pub(crate) fn store(&self) -> ProbeStore {
        ProbeStore::new(self.folder.path().join("task/probes"))
    }

    pub(crate) fn base(&self) -> CommitId {
        self.tree.base().commit.clone()
    }

    /// A commit of the base with some files changed; an empty name of content removes one.
    pub(crate) fn change(&self, files: &[(&str, Option<&str>)]) -> CommitId {
        let out = self.folder.path().join("task/change");
        self.tree.restore(&self.base(), &out, &[]).unwrap();
        for (path, content) in files {
            match content {
                Some(content) => write(&out.join(path), content),
                None => fs::remove_file(out.join(path)).unwrap(),
            }
        }
        let snapshot = self.tree.snapshot(&out).unwrap();
        let time = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        self.tree.commit(&CommitIntent::new(snapshot, self.base(), time, "Change it")).unwrap()
    }

    pub(crate) fn checks(&self, settings: &TaskSettings) -> Checks {
        Checks::new(self.tree.clone(), self.copies(), self.project(), settings, self.store())
    }

    /// Runs a command as the tests of the base.
    pub(crate) async fn baseline(&self, command: &[&str]) -> SuiteRun {
        let checks = self.checks(&settings(command));
        checks.baseline(&CancelToken::new()).await.unwrap().unwrap().run
    }

    pub(crate) fn sides(&self, step_base: &CommitId, now: &CommitId) -> ProbeSides {
        ProbeSides { task_base: self.base(), step_base: step_base.clone(), now: now.clone() }
    }
}

/// Settings with a test command and a limit that no test means to reach.
pub(crate) fn settings(command: &[&str]) -> TaskSettings {
    TaskSettings {
        test_command: Some(words(command)).filter(|command| !command.is_empty()),
        sandbox: SandboxSettings { seconds: 120, memory_mib: 1024, ..SandboxSettings::default() },
        ..TaskSettings::default()
    }
}

/// The same without a sandbox.
pub(crate) fn unsandboxed(command: &[&str]) -> TaskSettings {
    let mut settings = settings(command);
    settings.sandbox.kind = SandboxKind::None;
    settings
}

pub(crate) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

pub(crate) fn probe(files: &[(&str, &str)], argv: &[&str]) -> ProbeDraft {
    let file = |(path, content): &(&str, &str)| ProbeFile {
        path: (*path).to_owned(),
        content: (*content).to_owned(),
    };
    ProbeDraft { files: files.iter().map(file).collect(), argv: words(argv), inputs: Vec::new() }
}

/// Writes a file, which can be executed if it is a script. A child writes that: what this process has open for writing, if only in a
/// child of another thread's, cannot be started.
pub(crate) fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    if !content.starts_with("#!") {
        return fs::write(path, content).unwrap();
    }
    let mut writing = Command::new("/bin/sh");
    writing.args(["-c", "printf '%s' \"$1\" > \"$0\" && chmod 755 \"$0\""]).arg(path).arg(content);
    assert!(writing.status().unwrap().success());
}

/// How many processes of the machine have `word` in their arguments.
pub(crate) fn alive_with(word: &str) -> usize {
    let has = |entry: fs::DirEntry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line.windows(word.len()).any(|part| part == word.as_bytes())
    };
    let own = std::process::id().to_string();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter(|entry| entry.file_name() != own.as_str()).map(has).filter(|has| *has).count()
}

/// Waits, for as long as a slow machine takes, until something holds.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = std::time::Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Every file below a folder, by its path from there.
pub(crate) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![folder.to_owned()];
    while let Some(next) = todo.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => todo.push(entry.path()),
                false => found.push(entry.path().strip_prefix(folder).unwrap().to_owned()),
            }
        }
    }
    found
}

/// The folders of copies that are there for one run.
pub(crate) fn scratch_folders(kit: &Kit) -> usize {
    let rooms = fs::read_dir(kit.copies()).into_iter().flatten().flatten();
    rooms.map(|room| fs::read_dir(room.path().join("scratch")).map_or(0, Iterator::count)).sum()
}
