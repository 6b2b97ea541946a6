//! Folder that Grok stores of a session: the record that decides the outcome.
//!
//! `chat_history.jsonl` contains the actual conversation. After an interrupted and retried response it has only the
//! second answer, whereas the CLI's output joins both. `updates.jsonl` is written live, and contains each retry and the
//! end of the turn. This module only reads.
//!
//! Source: observed with grok 1.0.41.

use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nexus_core::{ErrorKind, lenient_json};
use serde::Deserialize;
use serde_json::Value;

/// Maximum number of bytes that are read from a file of the record. Source: our own bound.
const MAX_RECORD_BYTES: u64 = 256 << 20;

/// Returns the folder of session `id` below the CLI's home, if it exists.
pub(super) fn session_folder(grok_home: &Path, id: &str) -> Option<PathBuf> {
    // The folder between is named after a working directory. The CLI also looks for an id in all of them.
    let directories = std::fs::read_dir(grok_home.join("sessions")).ok()?;
    directories.flatten().map(|directory| directory.path().join(id)).find(|folder| folder.is_dir())
}

/// Answer of the model in the session's history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LoggedAnswer {
    pub(super) text: String,
    pub(super) thinking: String,
}

#[derive(Deserialize)]
struct HistoryLine {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    content: Value,
    #[serde(default)]
    summary: Vec<Value>,
    prompt_index: Option<u64>,
}

/// Returns the model's answers to the last prompt, in order; `None` without a readable record.
pub(super) fn answers(session: &Path) -> Option<Vec<LoggedAnswer>> {
    let history = read_from(&session.join("chat_history.jsonl"), 0)?;
    let mut answers = Vec::new();
    let mut has_prompt = false;
    let mut thinking = String::new();
    for line in history.split(|byte| *byte == b'\n') {
        let Ok((line, _)) = lenient_json::from_slice::<HistoryLine>(line) else { continue };
        match line.kind.as_str() {
            "user" if line.prompt_index.is_some() => {
                has_prompt = true;
                answers.clear();
                thinking.clear();
            }
            "reasoning" => {
                let parts = line.summary.iter().filter_map(|part| part.get("text").and_then(Value::as_str));
                thinking.extend(parts);
            }
            "assistant" => {
                let text = line.content.as_str().unwrap_or_default().to_owned();
                answers.push(LoggedAnswer { text, thinking: std::mem::take(&mut thinking) });
            }
            _ => {}
        }
    }
    has_prompt.then_some(answers)
}

#[derive(Deserialize)]
struct UpdateLine {
    params: UpdateParams,
}

#[derive(Deserialize)]
struct UpdateParams {
    update: LoggedUpdate,
    #[serde(rename = "_meta")]
    meta: Option<UpdateMeta>,
}

#[derive(Deserialize)]
struct UpdateMeta {
    #[serde(rename = "agentTimestampMs")]
    timestamp_ms: Option<u64>,
}

/// Line of `updates.jsonl`.
#[derive(Deserialize)]
struct LoggedUpdate {
    #[serde(rename = "sessionUpdate")]
    kind: String,
    #[serde(rename = "type")]
    state: Option<String>,
    attempt: Option<u32>,
    reason: Option<String>,
    error_type: Option<String>,
    is_rate_limited: Option<bool>,
    stop_reason: Option<String>,
}

/// Retry within the CLI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LoggedRetry {
    /// Number of the retry; the first is 1.
    pub(super) attempt: u32,
    pub(super) reason: String,
    pub(super) at: SystemTime,
}

/// End of a turn in the CLI's own record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TurnEnd {
    error_type: Option<String>,
    stop_reason: Option<String>,
    is_rate_limited: bool,
    retries: u32,
}

impl TurnEnd {
    /// Creates the end of a turn that failed with this type of error.
    #[cfg(test)]
    pub(super) fn of_error(error_type: &str) -> Self {
        Self { error_type: Some(error_type.to_owned()), ..Self::default() }
    }

    /// Returns true if a model call was retried.
    pub(super) fn has_retries(&self) -> bool {
        self.retries > 0
    }

    /// Returns the kind of error, if the record names one.
    pub(super) fn error_kind(&self) -> Option<ErrorKind> {
        match (self.error_type.as_deref(), self.stop_reason.as_deref()) {
            (Some("context_length"), _) => Some(ErrorKind::ContextExceeded),
            (Some("rate_limited"), _) | (_, Some("rate_limit")) => Some(ErrorKind::RateLimited),
            _ if self.is_rate_limited => Some(ErrorKind::RateLimited),
            _ => None,
        }
    }
}

/// Reads the end of the last turn from `updates.jsonl`.
pub(super) fn turn_end(session: &Path) -> Option<TurnEnd> {
    let updates = read_from(&session.join("updates.jsonl"), 0)?;
    let mut end = TurnEnd::default();
    for update in updates.split(|byte| *byte == b'\n').filter_map(read_update) {
        let LoggedUpdate { kind, state, error_type, is_rate_limited, stop_reason, .. } = update.params.update;
        match (kind.as_str(), state.as_deref()) {
            // A resumed session has several turns in one file, and only the last counts.
            ("user_message_chunk", _) => end = TurnEnd::default(),
            ("retry_state", Some("retrying")) => end.retries = end.retries.saturating_add(1),
            ("retry_state", Some("failed" | "exhausted")) => {
                end.error_type = error_type;
                end.is_rate_limited = is_rate_limited.unwrap_or(false);
            }
            ("turn_completed", _) => end.stop_reason = stop_reason,
            _ => {}
        }
    }
    Some(end)
}

