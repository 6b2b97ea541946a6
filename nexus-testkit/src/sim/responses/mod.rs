//! OpenAI Responses, as Codex uses it: the classic request and the lite one, whose tools travel inside
//! the input and are called from JavaScript.
//!
//! Source: observed with codex 0.169.0.

mod refuse;
pub(super) mod request;
pub(super) mod stream;
mod tools;

use std::time::Duration;

use serde_json::json;

use super::fault::Fault;
use super::reply::Reply;
use super::server::{Arrival, ModelCall, Route};
use super::wire::{Answer, Before};
use stream::Flavour;

/// Sorts a request.
pub(super) fn route(arrival: &Arrival<'_>) -> Route {
    match (arrival.method, arrival.path) {
        ("POST", path) if path.ends_with("/responses") => Route::Main(request::read(arrival)),
        // Without a catalogue of its own a Codex client falls back to the one it was built with.
        ("GET", path) if path.ends_with("/models") => Route::Housekeeping(catalogue(arrival.models)),
        ("HEAD" | "GET", "/") => Route::Housekeeping(Answer::whole(200, "text/plain", "")),
        _ => Route::Unknown,
    }
}

/// The models a server offers; 404 when the scenario names none.
pub(super) fn catalogue(models: &[String]) -> Answer {
    if models.is_empty() {
        return Answer::json(404, &json!({"error": {"message": "no catalogue here"}}));
    }
    let data: Vec<_> =
        models.iter().map(|id| json!({"id": id, "object": "model", "owned_by": "simulator"})).collect();
    Answer::json(200, &json!({"object": "list", "data": data}))
}

/// Says `reply` to `call`.
pub(super) fn answer(call: &ModelCall<'_>, reply: &Reply) -> Answer {
    let mut answer = match &reply.fault {
        Some(Fault::Status(fault)) => refuse::answer(call.number, fault),
        _ => common_answer(call, reply, Flavour::OpenAi),
    };
    if let Some(limit) = &reply.rate_limit {
        answer.headers.extend(refuse::limit_headers(limit));
    }
    answer = answer.header("x-request-id", format!("req_sim_{:04}", call.number));
    finish(answer, reply)
}

/// Every answer that is not a status: the two flavours differ in events alone.
pub(super) fn common_answer(call: &ModelCall<'_>, reply: &Reply, flavour: Flavour) -> Answer {
    match &reply.fault {
        Some(Fault::Html200) => Answer::html(),
        Some(Fault::Garbage) => Answer::garbage(),
        _ => stream::streamed(call, reply, flavour),
    }
}

/// Adds what the reply itself says about its head.
pub(super) fn finish(mut answer: Answer, reply: &Reply) -> Answer {
    answer.before = match &reply.fault {
        Some(Fault::StallBeforeHeaders) => Before::Stall,
        Some(Fault::ResetBeforeHeaders) => Before::Reset,
        _ => Before::Wait(Duration::from_millis(reply.pace.delay_ms)),
    };
    answer.headers.extend(reply.headers.iter().cloned());
    answer
}
