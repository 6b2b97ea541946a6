//! Running the test command.

use std::{collections::BTreeSet, path::PathBuf};

use nexus_core::{CancelToken, harness::try_blocking};
use nexus_trees::{ChangedPath, CommitId, Tree, TreeId};

use super::{
    Checks,
    copies::{Beginning, link_kept},
    error::CheckError,
    loaded::{BaseFiles, Loaded, LoadedAs},
    missing,
    prepare::Prepare,
    runner::{Program, ProgramEnd, Ran},
    test_run::{Baseline, SuiteEnd, SuiteRun, TestFileChange, TestFileChangeKind, TestFileKind, TestRun},
};

/// Maximum amount of output of the tests, in bytes. Source: the default of the sandbox.
const OUTPUT_BYTES: u64 = 256 << 20;
/// Largest file to read in search of loaded files, in bytes. Source: our own bound.
const LOADED_BYTES: u64 = 256 << 10;
/// Maximum number of files of one name, such as `Cargo.toml`, to read. Source: our own bound.
const MOST_NAMED: usize = 32;
/// Retained part of each output, in bytes: enough for the names of some thousand tests.
const KEPT_BYTES: usize = 256 << 10;

impl Checks {
    /// Runs the test command on the base of the task. Returns `None` if the task has no test command.
    ///
    /// Failing tests, a command that does not start, and a command that does not end are a [`Baseline`].
    ///
    /// # Errors
    ///
    /// [`NoSandbox`](CheckError::NoSandbox) with the command that installs one; [`Settings`](CheckError::Settings) for a path
    /// of `keep` that leads out of the project; errors of trees, disks and [`Runner`](CheckError::Runner);
    /// [`Cancelled`](CheckError::Cancelled).
    pub async fn baseline(&self, cancel: &CancelToken) -> Result<Option<Baseline>, CheckError> {
        if self.test_command.is_none() {
            return Ok(None);
        }
        let commit = self.tree.base().commit.clone();
        let tree = self.tree_of(&commit, cancel).await?;
        let run = self.suite(&tree, Beginning::Clean, cancel).await?;
        Ok(Some(Baseline { commit, run }))
    }

    /// Runs the test command on a tree. If test or build files differ from those of the task's base, also runs the base's tests on the new
    /// tree. The run begins on a clean copy: of the outputs of earlier runs, only the [caches](crate::SandboxSettings::caches) of the
    /// settings are there.
    ///
    /// A file counts as a test or build file by its path, or because the test command names it. The command can also name it in a file of
    /// the base that it reads: see [`TestRun::changed`].
    ///
    /// # Errors
    ///
    /// [`NoTestCommand`](CheckError::NoTestCommand); otherwise as [`Checks::baseline`].
    pub async fn run_tests(&self, now: &CommitId, cancel: &CancelToken) -> Result<TestRun, CheckError> {
        self.run_tests_from(now, Beginning::Clean, cancel).await
    }

    /// Runs the tests like [`Checks::run_tests`], for the agent that works on the tree. The outputs of its own runs on the very same tree
    /// are there.
    ///
    /// # Errors
    ///
    /// As [`Checks::run_tests`].
    pub async fn run_tests_at_work(
        &self,
        now: &CommitId,
        cancel: &CancelToken,
    ) -> Result<TestRun, CheckError> {
        self.run_tests_from(now, Beginning::Built, cancel).await
    }

    async fn run_tests_from(
        &self,
        now: &CommitId,
        beginning: Beginning,
        cancel: &CancelToken,
    ) -> Result<TestRun, CheckError> {
        let command = self.test_command.clone().ok_or(CheckError::NoTestCommand)?;
        let (repository, commit) = (self.tree.clone().with_cancel(cancel.clone()), now.clone());
        let (tree, mixed, concerned) = try_blocking(move || {
            let base = &repository.base().commit;
            let concerned = concerned(&repository, &commit, &command)?;
            let mixed = match concerned.changed.is_empty() {
                true => None,
                false => {
                    // Combine the new files with the base's test and build files, so that an agent cannot pass by
                    // changing the tests.
                    let paths = concerned.changed.iter().map(|(path, _)| path);
                    Some(repository.with_paths_of(&commit, base, paths)?)
                }
            };
            Ok::<_, CheckError>((repository.tree_of(&commit)?, mixed, concerned))
        })
        .await?;
        let beside = async {
            match &mixed {
                Some(mixed) => self.suite(mixed, beginning, cancel).await.map(Some),
                None => Ok(None),
            }
        };
        // Run both suites at once: the runner admits two programs of a task.
        let (run, base_tests) = tokio::try_join!(self.suite(&tree, beginning, cancel), beside)?;
        let Concerned { changed, may_be_loaded, loads_unknown } = concerned;
        let changed = changed.into_iter().map(|(_, change)| change).collect();
        Ok(TestRun { commit: now.clone(), run, changed, may_be_loaded, loads_unknown, base_tests })
    }

