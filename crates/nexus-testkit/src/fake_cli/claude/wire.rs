//! The lines of a turn as Claude Code 2.1.197 writes them. Source: its recordings.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    super::{notes::Given, servers::Answer, stage::Stage},
    session::Session,
};
use crate::sim::{ToolCall, Usage};

/// Writes the lines of messages.
#[derive(Debug, Default)]
pub(super) struct Wire {
    session: String,
    model: String,
    messages: u32,
    id: String,
    has_started: bool,
    is_streamless: bool,
    blocks: u32,
    open: Option<(Kind, String)>,
    confirmed: Vec<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
}

impl Wire {
    /// `system/init`.
    pub(super) fn init(
        &mut self,
        session: &Session,
        given: &Given,
        tools: &[String],
        servers: &[Value],
        stage: &mut Stage,
    ) {
        session.id().clone_into(&mut self.session);
        given.value_of("--model").unwrap_or("claude-opus-4-8[1m]").clone_into(&mut self.model);
        let key = if given.variable("ANTHROPIC_API_KEY").is_some() { "ANTHROPIC_API_KEY" } else { "none" };
        let mut line = json!({
            "type": "system", "subtype": "init", "cwd": given.directory, "session_id": self.session,
            "mcp_servers": servers, "model": self.model,
            "permissionMode": given.value_of("--permission-mode").unwrap_or("default"),
            "slash_commands": [], "apiKeySource": key, "claude_code_version": "2.1.197", "output_style": "default",
            "agents": [], "skills": [], "plugins": [],
        });
        if let Some(tools) = stage.named_tools(tools) {
            line["tools"] = json!(tools);
        }
        stage.line(&line);
    }

    /// A model call starts.
    pub(super) fn call_begins(&mut self, is_streamless: bool, stage: &mut Stage) {
        self.messages += 1;
        self.id = format!("msg_fake_{}_{}", std::process::id(), self.messages);
        (self.has_started, self.is_streamless, self.blocks) = (false, is_streamless, 0);
        self.open = None;
        // Blocks of an abandoned call do not count for the repetition.
        self.confirmed.clear();
        if !is_streamless {
            stage.line(&json!({
                "type": "system", "subtype": "status", "status": "requesting", "session_id": self.session,
            }));
        }
    }

    pub(super) fn text(&mut self, piece: &str, stage: &mut Stage) {
        self.piece(Kind::Text, piece, stage);
    }

    pub(super) fn thinking(&mut self, piece: &str, stage: &mut Stage) {
        self.piece(Kind::Thinking, piece, stage);
    }

    /// A tool call, whole.
    pub(super) fn tool(&mut self, id: &str, name: &str, input: &Value, stage: &mut Stage) {
        self.start(stage);
        self.close_block(stage);
        let block = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
        self.event(
            &json!({ "type": "content_block_start", "index": self.blocks, "content_block": block }),
            stage,
        );
        let delta = json!({ "type": "input_json_delta", "partial_json": input.to_string() });
        self.event(&json!({ "type": "content_block_delta", "index": self.blocks, "delta": delta }), stage);
        self.confirm(json!({ "type": "tool_use", "id": id, "name": name, "input": input }), stage);
    }

    /// The message is over.
    pub(super) fn message_ends(&mut self, stop_reason: &str, usage: Option<&Usage>, stage: &mut Stage) {
        self.start(stage);
        self.close_block(stage);
        if self.is_streamless {
            for block in std::mem::take(&mut self.confirmed) {
                self.assistant(&block, Some((stop_reason, usage)), stage);
            }
            return;
        }
        let delta = json!({ "stop_reason": stop_reason, "stop_sequence": null });
        self.event(&json!({ "type": "message_delta", "delta": delta, "usage": counts(usage) }), stage);
        self.event(&json!({ "type": "message_stop" }), stage);
    }

    /// Returns true if a block of the message was complete.
    pub(super) fn has_confirmed(&self) -> bool {
        !self.is_streamless && !self.confirmed.is_empty()
    }

    /// Writes the received part of an interrupted message as confirmed.
    pub(super) fn interrupted(&mut self, stage: &mut Stage) {
        if let Some((kind, text)) = self.open.take() {
            self.assistant(&kind.block(&text), None, stage);
        }
    }

    /// Writes a message from the CLI to the model.
    pub(super) fn nudge(&mut self, text: &str, stage: &mut Stage) {
        let content = json!([{ "type": "text", "text": text }]);
        self.user(&content, stage);
    }

