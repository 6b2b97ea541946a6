//! The ways in which a turn is shown: to a person, as lines of JSON, or not at all.

use std::{
    io,
    task::{Context, Poll},
    time::Instant,
};

use nexus::{EventEnvelope, EventSink, TurnError, TurnResult};
use serde_json::json;

use crate::{
    output::{complain, printable, say_json},
    printer::TurnPrinter,
};

/// Shows a turn in one of the ways that the command line offers.
pub(super) trait Show: Send {
    /// Takes the events while the turn runs.
    fn as_events(&mut self) -> &mut dyn EventSink;

    /// Shows how the turn ended.
    fn outcome(&mut self, outcome: &Result<TurnResult, TurnError>, began: Instant);

    /// Whether a person has seen the answer as it came.
    fn has_shown_answer(&self) -> bool;
}

impl<W: io::Write + Send> Show for TurnPrinter<W> {
    fn as_events(&mut self) -> &mut dyn EventSink {
        self
    }

    fn outcome(&mut self, outcome: &Result<TurnResult, TurnError>, began: Instant) {
        TurnPrinter::outcome(self, outcome, began.elapsed());
    }

    fn has_shown_answer(&self) -> bool {
        self.is_intact()
    }
}

/// One line of JSON per event, then one for the outcome.
pub(super) struct JsonLines;

impl EventSink for JsonLines {
    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    fn accept(&mut self, event: EventEnvelope) {
        say_json(&json!({ "event": event }));
    }
}

impl Show for JsonLines {
    fn as_events(&mut self) -> &mut dyn EventSink {
        self
    }

    fn outcome(&mut self, outcome: &Result<TurnResult, TurnError>, _began: Instant) {
        say_json(&match outcome {
            Ok(result) => json!({ "result": result }),
            Err(error) => json!({ "error": error.report() }),
        });
    }

    fn has_shown_answer(&self) -> bool {
        true
    }
}

/// Shows nothing; an error still goes to standard error.
pub(super) struct Quiet;

impl EventSink for Quiet {
    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    fn accept(&mut self, _event: EventEnvelope) {}
}

impl Show for Quiet {
    fn as_events(&mut self) -> &mut dyn EventSink {
        self
    }

    fn outcome(&mut self, outcome: &Result<TurnResult, TurnError>, _began: Instant) {
        if let Err(error) = outcome {
            let causes: String = error.report().causes.iter().map(|cause| format!(": {cause}")).collect();
            complain(printable(&format!("{error}{causes}")));
        }
    }

    fn has_shown_answer(&self) -> bool {
        false
    }
}
