//! An imitation of `codex-acp` 0.16.0, an agent of the Agent Client Protocol. It gives one answer a turn, or an error if the model
//! gives none. It runs no tools.
//!
//! Source: only the agents' messages in the tests of `nexus-backends/src/acp/failure.rs` were recorded from real programs, when the
//! server of their model failed. Everything else here follows the protocol, and was not recorded.

use serde_json::{Value, json};

use super::{
    imitation::{AfterFault, Ask, Ending, Exit, Heard, Imitation, Moment, Next, Reaction, Trouble},
    stage::Stage,
};
use crate::{
    model_call::ModelCall,
    sim::{Fault, Finish, StatusFault, ToolCall},
};

/// The name of its one conversation.
const SESSION: &str = "session-1";

/// Imitates `codex-acp`.
#[derive(Debug, Default)]
pub(super) struct CodexAcp {
    history: ModelCall,
    /// The id of the prompt that runs.
    prompt: Value,
    failure: Option<String>,
    input_is_over: bool,
}

impl CodexAcp {
    /// Answers requests until a turn is requested; `None` at the end of input.
    fn wait_to_be_asked(&mut self, stage: &mut Stage) -> Option<Ask> {
        while let Some(line) = stage.wait_for_line() {
            let Ok(line) = serde_json::from_str::<Value>(&line) else { continue };
            let result = match line["method"].as_str() {
                Some("initialize") => json!({
                    "protocolVersion": 1,
                    "agentCapabilities": {
                        "loadSession": true, "mcpCapabilities": { "http": true },
                        "sessionCapabilities": { "list": {}, "resume": {}, "close": {} },
                    },
                    "agentInfo": { "name": "codex-acp", "version": "0.16.0" },
                }),
                Some("session/new") => {
                    let mode = |id: &str| json!({ "id": id, "name": id });
                    let modes = ["read-only", "auto", "full-access"].map(mode);
                    json!({ "sessionId": SESSION, "modes": { "currentModeId": "auto", "availableModes": modes } })
                }
                Some("session/prompt") => {
                    self.prompt = line["id"].clone();
                    self.failure = None;
                    let blocks = line["params"]["prompt"].as_array().into_iter().flatten();
                    let texts = blocks.filter_map(|block| block["text"].as_str().map(str::to_owned));
                    self.history.user_texts.extend(texts);
                    return Some(Ask::new(self.history.clone()).in_conversation(SESSION));
                }
                _ => json!({}),
            };
            // A message without an id is a notification, which has no response.
            if !line["id"].is_null() {
                stage.line(&json!({ "jsonrpc": "2.0", "id": line["id"], "result": result }));
            }
        }
        None
    }

    fn says(kind: &str, text: &str, stage: &mut Stage) {
        let update = json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } });
        let params = json!({ "sessionId": SESSION, "update": update });
        stage.line(&json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }));
    }

    fn give_up(&mut self, message: impl Into<String>) -> AfterFault {
        self.failure = Some(message.into());
        AfterFault::GiveUp
    }

    fn refused_by_status(&mut self, fault: &StatusFault) -> AfterFault {
        let words = fault.message.as_deref().unwrap_or("The simulated service refuses.");
        let body = fault.body.as_deref().unwrap_or(words);
        match fault.status {
            _ if fault.overloaded => {
                self.give_up("Selected model is at capacity. Please try a different model.")
            }
            _ if fault.limit.is_some() => {
                self.give_up("You\u{2019}ve hit your usage limit. Try again later.")
            }
            400 if fault.body.is_some() => self.give_up(body),
            400 => {
                let code = fault.code.as_deref().unwrap_or("invalid_request_error");
                let body = json!({ "error": { "message": words, "type": code, "code": code } });
                self.give_up(body.to_string())
            }
            429 => self.give_up("exceeded retry limit, last status: 429 Too Many Requests"),
            500 => self.give_up("unexpected status 500 Internal Server Error"),
            status => self.give_up(format!("unexpected status {status}: {body}")),
        }
    }
}

impl Imitation for CodexAcp {
    fn open(&mut self, stage: &mut Stage) -> Result<Ask, Exit> {
        self.wait_to_be_asked(stage).ok_or(Exit::code(0))
    }