    /// Writes a tool result: `told` is its text for the model.
    pub(super) fn tool_ends(&mut self, id: &str, told: &str, answer: &Answer, stage: &mut Stage) {
        let is_whole = told == answer.text();
        let content = match answer.content.is_empty() || !is_whole {
            true => json!(told),
            false => answer.content.iter().map(block).collect(),
        };
        let mut result = json!({ "tool_use_id": id, "type": "tool_result", "content": content });
        if answer.outcome.is_err() {
            // Claude Code reports the result of a failed call as text, without its other blocks.
            (result["content"], result["is_error"]) = (json!(told), json!(true));
        }
        let whole = match &answer.outcome {
            Ok(text) if answer.content.is_empty() => json!(text),
            Ok(_) => answer.content.iter().map(block).collect(),
            Err(text) => json!(format!("Error: {text}")),
        };
        stage.line(&json!({
            "type": "user", "message": { "role": "user", "content": [result] }, "parent_tool_use_id": null,
            "session_id": self.session, "tool_use_result": whole,
        }));
    }

    /// A repeat is announced.
    pub(super) fn api_retry(
        &mut self,
        attempt: u32,
        wait: Duration,
        status: Option<u16>,
        error: &str,
        stage: &mut Stage,
    ) {
        stage.line(&json!({
            "type": "system", "subtype": "api_retry", "attempt": attempt, "max_retries": 10,
            "retry_delay_ms": wait.as_secs_f64() * 1000.0, "error_status": status, "error": error,
            "session_id": self.session,
        }));
    }

    /// Writes the state of the subscription's limit.
    pub(super) fn rate_limit(&mut self, status: &str, resets_at: u64, utilization: f64, stage: &mut Stage) {
        let mut info = json!({ "status": status, "isUsingOverage": false });
        // The window is optional on this wire: some recordings of the real program lack it.
        if resets_at > 0 {
            info["resetsAt"] = json!(resets_at);
            info["rateLimitType"] = json!("five_hour");
            info["utilization"] = json!(utilization);
        }
        stage.line(
            &json!({ "type": "rate_limit_event", "rate_limit_info": info, "session_id": self.session }),
        );
    }

    /// Writes a failure in place of the model's message.
    pub(super) fn synthetic(&mut self, class: &str, sentence: &str, stage: &mut Stage) {
        let id = format!("synthetic-{}-{}", std::process::id(), self.messages);
        stage.line(&json!({
            "type": "assistant",
            "message": {
                "id": id, "type": "message", "role": "assistant", "model": "<synthetic>",
                "content": [{ "type": "text", "text": sentence }], "stop_reason": "stop_sequence",
                "usage": { "input_tokens": 0, "output_tokens": 0 },
            },
            "parent_tool_use_id": null, "session_id": self.session, "error": class,
        }));
    }

    fn piece(&mut self, kind: Kind, piece: &str, stage: &mut Stage) {
        self.start(stage);
        if self.open.as_ref().is_some_and(|(open, _)| *open != kind) {
            self.close_block(stage);
        }
        if self.open.is_none() {
            self.open = Some((kind, String::new()));
            let block = kind.block("");
            self.event(
                &json!({ "type": "content_block_start", "index": self.blocks, "content_block": block }),
                stage,
            );
        }
        let delta = match kind {
            Kind::Text => json!({ "type": "text_delta", "text": piece }),
            Kind::Thinking => json!({ "type": "thinking_delta", "thinking": piece }),
        };
        self.event(&json!({ "type": "content_block_delta", "index": self.blocks, "delta": delta }), stage);
        if let Some((_, text)) = &mut self.open {
            text.push_str(piece);
        }
    }

