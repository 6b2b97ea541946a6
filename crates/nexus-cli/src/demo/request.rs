//! A request of the Responses API, as the simulated model reads it.

use serde_json::Value;

/// A request to the simulated model.
#[derive(Debug, Default)]
pub(super) struct ModelRequest {
    pub(super) model: String,
    /// All system text.
    pub(super) system: String,
    /// Texts of the user, oldest first.
    pub(super) user_texts: Vec<String>,
    /// Tool calls of the model, oldest first.
    pub(super) calls: Vec<AnsweredCall>,
    /// Names of the offered tools.
    pub(super) tools: Vec<String>,
    /// True if the answer must be an event stream.
    pub(super) is_streamed: bool,
    /// Number of items in the conversation so far.
    pub(super) items: usize,
}

/// A tool call and its answer.
#[derive(Debug)]
pub(super) struct AnsweredCall {
    id: String,
    pub(super) tool: String,
    pub(super) arguments: Value,
    /// Empty until the answer is in the conversation.
    pub(super) answer: String,
}

impl ModelRequest {
    /// Reads the parts that the model uses. It ignores unknown parts, as a model would.
    pub(super) fn read(body: &Value) -> Self {
        let text = |key: &str| text_at(body, key).to_owned();
        let tools = list(&body["tools"]).iter().map(|tool| text_at(tool, "name").to_owned());
        let mut request = Self {
            model: text("model"),
            system: text("instructions"),
            tools: tools.collect(),
            is_streamed: body["stream"] == true,
            ..Self::default()
        };
        // The Responses API takes a plain text or a list of items.
        match &body["input"] {
            Value::String(text) => request.user_texts.push(text.clone()),
            input => list(input).iter().for_each(|item| request.add(item)),
        }
        request.items = list(&body["input"]).len();
        request
    }

    fn add(&mut self, item: &Value) {
        let text = |key: &str| text_at(item, key).to_owned();
        match text_at(item, "type") {
            "function_call" => self.calls.push(AnsweredCall {
                id: text("call_id"),
                tool: text("name"),
                arguments: serde_json::from_str(text_at(item, "arguments")).unwrap_or_default(),
                answer: String::new(),
            }),
            "function_call_output" => {
                let id = text_at(item, "call_id");
                if let Some(call) = self.calls.iter_mut().rev().find(|call| call.id == id) {
                    call.answer = content(&item["output"]);
                }
            }
            // A message may leave out its type.
            "message" | "" => match text_at(item, "role") {
                "user" => self.user_texts.push(content(&item["content"])),
                "system" | "developer" => {
                    self.system.push('\n');
                    self.system.push_str(&content(&item["content"]));
                }
                _ => {}
            },
            _ => {}
        }
    }

    /// Returns true if the model may call this tool.
    pub(super) fn offers(&self, tool: &str) -> bool {
        self.tools.iter().any(|offered| offered == tool)
    }

    /// Returns the last answer of this tool.
    pub(super) fn answer_of(&self, tool: &str) -> Option<&str> {
        self.calls.iter().rev().find(|call| call.tool == tool).map(|call| call.answer.as_str())
    }
}

pub(super) fn text_at<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns the text of a content: a string, or parts with texts.
pub(super) fn content(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        parts => list(parts).iter().map(|part| text_at(part, "text")).collect::<Vec<_>>().join("\n"),
    }
}
