//! Every backend before a collector: one tree of spans, whoever owns the loop, and the metrics of its model calls.

#[path = "../it/receiver.rs"]
mod receiver;
mod shape;

use std::{collections::BTreeMap, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use libtest_mimic::{Failed, Trial};
use nexus_backends::{
    claude::cli::ClaudeCli,
    codex::{ChatgptSubToken, CodexSubToken, cli::CodexCli},
    generic::Responses,
    grok::{GrokSubToken, cli::GrokCli},
};
use nexus_core::{NullSink, Tool, Toolbox, TurnError, TurnHost, TurnRequest, TurnResult};
use nexus_otlp::Exporter;
use nexus_testkit::{
    conformance::{DelegatedSubject, NativeSubject, Setting, Subject, TOKEN_VARIABLE, run_trials},
    effort,
    fake_cli::{self, Vendor},
    sim::{Dialect, Model, Reply, Scenario},
};
use receiver::Received;
use serde_json::json;
use tracing::instrument::WithSubscriber as _;
use tracing_subscriber::layer::SubscriberExt as _;

/// In all that is said in a turn; nothing that is sent has it.
const CANARY: &str = "canary-zq7";

/// A backend, the provider that its spans name, and the model that it is asked for.
const COLUMNS: [(&str, &str, &str); 7] = [
    ("claude-cli", "anthropic", "claude-sonnet-5"),
    ("codex-cli", "openai", "gpt-5.5"),
    ("grok-cli", "x_ai", "grok-4.6"),
    ("codex-sub-token", "openai", "gpt-5.5"),
    ("chatgpt-sub-token", "openai", "gpt-6.1-sol"),
    ("grok-sub-token", "x_ai", "grok-4.6"),
    ("responses", "openai", "simulated"),
];

/// The backends of [`COLUMNS`] that are tried unless all are asked for: one whose harness owns the loop, and one whose loop is
/// the engine's.
const USUAL: [&str; 2] = ["claude-cli", "responses"];

fn main() -> ExitCode {
    fake_cli::run_if_invoked();
    let columns = COLUMNS.iter().filter(|column| effort::is_deep() || USUAL.contains(&column.0));
    let trials = columns.flat_map(|column| {
        let called = move || blocking(a_turn_with_a_call(column));
        let failed = move || blocking(a_turn_that_fails(column));
        [
            Trial::test(format!("{}_reports_a_turn_with_a_call_as_the_same_tree", column.0), called),
            Trial::test(format!("{}_reports_a_turn_that_fails_as_one", column.0), failed),
        ]
    });
    run_trials(trials.collect())
}

fn blocking(trial: impl Future<Output = Result<(), String>>) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(trial).map_err(Failed::from)
}

async fn a_turn_with_a_call(column: &(&str, &str, &str)) -> Result<(), String> {
    let (name, provider, model) = *column;
    let subject = subject(name, model);
    let call = subject.caller_tool("lookup", json!({ "word": format!("{CANARY} heron") }));
    let script = Scenario::tool_then_text(call, format!("{CANARY} answer"));
    let (outcome, received, notes) = run(&*subject, script, model).await?;
    let result = outcome.map_err(|error| format!("{error:?}"))?;
    if received.holds(CANARY) {
        return Err("what was said is in what was sent".to_owned());
    }
    let tree = shape::Tree::of(&received.spans())?;
    tree.is_a_turn_with_a_call(name, provider, model, &result)?;
    // A program is told whose work it does, and nobody else is.
    if notes.contains(&tree.traceparent()) != name.ends_with("-cli") {
        return Err(format!("{} is not what the program was given", tree.traceparent()));
    }
    shape::has_metrics(&received.metrics(), provider, &result)
}

async fn a_turn_that_fails(column: &(&str, &str, &str)) -> Result<(), String> {
    let (name, _, model) = *column;
    let subject = subject(name, model);
    let script = Scenario::new([Reply::status(400)]);
    let (outcome, received, _) = run(&*subject, script, model).await?;
    let error = outcome.err().ok_or("the turn ended well")?;
    shape::Tree::of(&received.spans())?.is_a_turn_that_failed(&format!("{:?}", error.kind()))
}

/// Runs a turn, and returns what the collector got of it and what a fake program noted of how it was started.
async fn run(
    subject: &dyn Subject,
    script: Scenario,
    model: &str,
) -> Result<(Result<TurnResult, TurnError>, Received, String), String> {
    let (received, url) = Received::start().await;
    let collector = url.parse().map_err(|error| format!("{error}"))?;
    let exporter = Exporter::start(&collector, "tree").map_err(|error| error.to_string())?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut environment = BTreeMap::from([
        (TOKEN_VARIABLE.to_owned(), "simulated-token".to_owned()),
        ("HOME".to_owned(), folder.path().join("user").display().to_string()),
    ]);
    environment.extend(std::env::var("PATH").map(|path| ("PATH".to_owned(), path)));
    let setting = Setting::new(script, folder.path().join("nexus"), environment);
    let stage = subject.stage(setting).await.map_err(|error| format!("{error:?}"))?;
    let schema = json!({ "type": "object", "properties": { "word": { "type": "string" } } });
    let answer = |_| async { format!("{CANARY} bird") };
    let tool = Tool::with_schema("lookup", "Looks a word up.", schema, answer);
    let host = TurnHost::new()
        .with_tools(Arc::new(Toolbox::new().with(tool)))
        .with_trace_context(exporter.trace_context());
    let mut request =
        TurnRequest::new(format!("{CANARY} question")).with_system(format!("{CANARY} instructions"));
    request.model = Some(model.into());
    let subscriber = tracing_subscriber::registry().with(exporter.layer());
    let turn = async { stage.backend.run_turn(request, host, &mut NullSink).await };
    let outcome = turn.with_subscriber(subscriber).await;
    exporter.shut_down(Duration::from_secs(60)).await.map_err(|error| error.to_string())?;
    let files = |folder: &PathBuf| {
        std::fs::read_dir(folder).into_iter().flatten().filter_map(|file| Some(file.ok()?.path()))
    };
    let folders = stage.own_folders.iter().flat_map(files);
    let notes = folders.filter(|path| path.extension().is_some_and(|extension| extension == "notes"));
    let notes = notes.flat_map(|folder| files(&folder.join("invocations")).collect::<Vec<_>>());
    let notes = notes.filter_map(|file| std::fs::read(file).ok());
    let notes = notes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect();
    Ok((outcome, received, notes))
}

fn subject(name: &str, model: &str) -> Box<dyn Subject> {
    let native = |kind, dialect| NativeSubject::new(name, kind, dialect).with_catalogue([Model::new(model)]);
    Box::new(match name {
        "claude-cli" => {
            let subject = DelegatedSubject::fake(name, Arc::new(ClaudeCli), Vendor::Claude);
            return Box::new(subject.with_setting("billing", json!("plan")));
        }
        "codex-cli" => {
            return Box::new(DelegatedSubject::fake(name, Arc::new(CodexCli), Vendor::Codex));
        }
        "grok-cli" => return Box::new(DelegatedSubject::fake(name, Arc::new(GrokCli), Vendor::Grok)),
        "codex-sub-token" => native(Arc::new(CodexSubToken), Dialect::Responses),
        "chatgpt-sub-token" => native(Arc::new(ChatgptSubToken), Dialect::Responses)
            .with_catalogue([Model::new(model).public_plan()]),
        "grok-sub-token" => native(Arc::new(GrokSubToken), Dialect::Xai),
        _ => native(Arc::new(Responses), Dialect::Responses),
    })
}
