//! The Gemini API, as Google's server speaks it.
//!
//! Source: the API reference, and the service definition `google/ai/generativelanguage/v1beta` of the repository
//! googleapis.

mod refuse;
mod request;
mod stream;
mod strict;

use super::fault::Fault;
use super::model;
use super::reply::Reply;
use super::responses::finish;
use super::server::{Arrival, ModelCall, Route};
use super::wire::Answer;

/// Ends of the path of a model call.
const CALLS: [&str; 2] = [":streamGenerateContent", ":generateContent"];

/// Returns true for the path of a model call.
pub(super) fn is_call(path: &str) -> bool {
    // This part of the name matches `models/` and `tunedModels/`.
    path.contains("odels/") && CALLS.iter().any(|end| path.ends_with(end))
}

/// Sorts a request.
pub(super) fn route(arrival: &Arrival<'_>) -> Route {
    match (arrival.method, arrival.path) {
        ("POST", path) if is_call(path) => {
            let conversation = request::read(arrival);
            match strict::refusal(arrival) {
                Some(refusal) => Route::Refused(conversation, refusal),
                None => Route::Main(conversation),
            }
        }
        ("GET", path) if path.ends_with("/models") => {
            Route::Housekeeping(model::catalogue(arrival, model::gemini))
        }
        ("HEAD" | "GET", "/") => Route::Housekeeping(Answer::whole(200, "text/plain", "")),
        _ => Route::Unknown,
    }
}

/// Says `reply` to `call`.
pub(super) fn answer(call: &ModelCall<'_>, reply: &Reply) -> Answer {
    let answer = match &reply.fault {
        Some(Fault::Status(fault)) => refuse::answer(fault),
        Some(Fault::Error200 { code, message }) => Answer::json(200, &refuse::error(500, code, message)),
        Some(Fault::Unstreamed) => stream::unstreamed(call, reply),
        fault => match fault.as_ref().and_then(Answer::instead) {
            Some(answer) => answer,
            None => stream::streamed(call, reply).mangled(fault.as_ref()),
        },
    };
    finish(answer.header("x-gemini-service-tier", "standard"), reply)
}
