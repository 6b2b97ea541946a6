//! Chat Completions, as servers of many vendors speak it.
//!
//! Source: the public API reference; errors and comments in a stream as OpenRouter and vLLM document them.

mod request;
mod stream;
mod strict;

use super::fault::Fault;
use super::model;
use super::reply::Reply;
use super::responses::{finish, refuse};
use super::server::{Arrival, ModelCall, Route};
use super::wire::Answer;

/// Sorts a request.
pub(super) fn route(arrival: &Arrival<'_>) -> Route {
    match (arrival.method, arrival.path) {
        ("POST", path) if path.ends_with("/chat/completions") => {
            let conversation = request::read(arrival);
            match strict::refusal(arrival) {
                Some(refusal) => Route::Refused(conversation, refusal),
                None => Route::Main(conversation),
            }
        }
        ("GET", path) if path.ends_with("/models") => {
            Route::Housekeeping(model::catalogue(arrival, model::plain))
        }
        ("HEAD" | "GET", "/") => Route::Housekeeping(Answer::whole(200, "text/plain", "")),
        _ => Route::Unknown,
    }
}

/// Says `reply` to `call`.
pub(super) fn answer(call: &ModelCall<'_>, reply: &Reply) -> Answer {
    let answer = match &reply.fault {
        Some(Fault::Status(fault)) => refuse::answer(call.number, fault),
        Some(Fault::Error200 { code, message }) => refuse::with_status(200, code, message),
        Some(Fault::Unstreamed) => stream::unstreamed(call, reply),
        // Faults of the whole answer come before the stream, because they leave nothing of it.
        fault => match fault.as_ref().and_then(Answer::instead) {
            Some(answer) => answer,
            None => stream::streamed(call, reply).mangled(fault.as_ref()),
        },
    };
    finish(answer.header("x-request-id", format!("req_sim_{:04}", call.number)), reply)
}
