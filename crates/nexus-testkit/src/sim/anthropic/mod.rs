//! Anthropic Messages, as Claude Code uses it: the streamed call, its unstreamed repeat, and the
//! endpoints beside them.
//!
//! Source: observed with claude 2.1.197 and 2.1.329.

mod refuse;
mod request;
mod stream;
mod strict;
mod tools;

use serde_json::{Value, json};

use super::cloud::{self, Cloud, CloudCall};
use super::fault::Fault;
use super::model::{self, Model};
use super::reply::Reply;
use super::server::{Arrival, ModelCall, Route};
use super::wire::{Answer, Before, Step};

/// Sorts a request.
pub(super) fn route(arrival: &Arrival<'_>) -> Route {
    match (arrival.method, arrival.path) {
        ("POST", path) if path == "/v1/messages" || CloudCall::of(path).is_some() => {
            let conversation = request::read(arrival);
            // Sort out side calls first: the quota probe has a shape that the strict check would reject.
            if request::is_side_call(arrival.json) {
                let answer =
                    stream::answer_side_call(&conversation, CloudCall::of(path).map(|call| call.cloud));
                Route::Side(conversation, answer)
            } else if let Some(refusal) = strict::refusal(arrival) {
                Route::Refused(conversation, refusal)
            } else {
                Route::Main(conversation)
            }
        }
        ("POST", "/v1/messages/count_tokens") => {
            // Four bytes a token is close enough for a client that checks the size of a text.
            let tokens = arrival.json.to_string().len() / 4;
            Route::Housekeeping(Answer::json(200, &json!({ "input_tokens": tokens })))
        }
        // Claude Code tests the connection with this request before its first call.
        ("HEAD" | "GET", "/") => Route::Housekeeping(Answer::whole(200, "text/plain", "")),
        ("GET", "/v1/models") => Route::Housekeeping(model::catalogue(arrival, list)),
        ("HEAD" | "GET", "/api/hello") => {
            Route::Housekeeping(Answer::json(200, &json!({"message": "hello"})))
        }
        // Answer for an account without managed settings, policy and feature flags.
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

/// The list of models.
fn list(models: &[Model]) -> Value {
    let entry = |known: &Model| json!({"type": "model", "id": known.name, "display_name": known.name, "created_at": "2026-01-01T00:00:00Z"});
    json!({"data": models.iter().map(entry).collect::<Vec<_>>(), "has_more": false})
}

/// Says `reply` to `call`.
pub(super) fn answer(call: &ModelCall<'_>, reply: &Reply) -> Answer {
    let mut answer = match reply.fault.as_ref().and_then(Answer::instead) {
        Some(answer) => answer,
        None => scripted(call, reply).mangled(reply.fault.as_ref()),
    };
    answer.before = Before::of(reply);
    if let Some(limit) = &reply.rate_limit {
        answer.headers.extend(refuse::limit_headers(limit));
    }
    answer.headers.extend(reply.headers.iter().cloned());
    // Convert the finished answer, so that all errors of the API also exist in Bedrock's form.
    if call.cloud == Some(Cloud::Bedrock) && answer.status >= 400 {
        answer = cloud::refused(answer);
    }
    answer.header("request-id", format!("req_sim_{:04}", call.number))
}

fn scripted(call: &ModelCall<'_>, reply: &Reply) -> Answer {
    match &reply.fault {
        Some(Fault::Status(fault)) => refuse::answer(call.number, fault),
        Some(Fault::Error200 { code, message }) => refuse::with_status(200, call.number, code, message),
        Some(Fault::Unstreamed) => stream::unstreamed(call, reply),
        _ if call.conversation.stream && call.cloud == Some(Cloud::Bedrock) => {
            cloud::framed(stream::streamed(call, reply))
        }
        // The arms below are for calls without a stream, whose faults need another form.
        _ if call.conversation.stream => stream::streamed(call, reply),
        Some(Fault::Stall { .. }) => stream::unstreamed(call, reply).broken_off(0, Step::Stall(None)),
        Some(Fault::Torn { cut } | Fault::TornCharacter { cut }) => {
            // Twenty bytes are inside of the JSON head, so the body is never complete by chance.
            stream::unstreamed(call, reply).broken_off(20, Step::Cut(*cut))
        }
        Some(Fault::StreamError { code, message } | Fault::ErrorLine { code, message }) => {
            refuse::in_place_of(call.number, code, message)
        }
        _ => stream::unstreamed(call, reply),
    }
}
