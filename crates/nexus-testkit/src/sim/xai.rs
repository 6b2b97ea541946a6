//! xAI's variant of Responses, as Grok uses it, with its other endpoints.
//!
//! Source: observed with grok 1.0.41.

mod strict;

use serde_json::{Value, json};

use super::conversation::Conversation;
use super::fault::{Fault, StatusFault};
use super::model;
use super::own_loop;
use super::reply::Reply;
use super::responses::stream::{Flavour, WireCall};
use super::responses::{self, request};
use super::server::{Arrival, ModelCall, Route};
use super::tool_call::ToolCall;
use super::wire::Answer;

/// Sorts a request.
pub(super) fn route(arrival: &Arrival<'_>) -> Route {
    match (arrival.method, arrival.path) {
        ("POST", path) if path.ends_with("/responses") => {
            let conversation = request::read(arrival);
            if let Some(refusal) = strict::refusal(arrival, &conversation) {
                Route::Refused(conversation, refusal)
            } else if is_side_call(arrival) {
                let answer = answer_side_call(&conversation);
                Route::Side(conversation, answer)
            } else {
                Route::Main(conversation)
            }
        }
        ("GET", path) if path.ends_with("/models") => {
            Route::Housekeeping(model::catalogue(arrival, model::xai))
        }
        ("GET", path) if path.ends_with("/user") => Route::Housekeeping(Answer::json(
            200,
            &json!({"user_id": "user-sim", "email": "someone@example.test"}),
        )),
        ("GET", path) if path.ends_with("/settings") || path.ends_with("/feedback/config") => {
            Route::Housekeeping(Answer::json(200, &json!({})))
        }
        // This server has no bundles and no page for the key. The program continues without them.
        ("GET", path)
            if path.ends_with("/api-key")
                || path.ends_with("/bundle/archive")
                || path.ends_with("/subagents/bundle") =>
        {
            Route::Housekeeping(Answer::json(404, &json!({"code": "not-found", "error": "Not found"})))
        }
        ("HEAD" | "GET", "/") => Route::Housekeeping(Answer::whole(200, "text/plain", "")),
        _ => Route::Unknown,
    }
}

/// Says `reply` to `call`.
pub(super) fn answer(call: &ModelCall<'_>, reply: &Reply) -> Answer {
    let answer = match &reply.fault {
        Some(Fault::Status(fault)) => refuse(fault),
        Some(Fault::Error200 { code, message }) => flat(200, code, message),
        _ => responses::common_answer(call, reply, Flavour::Xai),
    };
    // Grok reads the size of the window from this header.
    responses::finish(answer.header("x-grok-context-window", 500_000), reply)
}

/// A tool call in Grok's words, for the tools that the request offered.
pub(super) fn render_call(call: &ToolCall, offered: &Conversation) -> WireCall {
    if let Some((name, arguments)) = own_loop::render(call, offered) {
        return WireCall::Function { namespace: None, name, arguments: arguments.to_string() };
    }
    let (name, arguments): (String, Value) = match call {
        ToolCall::Shell { command } => {
            ("run_terminal_command".into(), json!({"command": command, "description": "Run a command"}))
        }
        // Some sets of Grok's tools have no `write`. An empty old text creates the file then.
        ToolCall::WriteFile { path, text }
            if offered.tool("write").is_none() && offered.tool("search_replace").is_some() =>
        {
            ("search_replace".into(), json!({"file_path": path, "old_string": "", "new_string": text}))
        }
        ToolCall::WriteFile { path, text } => ("write".into(), json!({"file_path": path, "content": text})),
        ToolCall::ReadFile { path } => ("read_file".into(), json!({ "target_file": path })),
        ToolCall::Mcp { server, tool, arguments } => {
            ("use_tool".into(), json!({"tool_name": format!("{server}__{tool}"), "tool_input": arguments}))
        }
        ToolCall::Function { name, arguments, .. } => (name.clone(), arguments.clone()),
        ToolCall::RawFunction { name, arguments } => {
            return WireCall::Function { namespace: None, name: name.clone(), arguments: arguments.clone() };
        }
        ToolCall::Custom { name, input, .. } => {
            return WireCall::Custom { namespace: None, name: name.clone(), input: input.clone() };
        }
    };
    WireCall::Function { namespace: None, name, arguments: arguments.to_string() }
}

/// A call of Grok's program outside of the turn: the title and the summary carry no turn index.
/// Other clients make none.
fn is_side_call(arrival: &Arrival<'_>) -> bool {
    let from_the_program = arrival.header("user-agent").is_some_and(|agent| agent.starts_with("grok-shell"));
    from_the_program && arrival.header("x-grok-turn-idx").is_none()
}

fn answer_side_call(conversation: &Conversation) -> Answer {
    let call = ModelCall { number: 0, conversation, cloud: None, call_id: None };
    let reply = match conversation.tool("session_title") {
        Some(_) => {
            Reply::call(ToolCall::function("session_title", json!({"session_title": "Simulated session"})))
        }
        None => Reply::text("Simulated summary"),
    };
    responses::common_answer(&call, &reply, Flavour::Xai)
}

/// An error body: two flat fields.
fn flat(status: u16, code: &str, message: &str) -> Answer {
    Answer::json(status, &json!({"code": code, "error": message}))
}

/// xAI's refusal.
fn refuse(fault: &StatusFault) -> Answer {
    let status = fault.status;
    let (code, message) = match (status, &fault.limit) {
        (_, Some(_)) => {
            ("subscription:free-usage-exhausted", "You have used all of your included usage for now.")
        }
        _ if fault.overloaded => ("The service is currently unavailable", "The model is at capacity."),
        (400, _) => ("invalid-argument", "Simulated invalid request."),
        (401, _) => ("unauthenticated:bad-credentials", "Simulated refusal of the access token."),
        (402, _) => ("personal-team-blocked:spending-limit", "Simulated spending limit."),
        (403, _) => ("permission-denied", "Simulated lack of permission."),
        (404, _) => ("not-found", "Simulated unknown model."),
        (408, _) => ("deadline-exceeded", "The request took too long to arrive."),
        (413, _) => ("payload-too-large", "Simulated request too large."),
        (429, _) => ("resource-exhausted", "Too many requests, please slow down."),
        _ => ("internal", "Simulated server error."),
    };
    let mut answer = match &fault.body {
        Some(body) => {
            Answer::whole(status, fault.content_type.as_deref().unwrap_or("application/json"), body.clone())
        }
        None => {
            let code = fault.code.as_deref().unwrap_or(code);
            flat(status, code, fault.message.as_deref().unwrap_or(message))
        }
    };
    answer.headers.extend(fault.retry_headers());
    answer
}
