//! Lines of a chat: from the line editor, from a terminal without escape codes, or from a pipe.

use std::{
    io::{self, BufRead as _, IsTerminal as _},
    sync::Arc,
    thread,
};

use rustix::event::{PollFd, PollFlags, poll};
use tokio::sync::{Notify, mpsc};

use super::{
    completer::ChatCompleter,
    editor::{EditedLine, LineEditor},
};
use crate::{
    line_reader::{LineReader, Typed, TypedBefore},
    output::complain,
    screen, terminal,
};

/// Input of a chat.
#[derive(Debug)]
pub(super) enum ChatInput {
    Editor(LineEditor),
    /// A terminal that understands no escape codes.
    PlainTerminal,
    /// Lines of a pipe or a file.
    Piped(mpsc::Receiver<io::Result<String>>),
}

/// A line of input.
#[derive(Debug)]
pub(super) enum InputLine {
    Line(String),
    /// Ctrl-C at the prompt.
    Interrupted,
    End,
}

impl ChatInput {
    /// Opens standard input.
    pub(super) fn open(earlier: Vec<String>) -> io::Result<Self> {
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return Ok(Self::Piped(piped()?));
        }
        if !terminal::is_dumb()
            && let Ok(editor) = LineEditor::start(earlier)
        {
            return Ok(Self::Editor(editor));
        }
        Ok(Self::PlainTerminal)
    }

    /// Returns true if a person types the lines.
    pub(super) fn is_terminal(&self) -> bool {
        !matches!(self, Self::Piped(_))
    }

    /// Returns the next line. `begun` is text that the line begins with.
    pub(super) async fn next(
        &mut self,
        prompt: &str,
        begun: &mut String,
        completer: impl FnOnce() -> ChatCompleter,
    ) -> io::Result<InputLine> {
        match self {
            Self::Editor(editor) => match editor.line(prompt, begun, completer()).await {
                EditedLine::Line(line) => Ok(InputLine::Line(line)),
                EditedLine::Interrupted => Ok(InputLine::Interrupted),
                EditedLine::End => Ok(InputLine::End),
                EditedLine::Unusable(reason) => {
                    complain(format_args!("this terminal has no line editing: {reason}"));
                    *self = Self::PlainTerminal;
                    typed_line(prompt, begun).await
                }
            },
            Self::PlainTerminal => typed_line(prompt, begun).await,
            Self::Piped(lines) => match lines.recv().await {
                Some(line) => line.map(InputLine::Line),
                None => Ok(InputLine::End),
            },
        }
    }
}

/// Reads a line at a terminal without an editor.
async fn typed_line(prompt: &str, begun: &mut String) -> io::Result<InputLine> {
    if !begun.is_empty() {
        complain(format_args!("not sent: {}", std::mem::take(begun)));
    }
    // No person types a line here: nothing reads the terminal.
    let _ = screen::ask("", prompt);
    let mut reader = LineReader::start(TypedBefore::Keep)?;
    loop {
        match reader.next().await {
            Typed::Line(_, line) => {
                screen::end_question("");
                return Ok(InputLine::Line(line));
            }
            Typed::Erased => {}
            Typed::End => return Ok(InputLine::End),
        }
    }
}

/// Starts a thread that reads the lines of standard input one at a time.
fn piped() -> io::Result<mpsc::Receiver<io::Result<String>>> {
    let (sender, lines) = mpsc::channel(1);
    let read = move || {
        for (number, line) in (1_u64..).zip(io::stdin().lock().split(b'\n')) {
            let text = line.and_then(|line| {
                let words = format!("line {number} is not UTF-8");
                let text =
                    String::from_utf8(line).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, words))?;
                Ok(text.trim_end_matches('\r').to_owned())
            });
            let is_last = text.is_err();
            if sender.blocking_send(text).is_err() || is_last {
                return;
            }
        }
    };
    thread::Builder::new().name("input".into()).spawn(read)?;
    Ok(lines)
}

/// Returns a notice of the end of the terminal on standard input. Without a terminal it never comes.
pub(super) fn watch_terminal() -> Arc<Notify> {
    let gone = Arc::new(Notify::new());
    if io::stdin().is_terminal() {
        let notify = Arc::clone(&gone);
        let watch = move || {
            let stdin = io::stdin();
            // poll reports HUP and ERR even if no event is requested.
            let mut watched = [PollFd::new(&stdin, PollFlags::empty())];
            while let Err(rustix::io::Errno::INTR) = poll(&mut watched, None) {}
            notify.notify_one();
        };
        // Without the thread, the next read detects the end.
        let _ = thread::Builder::new().name("terminal".into()).spawn(watch);
    }
    gone
}
