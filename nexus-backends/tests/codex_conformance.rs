//! The conformance suite, run against `codex-cli`: with a fake program everywhere, and with the real one if
//! `NEXUS_REAL_CODEX` names it, in a namespace without a network. That one runs twice, since the program speaks to the two kinds of its models in two
//! ways: with tools as functions, and with one tool that takes scripts.

use std::{path::Path, process::ExitCode, sync::Arc};

use nexus_backends::codex::cli::CodexCli;
use nexus_core::ErrorKind;
use nexus_testkit::{
    conformance::{self, DelegatedSubject, Departure, Subject},
    fake_cli::{self, Vendor},
    sim::Dialect,
};

/// The variable that names the real program.
const REAL: &str = "NEXUS_REAL_CODEX";

/// The modules of the tests, and the models they run with.
const MODELS: [(&str, &str); 2] = [("codex_classic", "gpt-5.5"), ("codex_code_mode", "gpt-6.1-sol")];

fn main() -> ExitCode {
    fake_cli::run_if_invoked();
    let mut subjects: Vec<(&str, Arc<dyn Subject>)> = vec![("codex_fake", Arc::new(fake()))];
    if let Some(executable) = std::env::var_os(REAL) {
        for (module, model) in MODELS {
            subjects.push((module, Arc::new(real(Path::new(&executable), model))));
        }
    }
    conformance::harness(&subjects)
}

fn fake() -> DelegatedSubject {
    dropping_refusals(DelegatedSubject::fake(
        "codex-cli with a fake program",
        Arc::new(CodexCli),
        Vendor::Codex,
    ))
}

fn real(executable: &Path, model: &str) -> DelegatedSubject {
    let name = format!("codex-cli with its real program and {model}");
    let subject =
        DelegatedSubject::real(name, Arc::new(CodexCli), executable, Dialect::Responses).with_model(model);
    let subject = dropping_refusals(subject);
    match model {
        "gpt-5.5" => {
            subject.not_staging("effort_arrives", "gpt-5.5 takes effort up to xhigh, others up to max")
        }
        _ => subject,
    }
}

fn dropping_refusals(subject: DelegatedSubject) -> DelegatedSubject {
    subject.departing(Departure {
        case: "a_refusal_is_refused",
        kinds: vec![ErrorKind::Incomplete],
        because: "the program drops the model's refusal, also from its record: what is left is no answer",
    })
}
