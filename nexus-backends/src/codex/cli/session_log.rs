//! Record that the program stores of a conversation: a file of lines in its home.
//!
//! The record contains facts that the live protocol omits. Calls that the program rejected, and commands that the
//! sandbox ended at once, have no item (source: recordings unknown-tool, escalation, sandbox-denied-write). If the
//! program dies after the turn has ended but before it reported the end, the record still has it.

use std::{
    collections::{BTreeSet, HashMap},
    fs::File,
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
};

use nexus_core::{
    CallId, Effects, ToolCallStatus, ToolContent, TurnEvent, lenient_json,
    turn::{ToolCallArguments, ToolCallFinished, ToolCallStarted, ToolOrigin},
};
use serde::Deserialize;
use serde_json::Value;

use super::mcp_config;
use super::setting::Setting;
use super::tool_calls::harness_effects;
use super::wire::Problem;

/// Maximum length of a line of the record, in bytes; a longer line is skipped.
const MAX_LINE_BYTES: u64 = 64 << 20;

/// Maximum depth of folders below `sessions`: year, month, day.
const MAX_DEPTH: usize = 4;

/// Beginnings of the program's messages to the model about a call that its policy denied. Each row names its recording.
const DENIALS: &[&str] = &[
    "approval policy is Never",                        // escalation
    "patch rejected: writing is blocked by read-only", // apply-patch-readonly
];

/// Record of one process's turns.
#[derive(Debug, Default)]
pub(super) struct ProcessRecord {
    /// Calls and their outputs, in order.
    calls: Vec<RecordedCall>,
    /// End of the last turn, if the record has it.
    pub(super) end: Option<RecordedEnd>,
}

/// End of a turn in the record.
#[derive(Debug)]
pub(super) enum RecordedEnd {
    /// The turn completed.
    Complete {
        /// Text of the answer; `None` if the turn has no answer.
        answer: Option<String>,
    },
    /// The turn failed.
    Failed(Problem),
}

#[derive(Debug)]
struct RecordedCall {
    id: String,
    /// Name of the server, if the model sees the tool in a server's namespace.
    namespace: Option<String>,
    name: String,
    arguments: Value,
    output: Option<String>,
}

/// Line of the log.
#[derive(Deserialize)]
struct LogLine {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    payload: Value,
}

