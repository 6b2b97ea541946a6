//! What the sandbox of Nexus around a delegated program costs beside the same turn without it, in one run.
//!
//! `cargo bench -p nexus-benches --bench sandboxed_turn`, or with `-- --quick` for a first look. A script in the place of Claude Code
//! writes a recorded answer, so that the program itself takes no time. The two ways take turns. With `--strict` the program ends
//! with 1 if something that must hold does not.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nexus_core::{
    BuildContext, EventEnvelope, ExecutionBackend, ToolAccess, TurnEvent, TurnHost, TurnRequest,
};
use nexus_process::sandbox::Sandbox;
use serde_json::{Value, json};

/// Most that the sandbox may add to the time of a turn with a short answer.
const MUST_START: Duration = Duration::from_millis(60);
/// Most that it may add to the time between two deltas, as a ratio.
const MUST_RATIO: f64 = 1.05;

/// Time of one turn.
struct TurnTime {
    whole: Duration,
    /// Time from the first delta to the last.
    deltas: Duration,
}

fn main() -> ExitCode {
    if let Some(code) = nexus_process::sandbox::open_if_asked() {
        return ExitCode::from(code);
    }
    let is_asked = |word: &str| std::env::args().any(|argument| argument == word);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    if let Err(error) = runtime.block_on(Sandbox::new().check()) {
        println!("no sandbox on this machine: {error}");
        return ExitCode::SUCCESS;
    }
    let (short, long) = if is_asked("--quick") { (20, 3) } else { (100, 9) };
    println!("{:<44} {:>12} {:>12} {:>12}   must", "", "bare", "sandbox", "");
    let [bare, inside] =
        runtime.block_on(measured(1, short)).map(|times| median(times.iter().map(|time| time.whole)));
    let beyond = inside.saturating_sub(bare);
    let starts = row(
        "a turn with a short answer",
        bare,
        inside,
        &format!("+{}", millis(beyond)),
        "+60 ms",
        beyond <= MUST_START,
    );
    let [bare, inside] =
        runtime.block_on(measured(100_000, long)).map(|times| median(times.iter().map(|time| time.deltas)));
    let ratio = inside.as_secs_f64() / bare.as_secs_f64();
    let flows = row(
        "100,000 deltas, first to last",
        bare,
        inside,
        &format!("{ratio:.3} x"),
        "1.05 x",
        ratio <= MUST_RATIO,
    );
    ExitCode::from(u8::from(is_asked("--strict") && !(starts && flows)))
}

fn row(name: &str, bare: Duration, inside: Duration, figure: &str, must: &str, is_met: bool) -> bool {
    let verdict = if is_met { "met" } else { "MISSED" };
    println!("{name:<44} {:>12} {:>12} {figure:>12}   {must} {verdict}", millis(bare), millis(inside));
    is_met
}

/// Returns the times of turns with an answer of this many deltas, without and with the sandbox.
async fn measured(deltas: usize, rounds: usize) -> [Vec<TurnTime>; 2] {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let root = folder.path().canonicalize().expect("a folder has a real path");
    for name in ["work", "home", "nexus"] {
        fs::create_dir(root.join(name)).expect("room for a folder");
    }
    let (answer, program) = (root.join("work/answer.jsonl"), root.join("claude"));
    fs::write(&answer, recorded(deltas)).expect("room for the answer");
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = --version ]; then echo '2.1.197 (Claude Code)'; else exec cat '{}'; fi\n",
        answer.display()
    );
    fs::write(&program, script).expect("room for a script");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("its mode can be set");
    let ways = ["program", "sandbox"].map(|enforce| backend(&root, &program, enforce));
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..=rounds {
        for (backend, times) in ways.iter().zip(&mut times) {
            let time = turn(&**backend, &root.join("work")).await;
            // The first round starts what later ones reuse.
            if round > 0 {
                times.push(time);
            }
        }
    }
    times
}

fn backend(root: &Path, program: &Path, enforce: &str) -> Arc<dyn ExecutionBackend> {
    let home = root.join("home").display().to_string();
    let environment: BTreeMap<String, String> =
        [("PATH", "/usr/bin:/bin"), ("HOME", home.as_str()), ("TOKEN", "sk-ant-unused")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
    let context = BuildContext::in_home(root.join("nexus")).with_environment(environment);
    let settings = json!({
        "executable": program, "enforce": enforce, "credential": { "env": "TOKEN" }, "billing": "metered",
        "base_url": "http://127.0.0.1:9",
    });
    let Value::Object(settings) = settings else { unreachable!("settings are an object") };
    let registry = nexus_backends::registry();
    let kind = registry.kind("claude-cli").expect("a kind of this build");
    kind.build("claude-cli".into(), &settings, &context).expect("the settings are valid")
}

async fn turn(backend: &dyn ExecutionBackend, folder: &Path) -> TurnTime {
    let request = TurnRequest::new("Go.").with_tool_access(ToolAccess::WorkspaceWrite).in_directory(folder);
    let (mut first, mut last) = (None, None);
    let mut sink = |envelope: EventEnvelope| {
        if let TurnEvent::TextDelta(_) = envelope.event {
            let now = Instant::now();
            first.get_or_insert(now);
            last = Some(now);
        }
    };
    let started = Instant::now();
    let outcome = backend.run_turn(request, TurnHost::new(), &mut sink).await;
    let whole = started.elapsed();
    assert!(!outcome.expect("the turn ends well").text.is_empty());
    let deltas = first.zip(last).map(|(first, last)| last - first);
    TurnTime { whole, deltas: deltas.expect("the answer has deltas") }
}

/// Returns the lines of an answer, in the form of Claude Code.
fn recorded(deltas: usize) -> String {
    let text = "a few words of an answer ";
    let event = |event: Value| {
        json!({ "type": "stream_event", "session_id": "s", "event": event }).to_string() + "\n"
    };
    let usage = json!({ "input_tokens": 1, "output_tokens": 1 });
    let start = event(json!({ "type": "message_start", "message": { "id": "m", "usage": usage } }));
    let delta = event(json!({
        "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": text },
    }));
    let whole = text.repeat(deltas);
    let message = json!({ "id": "m", "model": "m", "role": "assistant", "content": [{ "type": "text", "text": whole }], "usage": usage });
    let assistant = json!({ "type": "assistant", "session_id": "s", "message": message }).to_string() + "\n";
    let stop = event(json!({ "type": "message_stop" }));
    let result = json!({
        "type": "result", "subtype": "success", "is_error": false, "result": whole, "num_turns": 1,
        "stop_reason": "end_turn", "session_id": "s", "terminal_reason": "completed", "usage": usage,
    });
    start + &delta.repeat(deltas) + &assistant + &stop + &result.to_string() + "\n"
}

fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<_> = times.collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}
