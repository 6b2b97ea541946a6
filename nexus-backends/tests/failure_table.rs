//! The table of failures, run against every backend: with fake programs and simulated vendors everywhere, and with the real
//! programs where `NEXUS_REAL_…` names them, in a namespace without a network. `docs/failures.md` is what ran;
//! `NEXUS_WRITE_FAILURES=1` writes it anew.

use std::{path::Path, process::ExitCode, sync::Arc, time::Duration};

use libtest_mimic::{Arguments, Failed, Trial};
use nexus_backends::{
    claude::cli::ClaudeCli,
    codex::{ChatgptSubToken, CodexSubToken, cli::CodexCli},
    generic::Responses,
    grok::{GrokSubToken, cli::GrokCli},
};
use nexus_testkit::{
    conformance::{
        DelegatedSubject, NativeSubject, Subject, Timing,
        failure_table::{Observed, complaints, observe, page},
    },
    fake_cli::{self, Vendor},
    real,
    sim::{Dialect, Model},
};
use serde_json::json;

const WRITE: &str = "NEXUS_WRITE_FAILURES";
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/failures.md");

/// The variables that name real programs, and their columns.
const REAL: [(&str, &str); 3] =
    [("NEXUS_REAL_CLAUDE", "claude-cli"), ("NEXUS_REAL_CODEX", "codex-cli"), ("NEXUS_REAL_GROK", "grok-cli")];

fn main() -> ExitCode {
    fake_cli::run_if_invoked();
    let mut trials = vec![Trial::test("every_failure_ends_as_the_table_says_and_the_page_shows_it", || {
        every_column().map_err(Failed::from)
    })];
    for (variable, column) in REAL {
        for (number, executable) in (1..).zip(real::programs(variable)) {
            trials.push(Trial::test(format!("{column}_{number}_ends_as_the_table_says"), move || {
                let subject = delegated(column, Some(&executable));
                let found = complaints(column, &blocking(&*subject, column));
                if found.is_empty() { Ok(()) } else { Err(found.join("\n").into()) }
            }));
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn every_column() -> Result<(), String> {
    let names = [
        "claude-cli",
        "codex-cli",
        "grok-cli",
        "codex-sub-token",
        "chatgpt-sub-token",
        "grok-sub-token",
        "responses",
    ];
    let column = |name: &'static str| {
        let subject = if name.ends_with("-cli") { delegated(name, None) } else { native(name) };
        (name, blocking(&*subject, name))
    };
    // Most rows wait for something.
    let columns: Vec<(&str, Observed)> = std::thread::scope(|scope| {
        let running: Vec<_> = names.map(|name| scope.spawn(move || column(name))).into_iter().collect();
        running.into_iter().map(|column| column.join().expect("no column panics")).collect()
    });
    let found: Vec<_> = columns.iter().flat_map(|(name, observed)| complaints(name, observed)).collect();
    if !found.is_empty() {
        return Err(found.join("\n"));
    }
    let page = page(&columns);
    if std::env::args().any(|argument| argument == "--nocapture") {
        println!("{page}");
    }
    if std::env::var_os(WRITE).is_some() {
        return std::fs::write(PAGE, page).map_err(|error| format!("{PAGE}: {error}"));
    }
    match std::fs::read_to_string(PAGE) {
        Ok(written) if written == page => Ok(()),
        _ => Err(format!("{PAGE} is not what ran: set {WRITE}=1 and look at git diff\n{page}")),
    }
}

fn blocking(subject: &dyn Subject, column: &str) -> Observed {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(observe(subject, column))
}

fn delegated(column: &str, executable: Option<&Path>) -> Box<dyn Subject> {
    // A real program may wait two minutes after a rate limit, and say nothing of it.
    let timing = Timing { bound: Duration::from_secs(240), ..Timing::default() };
    let subject = |kind, vendor, dialect| match executable {
        Some(executable) => DelegatedSubject::real(column, kind, executable, dialect).with_timing(timing),
        None => DelegatedSubject::fake(column, kind, vendor),
    };
    Box::new(match column {
        "claude-cli" => subject(Arc::new(ClaudeCli), Vendor::Claude, Dialect::Anthropic)
            .with_model("claude-sonnet-5")
            .with_setting("billing", json!("plan")),
        "codex-cli" => subject(Arc::new(CodexCli), Vendor::Codex, Dialect::Responses).with_model("gpt-5.5"),
        _ => subject(Arc::new(GrokCli), Vendor::Grok, Dialect::Xai).with_model("grok-4.6"),
    })
}

fn native(column: &str) -> Box<dyn Subject> {
    Box::new(match column {
        "codex-sub-token" => NativeSubject::new(column, Arc::new(CodexSubToken), Dialect::Responses)
            .with_model("gpt-5.5")
            .with_catalogue([Model::new("gpt-5.5")]),
        "chatgpt-sub-token" => NativeSubject::new(column, Arc::new(ChatgptSubToken), Dialect::Responses)
            .with_model("gpt-6.1-sol")
            .with_catalogue([Model::new("gpt-6.1-sol").public_plan()]),
        "grok-sub-token" => NativeSubject::new(column, Arc::new(GrokSubToken), Dialect::Xai)
            .with_model("grok-4.6")
            .with_catalogue([Model::new("grok-4.6")]),
        _ => NativeSubject::new(column, Arc::new(Responses), Dialect::Responses)
            .with_setting("model", json!("simulated")),
    })
}