    fn objection(&self, _call: &ToolCall) -> Option<String> {
        Some("this imitation runs no tools".to_owned())
    }

    fn show(&mut self, moment: &Moment<'_>, stage: &mut Stage) {
        match moment {
            Moment::Text(piece) => Self::says("agent_message_chunk", piece, stage),
            Moment::Thinking(piece) => Self::says("agent_thought_chunk", piece, stage),
            Moment::MessageEnds { text, .. } if !text.is_empty() => {
                self.history.assistant_texts.push((*text).to_owned());
            }
            _ => {}
        }
    }

    // This imitation never repeats a model call.
    fn trouble(&mut self, trouble: &Trouble<'_>, _tries: u32, _stage: &mut Stage) -> AfterFault {
        const DISCONNECTED: &str = "stream disconnected before completion: ";
        let cut = |words: &str| format!("{DISCONNECTED}{words}");
        match trouble {
            Trouble::Refused => self.give_up("Connection failed: error sending request"),
            Trouble::Fault(Fault::ResetBeforeHeaders) => self.give_up(cut("error sending request")),
            Trouble::Fault(Fault::Garbage) => {
                self.give_up(cut("UTF8 error: invalid utf-8 sequence of 1 bytes from index 0"))
            }
            Trouble::Fault(Fault::Status(fault)) => self.refused_by_status(fault),
            Trouble::Fault(Fault::StreamError { code, .. }) if code.contains("overloaded") => {
                self.give_up("Selected model is at capacity. Please try a different model.")
            }
            Trouble::Fault(Fault::StreamError { message, .. }) => self.give_up(cut(message)),
            Trouble::Fault(Fault::Torn { .. }) => {
                self.give_up(cut("Transport error: network error: error decoding response body"))
            }
            Trouble::Fault(_) => self.give_up(cut("stream closed before response.completed")),
            Trouble::BadEnd(Finish::MaxTokens) => {
                self.give_up("Incomplete response returned, reason: max_output_tokens")
            }
            Trouble::BadEnd(Finish::ContextExceeded) => {
                self.give_up("Codex ran out of room in the model's context window.")
            }
            Trouble::BadEnd(Finish::ContentFilter) => {
                self.give_up(cut("Incomplete response returned, reason: content_filter"))
            }
            Trouble::BadEnd(_) | Trouble::Empty => AfterFault::Accept,
        }
    }

    fn heard(&mut self, heard: &Heard, stage: &mut Stage) -> Reaction {
        match heard {
            Heard::Line(line) => {
                let line: Value = serde_json::from_str(line).unwrap_or_default();
                match line["method"] == "session/cancel" {
                    true => Reaction::Interrupt { ends_tools: true },
                    false => Reaction::GoOn,
                }
            }
            Heard::EndOfInput => {
                self.input_is_over = true;
                Reaction::Interrupt { ends_tools: true }
            }
            Heard::Signal(_) if stage.ignores_signals() => Reaction::GoOn,
            Heard::Signal(number) => Reaction::Die(*number),
        }
    }

    fn close(&mut self, ending: Ending, stage: &mut Stage) -> Next {
        // The agent reports the tokens in the context. It does not report the usage of a turn.
        let update = json!({ "sessionUpdate": "usage_update", "used": 1_200, "size": 258_400 });
        let params = json!({ "sessionId": SESSION, "update": update });
        stage.line(&json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }));
        let mut answer = json!({ "jsonrpc": "2.0", "id": self.prompt });
        match (ending, self.failure.take()) {
            (Ending::Failed, Some(message)) => {
                let data = json!({ "message": message, "codex_error_info": "other" });
                answer["error"] = json!({ "code": -32603, "message": "Internal error", "data": data });
            }
            (Ending::Interrupted, _) => answer["result"] = json!({ "stopReason": "cancelled" }),
            _ => answer["result"] = json!({ "stopReason": "end_turn" }),
        }
        stage.line(&answer);
        if self.input_is_over {
            return Next::Exit(Exit::code(0));
        }
        match self.wait_to_be_asked(stage) {
            Some(ask) => Next::Turn(Box::new(ask)),
            None => Next::Exit(Exit::code(0)),
        }
    }
}
