//! Running the test command.

use std::path::PathBuf;

use nexus_core::CancelToken;
use nexus_workspace::tree::{ChangedPath, CommitId, TreeId};

use super::{
    Checks,
    copies::{blocking, link_kept},
    error::CheckError,
    missing,
    output::CheckOutput,
    prepare::Prepare,
    runner::{Ended, Program, Ran},
    test_files::kind_of,
    test_run::{Baseline, SuiteEnd, SuiteRun, TestFileChange, TestFileChangeKind, TestFileKind, TestRun},
};

/// The most that the tests may write, in bytes. Source: the default of the sandbox.
const OUTPUT_BYTES: u64 = 256 << 20;
/// What is kept of each output, in bytes: enough for the names of some thousand tests.
const KEPT_BYTES: usize = 256 << 10;

impl Checks {
    /// Runs the test command on the base of the task. `None` if the task has no test command.
    ///
    /// Red tests, a command that cannot be started, and one that does not end are a [`Baseline`].
    ///
    /// # Errors
    ///
    /// [`NoSandbox`](CheckError::NoSandbox) with the command that installs one; [`Settings`](CheckError::Settings) for a path
    /// to keep that leads out of the project; those of trees, disks and [`Runner`](CheckError::Runner);
    /// [`Cancelled`](CheckError::Cancelled).
    pub async fn baseline(&self, cancel: &CancelToken) -> Result<Option<Baseline>, CheckError> {
        if self.test_command.is_none() {
            return Ok(None);
        }
        let commit = self.tree.base().commit.clone();
        let tree = self.tree_of(&commit, cancel).await?;
        let run = self.suite(&tree, cancel).await?;
        Ok(Some(Baseline { commit, run }))
    }

    /// Runs the test command on a tree, and, where test or build files differ from those of the task's base, the base's tests on
    /// the new tree beside.
    ///
    /// What is a test or build file goes by its path, and by the arguments of the test command; see [`TestRun::changed`].
    ///
    /// # Errors
    ///
    /// [`NoTestCommand`](CheckError::NoTestCommand); as [`Checks::baseline`].
    pub async fn run_tests(&self, now: &CommitId, cancel: &CancelToken) -> Result<TestRun, CheckError> {
        let command = self.test_command.clone().ok_or(CheckError::NoTestCommand)?;
        let (repository, commit) = (self.tree.clone().with_cancel(cancel.clone()), now.clone());
        let (tree, mixed, changed) = blocking(move || {
            let base = &repository.base().commit;
            let mut changes = repository.changes(base, &commit)?;
            changes.retain(|change| kind_in(change, &command).is_some());
            let paths: Vec<PathBuf> = changes.iter().map(|change| change.path.clone()).collect();
            let mixed = match paths.is_empty() {
                true => None,
                false => Some(repository.with_paths_of(&commit, base, &paths)?),
            };
            let changed =
                changes.iter().filter_map(|change| Some(told(change, kind_in(change, &command)?))).collect();
            Ok((repository.tree_of(&commit)?, mixed, changed))
        })
        .await?;
        let beside = async {
            match &mixed {
                Some(mixed) => self.suite(mixed, cancel).await.map(Some),
                None => Ok(None),
            }
        };
        let (run, base_tests) = tokio::try_join!(self.suite(&tree, cancel), beside)?;
        Ok(TestRun { commit: now.clone(), run, changed, base_tests })
    }

    async fn suite(&self, tree: &TreeId, cancel: &CancelToken) -> Result<SuiteRun, CheckError> {
        let argv = self.test_command.as_deref().ok_or(CheckError::NoTestCommand)?;
        let kept = self.kept().await?;
        let prepared = match self.prepare(tree, &kept, cancel).await? {
            Prepare::Done(prepared) => prepared,
            Prepare::Failed { missing, output, elapsed } => {
                let end = SuiteEnd::DidNotStart { missing };
                return Ok(SuiteRun { end, output, seconds: elapsed.as_secs_f64() });
            }
        };
        let copy = self.copies.for_tests(&prepared, cancel).await?;
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
        self.copies.give_back(copy).await;
        Ok(of(&ran))
    }

    /// Shows what is kept in a copy, where no sandbox does.
    pub(super) async fn link(
        &self,
        files: &std::path::Path,
        kept: &[super::keep::Kept],
    ) -> Result<(), CheckError> {
        if self.runner.settings().kind != crate::settings::SandboxKind::None || kept.is_empty() {
            return Ok(());
        }
        let (files, kept) = (files.to_owned(), kept.to_vec());
        blocking(move || link_kept(&files, &kept)).await
    }
}

fn of(ran: &Ran) -> SuiteRun {
    let output = ran.output(KEPT_BYTES);
    let end = match &ran.ended {
        Ended::TimedOut => SuiteEnd::TimedOut,
        Ended::Limit(limit) => SuiteEnd::ReachedLimit { limit: limit.clone() },
        Ended::NotStarted(missing) => SuiteEnd::DidNotStart { missing: missing.clone() },
        Ended::Exited(exit) if exit.is_success() => SuiteEnd::Passed,
        Ended::Exited(exit) => match missing::tool(*exit, end_of(&output)) {
            Some(missing) => SuiteEnd::DidNotStart { missing },
            None => SuiteEnd::Failed { exit: *exit },
        },
    };
    SuiteRun { end, output, seconds: ran.elapsed.as_secs_f64() }
}

/// The end of standard error.
fn end_of(output: &CheckOutput) -> &str {
    match output.stderr.omitted_bytes {
        0 => &output.stderr.head,
        _ => &output.stderr.tail,
    }
}

/// What a path that changed is: also what the test command names.
fn kind_in(change: &ChangedPath, command: &[String]) -> Option<TestFileKind> {
    let is_named =
        || command.iter().any(|argument| change.path.as_os_str() == argument.trim_start_matches("./"));
    kind_of(&change.path).or_else(|| is_named().then_some(TestFileKind::Test))
}

fn told(change: &ChangedPath, kind: TestFileKind) -> TestFileChange {
    let change_kind = match (&change.old, &change.new) {
        (None, _) => TestFileChangeKind::Added,
        (_, None) => TestFileChangeKind::Removed,
        _ => TestFileChangeKind::Modified,
    };
    TestFileChange { path: change.path.to_string_lossy().into_owned(), kind, change: change_kind }
}
