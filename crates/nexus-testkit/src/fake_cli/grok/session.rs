//! The folder in which the vendor's program stores a conversation.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use super::request::Request;
use crate::fake_cli::{misbehaviour::complain, servers::Servers};

/// A conversation on disk.
#[derive(Debug, Default)]
pub(super) struct Session {
    id: String,
    folder: PathBuf,
    prompts: Vec<String>,
    answers: Vec<String>,
}

impl Session {
    /// Opens the session of a request: an old one if it resumes, else a new one.
    pub(super) fn open(request: &Request) -> Self {
        let folder = request.session_folder.clone().unwrap_or_else(|| {
            // The real program groups conversations by their folder, and encodes its path as one name.
            let encoded = request.directory.replace('/', "%2F");
            request.grok_home.join("sessions").join(encoded).join(&request.session)
        });
        let mut session = Self { id: request.session.clone(), folder, ..Self::default() };
        if let Err(error) = fs::create_dir_all(&session.folder) {
            complain(&format!("no session folder can be made: {error}"));
        }
        // Read the earlier turns before the first line of this one is written.
        session.read();
        let summary =
            json!({ "info": { "id": session.id, "cwd": request.directory }, "session_kind": "headless" });
        if let Err(error) = fs::write(session.folder.join("summary.json"), summary.to_string()) {
            complain(&format!("no summary can be written: {error}"));
        }
        session
    }

    fn read(&mut self) {
        let history = fs::read_to_string(self.folder.join("chat_history.jsonl")).unwrap_or_default();
        for line in history.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            let text = |place: &str| line.pointer(place).and_then(Value::as_str).map(str::to_owned);
            match line.get("type").and_then(Value::as_str) {
                Some("user") => self.prompts.extend(text("/content/0/text")),
                Some("assistant") => self.answers.extend(text("/content")),
                _ => {}
            }
        }
    }

    /// Prompts of earlier turns.
    pub(super) fn earlier_prompts(&self) -> &[String] {
        &self.prompts
    }

    /// Answers of earlier turns.
    pub(super) fn earlier_answers(&self) -> &[String] {
        &self.answers
    }

    /// Records a prompt of the user.
    pub(super) fn prompt(&self, text: &str) {
        let content = json!([{ "type": "text", "text": text }]);
        self.remember(&json!({ "type": "user", "content": content, "prompt_index": self.prompts.len() }));
        self.update(
            &json!({ "sessionUpdate": "user_message_chunk", "content": { "type": "text", "text": text } }),
        );
    }

    /// The model has answered.
    pub(super) fn assistant(&self, text: &str, thinking: &str, calls: Vec<Value>) {
        if !thinking.is_empty() {
            let summary = json!([{ "type": "summary_text", "text": thinking }]);
            self.remember(&json!({ "type": "reasoning", "id": "rs_1", "summary": summary }));
        }
        let mut line = json!({ "type": "assistant", "content": text });
        if let (Value::Object(line), false) = (&mut line, calls.is_empty()) {
            line.insert("tool_calls".into(), Value::Array(calls));
        }
        self.remember(&line);
    }

    /// A tool has answered.
    pub(super) fn tool_result(&self, call: &str, text: &str) {
        self.remember(&json!({ "type": "tool_result", "tool_call_id": call, "content": text }));
    }

    /// The servers are connected, each unless it failed.
    pub(super) fn servers_are_there(&self, servers: &Servers) {
        for (name, failure) in servers.states() {
            let kind = if failure.is_some() { "mcp_server_failed" } else { "mcp_server_connected" };
            self.event(&format!("\"type\":\"{kind}\",\"server_name\":{}", Value::from(name)));
        }
        self.event("\"type\":\"mcp_init_completed\"");
    }

    /// Records an event. The fields are in the order of the real program, since readers rely on it.
    fn event(&self, fields: &str) {
        self.append_line("events.jsonl", &format!("{{\"ts\":\"2026-01-01T00:00:00Z\",{fields}}}"));
    }

    /// Records that a model call is repeated.
    pub(super) fn retry(&self, attempt: u32, reason: &str) {
        self.update(&json!({
            "sessionUpdate": "retry_state", "type": "retrying", "attempt": attempt, "max_retries": 3,
            "reason": reason, "error_type": "api",
        }));
    }

    /// The model is given up.
    pub(super) fn failed(&self, reason: &str) {
        self.update(&json!({
            "sessionUpdate": "retry_state", "type": "failed", "error_type": "api", "message": reason,
        }));
    }

    fn remember(&self, line: &Value) {
        self.append("chat_history.jsonl", line);
    }

    fn update(&self, update: &Value) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let millis = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let line = json!({
            "timestamp": now.as_secs(), "method": "session/update",
            "params": { "sessionId": self.id, "update": update, "_meta": { "agentTimestampMs": millis } },
        });
        self.append("updates.jsonl", &line);
    }

    fn append(&self, name: &str, line: &Value) {
        self.append_line(name, &line.to_string());
    }

    fn append_line(&self, name: &str, line: &str) {
        let file = OpenOptions::new().create(true).append(true).open(self.folder.join(name));
        if let Err(error) = file.and_then(|mut file| writeln!(file, "{line}")) {
            complain(&format!("{name} cannot be written: {error}"));
        }
    }
}