    fn start(&mut self, stage: &mut Stage) {
        if std::mem::replace(&mut self.has_started, true) {
            return;
        }
        let message = json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": [],
            "stop_reason": null, "usage": { "input_tokens": 0, "output_tokens": 1 },
        });
        self.event(&json!({ "type": "message_start", "message": message }), stage);
    }

    fn close_block(&mut self, stage: &mut Stage) {
        if let Some((kind, text)) = self.open.take() {
            self.confirm(kind.block(&text), stage);
        }
    }

    /// The block is complete.
    fn confirm(&mut self, block: Value, stage: &mut Stage) {
        if !self.is_streamless {
            self.assistant(&block, None, stage);
        }
        // Without streaming, the blocks wait for the end of the message and are written together.
        self.confirmed.push(block);
        if self.is_streamless {
            return;
        }
        self.event(&json!({ "type": "content_block_stop", "index": self.blocks }), stage);
        self.blocks += 1;
    }

    fn assistant(&mut self, block: &Value, end: Option<(&str, Option<&Usage>)>, stage: &mut Stage) {
        let (stop_reason, usage) = match end {
            Some((stop_reason, usage)) => (json!(stop_reason), counts(usage)),
            None => (Value::Null, json!({ "input_tokens": 0, "output_tokens": 1 })),
        };
        stage.line(&json!({
            "type": "assistant",
            "message": {
                "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": [block],
                "stop_reason": stop_reason, "usage": usage,
            },
            "parent_tool_use_id": null, "session_id": self.session,
        }));
    }

    fn user(&self, content: &Value, stage: &mut Stage) {
        stage.line(&json!({
            "type": "user", "message": { "role": "user", "content": content }, "parent_tool_use_id": null,
            "session_id": self.session,
        }));
    }

    fn event(&self, event: &Value, stage: &mut Stage) {
        if !self.is_streamless {
            // Claude Code writes the type first, and readers may rely on that.
            let line = format!(
                "{{\"type\":\"stream_event\",\"event\":{},\"session_id\":\"{}\",\"parent_tool_use_id\":null}}\n",
                type_first(event),
                self.session,
            );
            stage.write(line.as_bytes());
        }
    }
}

impl Kind {
    fn block(self, text: &str) -> Value {
        match self {
            Self::Text => json!({ "type": "text", "text": text }),
            Self::Thinking => json!({ "type": "thinking", "thinking": text, "signature": "" }),
        }
    }
}

/// Converts a block of a server's answer to the format of the API.
fn block(block: &Value) -> Value {
    match block["type"].as_str() {
        Some("image") => json!({ "type": "image", "source": {
            "type": "base64", "media_type": block["mimeType"], "data": block["data"],
        }}),
        Some("text") => json!({ "type": "text", "text": block["text"] }),
        _ => json!({ "type": "text", "text": block.to_string() }),
    }
}

/// The object with its `type` in front.
fn type_first(event: &Value) -> String {
    let kind = event["type"].to_string();
    let rest: serde_json::Map<String, Value> = event
        .as_object()
        .map(|fields| {
            fields
                .iter()
                .filter(|(name, _)| *name != "type")
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect()
        })
        .unwrap_or_default();
    let rest = Value::Object(rest).to_string();
    match rest.strip_prefix('{') {
        Some("}") | None => format!("{{\"type\":{kind}}}"),
        Some(rest) => format!("{{\"type\":{kind},{rest}"),
    }
}

/// The counts of one call, as the API words them.
fn counts(usage: Option<&Usage>) -> Value {
    match usage {
        Some(usage) => json!({
            "input_tokens": usage.input, "cache_read_input_tokens": usage.cached,
            "cache_creation_input_tokens": usage.cache_write, "output_tokens": usage.output + usage.reasoning,
        }),
        None => json!({ "output_tokens": 0 }),
    }
}

/// The harness's name for the tool.
pub(super) fn tool_name(call: &ToolCall) -> String {
    match call {
        ToolCall::Shell { .. } => "Bash".to_owned(),
        ToolCall::WriteFile { .. } => "Write".to_owned(),
        ToolCall::ReadFile { .. } => "Read".to_owned(),
        ToolCall::Mcp { server, tool, .. } => format!("mcp__{server}__{tool}"),
        ToolCall::Function { name, .. }
        | ToolCall::RawFunction { name, .. }
        | ToolCall::Custom { name, .. } => name.clone(),
    }
}

/// The arguments as the harness takes them.
pub(super) fn tool_input(call: &ToolCall) -> Value {
    match call {
        ToolCall::Shell { command } => json!({ "command": command }),
        ToolCall::WriteFile { path, text } => json!({ "file_path": path, "content": text }),
        ToolCall::ReadFile { path } => json!({ "file_path": path }),
        ToolCall::Mcp { arguments, .. } | ToolCall::Function { arguments, .. } => arguments.clone(),
        ToolCall::RawFunction { arguments, .. } => {
            json!({ "__unparsedToolInput": { "raw": arguments, "len": arguments.len() } })
        }
        ToolCall::Custom { input, .. } => json!({ "input": input }),
    }
}
