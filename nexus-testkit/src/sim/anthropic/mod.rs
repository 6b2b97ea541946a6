//! Anthropic Messages, as Claude Code uses it: the streamed call, its unstreamed repeat, and the
//! endpoints beside them.
//!
//! Source: observed with claude 2.1.197 and 2.1.329.

mod refuse;
mod request;
mod stream;
mod tools;

use serde_json::json;

use super::fault::Fault;
use super::reply::Reply;
use super::server::{Arrival, ModelCall, Route};
use super::wire::{Answer, Before, Step};

/// Sorts a request.
pub(super) fn route(arrival: &Arrival<'_>) -> Route {
    match (arrival.method, arrival.path) {
        ("POST", "/v1/messages") => {
            let conversation = request::read(arrival);
            if request::is_side_call(arrival.json) {
                let answer = stream::answer_side_call(&conversation);
                Route::Side(conversation, answer)
            } else {
                Route::Main(conversation)
            }
        }
        ("POST", "/v1/messages/count_tokens") => {
            // Four bytes to a token is close enough for a client that asks whether a text is large.
            let tokens = arrival.json.to_string().len() / 4;
            Route::Housekeeping(Answer::json(200, &json!({ "input_tokens": tokens })))
        }
        ("HEAD" | "GET", "/") => Route::Housekeeping(Answer::whole(200, "text/plain", "")),
        ("GET", "/v1/models") => {
            let created = "2026-01-01T00:00:00Z";
            let model = |id| json!({"type": "model", "id": id, "display_name": id, "created_at": created});
            let models: Vec<_> = arrival.models.iter().map(model).collect();
            Route::Housekeeping(Answer::json(200, &json!({"data": models, "has_more": false})))
        }
        ("HEAD" | "GET", "/api/hello") => {
            Route::Housekeeping(Answer::json(200, &json!({"message": "hello"})))
        }
        // No managed settings, no policy, no feature flags: what an account without any gets.
        (_, path) if path.starts_with("/api/claude_") || path.starts_with("/api/eval/") => {
            Route::Housekeeping(Answer::json(
                404,
                &json!({"type": "error", "error": {"type": "not_found_error", "message": "Not found"}}),
            ))
        }
        ("POST", path) if path.starts_with("/api/event_logging") => {
            Route::Housekeeping(Answer::json(200, &json!({})))
        }
        _ => Route::Unknown,
    }
}

/// Says `reply` to `call`.
pub(super) fn answer(call: &ModelCall<'_>, reply: &Reply) -> Answer {
    let mut answer = match &reply.fault {
        Some(Fault::StallBeforeHeaders) => {
            let mut answer = Answer::events([]);
            answer.before = Before::Stall;
            return answer;
        }
        Some(Fault::ResetBeforeHeaders) => {
            let mut answer = Answer::events([]);
            answer.before = Before::Reset;
            return answer;
        }
        Some(Fault::Status(fault)) => refuse::answer(call.number, fault),
        Some(Fault::Html200) => Answer::html(),
        Some(Fault::Garbage) => Answer::garbage(),
        _ if call.conversation.stream => stream::streamed(call, reply),
        Some(Fault::Stall { .. }) => stream::unstreamed(call, reply).broken_off(0, Step::Stall(None)),
        Some(Fault::Torn { cut }) => stream::unstreamed(call, reply).broken_off(20, Step::Cut(*cut)),
        Some(Fault::StreamError { code, message }) => refuse::in_place_of(call.number, code, message),
        None => stream::unstreamed(call, reply),
    };
    answer.before = Before::Wait(std::time::Duration::from_millis(reply.pace.delay_ms));
    if let Some(limit) = &reply.rate_limit {
        answer.headers.extend(refuse::limit_headers(limit));
    }
    answer.headers.extend(reply.headers.iter().cloned());
    answer.header("request-id", format!("req_sim_{:04}", call.number))
}
