//! Every recording of Claude Code, replayed by a real child through `run_turn`: the outcome is the one that
//! `transcripts/claude/expected.json` states. A recording without a row fails, and so does a row without a
//! recording.
//!
//! A row says `ok` with the finish reason, or `error` with the kind; `text` is that of the answer or of the
//! partial, in which what was streamed of the last message stays, confirmed or not; `text_chars` is its length
//! if `text` is only its beginning; `tools` lists the calls in order, each with its end; `input` and `output` are
//! tokens; `output_value` is the structured answer; `left_out` says why a recording is not one that this backend
//! could meet.

#![cfg(all(unix, feature = "claude"))]

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _, path::Path};

use nexus_core::{
    BackendKind as _, BuildContext, OutputSchema, SessionMode, ToolAccess, ToolCallRecord, TurnHost,
    TurnRequest, Usage,
};
use serde::Deserialize;
use serde_json::{Value, json};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts/claude");

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
    output_value: Option<Value>,
    left_out: Option<String>,
}

/// How a recorded process ended.
#[derive(Debug, Deserialize)]
struct Meta {
    exit_code: Option<i32>,
    signal: Option<i32>,
    #[serde(default)]
    stderr_tail: String,
    cli_version: String,
}

fn table() -> BTreeMap<String, Row> {
    let text = fs::read_to_string(format!("{FOLDER}/expected.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn recordings() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(FOLDER)
        .unwrap()
        .filter_map(|entry| Some(entry.unwrap().file_name().to_str()?.strip_suffix(".jsonl")?.to_owned()))
        .collect();
    names.sort();
    names
}

/// A program that writes what was recorded and ends as the recorded process did.
fn program(folder: &Path, name: &str) -> std::path::PathBuf {
    let meta = fs::read_to_string(format!("{FOLDER}/{name}.json")).unwrap();
    let meta: Meta = serde_json::from_str(&meta).unwrap();
    fs::write(folder.join("stderr"), &meta.stderr_tail).unwrap();
    let end = match (meta.exit_code, meta.signal) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("kill -{signal} $$"),
        (None, None) => "exit 0".to_owned(),
    };
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = --version ]; then echo '{} (Claude Code)'; exit; fi\n\
         cat '{FOLDER}/{name}.jsonl'\ncat '{}/stderr' >&2\n{end}\n",
        meta.cli_version,
        folder.display(),
    );
    let path = folder.join("claude");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    path
}

/// The request that fits any recording: as much access as one may have had.
fn request(name: &str) -> TurnRequest {
    let request = TurnRequest::new("As recorded.").with_tool_access(ToolAccess::Unrestricted);
    match name {
        "schema_ok" | "schema_bad_then_ok" | "schema_always_bad" => {
            request.with_output(OutputSchema::new(json!({ "type": "object" })).unwrap().with_repairs(0))
        }
        "session_first" => request.with_session(SessionMode::Keep),
        _ => request,
    }
}

async fn replay(name: &str) -> Row {
    let folder = tempfile::tempdir().unwrap();
    let executable = program(folder.path(), name);
    let environment = std::env::vars().filter(|(name, _)| name == "PATH").collect();
    let context = BuildContext::new(folder.path().join("nexus"), folder.path()).with_environment(environment);
    let Value::Object(settings) = json!({ "executable": executable }) else { unreachable!() };
    let kind = nexus_backends::delegated::claude::ClaudeCli;
    let backend = kind.build("claude-cli".into(), &settings, &context).unwrap();
    let mut events = Vec::new();
    let mut sink = |event: nexus_core::EventEnvelope| events.push(event);
    match backend.run_turn(request(name), TurnHost::new(), &mut sink).await {
        Ok(result) => Row {
            ok: Some(serde_json::to_value(&result.finish).unwrap().as_str().unwrap_or_default().to_owned()),
            text: result.text,
            tools: tools(&result.tool_calls),
            output_value: result.output,
            ..tokens(&result.usage)
        },
        Err(error) => {
            let kind = match serde_json::to_value(error.kind()).unwrap() {
                Value::Object(kind) => kind
                    .into_iter()
                    .map(|(kind, which)| format!("{kind} {}", which.as_str().unwrap()))
                    .collect(),
                kind => kind.as_str().unwrap().to_owned(),
            };
            let partial = error.partial();
            let row = Row {
                error: Some(kind),
                text: partial.text.clone(),
                tools: tools(&partial.tool_calls),
                ..tokens(&partial.usage)
            };
            if row.error.as_deref() == Some("crashed") {
                let meta = fs::read_to_string(format!("{FOLDER}/{name}.json")).unwrap();
                let meta: Meta = serde_json::from_str(&meta).unwrap();
                let process = error.process().expect("a crash reports its process");
                assert_eq!(process.stderr_tail.trim(), meta.stderr_tail.trim(), "{name}: standard error");
            }
            row
        }
    }
}

fn tokens(usage: &Usage) -> Row {
    Row { input: usage.input_tokens, output: usage.all_output_tokens(), ..Row::default() }
}

fn tools(calls: &[ToolCallRecord]) -> Vec<String> {
    calls
        .iter()
        .map(|call| format!("{} {}", call.name, format!("{:?}", call.status).to_lowercase()))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_recording_ends_as_its_row_says() {
    let mut table = table();
    let recordings = recordings();
    assert!(recordings.len() >= 100, "only {} recordings were found", recordings.len());
    let mut wrong = Vec::new();
    for name in &recordings {
        let Some(mut expected) = table.remove(name) else {
            wrong.push(format!("{name}: there is no row for it"));
            continue;
        };
        if expected.left_out.is_some() {
            continue;
        }
        let mut seen = replay(name).await;
        if let Some(length) = expected.text_chars {
            if seen.text.chars().count() != length || !seen.text.starts_with(&expected.text) {
                wrong.push(format!("{name}: text of {} characters", seen.text.chars().count()));
            }
            (seen.text, expected.text, expected.text_chars) = (String::new(), String::new(), None);
        }
        // Where a process breaks off, a row need not say what the messages alone have reported.
        if expected.error.is_some() && expected.input.is_none() {
            (seen.input, seen.output) = (None, None);
        }
        if seen != expected {
            wrong.push(format!("{name}:\n  expected {expected:?}\n  seen     {seen:?}"));
        }
    }
    wrong.extend(table.keys().map(|name| format!("{name}: there is no recording for the row")));
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), recordings.len(), wrong.join("\n"));
}
