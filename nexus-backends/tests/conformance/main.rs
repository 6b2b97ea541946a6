//! The conformance suite, the table of failures, and what sessions decide, on the backends against simulated vendors.
//!
//! By default on a fake of Claude Code and on the native backend `responses`; with `NEXUS_TEST_DEEP=1` on every fake and
//! every native backend. The real programs that `NEXUS_REAL_…` names take part in any case, in a namespace without a network.

mod acp;
mod claude;
mod codex;
mod concurrent_turns;
mod failure_table;
mod grok;
mod native;
mod parties;
mod session_decisions;

use std::{process::ExitCode, sync::Arc};

use libtest_mimic::Trial;
use nexus_testkit::{
    conformance::{self, Subject},
    fake_cli,
};

/// Subjects of the suite, each with the module that its tests are named by.
type Subjects = Vec<(String, Arc<dyn Subject>)>;

/// Cases that an agent of the Agent Client Protocol runs on every commit.
const AGENT_CASES: [&str; 2] = ["an_ordinary_turn_is_understood", "a_refused_credential_is_unauthenticated"];

fn main() -> ExitCode {
    fake_cli::run_if_invoked();
    if let Some(code) = nexus_process::sandbox::open_if_asked() {
        return ExitCode::from(code);
    }
    let programs = match parties::programs_without("bwrap") {
        Ok(programs) => programs,
        Err(error) => {
            eprintln!("no folder of programs can be made: {error}");
            return ExitCode::FAILURE;
        }
    };
    let subjects = [
        acp::subjects(),
        claude::subjects(),
        codex::subjects(),
        grok::subjects(programs.path()),
        native::subjects(),
    ];
    let mut trials: Vec<_> =
        subjects.iter().flatten().flat_map(|(module, subject)| suite(module, subject)).collect();
    trials.extend(failure_table::trials());
    trials.extend(session_decisions::trials(programs.path()));
    trials.extend(concurrent_turns::trials(programs.path()));
    conformance::run_trials(trials)
}

/// The suite for one subject. A subject below `real::` runs a vendor's own program, on a few cases unless the run is deep.
fn suite(module: &str, subject: &Arc<dyn Subject>) -> Vec<Trial> {
    match module.strip_prefix("real::") {
        None => conformance::trials(module, subject),
        Some(name) if name.starts_with("acp_") => conformance::program_trials(module, subject, &AGENT_CASES),
        Some(_) => conformance::program_trials(module, subject, &conformance::PROGRAM_CASES),
    }
}
