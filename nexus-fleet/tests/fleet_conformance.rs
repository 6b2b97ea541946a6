//! The conformance suite, unchanged, over the fleet: each turn goes through a real `nats-server` to a worker, which runs it on a
//! backend before a fake program, a simulated vendor, or a real program. Needs `NEXUS_REAL_NATS`.

#[path = "fleet/monitoring.rs"]
mod monitoring;
#[path = "fleet/remote.rs"]
mod remote;
#[path = "fleet/server.rs"]
mod server;

use std::{process::ExitCode, sync::Arc};

use nexus_backends::{
    claude::cli::ClaudeCli,
    codex::{CodexSubToken, cli::CodexCli},
    generic::Responses,
    grok::cli::GrokCli,
};
use nexus_core::BackendKind;
use nexus_testkit::{
    conformance::{self, DelegatedSubject, NativeSubject, Subject},
    fake_cli::{self, Vendor},
    real,
    sim::{Dialect, Model},
};
use serde_json::json;

use self::remote::RemoteKind;

fn main() -> ExitCode {
    fake_cli::run_if_invoked();
    if std::env::var_os("NEXUS_REAL_NATS").is_none() {
        println!("NEXUS_REAL_NATS names no nats-server: .ci/run real runs these cases");
        return conformance::harness::<&str>(&[]);
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = runtime.block_on(server::Server::start());
    let over = |kind: Arc<dyn BackendKind>| -> Arc<dyn BackendKind> { Arc::new(RemoteKind::new(kind, server.url())) };
    let mut subjects: Vec<(String, Arc<dyn Subject>)> = Vec::new();
    let claude = |subject: DelegatedSubject| subject.with_model("claude-sonnet-5").with_setting("billing", json!("plan"));
    let codex = |subject: DelegatedSubject| subject.with_model("gpt-5.5");
    let fakes: [(&str, DelegatedSubject); 3] = [
        ("claude_fake", claude(DelegatedSubject::fake("claude-cli, fake, over the fleet", over(Arc::new(ClaudeCli)), Vendor::Claude))),
        ("codex_fake", codex(DelegatedSubject::fake("codex-cli, fake, over the fleet", over(Arc::new(CodexCli)), Vendor::Codex))),
        ("grok_fake", DelegatedSubject::fake("grok-cli, fake, over the fleet", over(Arc::new(GrokCli)), Vendor::Grok)),
    ];
    for (module, subject) in fakes {
        subjects.push((module.to_owned(), Arc::new(subject)));
    }
    let efforts = ["low", "medium", "high", "xhigh", "max"];
    let native = NativeSubject::new("codex-sub-token over the fleet", over(Arc::new(CodexSubToken)), Dialect::Responses)
        .with_model("gpt-5.5")
        .with_catalogue([Model::new("gpt-5.5").efforts(efforts)])
        .before_a_strict_vendor();
    subjects.push(("codex_native".to_owned(), Arc::new(native)));
    let generic = NativeSubject::new("responses over the fleet", over(Arc::new(Responses)), Dialect::Responses)
        .with_setting("model", json!("simulated"));
    subjects.push(("responses".to_owned(), Arc::new(generic)));
    let code = conformance::harness(&subjects);
    drop(server);
    let _ = real::programs;
    code
}
