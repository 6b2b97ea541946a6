//! The program `smalltalk`, which this example plays itself: an agent loop with a model that follows a script.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use nexus_testkit::{
    fake_cli::{AfterFault, Ask, Ending, Exit, Imitation, Moment, Next, Stage, Trouble},
    model_call::ModelCall,
    sim::{Fault, Finish, ToolCall},
};
use serde_json::{Value, json};

/// Name under which the example starts itself as the program.
pub(crate) const NAME: &str = "smalltalk";

/// Number of model calls before the program gives up on an answer that breaks off.
const TRIES: u32 = 3;

/// State of the agent loop, with the inputs so far.
#[derive(Debug, Default)]
pub(crate) struct Program {
    asked: ModelCall,
    calls: u32,
    max_calls: Option<u32>,
    tool_calls: u32,
    /// Running tool calls, by the id that the model gave. Two calls can have the same id.
    running: HashMap<String, VecDeque<String>>,
}

impl Program {
    /// Reads the next line of standard input; `None` at its end.
    fn listen(&mut self, stage: &mut Stage) -> Option<Ask> {
        let line: Value = serde_json::from_str(&stage.wait_for_line()?).ok()?;
        if let Some(system) = line["system"].as_str() {
            system.clone_into(&mut self.asked.system);
        }
        let texts = line["texts"].as_array().into_iter().flatten().filter_map(Value::as_str);
        self.asked.user_texts.extend(texts.map(str::to_owned));
        Some(Ask::new(self.asked.clone()))
    }

    /// Returns the line for a new tool call, under an id of the program.
    fn tool_call(&mut self, id: &str, call: &ToolCall) -> Value {
        let (name, input) = words_of(call);
        self.tool_calls += 1;
        let own = format!("call-{}", self.tool_calls);
        self.running.entry(id.to_owned()).or_default().push_back(own.clone());
        json!({ "type": "tool_call", "id": own, "name": name, "input": input })
    }

    /// Returns the id that the program gave to a call that ends.
    fn ended(&mut self, id: &str) -> Option<String> {
        self.running.get_mut(id)?.pop_front()
    }
}

impl Imitation for Program {
    fn open(&mut self, stage: &mut Stage) -> Result<Ask, Exit> {
        let arguments = stage.given().arguments.clone();
        let value = |name: &str| arguments.iter().skip_while(|word| *word != name).nth(1);
        self.asked.model = value("--model").cloned();
        self.max_calls = value("--max-calls").and_then(|calls| calls.parse().ok());
        if value("--tools").is_some_and(|tools| tools == "all") {
            self.asked.tools = ["shell", "write_file", "read_file"].map(str::to_owned).to_vec();
        }
        self.listen(stage).ok_or(Exit::code(2))
    }

    fn objection(&self, call: &ToolCall) -> Option<String> {
        let name = words_of(call).0;
        (!self.asked.tools.contains(&name)).then(|| format!("there is no tool named {name:?}"))
    }

    fn is_at_its_limit(&self) -> bool {
        self.max_calls.is_some_and(|limit| self.calls >= limit)
    }

    fn show(&mut self, moment: &Moment<'_>, stage: &mut Stage) {
        self.calls += u32::from(matches!(moment, Moment::CallBegins { .. }));
        let line = match moment {
            Moment::CallBegins { .. } => json!({ "type": "asking" }),
            Moment::Text(text) => json!({ "type": "text", "text": text }),
            Moment::Thinking(text) => json!({ "type": "thinking", "text": text }),
            Moment::MessageEnds { text, usage, .. } => json!({
                "type": "message", "text": text,
                "usage": usage.map(|usage| json!({
                    "input_tokens": usage.input, "cache_read_tokens": usage.cached,
                    "output_tokens": usage.output, "reasoning_tokens": usage.reasoning,
                })),
            }),
            Moment::ToolBegins { id, call } => self.tool_call(id, call),
            Moment::ToolEnds { id, call, answer, is_denied } => {
                // A denied call has no `ToolBegins`, so print the call here.
                if *is_denied {
                    stage.line(&self.tool_call(id, call));
                }
                let status = match (is_denied, &answer.outcome) {
                    (true, _) => "denied",
                    (false, Ok(_)) => "succeeded",
                    (false, Err(_)) => "failed",
                };
                json!({ "type": "tool_result", "id": self.ended(id), "status": status, "text": answer.text() })
            }
            _ => return,
        };
        stage.line(&line);
    }

    fn trouble(&mut self, trouble: &Trouble<'_>, tries: u32, stage: &mut Stage) -> AfterFault {
        let may_pass = matches!(
            trouble,
            Trouble::Fault(
                Fault::Torn { .. }
                    | Fault::NoEnd
                    | Fault::TornCharacter { .. }
                    | Fault::Length { .. }
                    | Fault::ResetBeforeHeaders
            )
        );
        if may_pass && tries < TRIES {
            stage.line(&json!({ "type": "retry", "attempt": tries + 1, "reason": "the answer broke off" }));
            return AfterFault::AskAgain(Duration::from_millis(10));
        }
        let code = match trouble {
            Trouble::Refused => "unreachable",
            Trouble::Fault(_) if may_pass => "unreachable",
            Trouble::Fault(Fault::Status(status)) if status.overloaded => "overloaded",
            Trouble::Fault(Fault::Status(status)) if status.limit.is_some() => "plan_used_up",
            Trouble::Fault(Fault::Status(status)) => match status.status {
                401 => "unauthenticated",
                403 => "forbidden",
                404 => "no_such_model",
                429 => "rate_limited",
                400..=499 => "bad_request",
                _ => "server",
            },
            Trouble::Fault(Fault::StreamError { .. } | Fault::ErrorLine { .. }) => "server",
            Trouble::Fault(Fault::Html200) => "unreachable",
            Trouble::BadEnd(Finish::Refusal | Finish::ContentFilter) => "refused",
            Trouble::BadEnd(Finish::ContextExceeded) => "too_long",
            Trouble::BadEnd(_) | Trouble::Empty => "incomplete",
            _ => "unreadable",
        };
        let (after, resets) = match trouble {
            Trouble::Fault(Fault::Status(status)) => {
                (status.retry_after, status.limit.as_ref().map(|limit| limit.resets_at))
            }
            _ => (None, None),
        };
        stage.line(&json!({
            "type": "error", "code": code, "message": format!("the model failed: {code}"),
            "after_seconds": after, "resets_at": resets,
        }));
        AfterFault::GiveUp
    }

    fn close(&mut self, ending: Ending, stage: &mut Stage) -> Next {
        if ending == Ending::Failed && self.is_at_its_limit() {
            stage.line(
                &json!({ "type": "error", "code": "max_calls", "message": "no more calls of the model" }),
            );
        }
        if ending != Ending::Answered {
            return Next::Exit(Exit::code(1));
        }
        stage.line(&json!({ "type": "done" }));
        match self.listen(stage) {
            Some(ask) => Next::Turn(Box::new(ask)),
            None => Next::Exit(Exit::code(0)),
        }
    }
}

/// Returns the name and the arguments of a call, as the program reports them.
fn words_of(call: &ToolCall) -> (String, Value) {
    match call {
        ToolCall::Shell { command } => ("shell".to_owned(), json!({ "command": command })),
        ToolCall::WriteFile { path, text } => {
            ("write_file".to_owned(), json!({ "path": path, "text": text }))
        }
        ToolCall::ReadFile { path } => ("read_file".to_owned(), json!({ "path": path })),
        other => (format!("{other:?}"), Value::Null),
    }
}
