//! Every recording of `codex app-server`, replayed by a real child through `run_turn`: the outcome is the one
//! that `transcripts/codex/app-server/expected.json` states. A recording without a row fails, and so does a row
//! without a recording.
//!
//! A row says `ok` with the finish reason, or `error` with the kind; `text` is that of the answer or of the
//! partial, `text_chars` its length if `text` is only its beginning; `tools` lists the calls in order, each with
//! its end; `input` and `output` are tokens; `resets_at` is when to come back, in Unix seconds; `retries` and
//! `voided` count events. Where the program's own record was kept with a recording, it lies beside it and is
//! put where the program would have written it.
//!
//! Recordings of `codex exec --json` have no place here: this backend does not speak that protocol.

#![cfg(all(unix, feature = "codex"))]

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use nexus_core::{
    BackendKind as _, BuildContext, EventEnvelope, Limits, OutputSchema, ResumeHandle, Retry, SessionMode,
    ToolAccess, ToolCallRecord, TurnEvent, TurnHost, TurnRequest, Usage,
};
use serde::Deserialize;
use serde_json::{Value, json};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts/codex/app-server");

#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
struct Row {
    ok: Option<String>,
    error: Option<String>,
    text: String,
    text_chars: Option<usize>,
    tools: Vec<String>,
    input: Option<u64>,
    output: Option<u64>,
    resets_at: Option<u64>,
    retries: usize,
    voided: usize,
    left_out: Option<String>,
}

