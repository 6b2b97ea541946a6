//! Standard error of the command, shared by the stream of a turn and by a person who types meanwhile.
//!
//! While the person types a line, or reads a question, the stream waits. So neither breaks the other, on any terminal.

use std::{
    io::{self, Write},
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{activity, terminal};

/// Maximum number of bytes that wait while a person types. Beyond this, the stream goes on. Source: our own bound.
const MAX_HELD_BYTES: usize = 4 << 20;

/// Longest line that a person can type while a turn runs, in bytes. Source: the limit of an input for a running turn.
const MAX_TYPED_BYTES: usize = 64 << 10;

/// Mark before a line that a person types while a turn runs.
const TYPING_MARK: &str = "\u{bb} ";

/// Mark before the reply to a question of an agent.
pub(crate) const QUESTION_MARK: &str = "? ";

static SCREEN: Mutex<LastLine> = Mutex::new(LastLine {
    owner: LineOwner::Stream,
    held: Vec::new(),
    mark: String::new(),
    question: QuestionNumber(0),
    typed: String::new(),
    is_at_line_start: true,
    is_broken_line: false,
});

/// Writer of everything that goes to standard error.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ScreenWriter;

impl Write for ScreenWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        activity::clear();
        let mut screen = screen();
        // While a person types a line, output is stored until that line is complete.
        if !screen.streams() {
            screen.held.extend_from_slice(bytes);
        // Another line has already ended this one, so its own line end would leave an empty line.
        } else if !(mem::take(&mut screen.is_broken_line) && bytes == b"\n") {
            screen.put(bytes)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Number of a question, so that a reply is never taken for the reply to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QuestionNumber(u64);

/// Kind of a line that a person typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineKind {
    /// The line was begun while no question was open.
    Words,
    /// The line was begun while this question was open.
    Reply(QuestionNumber),
}

/// The user of the terminal's last line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineOwner {
    Stream,
    /// A person types a line.
    Typing,
    /// A question waits for its answer.
    Question,
    /// A question has a reply that is not handled yet. Further keys are dropped: they cannot be meant for a question that is not shown.
    Answered,
}

/// State of the terminal's last line.
struct LastLine {
    owner: LineOwner,
    /// Output that waits for the person.
    held: Vec<u8>,
    /// Mark before the line that is being typed.
    mark: String,
    /// The last question.
    question: QuestionNumber,
    /// The line that is being typed.
    typed: String,
    is_at_line_start: bool,
    /// True if another text has ended a line of the stream. The stream's own end of that line is left out.
    is_broken_line: bool,
}

impl LastLine {
    /// Returns true if output is shown at once.
    fn streams(&self) -> bool {
        self.owner == LineOwner::Stream || self.held.len() > MAX_HELD_BYTES
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(last) = bytes.last() {
            self.is_at_line_start = *last == b'\n';
        }
        io::stderr().lock().write_all(bytes)
    }

    /// Writes for the person. A terminal that is gone has no reader.
    fn show(&mut self, text: &str) {
        let _ = self.put(text.as_bytes());
    }

    fn begin_line(&mut self) {
        if !self.is_at_line_start {
            self.show("\n");
            self.is_broken_line = true;
        }
    }

    /// Returns the terminal to the stream, with the output that waited.
    fn release(&mut self) {
        self.owner = LineOwner::Stream;
        let mut held = mem::take(&mut self.held);
        if mem::take(&mut self.is_broken_line) && held.first() == Some(&b'\n') {
            held.remove(0);
        }
        if !held.is_empty() {
            let _ = self.put(&held);
        }
    }

    /// Removes the line that is being typed from the terminal. Spaces do it on any terminal.
    fn wipe(&mut self) {
        // Some terminals wrap after a write into the last column, so leave it free.
        let columns = terminal::columns().unwrap_or(80).saturating_sub(1);
        self.show(&format!("\r{:columns$}\r", ""));
    }
}

fn screen() -> MutexGuard<'static, LastLine> {
    SCREEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes whole lines, also while the stream is within a line. An error has no reader left.
pub(crate) fn line(text: &str) {
    activity::clear();
    let mut screen = screen();
    if screen.streams() {
        screen.begin_line();
        screen.show(text);
        return;
    }
    if screen.held.last().is_some_and(|last| *last != b'\n') {
        screen.held.push(b'\n');
    }
    screen.held.extend_from_slice(text.as_bytes());
}

