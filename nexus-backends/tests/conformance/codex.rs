//! `codex-cli` with a fake program, and with the real ones that `NEXUS_REAL_CODEX` names. Each real one runs twice, since
//! the program speaks to the two kinds of its models in two ways: with tools as functions, and with one tool that takes
//! scripts.

use std::{path::Path, sync::Arc};

use nexus_backends::codex::cli::CodexCli;
use nexus_core::ErrorKind;
use nexus_testkit::{
    conformance::{DelegatedSubject, Departure},
    effort,
    fake_cli::Vendor,
    real,
    sim::Dialect,
};
use serde_json::json;

use crate::Subjects;

/// The variable that names real programs.
const REAL: &str = "NEXUS_REAL_CODEX";

/// Module of the tests with one tool that takes scripts.
const CODE_MODE: &str = "codex_code_mode";

/// The modules of the tests, and the models they run with.
const MODELS: [(&str, &str); 2] = [("codex_classic", "gpt-5.5"), (CODE_MODE, "gpt-6.1-sol")];

pub(crate) fn subjects() -> Subjects {
    let mut subjects: Subjects = Vec::new();
    if effort::is_deep() {
        subjects.push(("codex_fake".to_owned(), Arc::new(fake())));
    }
    for (number, executable) in (1..).zip(real::programs(REAL)) {
        // The default model works in code mode. The other way is for the deep lanes.
        for (module, model) in
            MODELS.into_iter().filter(|(module, _)| effort::is_deep() || *module == CODE_MODE)
        {
            if effort::is_deep() {
                let inside = real_subject(&executable, model).with_setting("enforce", json!("sandbox")).not_staging(
                    "a_connection_that_is_refused_is_a_transport_error",
                    "the network of the sandbox answers in place of a server without TLS, with status 502",
                );
                subjects.push((format!("real::{module}_{number}_sandboxed"), Arc::new(inside)));
            }
            subjects.push((format!("real::{module}_{number}"), Arc::new(real_subject(&executable, model))));
        }
    }
    subjects
}

fn fake() -> DelegatedSubject {
    dropping_refusals(DelegatedSubject::fake(
        "codex-cli with a fake program",
        Arc::new(CodexCli),
        Vendor::Codex,
    ))
}

fn real_subject(executable: &Path, model: &str) -> DelegatedSubject {
    let name = format!("codex-cli with {} and {model}", executable.display());
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
