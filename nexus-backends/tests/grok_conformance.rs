//! The conformance suite, run against `grok-cli`: with the real program if `NEXUS_REAL_GROK` names it, in a
//! namespace without a network.

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use nexus_backends::delegated::grok::GrokCli;
use nexus_testkit::{
    conformance::{self, DelegatedSubject, Subject},
    fake_cli,
    sim::Dialect,
};

/// The variable that names the real program.
const REAL: &str = "NEXUS_REAL_GROK";

fn main() -> ExitCode {
    fake_cli::run_if_invoked();
    let mut subjects: Vec<(&str, Arc<dyn Subject>)> = Vec::new();
    if let Some(executable) = std::env::var_os(REAL).map(PathBuf::from) {
        subjects.push(("grok_1_0_41", Arc::new(real(executable))));
    }
    conformance::harness(&subjects)
}

fn real(executable: PathBuf) -> DelegatedSubject {
    DelegatedSubject::real("grok-cli with its real program", Arc::new(GrokCli), executable, Dialect::Xai)
        .with_model("grok-4.6")
        .not_staging("a_plan_that_is_used_up_says_until_when", "xAI's answer names no time")
}