/// Shows a question and the mark before its reply, and returns the number that the reply carries. While the person types a line it
/// returns `None`, and the caller tries again after that line.
pub(crate) fn ask(question: &str, mark: &str) -> Option<QuestionNumber> {
    activity::clear();
    let mut screen = screen();
    if screen.owner == LineOwner::Typing {
        return None;
    }
    screen.owner = LineOwner::Question;
    screen.question.0 += 1;
    screen.typed.clear();
    mark.clone_into(&mut screen.mark);
    screen.begin_line();
    screen.show(&format!("{question}{mark}"));
    Some(screen.question)
}

/// Ends a question, with a last line about it. A reply that was not entered is dropped.
pub(crate) fn end_question(note: &str) {
    let mut screen = screen();
    if matches!(screen.owner, LineOwner::Question | LineOwner::Answered) {
        screen.typed.clear();
        screen.begin_line();
        screen.show(note);
        screen.release();
    }
}

/// Adds a typed character to the line.
pub(crate) fn type_character(character: char) {
    let mut screen = screen();
    if screen.typed.len() >= MAX_TYPED_BYTES || screen.owner == LineOwner::Answered {
        return;
    }
    if screen.owner == LineOwner::Stream {
        screen.owner = LineOwner::Typing;
        TYPING_MARK.clone_into(&mut screen.mark);
        screen.begin_line();
        screen.show(TYPING_MARK);
    }
    screen.typed.push(character);
    let mut shown = [0; 4];
    let shown: &str = character.encode_utf8(&mut shown);
    screen.show(shown);
}

/// Removes the last character of the typed line, or all of it. Returns true if this ended a line of words.
pub(crate) fn erase(is_whole_line: bool) -> bool {
    let mut screen = screen();
    match is_whole_line {
        true => screen.typed.clear(),
        false => drop(screen.typed.pop()),
    }
    match screen.owner {
        LineOwner::Stream | LineOwner::Answered => false,
        LineOwner::Typing if screen.typed.is_empty() => {
            screen.wipe();
            screen.is_at_line_start = true;
            screen.release();
            true
        }
        LineOwner::Typing | LineOwner::Question => {
            screen.wipe();
            let line = format!("{}{}", screen.mark, screen.typed);
            screen.show(&line);
            false
        }
    }
}

/// Ends the typed line, and returns it. After a line of words, the stream goes on. `None` if the question has its reply already.
pub(crate) fn enter() -> Option<(LineKind, String)> {
    let mut screen = screen();
    let line = mem::take(&mut screen.typed);
    match screen.owner {
        LineOwner::Question => {
            screen.show("\n");
            screen.owner = LineOwner::Answered;
            Some((LineKind::Reply(screen.question), line))
        }
        LineOwner::Answered => None,
        owner => {
            if owner == LineOwner::Typing {
                screen.show("\n");
            }
            screen.release();
            Some((LineKind::Words, line))
        }
    }
}

/// Takes a line that was begun and not entered, and returns the terminal to the stream.
pub(crate) fn take_unfinished() -> String {
    let mut screen = screen();
    let typed = mem::take(&mut screen.typed);
    match screen.owner {
        LineOwner::Stream => {}
        LineOwner::Typing => {
            screen.wipe();
            screen.is_at_line_start = true;
            screen.release();
        }
        LineOwner::Question | LineOwner::Answered => {
            screen.begin_line();
            screen.release();
            // An unfinished reply goes neither to the question nor to the agent.
            return String::new();
        }
    }
    typed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_behind_a_reply_answer_no_other_question() {
        let first = ask("first\n", QUESTION_MARK).unwrap();
        type_character('y');
        assert_eq!(enter(), Some((LineKind::Reply(first), "y".to_owned())));
        // The rest of the same read arrives before the reply is handled.
        type_character('y');
        assert_eq!(enter(), None);
        end_question("");
        let second = ask("second\n", QUESTION_MARK).unwrap();
        assert_ne!(first, second);
        assert_eq!(enter(), Some((LineKind::Reply(second), String::new())));
        end_question("");
    }
}
