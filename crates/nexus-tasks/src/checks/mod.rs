//! The project's tests and probes, run in a sandbox over trees.
//!
//! | type | is |
//! | --- | --- |
//! | [`Baseline`] | the tests on the base of a task, before a model is asked |
//! | [`TestRun`] | the tests on a tree, and the base's tests beside them where test or build files differ |
//! | [`ProbeDraft`], [`ProbeSides`] | a program that prints observations, and the three trees that it is run on |
//! | [`ProbeRecord`] | what it printed on each of them, and which of them differ |
//! | [`CheckError`] | why something was not run |
//! | [`Checks`] | runs them, over copies of trees |
//! | [`ProbeStore`] | the probes of a task, by number |
//!
//! A program is never judged by what it prints: that it did not start, ran into a limit or gave two answers to one question is
//! found by who ran it.

mod copies;
mod error;
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
pub use output::{CheckOutput, KeptText, ProgramExit};
pub use probe::{ProbeDraft, ProbeFile};
pub use probe_record::{
    ProbeAnswer, ProbeDifference, ProbeRecord, ProbeRun, ProbeRunEnd, ProbeSide, ProbeSides, SideOutcome,
};
pub use shown::{shown_baseline, shown_probe, shown_test_run};
pub use store::ProbeStore;
pub use test_run::{Baseline, SuiteEnd, SuiteRun, TestFileChange, TestFileChangeKind, TestFileKind, TestRun};

use crate::settings::{SandboxSettings, TaskSettings};
use copies::Copies;
use runner::Runner;

/// Checks what the settings of a task say of its project, as far as that is known before anything is run. Blocks.
///
/// # Errors
///
/// [`CheckError::Settings`] for a path of `keep` that is none or leads out of the project, and for a command of `setup` that names
/// no program.
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

/// Runs the project's tests and probes of one task. Clones share its copies of trees, and how many programs run at once.
///
/// # What holds
///
/// - A program sees a copy of a tree at the path of the project, so that editable installs and caches point into it; beside it the
///   system's folders, the tool chains and kept paths of the settings, read-only, an empty home and `/tmp`, and no network. See
///   [`nexus_process::sandbox`]. With [`SandboxKind::None`](crate::SandboxKind::None) it runs in the copy, with all that this user
///   may do, and a built environment.
/// - No two runs share a copy. The commands of [`setup`](crate::SandboxSettings::setup) run once for each tree. The tests of whoever
///   judges a tree begin on a clean copy, with nothing but what earlier runs of the very same tree left in the
///   [`caches`](crate::SandboxSettings::caches); those of the agent that is at work on it find all that its runs built. A probe runs
///   in a fresh copy each time.
/// - At most two programs of a task run at once; the others wait.
/// - Dropping a future, or cancelling its token, ends all that runs for it. Nothing is left but copies, which are removed.
///
/// Futures need a runtime of tokio's with time and blocking threads.
#[derive(Clone, Debug)]
pub struct Checks {
    tree: Tree,
    test_command: Option<Vec<String>>,
    runner: Runner,
    copies: Copies,
    probes: ProbeStore,
}

impl Checks {
    /// Checks over `tree`. Copies are made in `folder`, which belongs to them alone; `project` is the path at which programs see a
    /// tree, and the place of what is kept of the person's project. Nothing is read or made yet but this program's variables.
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

    /// Takes these variables for those of this machine, in place of this program's own. Of them `PATH`, `HOME`, the language, the
    /// time zone and those that name a tool chain count.
    #[must_use]
    pub fn with_variables(mut self, host: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        self.runner = self.runner.with_host(host.into_iter().collect());
        self
    }

    /// Writes every run down in the run registry of a home, so that [`sweep`](nexus_process::run_registry::sweep) ends what a killed
    /// host leaves of it on a machine that cannot by itself.
    #[must_use]
    pub fn with_run_registry(mut self, nexus_home: impl Into<PathBuf>) -> Self {
        self.runner = self.runner.in_home(nexus_home.into());
        self
    }
}
