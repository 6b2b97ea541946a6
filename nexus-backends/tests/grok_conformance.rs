//! The conformance suite, run against `grok-cli`: with a fake program everywhere, and with the real ones that
//! `NEXUS_REAL_GROK` names, in a namespace without a network.

use std::{collections::BTreeSet, io, os::unix::fs::symlink, path::PathBuf, process::ExitCode, sync::Arc};

use nexus_backends::grok::cli::GrokCli;
use nexus_testkit::{
    conformance::{self, DelegatedSubject, Subject},
    fake_cli::{self, Vendor},
    real,
    sim::Dialect,
};

/// The variable that names real programs.
const REAL: &str = "NEXUS_REAL_GROK";

fn main() -> ExitCode {
    fake_cli::run_if_invoked();
    let programs = match programs_without("bwrap") {
        Ok(programs) => programs,
        Err(error) => {
            eprintln!("no folder of programs can be made: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut subjects: Vec<(String, Arc<dyn Subject>)> =
        vec![("grok_fake".to_owned(), Arc::new(fake(programs.path())))];
    for (number, executable) in (1..).zip(real::programs(REAL)) {
        subjects.push((format!("grok_{number}"), Arc::new(real_subject(executable))));
    }
    conformance::harness(&subjects)
}

fn real_subject(executable: PathBuf) -> DelegatedSubject {
    DelegatedSubject::real(
        format!("grok-cli with {}", executable.display()),
        Arc::new(GrokCli),
        executable,
        Dialect::Xai,
    )
    .with_model("grok-4.6")
    .not_staging("a_plan_that_is_used_up_says_until_when", "xAI's answer names no time")
    .not_staging(
        "a_rate_limit_of_a_century_is_cut_to_a_day",
        "the program waits two minutes, whatever time it is named, and says nothing of it",
    )
    .not_staging(
        "a_picture_that_a_tool_returns_reaches_the_model",
        "Grok gives its model a tool's picture as base64 text, which the backend warns of",
    )
}

/// Without bubblewrap: inside of it the fake could not write its notes, which stand beside it.
fn fake(programs: &std::path::Path) -> DelegatedSubject {
    DelegatedSubject::fake("grok-cli with a fake program", Arc::new(GrokCli), Vendor::Grok)
        .with_model("grok-4.6")
        .with_variable("PATH", programs.to_string_lossy())
        .not_staging("a_plan_that_is_used_up_says_until_when", "xAI's answer names no time")
        .not_staging(
            "a_picture_that_a_tool_returns_reaches_the_model",
            "Grok gives its model a tool's picture as base64 text, which the backend warns of",
        )
}

/// A folder with a link to every program on the `PATH` but one.
fn programs_without(one: &str) -> io::Result<tempfile::TempDir> {
    let folder = tempfile::Builder::new().prefix("nexus-programs-").tempdir()?;
    let mut seen = BTreeSet::from([one.into()]);
    let path = std::env::var_os("PATH").unwrap_or_default();
    for directory in std::env::split_paths(&path).filter(|directory| directory.is_absolute()) {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if seen.insert(entry.file_name()) {
                symlink(entry.path(), folder.path().join(entry.file_name()))?;
            }
        }
    }
    Ok(folder)
}
