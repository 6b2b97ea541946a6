//! OpenAI Responses, as Codex uses it: the classic request and the lite one, whose tools travel inside
//! the input and are called from JavaScript.
//!
//! Source: observed with codex 0.169.0.

pub(super) mod refuse;
pub(super) mod request;
pub(super) mod stream;
mod strict;
pub(super) mod tools;

use super::fault::Fault;
use super::model;
use super::reply::Reply;
use super::server::{Arrival, ModelCall, Route};
use super::wire::{Answer, Before};
use stream::Flavour;

/// Sorts a request.
pub(super) fn route(arrival: &Arrival<'_>) -> Route {
    match (arrival.method, arrival.path) {
        ("POST", path) if path.ends_with("/responses") => {
            let conversation = request::read(arrival);
            match strict::refusal(arrival, &conversation) {
                Some(refusal) => Route::Refused(conversation, refusal),
                None => Route::Main(conversation),
            }
        }
        // A Codex client names its version; without a catalogue it falls back to the one it was built with.
        ("GET", path) if path.ends_with("/models") => {
            // Other clients of this API could not read the catalogue in Codex's form.
            let is_codex = arrival.query.split('&').any(|pair| pair.starts_with("client_version="));
            let is_public_plan = arrival.scenario.models.iter().any(|model| model.public_plan);
            let shape = if is_codex || is_public_plan { model::codex } else { model::plain };
            Route::Housekeeping(model::catalogue(arrival, shape))
        }
        ("HEAD" | "GET", "/") => Route::Housekeeping(Answer::whole(200, "text/plain", "")),
        _ => Route::Unknown,
    }
}

/// Says `reply` to `call`.
pub(super) fn answer(call: &ModelCall<'_>, reply: &Reply) -> Answer {
    let mut answer = match &reply.fault {
        Some(Fault::Status(fault)) => refuse::answer(call.number, fault),
        Some(Fault::Error200 { code, message }) => refuse::with_status(200, code, message),
        _ => common_answer(call, reply, Flavour::OpenAi),
    };
    // The service names model and machine only with an answer of the model.
    if answer.status == 200 {
        let model = call.conversation.model.as_deref().unwrap_or("simulated");
        answer = answer.header("openai-model", model).header("x-codex-turn-state", turn_state(call.number));
    }
    if let Some(limit) = &reply.rate_limit {
        answer.headers.extend(refuse::limit_headers(limit));
    }
    answer = answer.header("x-request-id", format!("req_sim_{:04}", call.number));
    finish(answer, reply)
}

/// Builds every answer except a bare status. The two flavours differ only in events.
pub(super) fn common_answer(call: &ModelCall<'_>, reply: &Reply, flavour: Flavour) -> Answer {
    if let Some(answer) = reply.fault.as_ref().and_then(Answer::instead) {
        return answer;
    }
    match &reply.fault {
        Some(Fault::Unstreamed) => stream::unstreamed(call, reply, flavour),
        fault => stream::streamed(call, reply, flavour).mangled(fault.as_ref()),
    }
}

/// Token that a client returns with the next call of the same turn, so that the call reaches the same machine.
fn turn_state(number: usize) -> String {
    format!("simulated-turn-state-{number:04}")
}

/// Adds the delay and the headers of the reply.
pub(super) fn finish(mut answer: Answer, reply: &Reply) -> Answer {
    answer.before = Before::of(reply);
    answer.headers.extend(reply.headers.iter().cloned());
    answer
}
