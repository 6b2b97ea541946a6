//! The conformance suite, unchanged, over the fleet: each turn goes through a real `nats-server` to a worker, which runs it on a
//! backend before a real program, or, if `NEXUS_TEST_DEEP` is set, a fake program or a simulated vendor. Needs `NEXUS_REAL_NATS`.

#[path = "../it/support/remote.rs"]
mod remote;

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use nexus_backends::{
    claude::cli::ClaudeCli,
    codex::{CodexSubToken, cli::CodexCli},
    generic::Responses,
    grok::cli::GrokCli,
};
use nexus_core::{BackendKind, ErrorKind};
use nexus_testkit::{
    conformance::{self, DelegatedSubject, Departure, NativeSubject, Subject},
    effort,
    fake_cli::{self, Vendor},
    nats::{NATS_PROGRAM, NatsServer},
    real,
    sim::{Dialect, Model},
};
use serde_json::json;

use self::remote::RemoteKind;

fn main() -> ExitCode {
    fake_cli::run_if_invoked();
    if std::env::var_os(NATS_PROGRAM).is_none() {
        println!("NOT TESTED: {} names no nats-server", NATS_PROGRAM);
        return conformance::harness::<&str>(&[]);
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = runtime.block_on(NatsServer::start());
    let over = |kind: Arc<dyn BackendKind>| -> Arc<dyn BackendKind> {
        Arc::new(RemoteKind::new(kind, server.url()))
    };
    let mut subjects: Vec<(String, Arc<dyn Subject>)> = Vec::new();
    let claude = |subject: DelegatedSubject| {
        subject.with_model("claude-sonnet-5").with_setting("billing", json!("plan"))
    };
    if effort::is_deep() {
        let subject = DelegatedSubject::fake(
            "claude-cli, fake, over the fleet",
            over(Arc::new(ClaudeCli)),
            Vendor::Claude,
        );
        subjects.push(("claude_fake".to_owned(), Arc::new(claude(subject))));
        let subject = DelegatedSubject::fake(
            "codex-cli, fake, over the fleet",
            over(Arc::new(CodexCli)),
            Vendor::Codex,
        )
        .departing(drops_refusals());
        subjects.push(("codex_fake".to_owned(), Arc::new(subject)));
    }
    if let Some(program) = newest("NEXUS_REAL_CLAUDE") {
        let subject = DelegatedSubject::real(
            "claude-cli over the fleet",
            over(Arc::new(ClaudeCli)),
            program,
            Dialect::Anthropic,
        );
        subjects.push(("claude_real".to_owned(), Arc::new(claude(subject))));
    }
    if let Some(program) = newest("NEXUS_REAL_CODEX") {
        let subject = DelegatedSubject::real(
            "codex-cli over the fleet",
            over(Arc::new(CodexCli)),
            program,
            Dialect::Responses,
        )
        .with_model("gpt-6.1-sol")
        .departing(drops_refusals());
        subjects.push(("codex_real".to_owned(), Arc::new(subject)));
    }
    if let Some(program) = newest("NEXUS_REAL_GROK") {
        let subject =
            DelegatedSubject::real("grok-cli over the fleet", over(Arc::new(GrokCli)), program, Dialect::Xai)
                .with_model("grok-4.6")
                .not_staging("a_plan_that_is_used_up_says_until_when", "xAI's answer names no time")
                .not_staging(
                    "a_rate_limit_of_a_century_is_cut_to_a_day",
                    "the program waits two minutes, whatever time it is named, and says nothing of it",
                )
                .not_staging(
                    "a_picture_that_a_tool_returns_reaches_the_model",
                    "Grok gives its model a tool's picture as base64 text, which the backend warns of",
                );
        subjects.push(("grok_real".to_owned(), Arc::new(subject)));
    }
    if effort::is_deep() {
        let efforts = ["low", "medium", "high", "xhigh", "max"];
        let subject = NativeSubject::new(
            "codex-sub-token over the fleet",
            over(Arc::new(CodexSubToken)),
            Dialect::Responses,
        )
        .with_model("gpt-5.5")
        .with_catalogue([Model::new("gpt-5.5").efforts(efforts)])
        .before_a_strict_vendor();
        subjects.push(("codex_native".to_owned(), Arc::new(subject)));
        let subject =
            NativeSubject::new("responses over the fleet", over(Arc::new(Responses)), Dialect::Responses)
                .with_setting("model", json!("simulated"));
        subjects.push(("responses".to_owned(), Arc::new(subject)));
    }
    let code = conformance::harness(&subjects);
    drop(server);
    code
}

/// The newest of the programs that a variable names.
fn newest(variable: &str) -> Option<PathBuf> {
    real::programs(variable).pop()
}

fn drops_refusals() -> Departure {
    Departure {
        case: "a_refusal_is_refused",
        kinds: vec![ErrorKind::Incomplete],
        because: "the program drops the model's refusal, also from its record: what is left is no answer",
    }
}
