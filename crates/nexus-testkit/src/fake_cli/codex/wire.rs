//! The app server's output of a turn, modelled on recorded lines.

use serde_json::{Value, json};

use super::{
    super::{servers::Answer, stage::Stage},
    servers,
};
use crate::sim::{ToolCall, Usage};

/// State of the output of a turn.
#[derive(Debug, Default)]
pub(super) struct Wire {
    pub(super) thread: String,
    pub(super) turn: String,
    items: u32,
    reasoning: Option<(String, String)>,
    message: Option<String>,
    total: Tokens,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tokens {
    input: u64,
    cached: u64,
    cache_write: u64,
    output: u64,
    reasoning: u64,
}

impl Wire {
    pub(super) fn notify(&self, method: &str, mut params: Value, stage: &mut Stage) {
        if let Some(params) = params.as_object_mut() {
            // Every notification names its thread, because one program may serve several.
            params.insert("threadId".into(), json!(self.thread));
        }
        stage.line(&json!({ "method": method, "params": params, "emittedAtMs": 0 }));
    }

    fn item(&self, method: &str, item: &Value, stage: &mut Stage) {
        self.notify(method, json!({ "item": item, "turnId": self.turn }), stage);
    }

    pub(super) fn turn_notification(&self, method: &str, status: &str, error: &Value, stage: &mut Stage) {
        let turn = json!({
            "id": self.turn, "rootTurnId": self.turn, "items": [], "itemsView": "notLoaded",
            "status": status, "error": error,
        });
        self.notify(method, json!({ "turn": turn }), stage);
    }

    fn name(&mut self, prefix: &str) -> String {
        self.items += 1;
        format!("{prefix}_{}", self.items)
    }

    pub(super) fn user_message(&mut self, name: &Value, content: &Value, stage: &mut Stage) {
        let id = self.name("user");
        let item = json!({ "type": "userMessage", "id": id, "clientId": name, "content": content });
        self.item("item/started", &item, stage);
        self.item("item/completed", &item, stage);
    }

    /// Begins a model call. Items that an earlier call left open are not ended.
    pub(super) fn call_begins(&mut self) {
        (self.reasoning, self.message) = (None, None);
    }

    pub(super) fn thinking(&mut self, piece: &str, stage: &mut Stage) {
        if self.reasoning.is_none() {
            let id = self.name("rs");
            let item = json!({ "type": "reasoning", "id": id, "summary": [], "content": [] });
            self.item("item/started", &item, stage);
            let part = json!({ "itemId": id, "summaryIndex": 0, "turnId": self.turn });
            self.notify("item/reasoning/summaryPartAdded", part, stage);
            self.reasoning = Some((id, String::new()));
        }
        if let Some((id, text)) = &mut self.reasoning {
            text.push_str(piece);
            let delta = json!({ "itemId": id, "delta": piece, "summaryIndex": 0, "turnId": self.turn });
            self.notify("item/reasoning/summaryTextDelta", delta, stage);
        }
    }

    fn thinking_ends(&mut self, stage: &mut Stage) {
        if let Some((id, text)) = self.reasoning.take() {
            let item = json!({ "type": "reasoning", "id": id, "summary": [text], "content": [] });
            self.item("item/completed", &item, stage);
        }
    }

    pub(super) fn text(&mut self, piece: &str, stage: &mut Stage) {
        self.thinking_ends(stage);
        let id = match self.message.clone() {
            Some(id) => id,
            None => {
                let id = self.name("msg");
                self.item("item/started", &json!({ "type": "agentMessage", "id": id, "text": "" }), stage);
                self.message.insert(id).clone()
            }
        };
        let delta = json!({ "itemId": id, "delta": piece, "turnId": self.turn });
        self.notify("item/agentMessage/delta", delta, stage);
    }

    pub(super) fn message_ends(&mut self, text: &str, stage: &mut Stage) {
        self.thinking_ends(stage);
        if let Some(id) = self.message.take() {
            self.item("item/completed", &json!({ "type": "agentMessage", "id": id, "text": text }), stage);
        }
    }

    pub(super) fn usage(&mut self, usage: Option<&Usage>, stage: &mut Stage) {
        if let Some(usage) = usage {
            let last = Tokens {
                input: usage.input + usage.cached + usage.cache_write,
                cached: usage.cached,
                cache_write: usage.cache_write,
                output: usage.output + usage.reasoning,
                reasoning: usage.reasoning,
            };
            // Codex reports the sum of the thread and the last call, and clients need the second.
            self.total = self.total.plus(last);
            let usage = json!({ "total": self.total.written(), "last": last.written() });
            let parameters = json!({ "turnId": self.turn, "tokenUsage": usage });
            self.notify("thread/tokenUsage/updated", parameters, stage);
        }
        self.rate_limits(&Value::Null, &Value::Null, stage);
    }

    pub(super) fn rate_limits(&self, primary: &Value, reached: &Value, stage: &mut Stage) {
        let limits = json!({ "limitId": "codex", "primary": primary, "secondary": null, "rateLimitReachedType": reached });
        stage.line(&json!({ "method": "account/rateLimits/updated", "params": { "rateLimits": limits } }));
    }

    pub(super) fn tool_begins(&self, id: &str, call: &ToolCall, stage: &mut Stage) {
        let item = tool_item(id, call, "inProgress", None);
        self.item("item/started", &item, stage);
    }

    pub(super) fn tool_ends(&self, id: &str, call: &ToolCall, answer: &Answer, stage: &mut Stage) {
        let status = if answer.outcome.is_ok() { "completed" } else { "failed" };
        self.item("item/completed", &tool_item(id, call, status, Some(answer)), stage);
    }

    pub(super) fn error(
        &self,
        message: &str,
        info: &Value,
        details: &Value,
        will_retry: bool,
        stage: &mut Stage,
    ) {
        let error = json!({ "message": message, "codexErrorInfo": info, "additionalDetails": details });
        let parameters = json!({ "error": error, "turnId": self.turn, "willRetry": will_retry });
        self.notify("error", parameters, stage);
    }
}

impl Tokens {
    fn plus(self, other: Self) -> Self {
        Self {
            input: self.input + other.input,
            cached: self.cached + other.cached,
            cache_write: self.cache_write + other.cache_write,
            output: self.output + other.output,
            reasoning: self.reasoning + other.reasoning,
        }
    }

    fn written(self) -> Value {
        json!({
            "totalTokens": self.input + self.output, "inputTokens": self.input,
            "cachedInputTokens": self.cached, "cacheWriteInputTokens": self.cache_write,
            "outputTokens": self.output, "reasoningOutputTokens": self.reasoning,
        })
    }
}

fn tool_item(id: &str, call: &ToolCall, status: &str, answer: Option<&Answer>) -> Value {
    match call {
        ToolCall::WriteFile { path, text } => json!({
            "type": "fileChange", "id": id, "status": status,
            "changes": [{ "path": path, "kind": { "type": "add" }, "diff": text }],
        }),
        ToolCall::Mcp { server, tool, arguments } => {
            servers::item(id, (server, tool, arguments), status, answer)
        }
        call => json!({
            "type": "commandExecution", "id": id, "status": status, "source": "unifiedExecStartup",
            "command": format!("/bin/bash -lc '{}'", super::command(call)),
            "aggregatedOutput": answer.map(Answer::text),
            "exitCode": answer.map(|answer| i32::from(answer.outcome.is_err())),
        }),
    }
}
