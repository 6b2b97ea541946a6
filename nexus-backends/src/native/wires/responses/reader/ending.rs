//! The terminal event, and its information about the whole response.

use http::header::HeaderMap;
use nexus_core::{ErrorKind, ModelId, TurnEvent, harness::Failure};
use serde_json::Value;

use super::{CallEnding, ResponseReader, parse, parse_raw};
use crate::native::outcome::{ErrorBody, ErrorReply, error_headers, judge};
use crate::native::usage;
use crate::native::wires::responses::wire::{Response, ResponseEvent};

/// Maximum number of items of one reply. Source: our own bound.
const MAX_ITEMS: usize = 65_536;

/// Outcome that the type of a terminal event states, for a response without a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Terminal {
    Completed,
    Incomplete,
    Failed,
}

impl Terminal {
    /// Returns the outcome for the type of an event; `None` for other events.
    pub(super) fn of(kind: &str) -> Option<Self> {
        Some(match kind {
            "response.completed" | "response.done" => Self::Completed,
            "response.incomplete" | "response.cancelled" => Self::Incomplete,
            "response.failed" => Self::Failed,
            _ => return None,
        })
    }
}

impl ResponseReader {
    pub(super) fn terminal(
        &mut self,
        terminal: Terminal,
        data: &str,
        events: &mut Vec<TurnEvent>,
    ) -> Result<(), serde_json::Error> {
        let event: ResponseEvent<'_> = parse(data)?;
        self.end(terminal, event.response.0.unwrap_or_default(), events);
        Ok(())
    }

    /// Handles the end of the response.
    pub(super) fn end(&mut self, terminal: Terminal, response: Response<'_>, events: &mut Vec<TurnEvent>) {
        self.model = response.model().or_else(|| self.model.take());
        if let Some(report) = &response.usage.0 {
            self.usage = Some(usage::usage(report));
            self.cost = usage::cost(report);
        }
        if response.output.0.len() > MAX_ITEMS {
            return self.too_long(&format!("{MAX_ITEMS} items"));
        }
        // Most servers streamed all items before, so only the rest is read here.
        for item in self.slots.reconcile(&response.output.0) {
            let Ok(raw) = parse_raw(item.json) else { continue };
            match item.slot {
                Some(slot) => self.fill(slot, raw, events),
                None => self.item_done(Some(item.position), raw, events),
            }
        }
        // Responses without an error usually contain `null` here.
        let error = response.error.filter(|error| error.get() != "null");
        // The status takes precedence: some servers complete a failed response with `response.completed`.
        let terminal = match response.status.as_str() {
            "completed" => Terminal::Completed,
            "failed" => Terminal::Failed,
            "incomplete" | "cancelled" => Terminal::Incomplete,
            "" if error.is_some() => Terminal::Failed,
            _ => terminal,
        };
        match terminal {
            Terminal::Completed => {
                self.ending = Some(CallEnding::Completed { end_turn: response.end_turn.0 });
            }
            Terminal::Incomplete => {
                let reason = response.incomplete_details.0.map(|details| details.reason.0.into_owned());
                let reason = reason.filter(|reason| !reason.is_empty());
                let status = || match response.status.as_str() {
                    "" => "incomplete".to_owned(),
                    status => status.to_owned(),
                };
                self.ending = Some(CallEnding::Incomplete { reason: reason.unwrap_or_else(status) });
            }
            Terminal::Failed => match error.and_then(|error| serde_json::from_str(error.get()).ok()) {
                Some(error) => self.fail(&error),
                None => self.awaits_reason = true,
            },
        }
    }

    /// Ends the reply with a failure, because it is longer than `bound`.
    pub(super) fn too_long(&mut self, bound: &str) {
        let failure = Failure::new(ErrorKind::Protocol, format!("the reply is longer than {bound}"));
        self.ending = Some(CallEnding::Failed(failure));
    }

    /// Stores the response headers that matter to an error in its stream.
    pub(crate) fn answer_has(&mut self, headers: &HeaderMap) {
        self.error_headers = error_headers(headers);
    }

    /// Returns true if the response failed without a reason, which may be in the next event. Source: observed with
    /// Azure, where an `error` event follows.
    pub(crate) fn awaits_reason(&self) -> bool {
        self.awaits_reason && self.ending.is_none()
    }

    /// Ends the reply with an error of the server.
    pub(super) fn fail(&mut self, error: &Value) {
        let failure = self.judged(error);
        self.ending = Some(CallEnding::Failed(failure));
    }

    pub(super) fn judged(&self, error: &Value) -> Failure {
        let body = ErrorBody::of(error);
        let reply = ErrorReply { status: None, headers: &self.error_headers, body: &body };
        judge(&reply, self.dialect.failure(&reply))
    }
}

impl Response<'_> {
    pub(super) fn model(&self) -> Option<ModelId> {
        (!self.model.is_empty()).then(|| self.model.as_str().into())
    }

    /// Returns true if the object has none of a response's fields.
    pub(super) fn is_empty(&self) -> bool {
        self.status.is_empty() && self.id.is_empty() && self.output.0.is_empty()
    }
}
