//! `nexus run` of a panel: all seats run at once, and their progress is shown.

use std::{
    io::{self, IsTerminal as _},
    process::ExitCode,
    task::{Context, Poll},
};

use nexus::{
    PanelSink, RecordError, RecordFile, Router, Seat, SeatEvent, SeatOutcome, TurnHost, TurnRecording,
    TurnRequest, Vote, spending::WorkLabel,
};
use serde_json::Value;

use super::{
    seat_board::SeatBoard,
    show::{EndedPanel, EndedSeat, RunEvent, VotingSeat},
};
use crate::{
    EXIT_FAILED,
    args::RunArgs,
    command_error::CommandError,
    output::{AnswerWriter, complain, complain_line, printable_lines, say, say_json},
    printer::PrintStyle,
    screen::ScreenWriter,
};

pub(super) async fn run_panel(
    out: AnswerWriter,
    router: &Router,
    (args, kind): (&RunArgs, &str),
    request: TurnRequest,
    host: &TurnHost,
    style: PrintStyle,
) -> Result<ExitCode, CommandError> {
    // A seat has no type of its own.
    let router = router.snapshot().labelled(WorkLabel::Type, kind);
    let panel = router.panel(kind)?;
    let shows_board = !out.is_json() && !args.quiet;
    let board = shows_board.then(|| SeatBoard::new(ScreenWriter, style, &panel.seats));
    let file = args.keep.as_deref().map(super::open).transpose()?;
    // Begin all records before a turn runs, so that a file that cannot be written costs no turns.
    let record = |file: &RecordFile| {
        let name = |seat: &Seat| format!("{kind}, seat {}: {seat}", seat.index);
        let begun = panel.seats.iter().map(|seat| Ok(Some(file.begin(name(seat), &request, host)?)));
        begun.collect::<Result<Vec<_>, RecordError>>()
    };
    let recordings =
        file.as_ref().map_or_else(|| Ok(Vec::new()), record).map_err(|error| super::unwritten(&error))?;
    let mut shown = ShownPanel { out, board, recordings, unwritten: None };
    let ask = |_: &Seat| (request.clone(), host.clone());
    let outcome = router.run_panel(&panel, ask, &mut shown).await;
    let shortfall = outcome.shortfall();
    let vendors = outcome.spread();
    let ended = || {
        RunEvent::Panel(EndedPanel {
            panel: outcome.panel.clone(),
            min_vendors: outcome.min_vendors,
            vendors: vendors.iter().map(|&vendor| vendor.clone()).collect(),
            shortfall: shortfall.clone(),
            usage: outcome.usage(),
            cost_usd: outcome.cost(),
        })
    };
    out.event(ended, || outcome.seats.iter().for_each(|seat| say(section(seat))));
    if shows_board {
        let (answered, seats, vendors) = (outcome.answers().count(), outcome.seats.len(), vendors.len());
        let (s, least) = (if vendors == 1 { "" } else { "s" }, outcome.min_vendors);
        complain_line(format_args!(
            "= {answered} of {seats} seats answered, from {vendors} vendor{s} ({least} required)"
        ));
    }
    // This is reported even without the board, since the exit code alone does not show the reason.
    if let Some(shortfall) = shortfall.as_ref().filter(|_| !out.is_json()) {
        complain(format_args!("the panel is not valid: {shortfall}"));
    }
    if let Some(error) = shown.unwritten {
        return Err(super::unwritten(&error));
    }
    Ok(if shortfall.is_some() { ExitCode::from(EXIT_FAILED) } else { ExitCode::SUCCESS })
}

fn section(seat: &SeatOutcome) -> String {
    // A terminal obeys control characters, so they are removed. A file gets the answer unchanged.
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

/// Sink for the events of a panel: forwards them to the board or to standard output.
struct ShownPanel {
    out: AnswerWriter,
    board: Option<SeatBoard<ScreenWriter>>,
    /// Recordings of the seats that still run, if the panel is recorded.
    recordings: Vec<Option<TurnRecording>>,
    /// First error of a recording.
    unwritten: Option<RecordError>,
}

impl PanelSink for ShownPanel {
    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    fn accept(&mut self, event: SeatEvent) {
        if let Some(Some(recording)) = self.recordings.get_mut(event.seat) {
            recording.event(&event.event);
        }
        if let Some(board) = &mut self.board {
            board.event(event.seat, &event.event.event);
        }
        self.out.event(|| RunEvent::Event { seat: Some(event.seat), event: event.event }, || ());
    }

    fn ended(&mut self, outcome: &SeatOutcome) {
        if let Some(recording) = self.recordings.get_mut(outcome.seat.index).and_then(Option::take)
            && let Err(error) = recording.end(&outcome.outcome)
        {
            self.unwritten.get_or_insert(error);
        }
        if let Some(board) = &mut self.board {
            board.ended(outcome);
        }
        if self.out.is_json() {
            let no_vote = match outcome.vote() {
                Vote::Answer(_) => None,
                Vote::None(reason) => Some(reason),
            };
            let (result, error) = match &outcome.outcome {
                Ok(result) => (Some(result.clone()), None),
                Err(error) => (None, Some(error.report())),
            };
            let (seat, vendor) = (describe(&outcome.seat), outcome.vendor.clone());
            say_json(&RunEvent::Seat(Box::new(EndedSeat { seat, vendor, no_vote, result, error })));
        }
    }
}

fn describe(seat: &Seat) -> VotingSeat {
    VotingSeat {
        index: seat.index,
        group: seat.binding.group.to_string(),
        lens: seat.lens.as_ref().map(|lens| lens.name.to_string()),
    }
}
