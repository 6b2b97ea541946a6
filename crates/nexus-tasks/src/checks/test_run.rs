//! What the project's tests say of a tree.

use nexus_trees::CommitId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::output::{CheckOutput, ProgramExit};

/// The tests on the base of a task, before a model is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// The base.
    #[schemars(with = "String")]
    pub commit: CommitId,
    /// How it went.
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
    /// The test and build files that are not those of the task's base.
    pub changed: Vec<TestFileChange>,
    /// Changed files that the test command may load beside those of `changed`: what it names, what lies where it looks for programs and
    /// modules. Some of them may be what is under test, so that the base's tests run with them as they are now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may_be_loaded: Vec<String>,
    /// Whether it is not known what the test command loads beside these, since it is no test runner that is known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub loads_unknown: bool,
    /// The base's tests on the new tree: on a copy in which every file of `changed` is as it is in the base. `None` if nothing is
    /// changed.
    pub base_tests: Option<SuiteRun>,
}

/// One run of the test command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SuiteRun {
    /// How it ended.
    pub end: SuiteEnd,
    /// What it wrote.
    pub output: CheckOutput,
    /// How long it took, in seconds.
    pub seconds: f64,
}

/// How a run of the test command ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "end", rename_all = "snake_case", deny_unknown_fields)]
pub enum SuiteEnd {
    /// With exit code 0.
    Passed,
    /// With another exit code, or by a signal.
    Failed {
        /// Which.
        exit: ProgramExit,
    },
    /// The command, or one of those that prepare the tree for it, could not be started or ended with an error.
    DidNotStart {
        /// What is missing.
        missing: String,
    },
    /// It did not end in time.
    TimedOut,
    /// It reached another limit, and was ended.
    ReachedLimit {
        /// Which: `memory`, `output`, `processes`, `processor time`, `file size`, `disk space`.
        limit: String,
    },
}

impl SuiteRun {
    /// Whether it passed and wrote nothing: no output shows that a test ran.
    pub fn is_wordless(&self) -> bool {
        self.is_green() && self.output.stdout.is_empty() && self.output.stderr.is_empty()
    }

    /// Whether the tests passed.
    pub fn is_green(&self) -> bool {
        self.end == SuiteEnd::Passed
    }
}

/// A test or build file that is not as it is in the task's base.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestFileChange {
    /// Its path. What of it is not UTF-8 was replaced by U+FFFD.
    pub path: String,
    /// What its path says that it is.
    pub kind: TestFileKind,
    /// What became of it.
    pub change: TestFileChangeKind,
}

/// What the path of a file says that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TestFileKind {
    /// A test, or something that tests use.
    Test,
    /// A file that says how the project is built, or what its tests are.
    Build,
}

/// What became of a file since the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TestFileChangeKind {
    /// It is new.
    Added,
    /// It has another content or mode.
    Modified,
    /// It is gone.
    Removed,
}