impl ProcessRecord {
    /// Reads the entries of `turns`. Skips unreadable lines, because the file may end anywhere.
    pub(super) fn read(path: &Path, turns: &BTreeSet<String>) -> Self {
        let mut record = Self::default();
        let Ok(file) = File::open(path) else { return record };
        let mut reader = BufReader::new(file);
        let mut is_ours = false;
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            match reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes) {
                Ok(0) | Err(_) => return record,
                Ok(_) => {}
            }
            let Ok((line, _)) = lenient_json::from_slice::<LogLine>(&bytes) else { continue };
            let word = line.payload.get("type").and_then(Value::as_str).unwrap_or_default();
            match (line.kind.as_str(), word) {
                ("event_msg", "task_started") => {
                    is_ours = text(&line.payload, "turn_id").is_some_and(|turn| turns.contains(&turn));
                }
                ("event_msg", "task_complete") if is_ours => {
                    is_ours = false;
                    record.end = Some(end(&line.payload));
                }
                ("response_item", _) if is_ours => record.item(word, &line.payload),
                _ => {}
            }
        }
    }

    fn item(&mut self, word: &str, item: &Value) {
        let Some(id) = text(item, "call_id") else { return };
        match word {
            "function_call" | "custom_tool_call" => {
                let arguments = text(item, "arguments").or_else(|| text(item, "input")).unwrap_or_default();
                let arguments = serde_json::from_str(&arguments).unwrap_or(Value::String(arguments));
                let name = text(item, "name").unwrap_or_default();
                let namespace = text(item, "namespace");
                self.calls.push(RecordedCall { id, namespace, name, arguments, output: None });
            }
            "function_call_output" | "custom_tool_call_output" => {
                // Call ids may repeat, so an output belongs to the first call with its id that has none yet.
                if let Some(call) = self.calls.iter_mut().find(|call| call.id == id && call.output.is_none())
                {
                    call.output = Some(output_text(item.get("output").unwrap_or(&Value::Null)));
                }
            }
            _ => {}
        }
    }

    /// Returns the events of calls that were not `seen` live. Omits a script if calls it made were seen, because they
    /// represent it.
    pub(super) fn unseen_calls(
        self,
        seen: &HashMap<String, Vec<CallId>>,
        setting: &Setting,
    ) -> Vec<TurnEvent> {
        let scripts_were_seen = seen.keys().any(|id| id.starts_with("exec-"));
        let mut events = Vec::new();
        let mut counts: HashMap<String, usize> = HashMap::new();
        for call in self.calls {
            let count = counts.entry(call.id.clone()).or_default();
            *count += 1;
            let is_seen = *count <= seen.get(&call.id).map_or(0, Vec::len);
            let callers =
                setting.tools.as_ref().filter(|_| call.namespace.as_deref() == Some(mcp_config::NAMESPACE));
            let is_script = callers.is_none() && matches!(call.name.as_str(), "exec" | "wait");
            if is_seen || (is_script && scripts_were_seen) {
                continue;
            }
            // Number repeated ids as live calls are numbered, so that each id occurs once in the turn.
            let id = match *count {
                1 => CallId::from(call.id.as_str()),
                count => CallId::new(format!("{}#{count}", call.id)),
            };
            let (origin, effects) = match callers {
                // The caller never received this call: the output is the refusal of the program. So the tool has not run.
                Some(_) if call.output.is_some() => (ToolOrigin::Caller, Effects::None),
                Some(own) => (ToolOrigin::Caller, own.effects(&call.name)),
                None if call.output.as_deref().is_some_and(mcp_config::is_unsupported) => {
                    (ToolOrigin::Harness, Effects::None)
                }
                None => (ToolOrigin::Harness, harness_effects(&call.name, setting.access)),
            };
            events.push(ToolCallStarted::new(id.clone(), &*call.name, origin, effects).into());
            events.push(ToolCallArguments::new(id.clone(), call.arguments).into());
            if let Some(output) = call.output {
                let status = if callers.is_some() {
                    mcp_config::refusal(&output)
                } else {
                    status(&call.name, &output)
                };
                events.push(ToolCallFinished::new(id, status, vec![ToolContent::text(output)]).into());
            }
        }
        events
    }
}

/// Returns the status of a call without an item: such a call was denied or failed. Scripts and plans never have an
/// item; their output contains their status.
fn status(name: &str, output: &str) -> ToolCallStatus {
    if DENIALS.iter().any(|beginning| output.starts_with(beginning)) {
        return ToolCallStatus::Denied;
    }
    let went_well = match name {
        "exec" | "wait" => output.starts_with("Script completed"),
        "update_plan" => output.starts_with("Plan updated"),
        _ => false,
    };
    if went_well { ToolCallStatus::Succeeded } else { ToolCallStatus::Failed }
}

fn end(payload: &Value) -> RecordedEnd {
    match payload.get("error").filter(|error| error.is_object()) {
        Some(error) => match serde_json::from_value(error.clone()) {
            Ok(problem) => RecordedEnd::Failed(problem),
            Err(_) => RecordedEnd::Complete { answer: None },
        },
        None => RecordedEnd::Complete { answer: text(payload, "last_agent_message") },
    }
}

fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).map(str::to_owned)
}

/// Returns the text of an output, which is a string or a list of text blocks.
fn output_text(output: &Value) -> String {
    match output {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().filter_map(|block| text(block, "text")).collect(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Returns the record of the conversation `thread` below `sessions`, if it exists.
pub(super) fn find(sessions: &Path, thread: &str) -> Option<PathBuf> {
    let suffix = format!("-{thread}.jsonl");
    let mut folders = vec![(sessions.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && depth < MAX_DEPTH {
                folders.push((entry.path(), depth + 1));
            } else if kind.is_file() && entry.file_name().to_str().is_some_and(|name| name.ends_with(&suffix))
            {
                return Some(entry.path());
            }
        }
    }
    None
}
