//! Every backend, and what its program says of a tool that it does not have.

use std::{collections::BTreeSet, io, os::unix::fs::symlink, path::Path, sync::Arc};

use nexus_backends::claude::cli::ClaudeCli;
use nexus_backends::codex::cli::CodexCli;
use nexus_backends::grok::cli::GrokCli;
use nexus_backends::{
    codex::{ChatgptSubToken, CodexSubToken},
    generic::Responses,
    grok::GrokSubToken,
};
use nexus_core::BackendKind;
use nexus_testkit::{
    conformance::{DelegatedSubject, NativeSubject, Subject},
    fake_cli::Vendor,
    sim::{Dialect, Model},
};
use serde_json::json;

/// One backend before a scripted model.
pub(crate) struct Party {
    pub(crate) name: String,
    pub(crate) subject: Arc<dyn Subject>,
    /// What the model is told of a tool `NAME` that the program does not have. `None` where the session itself answers.
    pub(crate) refusal_of_unknown: Option<&'static str>,
}

/// A vendor's program.
struct Program {
    vendor: Vendor,
    kind: fn() -> Arc<dyn BackendKind>,
    dialect: Dialect,
    model: &'static str,
    /// The variable that names real ones.
    real: &'static str,
    /// Source: observed with the real programs.
    refusal: &'static str,
}

const PROGRAMS: [Program; 3] = [
    Program {
        vendor: Vendor::Claude,
        kind: || Arc::new(ClaudeCli),
        dialect: Dialect::Anthropic,
        model: "claude-sonnet-5",
        real: "NEXUS_REAL_CLAUDE",
        refusal: "No such tool available: mcp__nexus__NAME",
    },
    Program {
        vendor: Vendor::Codex,
        kind: || Arc::new(CodexCli),
        dialect: Dialect::Responses,
        model: "gpt-5.5",
        real: "NEXUS_REAL_CODEX",
        refusal: "unsupported call: mcp__nexusNAME",
    },
    Program {
        vendor: Vendor::Grok,
        kind: || Arc::new(GrokCli),
        dialect: Dialect::Xai,
        model: "grok-4.6",
        real: "NEXUS_REAL_GROK",
        refusal: "Tool not found: nexus__NAME",
    },
];

/// Every backend, with fakes of the programs, and with the real ones that the environment names. `programs` is the
/// `PATH` of the fakes.
pub(crate) fn all(programs: &Path) -> Vec<Party> {
    let mut parties = vec![
        native("codex_sub_token", Arc::new(CodexSubToken), Dialect::Responses, "gpt-5.5"),
        native("chatgpt_sub_token", Arc::new(ChatgptSubToken), Dialect::Responses, "gpt-6.1-sol"),
        native("grok_sub_token", Arc::new(GrokSubToken), Dialect::Xai, "grok-4.6"),
        native("responses", Arc::new(Responses), Dialect::Responses, "simulated"),
    ];
    for program in &PROGRAMS {
        let word = program.vendor.program();
        let fake = DelegatedSubject::fake(format!("{word} with a fake"), (program.kind)(), program.vendor)
            .with_variable("PATH", programs.to_string_lossy());
        parties.push(program.party(format!("{word}_fake"), fake));
        for (number, executable) in (1..).zip(nexus_testkit::real::programs(program.real)) {
            let name = format!("{word}_{number}");
            let real = DelegatedSubject::real(&name, (program.kind)(), executable, program.dialect);
            parties.push(program.party(name, real));
        }
    }
    parties
}

impl Program {
    fn party(&self, name: String, subject: DelegatedSubject) -> Party {
        let subject = subject.with_model(self.model);
        let subject = match self.vendor {
            Vendor::Claude => subject.with_setting("billing", json!("plan")),
            _ => subject,
        };
        Party { name, subject: Arc::new(subject), refusal_of_unknown: Some(self.refusal) }
    }
}

fn native(name: &str, kind: Arc<dyn BackendKind>, dialect: Dialect, model: &'static str) -> Party {
    let subject = NativeSubject::new(name, kind, dialect).with_model(model);
    let subject = match name {
        "responses" => subject.with_setting("model", json!(model)),
        "chatgpt_sub_token" => subject.with_catalogue([Model::new(model).public_plan()]),
        _ => subject.with_catalogue([Model::new(model)]),
    };
    Party { name: name.to_owned(), subject: Arc::new(subject), refusal_of_unknown: None }
}

/// A folder with a link to every program on the `PATH` but one. Inside of bubblewrap a fake could not write its notes,
/// which stand beside it.
pub(crate) fn programs_without(one: &str) -> io::Result<tempfile::TempDir> {
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
