//! Every recording of Claude Code, replayed by a real child through `run_turn`: the outcome is the one that
//! `transcripts/claude/expected.json` states. A recording without a row fails, and so does a row without a
//! recording.
//!
//! A row says `ok` with the finish reason, or `error` with the kind; `text` is that of the answer or of the
//! partial, in which what was streamed of the last message stays, confirmed or not; `text_chars` is its length
//! if `text` is only its beginning; `tools` lists the calls in order, each with its end; `input` and `output` are
//! tokens; `output_value` is the structured answer; `left_out` says why a recording is not one that this backend
//! could meet.

use std::{fs, path::Path};

use nexus_backends::claude::cli::ClaudeCli;
use nexus_core::{ConversationMode, OutputSchema, ToolAccess, TurnRequest};
use serde::Deserialize;
use serde_json::json;

use crate::support::{
    player::Player,
    row::{self, Row},
};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts/claude");

/// How a recorded process ended.
#[derive(Debug, Deserialize)]
struct Meta {
    exit_code: Option<i32>,
    signal: Option<i32>,
    #[serde(default)]
    stderr_tail: String,
    cli_version: String,
}

impl Meta {
    fn of(name: &str) -> Self {
        let meta = fs::read_to_string(format!("{FOLDER}/{name}.json")).unwrap();
        serde_json::from_str(&meta).unwrap()
    }
}

/// A program that writes what was recorded and ends as the recorded process did.
fn player(name: &str, meta: &Meta) -> Player {
    let end = match (meta.exit_code, meta.signal) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("kill -{signal} $$"),
        (None, None) => "exit 0".to_owned(),
    };
    let script = format!("cat '{FOLDER}/{name}.jsonl'\ncat \"${{0%/*}}/stderr\" >&2\n{end}");
    let version = format!("{} (Claude Code)", meta.cli_version);
    let player = Player::new(&ClaudeCli, &version, json!({}), &script);
    fs::write(player.folder.path().join("stderr"), &meta.stderr_tail).unwrap();
    player
}

/// The request that fits any recording: as much access as one may have had.
fn request(name: &str) -> TurnRequest {
    let request = TurnRequest::new("As recorded.").with_tool_access(ToolAccess::Unrestricted);
    match name {
        "schema_ok" | "schema_bad_then_ok" | "schema_always_bad" => {
            request.with_output(OutputSchema::new(json!({ "type": "object" })).unwrap().with_repairs(0))
        }
        "session_first" => request.with_conversation(ConversationMode::Keep),
        _ => request,
    }
}

async fn replay(name: &str, expected: &Row) -> Row {
    let meta = Meta::of(name);
    let ran = player(name, &meta).play(request(name)).await;
    // All is known but a line that broke off with its process.
    let broken = usize::from(name == "truncated_slow_reader");
    assert_eq!(ran.unrecognized().len(), broken, "{name}: {:?}", ran.unrecognized());
    let mut row = Row::of(&ran.outcome);
    match ran.outcome {
        Ok(result) => row.output_value = result.output,
        Err(error) if row.error.as_deref() == Some("crashed") => {
            let process = error.process().expect("a crash reports its process");
            assert_eq!(process.stderr_tail.trim(), meta.stderr_tail.trim(), "{name}: standard error");
        }
        Err(_) => {}
    }
    // Where a process breaks off, a row need not say what the messages alone have reported.
    if expected.error.is_some() && expected.input.is_none() {
        (row.input, row.output) = (None, None);
    }
    row
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_recording_ends_as_its_row_says() {
    row::compare(Path::new(FOLDER), 100, replay).await;
}
