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

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use nexus_backends::codex::cli::CodexCli;
use nexus_core::{
    ConversationMode, Limits, OutputSchema, ResumeHandle, Retry, ToolAccess, TurnError, TurnEvent,
    TurnRequest,
};
use serde_json::{Value, json};

use crate::support::{
    player::Player,
    row::{self, Row},
};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts/codex/app-server");

/// The conversation that a recording opens.
fn thread(name: &str) -> Option<String> {
    let recording = fs::read_to_string(format!("{FOLDER}/{name}.jsonl")).unwrap();
    let mut lines = recording.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.find_map(|line| Some(line.pointer("/result/thread/id")?.as_str()?.to_owned()))
}

/// A program that writes what was recorded, and ends when its input does.
fn player(name: &str) -> Player {
    player_with(name, json!({ "credential": { "env": "TOKEN" } }))
}

/// Such a program behind a backend with these settings.
pub(crate) fn player_with(name: &str, settings: Value) -> Player {
    let mut script = "[ \"$1\" = app-server ] || exit 2\n".to_owned();
    let rollout = format!("{FOLDER}/{name}.rollout.jsonl");
    if let (true, Some(thread)) = (Path::new(&rollout).exists(), thread(name)) {
        script.push_str(&format!(
            "mkdir -p \"$CODEX_HOME/sessions/2026/11/21\"\n\
             cp '{rollout}' \"$CODEX_HOME/sessions/2026/11/21/rollout-2026-11-21T00-00-00-{thread}.jsonl\"\n"
        ));
    }
    // What is asked for beside the turn was not recorded: nothing is configured, and nothing connected.
    script.push_str(&format!(
        r#"sed -e '/^{{"id":1,/a {{"id":"configuration","result":{{"config":{{}}}}}}' \
            -e '/^{{"id":[0-9]*,"result":{{"thread":/a {{"id":"servers","result":{{"data":[]}}}}' '{FOLDER}/{name}.jsonl'
cat > /dev/null"#
    ));
    Player::new(&CodexCli, "codex-cli 0.169.0", settings, &script)
}

/// The request that fits a recording: the sandbox that was recorded, and what else the recording is about.
fn request(name: &str, nexus_home: &Path) -> TurnRequest {
    let recording = fs::read_to_string(format!("{FOLDER}/{name}.jsonl")).unwrap();
    let access = if recording.contains(r#""sandbox":{"type":"workspaceWrite""#) {
        ToolAccess::WorkspaceWrite
    } else if recording.contains(r#""sandbox":{"type":"dangerFullAccess""#) {
        ToolAccess::Unrestricted
    } else {
        ToolAccess::ReadOnly
    };
    let limits = Limits::new().with_deadline(Duration::from_secs(90));
    let request = TurnRequest::new("As recorded.").with_tool_access(access).with_limits(limits);
    if name.starts_with("resume") {
        let thread = thread(name).unwrap_or_else(|| "01a1fc19-aba2-7352-853f-2aa20452b5bd".to_owned());
        let kept = nexus_home.join("sessions/codex/2026/r.jsonl");
        fs::create_dir_all(kept.parent().unwrap()).unwrap();
        fs::write(kept, "{}\n").unwrap();
        let handle =
            ResumeHandle::new("codex-cli".into(), json!({ "thread": thread, "rollout": "2026/r.jsonl" }));
        return request.with_conversation(ConversationMode::resume(handle));
    }
    match name {
        "two-turns" => {
            let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
            request.with_output(OutputSchema::new(schema).unwrap())
        }
        _ => request,
    }
}

async fn replay(name: &str, expected: &Row) -> Row {
    let player = player(name);
    let ran = player.play(request(name, &player.folder.path().join("nexus"))).await;
    let unknown = ran.unrecognized();
    assert!(unknown.is_empty(), "{name}: {unknown:?}");
    let count = |is: fn(&TurnEvent) -> bool| ran.events.iter().filter(|event| is(event)).count();
    // A sentence that names the time of day alone means the next such time, which no row can have.
    let resets_at = ran.outcome.as_ref().err().and_then(resets_at).filter(|at| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        expected.resets_at.is_some() || !(now - 3_600..now + 25 * 3_600).contains(at)
    });
    Row {
        resets_at,
        retries: count(|event| matches!(event, TurnEvent::Retrying(_))),
        voided: count(|event| matches!(event, TurnEvent::MessageVoided(_))),
        ..Row::of(&ran.outcome)
    }
}

/// When to come back, in Unix seconds, if the error names a time.
fn resets_at(error: &TurnError) -> Option<u64> {
    match error.retry() {
        Retry::At(time) => Some(time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_recording_has_the_outcome_that_was_recorded() {
    row::compare(Path::new(FOLDER), 70, replay).await;
}
