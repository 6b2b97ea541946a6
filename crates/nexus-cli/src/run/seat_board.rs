//! Shows the seats of a panel and their activity while they work.

use std::{
    io::Write,
    time::{Duration, Instant, SystemTime},
};

use nexus::{BackendId, Seat, SeatOutcome, TurnEvent, Vote};

use crate::{output::printable, printer::PrintStyle, spoken_time::spoken_instant};

/// One line per seat: its group and lens, the backend that runs it, and its state. With colours, the lines are
/// redrawn in place; without, each change is a new line.
///
/// After a failed write, the writer is not used again; the panel continues.
#[derive(Debug)]
pub(super) struct SeatBoard<W> {
    out: W,
    style: PrintStyle,
    began: Instant,
    rows: Vec<Row>,
    is_drawn: bool,
    has_failed: bool,
}

#[derive(Debug)]
struct Row {
    seat: String,
    backend: Option<BackendId>,
    state: SeatActivity,
}

/// Activity of a seat.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SeatActivity {
    Waiting,
    /// The vendors refuse turns until this time.
    WaitingUntil(String),
    Started,
    Thinking,
    Answering,
    CallingTool(String),
    Retrying(String),
    Ended(String),
}

impl<W: Write> SeatBoard<W> {
    pub(super) fn new(out: W, style: PrintStyle, seats: &[Seat]) -> Self {
        let row = |seat: &Seat| Row {
            seat: printable(&seat.to_string()),
            backend: None,
            state: SeatActivity::Waiting,
        };
        let rows = seats.iter().map(row).collect();
        let mut board = Self { out, style, began: Instant::now(), rows, is_drawn: false, has_failed: false };
        board.draw();
        board
    }

    /// Updates the activity of a seat's turn.
    pub(super) fn event(&mut self, seat: usize, event: &TurnEvent) {
        let Some(row) = self.rows.get_mut(seat) else { return };
        let state = match event {
            TurnEvent::Queued(_) => SeatActivity::Waiting,
            TurnEvent::Waiting(waiting) => {
                SeatActivity::WaitingUntil(spoken_instant(waiting.until, SystemTime::now()))
            }
            TurnEvent::Started(started) => {
                row.backend = Some(started.backend.clone());
                SeatActivity::Started
            }
            TurnEvent::ThinkingDelta(_) => SeatActivity::Thinking,
            TurnEvent::TextDelta(delta) if delta.parent.is_none() => SeatActivity::Answering,
            TurnEvent::ToolCallStarted(call) => SeatActivity::CallingTool(call.name.clone()),
            TurnEvent::Retrying(retry) => SeatActivity::Retrying(retry.reason.to_string()),
            TurnEvent::Fallback(fallback) => {
                row.backend = Some(fallback.to.clone());
                SeatActivity::Retrying(format!("{}: {}", fallback.skipped.backend, fallback.skipped.reason))
            }
            _ => return,
        };
        self.change(seat, state);
    }

    /// Shows the end of a seat's turn.
    pub(super) fn ended(&mut self, outcome: &SeatOutcome) {
        let after = self.began.elapsed();
        let state = match outcome.vote() {
            Vote::Answer(_) => SeatActivity::Ended(format!("answered after {}", seconds(after))),
            Vote::None(reason) => SeatActivity::Ended(format!("no vote after {}: {reason}", seconds(after))),
        };
        if let Some(row) = self.rows.get_mut(outcome.seat.index) {
            row.backend = Some(outcome.backend.clone());
        }
        self.change(outcome.seat.index, state);
    }

    fn change(&mut self, seat: usize, state: SeatActivity) {
        let Some(row) = self.rows.get_mut(seat) else { return };
        // Most deltas change nothing that the board shows.
        if row.state == state {
            return;
        }
        row.state = state;
        match self.style {
            PrintStyle::Ansi => self.draw(),
            PrintStyle::Plain => {
                let line = row.line(seat);
                self.write(&format!("{line}\n"));
            }
        }
    }

    fn draw(&mut self) {
        if self.style == PrintStyle::Plain {
            return;
        }
        let mut text = String::new();
        if self.is_drawn {
            // Moves the cursor up to the first row, so that the new rows replace the old ones.
            text.push_str(&format!("\u{1b}[{}A", self.rows.len()));
        }
        for (index, row) in self.rows.iter().enumerate() {
            // Disables wrapping, so that every row takes exactly one line of the terminal.
            text.push_str(&format!("\u{1b}[2K\u{1b}[?7l{}\u{1b}[?7h\n", row.line(index)));
        }
        self.is_drawn = true;
        self.write(&text);
    }

    fn write(&mut self, text: &str) {
        if !self.has_failed {
            self.has_failed = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()).is_err();
        }
    }
}

impl Row {
    fn line(&self, index: usize) -> String {
        let backend = self.backend.as_ref().map(|id| format!(" · {id}")).unwrap_or_default();
        let state = match &self.state {
            SeatActivity::Waiting => "waiting",
            SeatActivity::WaitingUntil(time) => &format!("waiting until {time}"),
            SeatActivity::Started => "started",
            SeatActivity::Thinking => "thinking",
            SeatActivity::Answering => "answering",
            SeatActivity::CallingTool(name) => &format!("calls {name}"),
            SeatActivity::Retrying(reason) => &format!("tries again: {reason}"),
            SeatActivity::Ended(how) => how,
        };
        printable(&format!("seat {index} · {}{backend} · {state}", self.seat))
    }
}

fn seconds(span: Duration) -> String {
    format!("{:.1} s", span.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use nexus::{
        Binding,
        turn::{Started, TextDelta},
    };

    use super::*;

    fn shown(style: PrintStyle) -> String {
        let binding: Binding = serde_json::from_value(
            serde_json::json!({ "group": "one", "chain": ["a"], "model": null, "effort": null }),
        )
        .unwrap();
        let seats = [Seat::new(0, binding.clone()), Seat::new(1, binding)];
        let mut board = SeatBoard::new(Vec::new(), style, &seats);
        board.event(1, &Started::new("a".into()).into());
        board.event(1, &TextDelta::new("m".into(), "x\u{1b}[2J").into());
        board.event(1, &TextDelta::new("m".into(), "y").into());
        String::from_utf8(board.out).unwrap()
    }

    #[test]
    fn elsewhere_each_change_is_a_line() {
        assert_eq!(shown(PrintStyle::Plain), "seat 1 · one · a · started\nseat 1 · one · a · answering\n");
    }

    #[test]
    fn on_a_terminal_the_seats_are_written_again_in_place() {
        let shown = shown(PrintStyle::Ansi);
        assert_eq!(shown.matches("\u{1b}[2A").count(), 2, "{shown:?}");
        assert!(shown.ends_with("\u{1b}[2K\u{1b}[?7lseat 1 · one · a · answering\u{1b}[?7h\n"), "{shown:?}");
    }
}
