//! The project's tests and probes, run in a sandbox over trees.
//!
//! | type | is |
//! | --- | --- |
//! | [`Baseline`] | the tests on the base of a task, before any model runs |
//! | [`TestRun`] | the tests on a tree, and the base's tests beside them where test or build files differ |
//! | [`ProbeDraft`], [`ProbeSides`] | a program that prints observations, and the three trees that it is run on |
//! | [`ProbeRecord`] | the output on each of them, and the sides that differ |
//! | [`CheckError`] | reason why something did not run |
//! | [`Checks`] | runs them, over copies of trees |
//! | [`ProbeStore`] | the probes of a task, by number |
//!
//! A program is never judged by its own words alone. The runner itself detects that a program did not start, reached a limit or gave two
//! answers to one question.

mod copies;
mod error;
mod for_people;
mod keep;
mod loaded;
mod missing;
mod output;
mod prepare;
mod probe;
mod probe_record;
mod probing;
mod python_modules;
mod runner;
mod shell_words;
mod shown;
mod store;
mod suite;
mod test_files;
mod test_run;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use nexus_trees::Tree;

pub use error::CheckError;
pub use for_people::spoken_probe;
pub(crate) use for_people::{command_line, compared, side_name};
pub use output::{CheckOutput, KeptText, ProgramExit};
pub use probe::{ProbeDraft, ProbeFile};
pub use probe_record::{
    ProbeAnswer, ProbeDifference, ProbeRecord, ProbeRun, ProbeRunEnd, ProbeSide, ProbeSides, SideOutcome,
};
pub(crate) use shown::shown_landing;
pub use shown::{shown_baseline, shown_probe, shown_test_run};
pub(crate) use store::MOST_PROBE_BYTES;
pub use store::ProbeStore;
pub use test_run::{Baseline, SuiteEnd, SuiteRun, TestFileChange, TestFileChangeKind, TestFileKind, TestRun};

use crate::settings::{SandboxSettings, TaskSettings};
use copies::Copies;
use runner::Runner;

/// Checks the sandbox settings of a task, as far as possible before a program runs. Blocks.
///
/// # Errors
///
/// [`CheckError::Settings`] for an invalid path of `keep` or `caches`, and for a path of `keep` that leads out of the project. Also for a
/// command of `setup` that names no program.
pub(crate) fn check_settings(project: &Path, sandbox: &SandboxSettings) -> Result<(), CheckError> {
    keep::find(project, &sandbox.keep)?;
    keep::places("sandbox.caches", &sandbox.caches)?;
    for (number, argv) in sandbox.setup.iter().enumerate() {
        if argv.first().is_none_or(String::is_empty) || argv.iter().any(|part| part.contains('\0')) {
            let setting = format!("sandbox.setup[{number}]");
            return Err(CheckError::Settings { setting, reason: "names no program".to_owned() });
        }
    }
    Ok(())
}

/// Runs the project's tests and probes of one task. Clones share its copies of trees, and the limit on concurrent programs.
///
/// # Guarantees
///
/// - A program sees a copy of a tree at the path of the project, so that editable installs and caches point into it. Beside the copy it
///   sees the system's folders, the tool chains and kept paths of the settings, read-only, an empty home and `/tmp`. It has no network.
///   See [`nexus_process::sandbox`]. With [`SandboxKind::None`](crate::SandboxKind::None) it runs in the copy, with all permissions of
///   this user, and a built environment.
/// - No two runs share a copy. The commands of [`setup`](crate::SandboxSettings::setup) run once for each tree. Tests that judge a tree
///   begin on a clean copy, with only the [`caches`](crate::SandboxSettings::caches) of earlier runs of the very same tree. Tests of
///   the agent that works on the tree find all outputs of its own runs. A probe runs in a fresh copy each time.
/// - At most two programs of a task run at once; the others wait.
/// - Dropping a future, or cancelling its token, ends all programs that run for it. Only copies remain, and these are removed.
///
/// Futures need a Tokio runtime with time and blocking threads.
#[derive(Clone, Debug)]
pub struct Checks {
    tree: Tree,
    test_command: Option<Vec<String>>,
    runner: Runner,
    copies: Copies,
    probes: ProbeStore,
}

impl Checks {
    /// Creates checks over `tree`. Copies are made in `folder`, which is theirs alone. `project` is the path at which programs see a tree;
    /// it also holds the kept paths of the person's project. Reads only the environment variables of this process.
    pub fn new(
        tree: Tree,
        folder: PathBuf,
        project: PathBuf,
        settings: &TaskSettings,
        probes: ProbeStore,
    ) -> Self {
        Self {
            test_command: settings.test_command.clone(),
            runner: Runner::new(project, &settings.sandbox, std::env::vars_os().collect()),
            copies: Copies::new(tree.clone(), folder, &settings.sandbox),
            tree,
            probes,
        }
    }

    /// Replaces the environment variables of this process. Only `PATH`, `HOME`, the language, the time zone and the variables that
    /// name a tool chain count.
    #[must_use]
    pub fn with_variables(mut self, host: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        self.runner = self.runner.with_host(host.into_iter().collect());
        self
    }

    /// Records every run in the run registry of a home. [`sweep`](nexus_process::run_registry::sweep) then ends the programs of a killed
    /// host, on machines that cannot do so themselves.
    #[must_use]
    pub fn with_run_registry(mut self, nexus_home: impl Into<PathBuf>) -> Self {
        self.runner = self.runner.in_home(nexus_home.into());
        self
    }
}
