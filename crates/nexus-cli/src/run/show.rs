//! Outputs of a turn: text for people, lines of JSON, or none.

use std::{
    collections::BTreeSet,
    io,
    task::{Context, Poll},
    time::Instant,
};

use nexus::{
    Continuity, EventEnvelope, EventSink, Shortfall, TurnError, TurnErrorReport, TurnResult, Usage, Usd,
    VendorId,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    command_error::{ErrorLine, with_causes},
    output::{complain, printable, say_json},
    printer::TurnPrinter,
    schema::foreign::{EventSchema, ResultSchema, TurnErrorSchema},
};

/// Event of `nexus run`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum RunEvent {
    /// An event of the turn.
    Event {
        /// The seat whose turn it is, in a panel.
        #[serde(skip_serializing_if = "Option::is_none")]
        seat: Option<usize>,
        /// The event.
        #[schemars(with = "EventSchema")]
        event: EventEnvelope,
    },
    /// The turn continued earlier turns of its conversation.
    Conversation {
        /// The conversation.
        conversation: TurnConversation,
    },
    /// The turn succeeded.
    Result {
        /// Result of the turn.
        #[schemars(with = "ResultSchema")]
        result: Box<TurnResult>,
    },
    /// The turn of a seat ended.
    Seat(Box<EndedSeat>),
    /// The panel ended.
    Panel(EndedPanel),
}

/// Conversation of a turn.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TurnConversation {
    /// Its name.
    pub(super) name: String,
    /// Way in which the turn continued the earlier ones.
    #[schemars(with = "serde_json::Value")]
    pub(super) how: Continuity,
    /// True if the turn is stored in the conversation.
    pub(super) stored: bool,
}

/// End of the turn of a seat.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EndedSeat {
    /// The seat.
    pub(super) seat: VotingSeat,
    /// The company behind the backend that ran it.
    #[schemars(with = "Option<String>")]
    pub(super) vendor: Option<VendorId>,
    /// Reason why the seat gave no vote, if it gave none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) no_vote: Option<String>,
    /// Result of its turn, if that succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ResultSchema>")]
    pub(super) result: Option<TurnResult>,
    /// Error of its turn, if that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<TurnErrorSchema>")]
    pub(super) error: Option<TurnErrorReport>,
}

/// Seat of a panel.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct VotingSeat {
    /// Its number, from 0.
    pub(super) index: usize,
    /// Its group.
    pub(super) group: String,
    /// Its lens, if it has one.
    pub(super) lens: Option<String>,
}

/// End of a panel.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EndedPanel {
    /// The panel.
    pub(super) panel: String,
    /// Number of vendors that must answer.
    pub(super) min_vendors: usize,
    /// Vendors that answered.
    #[schemars(with = "BTreeSet<String>")]
    pub(super) vendors: BTreeSet<VendorId>,
    /// Reason why the panel does not count, if it does not.
    #[schemars(with = "Option<serde_json::Value>")]
    pub(super) shortfall: Option<Shortfall>,
    /// Usage of all seats together.
    #[schemars(with = "serde_json::Value")]
    pub(super) usage: Usage,
    /// Cost of all seats together, as far as it is known.
    #[schemars(with = "serde_json::Value")]
    pub(super) cost_usd: Option<Usd>,
}

/// Shows a turn in one of the ways that the command line offers.
pub(crate) trait Show: Send {
    /// Takes the events while the turn runs.
    fn as_events(&mut self) -> &mut dyn EventSink;

    /// Shows the outcome of the turn.
    fn outcome(&mut self, outcome: &Result<TurnResult, TurnError>, began: Instant);

    /// Returns true if the answer was shown to a person as it arrived.
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
        // Writing a line blocks, so there is never a queue to wait for.
        Poll::Ready(())
    }

    fn accept(&mut self, event: EventEnvelope) {
        say_json(&RunEvent::Event { seat: None, event });
    }
}

impl Show for JsonLines {
    fn as_events(&mut self) -> &mut dyn EventSink {
        self
    }

    fn outcome(&mut self, outcome: &Result<TurnResult, TurnError>, _began: Instant) {
        match outcome {
            Ok(result) => say_json(&RunEvent::Result { result: Box::new(result.clone()) }),
            Err(error) => say_json(&ErrorLine::of_turn(with_causes(error), error.report())),
        }
    }

    fn has_shown_answer(&self) -> bool {
        // The line of the result contains the answer.
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
