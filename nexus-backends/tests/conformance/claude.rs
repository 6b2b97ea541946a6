//! `claude-cli` with a fake program, and with the real ones that `NEXUS_REAL_CLAUDE` names.

use std::{path::PathBuf, sync::Arc};

use nexus_backends::claude::cli::ClaudeCli;
use nexus_testkit::{conformance::DelegatedSubject, effort, fake_cli::Vendor, real, sim::Dialect};
use serde_json::json;

use crate::Subjects;

/// The variable that names real programs.
const REAL: &str = "NEXUS_REAL_CLAUDE";

pub(crate) fn subjects() -> Subjects {
    let fake = DelegatedSubject::fake("claude-cli with a fake program", Arc::new(ClaudeCli), Vendor::Claude);
    let mut subjects: Subjects = vec![("claude_fake".to_owned(), Arc::new(set_up(fake)))];
    for (number, executable) in (1..).zip(real::programs(REAL)) {
        let module = format!("real::claude_{number}");
        let name = format!("claude-cli with {}", executable.display());
        if effort::is_deep() {
            let inside = real_subject(&format!("{name} in the sandbox of Nexus"), executable.clone());
            let inside = inside.with_setting("enforce", json!("sandbox")).not_staging(
                "a_connection_that_is_refused_is_a_transport_error",
                "the network of the sandbox answers in place of a server without TLS, with status 502",
            );
            subjects.push((format!("{module}_sandboxed"), Arc::new(inside)));
        }
        subjects.push((module, Arc::new(real_subject(&name, executable))));
    }
    subjects
}

fn real_subject(name: &str, executable: PathBuf) -> DelegatedSubject {
    set_up(DelegatedSubject::real(name, Arc::new(ClaudeCli), executable, Dialect::Anthropic))
}

/// The credential is that of a subscription: with it alone the CLI reads how the plan stands.
fn set_up(subject: DelegatedSubject) -> DelegatedSubject {
    subject.with_model("claude-sonnet-5").with_setting("billing", json!("plan"))
}