    async fn suite(
        &self,
        tree: &TreeId,
        beginning: Beginning,
        cancel: &CancelToken,
    ) -> Result<SuiteRun, CheckError> {
        let argv = self.test_command.as_deref().ok_or(CheckError::NoTestCommand)?;
        let kept = self.kept().await?;
        let prepared = match self.prepare(tree, &kept, cancel).await? {
            Prepare::Done(prepared) => prepared,
            Prepare::Failed { missing, output, elapsed } => {
                let end = SuiteEnd::DidNotStart { missing };
                return Ok(SuiteRun { end, output, seconds: elapsed.as_secs_f64() });
            }
        };
        let copy = self.copies.for_tests(&prepared, beginning, cancel).await?;
        let (files, home) = (copy.copy.files(), copy.copy.home());
        self.link(&files, &kept).await?;
        let program = Program {
            argv,
            stdin: &[],
            wall: self.wall(),
            output_bytes: OUTPUT_BYTES,
            kept_bytes: KEPT_BYTES,
        };
        let ran = self.runner.run(&files, &home, &kept, program, cancel).await?;
        // A stopped program may have filled the copy, so the copy is dropped.
        if matches!(ran.ended, ProgramEnd::Exited(_)) {
            self.copies.give_back(copy).await;
        }
        Ok(of(&ran))
    }

    /// Links the kept paths into a copy, if the settings have no sandbox to show them.
    pub(super) async fn link(
        &self,
        files: &std::path::Path,
        kept: &[super::keep::ShownPath],
    ) -> Result<(), CheckError> {
        if self.runner.settings().kind != crate::settings::SandboxKind::None || kept.is_empty() {
            return Ok(());
        }
        let (files, kept) = (files.to_owned(), kept.to_vec());
        try_blocking(move || link_kept(&files, &kept)).await
    }
}

fn of(ran: &Ran) -> SuiteRun {
    let output = ran.output(KEPT_BYTES);
    let end = match &ran.ended {
        ProgramEnd::TimedOut => SuiteEnd::TimedOut,
        ProgramEnd::Limit(limit) => SuiteEnd::ReachedLimit { limit: limit.clone() },
        ProgramEnd::NotStarted(missing) => SuiteEnd::DidNotStart { missing: missing.clone() },
        ProgramEnd::Exited(exit) if exit.is_success() => SuiteEnd::Passed,
        ProgramEnd::Exited(exit) => match missing::tool(*exit, output.end_of_errors()) {
            Some(missing) => SuiteEnd::DidNotStart { missing },
            None => SuiteEnd::Failed { exit: *exit },
        },
    };
    SuiteRun { end, output, seconds: ran.elapsed.as_secs_f64() }
}

/// The changed paths that concern the test command.
struct Concerned {
    /// Test and build files.
    changed: Vec<(PathBuf, TestFileChange)>,
    /// Other files that the command may load.
    may_be_loaded: Vec<String>,
    /// True if the command may load more files than these.
    loads_unknown: bool,
}

/// Returns the changed paths of a commit that the command loads, judged by the files of the base. Blocks.
fn concerned(tree: &Tree, commit: &CommitId, command: &[String]) -> Result<Concerned, CheckError> {
    let base = &tree.base().commit;
    let mut files = FilesOfBase::new(tree)?;
    let loaded = Loaded::by(command, &mut files);
    let mut found =
        Concerned { changed: Vec::new(), may_be_loaded: Vec::new(), loads_unknown: !loaded.is_known() };
    for change in tree.changes(base, commit)? {
        match loaded.concern(&change.path, change.old.is_none(), &files) {
            Some(LoadedAs::File(kind)) => {
                let told = told(&change, kind);
                found.changed.push((change.path, told));
            }
            Some(LoadedAs::MayBeLoaded) => {
                found.may_be_loaded.push(change.path.to_string_lossy().into_owned());
            }
            None => {}
        }
    }
    Ok(found)
}

/// The files of the task's base.
struct FilesOfBase<'t> {
    tree: &'t Tree,
    paths: BTreeSet<String>,
}

impl<'t> FilesOfBase<'t> {
    fn new(tree: &'t Tree) -> Result<Self, CheckError> {
        // Test commands and scripts are UTF-8 here, so they cannot name other paths.
        let paths = tree.paths(&tree.base().commit)?.into_iter();
        Ok(Self { tree, paths: paths.filter_map(|path| path.into_os_string().into_string().ok()).collect() })
    }
}

impl BaseFiles for FilesOfBase<'_> {
    fn has(&self, path: &str) -> bool {
        self.paths.contains(path)
    }

    fn text(&mut self, path: &str) -> Option<String> {
        if !self.has(path) {
            return None;
        }
        let found = self.tree.contents(&self.tree.base().commit, &[path], LOADED_BYTES).ok()?;
        String::from_utf8(found.into_iter().next()??).ok()
    }

    fn named(&self, name: &str) -> Vec<String> {
        let is_named = |path: &&String| path.rsplit('/').next() == Some(name);
        self.paths.iter().filter(is_named).take(MOST_NAMED).cloned().collect()
    }
}

fn told(change: &ChangedPath, kind: TestFileKind) -> TestFileChange {
    let change_kind = match (&change.old, &change.new) {
        (None, _) => TestFileChangeKind::Added,
        (_, None) => TestFileChangeKind::Removed,
        _ => TestFileChangeKind::Modified,
    };
    TestFileChange { path: change.path.to_string_lossy().into_owned(), kind, change: change_kind }
}