fn read_update(line: &[u8]) -> Option<UpdateLine> {
    lenient_json::from_slice(line).ok().map(|(line, _)| line)
}

/// Follows `updates.jsonl` while the CLI writes it.
///
/// The CLI's output does not show where an interrupted response ends and the next attempt begins; this file does. A
/// poll costs one `stat`, and a read only if the file grew.
#[derive(Debug)]
pub(super) struct RetryWatch {
    grok_home: PathBuf,
    session: String,
    updates: Option<PathBuf>,
    read_bytes: u64,
}

impl RetryWatch {
    pub(super) fn new(grok_home: &Path, session: &str, read_bytes: u64) -> Self {
        Self { grok_home: grok_home.to_owned(), session: session.to_owned(), updates: None, read_bytes }
    }

    /// Returns the last retry recorded since the last poll.
    pub(super) fn look(&mut self) -> Option<LoggedRetry> {
        if self.updates.is_none() {
            self.updates = Some(session_folder(&self.grok_home, &self.session)?.join("updates.jsonl"));
        }
        let path = self.updates.as_deref()?;
        if std::fs::metadata(path).ok()?.len() <= self.read_bytes {
            return None;
        }
        let added = read_from(path, self.read_bytes)?;
        // The CLI may be in the middle of a line. Its beginning is read again at the next poll.
        let whole = added.iter().rposition(|byte| *byte == b'\n')? + 1;
        let added = added.get(..whole)?;
        self.read_bytes += whole as u64;
        added.split(|byte| *byte == b'\n').filter_map(read_update).filter_map(into_retry).next_back()
    }
}

fn into_retry(line: UpdateLine) -> Option<LoggedRetry> {
    let update = line.params.update;
    if update.kind != "retry_state" || update.state.as_deref() != Some("retrying") {
        return None;
    }
    let millis = line.params.meta?.timestamp_ms?;
    Some(LoggedRetry {
        attempt: update.attempt.unwrap_or(1),
        reason: update.reason.unwrap_or_default(),
        at: UNIX_EPOCH.checked_add(Duration::from_millis(millis))?,
    })
}

fn read_from(path: &Path, offset: u64) -> Option<Vec<u8>> {
    let mut file = File::open(path).ok()?;
    file.seek(SeekFrom::Start(offset)).ok()?;
    let mut bytes = Vec::new();
    file.take(MAX_RECORD_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY: &str = r#"{"params":{"update":{"sessionUpdate":"retry_state","type":"retrying","attempt":1,"reason":"cut"},"_meta":{"agentTimestampMs":5000}}}"#;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        let session = home.path().join("sessions/%2Fw/s");
        std::fs::create_dir_all(&session).unwrap();
        for (name, text) in files {
            std::fs::write(session.join(name), text).unwrap();
        }
        home
    }

    #[test]
    fn the_answers_to_the_last_prompt_count() {
        let home = folder(&[(
            "chat_history.jsonl",
            "{\"type\":\"user\",\"content\":\"a\",\"prompt_index\":0}\n{\"type\":\"assistant\",\"content\":\"old\"}\n\
             {\"type\":\"user\",\"content\":[],\"prompt_index\":1}\nnot json\n\
             {\"type\":\"reasoning\",\"summary\":[{\"text\":\"hm\"}]}\n{\"type\":\"assistant\",\"content\":\"new\"}\n",
        )]);
        let session = session_folder(home.path(), "s").unwrap();
        assert_eq!(answers(&session).unwrap(), [LoggedAnswer { text: "new".into(), thinking: "hm".into() }]);
        assert_eq!(session_folder(home.path(), "other"), None);
    }

    #[test]
    fn a_retry_is_seen_once() {
        let home = folder(&[("updates.jsonl", "")]);
        let path = session_folder(home.path(), "s").unwrap().join("updates.jsonl");
        let mut watch = RetryWatch::new(home.path(), "s", 0);
        assert_eq!(watch.look(), None);
        std::fs::write(&path, RETRY).unwrap();
        assert_eq!(watch.look(), None, "the line is not whole yet");
        std::fs::write(&path, format!("{RETRY}\n")).unwrap();
        assert_eq!(watch.look().unwrap().reason, "cut");
        assert_eq!(watch.look(), None);
    }

    #[test]
    fn the_record_names_what_the_sentence_does_not() {
        let end = |line: &str| {
            let home = folder(&[("updates.jsonl", line)]);
            turn_end(&session_folder(home.path(), "s").unwrap()).unwrap().error_kind()
        };
        let failed = r#"{"params":{"update":{"sessionUpdate":"retry_state","type":"failed","error_type":"context_length"}}}"#;
        assert_eq!(end(failed), Some(ErrorKind::ContextExceeded));
        let limited =
            r#"{"params":{"update":{"sessionUpdate":"turn_completed","stop_reason":"rate_limit"}}}"#;
        assert_eq!(end(limited), Some(ErrorKind::RateLimited));
        assert_eq!(end(RETRY), None);
    }
}