fn table() -> BTreeMap<String, Row> {
    let text = fs::read_to_string(format!("{FOLDER}/expected.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn recordings() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(FOLDER)
        .unwrap()
        .filter_map(|entry| Some(entry.unwrap().file_name().to_str()?.strip_suffix(".jsonl")?.to_owned()))
        .filter(|name| !name.ends_with(".rollout"))
        .collect();
    names.sort();
    names
}

/// The conversation that a recording opens.
fn thread(name: &str) -> Option<String> {
    let recording = fs::read_to_string(format!("{FOLDER}/{name}.jsonl")).unwrap();
    let mut lines = recording.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.find_map(|line| Some(line.pointer("/result/thread/id")?.as_str()?.to_owned()))
}

/// A program that writes what was recorded, and ends when its input does.
fn program(folder: &Path, name: &str) -> PathBuf {
    let mut script = "#!/bin/sh\n\
        case $1 in --version) echo 'codex-cli 0.169.0'; exit;; app-server) ;; *) exit 2;; esac\n"
        .to_owned();
    let rollout = format!("{FOLDER}/{name}.rollout.jsonl");
    if let (true, Some(thread)) = (Path::new(&rollout).exists(), thread(name)) {
        script.push_str(&format!(
            "mkdir -p \"$CODEX_HOME/sessions/2026/11/21\"\n\
             cp '{rollout}' \"$CODEX_HOME/sessions/2026/11/21/rollout-2026-11-21T00-00-00-{thread}.jsonl\"\n"
        ));
    }
    script.push_str(&format!("cat '{FOLDER}/{name}.jsonl'\ncat > /dev/null\n"));
    let path = folder.join("codex");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    path
}

/// The request that fits a recording: the fence that was recorded, and what else the recording is about.
fn request(name: &str, nexus_home: &Path) -> TurnRequest {
    let recording = fs::read_to_string(format!("{FOLDER}/{name}.jsonl")).unwrap();
    let access = if recording.contains(r#""sandbox":{"type":"workspaceWrite""#) {
        ToolAccess::WorkspaceWrite
    } else if recording.contains(r#""sandbox":{"type":"dangerFullAccess""#) {
        ToolAccess::Unrestricted
    } else {
        ToolAccess::ReadOnly
    };
    let limits = Limits::new().with_deadline(Duration::from_secs(20));
    let request = TurnRequest::new("As recorded.").with_tool_access(access).with_limits(limits);
    if name.starts_with("resume") {
        let thread = thread(name).unwrap_or_else(|| "01a1fc19-aba2-7352-853f-2aa20452b5bd".to_owned());
        let kept = nexus_home.join("sessions/codex/2026/r.jsonl");
        fs::create_dir_all(kept.parent().unwrap()).unwrap();
        fs::write(kept, "{}\n").unwrap();
        let handle =
            ResumeHandle::new("codex-cli".into(), json!({ "thread": thread, "rollout": "2026/r.jsonl" }));
        return request.with_session(SessionMode::resume(handle));
    }
    match name {
        "two-turns" => {
            let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
            request.with_output(OutputSchema::new(schema).unwrap())
        }
        _ => request,
    }
}

async fn replay(name: &str) -> Row {
    let folder = tempfile::tempdir().unwrap();
    let executable = program(folder.path(), name);
    let mut environment: BTreeMap<String, String> =
        std::env::vars().filter(|(name, _)| name == "PATH").collect();
    environment.insert("TOKEN".into(), "simulated-token".into());
    let nexus_home = folder.path().join("nexus");
    let context = BuildContext::new(&nexus_home, folder.path()).with_environment(environment);
    let settings = json!({ "executable": executable, "credential": { "env": "TOKEN" } });
    let Value::Object(settings) = settings else { unreachable!() };
    let kind = nexus_backends::delegated::codex::CodexCli;
    let backend = kind.build("codex-cli".into(), &settings, &context).unwrap();
    let mut events = Vec::new();
    let mut sink = |event: EventEnvelope| events.push(event.event);
    let outcome = backend.run_turn(request(name, &nexus_home), TurnHost::new(), &mut sink).await;
    let count = |is: fn(&TurnEvent) -> bool| events.iter().filter(|event| is(event)).count();
    let row = match outcome {
        Ok(result) => Row {
            ok: Some(serde_json::to_value(&result.finish).unwrap().as_str().unwrap().to_owned()),
            text: result.text,
            tools: tools(&result.tool_calls),
            ..tokens(&result.usage)
        },
        Err(error) => {
            let resets_at = match error.retry() {
                Retry::At(time) => Some(time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()),
                _ => None,
            };
            let partial = error.partial();
            Row {
                error: Some(word(&serde_json::to_value(error.kind()).unwrap())),
                text: partial.text.clone(),
                tools: tools(&partial.tool_calls),
                resets_at,
                ..tokens(&partial.usage)
            }
        }
    };
    let unknown: Vec<_> = events.iter().filter(|event| matches!(event, TurnEvent::Unrecognized(_))).collect();
    assert!(unknown.is_empty(), "{name}: {unknown:?}");
    Row {
        retries: count(|event| matches!(event, TurnEvent::Retrying(_))),
        voided: count(|event| matches!(event, TurnEvent::MessageVoided(_))),
        ..row
    }
}

/// The name of a kind, and which one where it has several.
fn word(kind: &Value) -> String {
    match kind {
        Value::String(word) => word.clone(),
        other => other.to_string(),
    }
}

fn tokens(usage: &Usage) -> Row {
    Row { input: usage.input_tokens, output: usage.all_output_tokens(), ..Row::default() }
}

fn tools(calls: &[ToolCallRecord]) -> Vec<String> {
    let end = |call: &ToolCallRecord| serde_json::to_value(call.status).unwrap().as_str().unwrap().to_owned();
    calls.iter().map(|call| format!("{} {}", call.name, end(call))).collect()
}

/// Cuts the text of `row` as `expected` does.
fn like(expected: &Row, mut row: Row) -> Row {
    if expected.text_chars.is_some() {
        row.text_chars = Some(row.text.chars().count());
        row.text = row.text.chars().take(expected.text.chars().count()).collect();
    }
    row
}

#[tokio::test(flavor = "multi_thread")]
async fn every_recording_has_the_outcome_that_was_recorded() {
    let (table, recordings) = (table(), recordings());
    assert!(recordings.len() >= 70, "only {} recordings were found", recordings.len());
    let without_row: Vec<_> = recordings.iter().filter(|name| !table.contains_key(*name)).collect();
    assert!(without_row.is_empty(), "recordings without a row: {without_row:?}");
    let without_recording: Vec<_> = table.keys().filter(|name| !recordings.contains(name)).collect();
    assert!(without_recording.is_empty(), "rows without a recording: {without_recording:?}");
    let mut wrong = String::new();
    for (name, expected) in &table {
        if expected.left_out.is_some() {
            continue;
        }
        let row = like(expected, replay(name).await);
        if row != *expected {
            wrong.push_str(&format!("{name}\n  expected {expected:?}\n  is       {row:?}\n"));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
