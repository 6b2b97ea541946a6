//! The conformance suite, run against `claude-cli`: with a fake program, and with the real one wherever
//! `NEXUS_REAL_CLAUDE_2_1_197` or `NEXUS_REAL_CLAUDE_2_1_329` names one, in a namespace without a network.

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use nexus_backends::claude::cli::ClaudeCli;
use nexus_testkit::{
    conformance::{self, DelegatedSubject, Subject},
    fake_cli::{self, Vendor},
    sim::Dialect,
};
use serde_json::json;

/// The variables that name real programs, and the modules of their tests.
const REAL: [(&str, &str); 2] =
    [("NEXUS_REAL_CLAUDE_2_1_197", "claude_2_1_197"), ("NEXUS_REAL_CLAUDE_2_1_329", "claude_2_1_329")];

fn main() -> ExitCode {
    fake_cli::run_if_invoked();
    let fake = DelegatedSubject::fake("claude-cli with a fake program", Arc::new(ClaudeCli), Vendor::Claude);
    let mut subjects: Vec<(&str, Arc<dyn Subject>)> = vec![("claude_fake", Arc::new(set_up(fake)))];
    for (variable, module) in REAL {
        if let Some(executable) = std::env::var_os(variable).map(PathBuf::from) {
            subjects.push((module, Arc::new(real(module, executable))));
        }
    }
    conformance::harness(&subjects)
}

fn real(name: &str, executable: PathBuf) -> DelegatedSubject {
    set_up(DelegatedSubject::real(name, Arc::new(ClaudeCli), executable, Dialect::Anthropic))
}

/// The credential is that of a subscription: with it alone the CLI reads how the plan stands.
fn set_up(subject: DelegatedSubject) -> DelegatedSubject {
    subject.with_model("claude-sonnet-5").with_setting("billing", json!("plan"))
}
