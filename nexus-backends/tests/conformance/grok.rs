//! `grok-cli` with a fake program, and with the real ones that `NEXUS_REAL_GROK` names.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use nexus_backends::grok::cli::GrokCli;
use nexus_testkit::{conformance::DelegatedSubject, effort, fake_cli::Vendor, real, sim::Dialect};
use serde_json::json;

use crate::Subjects;

/// The variable that names real programs.
const REAL: &str = "NEXUS_REAL_GROK";

/// The `PATH` of the fake is `programs`.
pub(crate) fn subjects(programs: &Path) -> Subjects {
    let mut subjects: Subjects = Vec::new();
    if effort::is_deep() {
        subjects.push(("grok_fake".to_owned(), Arc::new(fake(programs))));
    }
    for (number, executable) in (1..).zip(real::programs(REAL)) {
        if effort::is_deep() {
            let inside =
                real_subject(executable.clone()).with_setting("enforce", json!("sandbox")).not_staging(
                    "a_connection_that_is_refused_is_a_transport_error",
                    "the network of the sandbox answers in place of a server without TLS, with status 502",
                );
            subjects.push((format!("real::grok_{number}_sandboxed"), Arc::new(inside)));
        }
        subjects.push((format!("real::grok_{number}"), Arc::new(real_subject(executable))));
    }
    subjects
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
fn fake(programs: &Path) -> DelegatedSubject {
    DelegatedSubject::fake("grok-cli with a fake program", Arc::new(GrokCli), Vendor::Grok)
        .with_model("grok-4.6")
        .with_variable("PATH", programs.to_string_lossy())
        .not_staging("a_plan_that_is_used_up_says_until_when", "xAI's answer names no time")
        .not_staging(
            "a_picture_that_a_tool_returns_reaches_the_model",
            "Grok gives its model a tool's picture as base64 text, which the backend warns of",
        )
}
