//! Results of the project's tests on a tree.

use nexus_trees::CommitId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::output::{CheckOutput, ProgramExit};

/// The tests on the base of a task, run before any model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// The base.
    #[schemars(with = "String")]
    pub commit: CommitId,
    /// Result of the run.
    pub run: SuiteRun,
}

/// The tests on a tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestRun {
    /// The tree.
    #[schemars(with = "String")]
    pub commit: CommitId,
    /// The tests as they are in the tree.
    pub run: SuiteRun,
    /// Test and build files that differ from those of the task's base.
    pub changed: Vec<TestFileChange>,
    /// Changed files that the test command may load in addition to those of `changed`: files that it names, and files in folders of programs and
    /// modules. Some of them may be part of the code under test, so the base's tests run with their current version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may_be_loaded: Vec<String>,
    /// True if the test command is not a known test runner, so that it may load more files than these.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub loads_unknown: bool,
    /// The base's tests on the new tree: on a copy in which every file of `changed` is as it is in the base. `None` if no such file
    /// changed.
    pub base_tests: Option<SuiteRun>,
}

/// One run of the test command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SuiteRun {
    /// End of the run.
    pub end: SuiteEnd,
    /// Output of the tests.
    pub output: CheckOutput,
    /// Duration, in seconds.
    pub seconds: f64,
}

/// End of a run of the test command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "end", rename_all = "snake_case", deny_unknown_fields)]
pub enum SuiteEnd {
    /// With exit code 0.
    Passed,
    /// Another exit code, or a signal.
    Failed {
        /// The exit.
        exit: ProgramExit,
    },
    /// The test command or a setup command could not be started. Also a setup command that failed.
    DidNotStart {
        /// The missing program, or the failed command.
        missing: String,
    },
    /// It did not end in time.
    TimedOut,
    /// It reached another limit, and was stopped.
    ReachedLimit {
        /// The limit: `memory`, `output`, `processes`, `processor time`, `file size`, `disk space`.
        limit: String,
    },
}

impl SuiteRun {
    /// Returns true if it passed and wrote nothing, so that no output shows that a test ran.
    pub fn is_wordless(&self) -> bool {
        self.is_green() && self.output.stdout.is_empty() && self.output.stderr.is_empty()
    }

    /// Returns true if the tests passed.
    pub fn is_green(&self) -> bool {
        self.end == SuiteEnd::Passed
    }
}

/// A test or build file that differs from the task's base.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestFileChange {
    /// Its path. Bytes that are not UTF-8 are replaced by U+FFFD.
    pub path: String,
    /// Kind of the file, by its path.
    pub kind: TestFileKind,
    /// Kind of the change.
    pub change: TestFileChangeKind,
}

/// Kind of a file, by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TestFileKind {
    /// A test, or a file that tests use.
    Test,
    /// A file that defines the build or the tests of the project.
    Build,
}

/// Change of a file since the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TestFileChangeKind {
    /// It is new.
    Added,
    /// It has other content or another mode.
    Modified,
    /// It was removed.
    Removed,
}
