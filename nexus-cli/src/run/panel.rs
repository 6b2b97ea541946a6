//! `nexus run` of a panel: every seat at once, shown as it goes.

use std::{
    io::{self, IsTerminal as _},
    process::ExitCode,
    sync::{Mutex, PoisonError},
    task::{Context, Poll},
};

use futures::future::join_all;
use nexus::{EventEnvelope, EventSink, PanelOutcome, Router, Seat, SeatOutcome, TurnHost, TurnRequest, Vote};
use serde_json::{Value, json};

use super::seat_board::SeatBoard;
use crate::{
    EXIT_FAILED,
    args::RunArgs,
    command_error::CommandError,
    output::{complain_line, printable_lines, say, say_json},
    printer::PrintStyle,
};

pub(super) async fn run_panel(
    router: &Router,
    args: &RunArgs,
    request: TurnRequest,
    host: &TurnHost,
    style: PrintStyle,
) -> Result<ExitCode, CommandError> {
    let seats = router.seats(args.kind.as_str())?;
    let shows_board = !args.json && !args.quiet;
    let board = shows_board.then(|| Mutex::new(SeatBoard::new(io::stderr(), style, &seats)));
    let turns = seats.iter().map(|seat| {
        let host = host.clone();
        let mut events = SeatEvents { seat: seat.index, as_json: args.json, board: board.as_ref() };
        let request = request.clone();
        async move {
            let outcome = router.run_seat(seat, request, host, &mut events).await;
            events.ended(&outcome);
            outcome
        }
    });
    let panel = PanelOutcome::new(args.kind.as_str(), join_all(turns).await);
    if !args.json {
        for seat in &panel.seats {
            say(section(seat));
        }
    }
    let spread = panel.spread().len();
    if shows_board {
        let (answered, seats) = (panel.answers().count(), panel.seats.len());
        complain_line(format_args!("= {answered} of {seats} seats answered, from {spread} vendors"));
    }
    Ok(if spread == 0 { ExitCode::from(EXIT_FAILED) } else { ExitCode::SUCCESS })
}

fn section(seat: &SeatOutcome) -> String {
    // Only a terminal obeys control characters; a file gets the answer as it is.
    let shown = |text: &str| match io::stdout().is_terminal() {
        true => printable_lines(text),
        false => text.to_owned(),
    };
    match seat.vote() {
        Vote::Answer(result) => {
            let answer = result.output.as_ref().map_or_else(|| result.text.clone(), Value::to_string);
            format!("## {} · {}\n\n{}\n", seat.seat, seat.backend, shown(&answer))
        }
        Vote::None(reason) => format!("## {} · no vote\n\n{}\n", seat.seat, shown(&reason)),
    }
}

/// The events of one seat, on their way to the board or to standard output.
struct SeatEvents<'a> {
    seat: usize,
    as_json: bool,
    board: Option<&'a Mutex<SeatBoard<io::Stderr>>>,
}

impl SeatEvents<'_> {
    fn ended(&self, outcome: &SeatOutcome) {
        if let Some(board) = self.board {
            board.lock().unwrap_or_else(PoisonError::into_inner).ended(outcome);
        }
        if self.as_json {
            let seat = describe(&outcome.seat);
            say_json(&match (&outcome.outcome, outcome.vote()) {
                (Ok(result), Vote::Answer(_)) => {
                    json!({ "seat": seat, "vendor": outcome.vendor, "result": result })
                }
                (Ok(result), Vote::None(reason)) => {
                    json!({ "seat": seat, "vendor": outcome.vendor, "no_vote": reason, "result": result })
                }
                (Err(error), _) => {
                    json!({ "seat": seat, "no_vote": error.to_string(), "error": error.report() })
                }
            });
        }
    }
}

fn describe(seat: &Seat) -> Value {
    let lens = seat.lens.as_ref().map(|lens| &lens.name);
    json!({ "index": seat.index, "group": seat.binding.group, "lens": lens })
}

impl EventSink for SeatEvents<'_> {
    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    fn accept(&mut self, event: EventEnvelope) {
        if self.as_json {
            say_json(&json!({ "seat": self.seat, "event": event }));
        }
        if let Some(board) = self.board {
            board.lock().unwrap_or_else(PoisonError::into_inner).event(self.seat, &event.event);
        }
    }
}
