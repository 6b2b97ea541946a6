//! Standard output and standard error of the command.
//!
//! The first failed write to standard output is recorded. [`broken`] then ends work whose output no reader can receive, and
//! [`exit_code`] reports the failure once. So no subcommand succeeds if its output is lost. A failed write to standard error is
//! ignored, since no stream is left to report it on.

use std::{
    fmt::Display,
    io::{self, ErrorKind, Write as _},
    process::ExitCode,
    sync::OnceLock,
    thread,
};

use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::Notify;

pub(crate) use crate::printable::{printable, printable_lines};
use crate::{EXIT_FAILED, activity, screen};

/// Exit code if the reader of standard output went away: the code that a shell reports for a program ended by SIGPIPE.
pub(crate) const EXIT_CLOSED_PIPE: u8 = 141;

static FAILURE: OnceLock<io::Error> = OnceLock::new();
static FAILED: Notify = Notify::const_new();

/// Writes a line to standard output.
pub(crate) fn say(line: impl Display) {
    activity::clear();
    // Write the line in one call, so that lines of several threads do not mix.
    if FAILURE.get().is_none()
        && let Err(error) = io::stdout().write_all(format!("{line}\n").as_bytes())
    {
        fail(error);
    }
}

/// Writes bytes to standard output unchanged.
pub(crate) fn say_bytes(bytes: &[u8]) {
    activity::clear();
    if FAILURE.get().is_none()
        && let Err(error) = io::stdout().write_all(bytes).and_then(|()| io::stdout().flush())
    {
        fail(error);
    }
}

/// Writes a value as one line of JSON.
pub(crate) fn say_json(value: &impl Serialize) {
    match serde_json::to_string(value) {
        Ok(line) => say(line),
        Err(error) => fail(error.into()),
    }
}

/// Writes the answers of a command: as text for people or, with `--json`, as lines of JSON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerWriter {
    is_json: bool,
}

impl AnswerWriter {
    /// Writes JSON if `is_json`.
    pub(crate) fn new(is_json: bool) -> Self {
        Self { is_json }
    }

    /// Returns true if `--json` was given.
    pub(crate) fn is_json(self) -> bool {
        self.is_json
    }

    /// Writes an answer: as one line of JSON, or with `print` as text for people.
    pub(crate) fn show<T: Serialize + JsonSchema>(self, answer: &T, print: impl FnOnce(&T)) {
        if self.is_json { say_json(answer) } else { print(answer) }
    }

    /// Writes an answer. Its text for people has one or more lines.
    pub(crate) fn line<T: Serialize + JsonSchema>(self, answer: &T, text: impl Display) {
        self.show(answer, |_| say(text));
    }

    /// Tells a person that a list is empty, and how it gets its first item. Programs see an empty list.
    pub(crate) fn nothing(self, text: impl Display) {
        if !self.is_json {
            complain(text);
        }
    }

    /// Writes an event of a running command; `print` writes its text for people.
    pub(crate) fn event<T: Serialize + JsonSchema>(self, event: impl FnOnce() -> T, print: impl FnOnce()) {
        if self.is_json { say_json(&event()) } else { print() }
    }
}

/// Writes a line to standard error, with the name of the command in front.
pub(crate) fn complain(message: impl Display) {
    complain_line(format_args!("nexus: {message}"));
}

/// Writes a line to standard error in one call, so that no other thread writes into it.
pub(crate) fn complain_line(line: impl Display) {
    screen::line(&format!("{line}\n"));
}

/// Returns true if a part of standard output is lost.
pub(crate) fn is_broken() -> bool {
    FAILURE.get().is_some()
}

/// Returns true if the reader of standard output went away.
pub(crate) fn is_reader_gone() -> bool {
    FAILURE.get().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// Waits until a write to standard output has failed.
pub(crate) async fn broken() {
    let mut notified = std::pin::pin!(FAILED.notified());
    // Register before the check, so that a failure between the two is not missed.
    notified.as_mut().enable();
    if !is_broken() {
        notified.await;
    }
}

/// Starts a thread that detects a closed pipe on standard output while nothing is written.
pub(crate) fn watch_reader() {
    #[cfg(unix)]
    {
        use rustix::{
            event::{PollFd, PollFlags, poll},
            fs::{FileType, fstat},
        };

        let is_pipe =
            fstat(io::stdout()).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
        if !is_pipe {
            return;
        }
        let watch = || {
            let stdout = io::stdout();
            // poll reports ERR and HUP even if no event is requested.
            let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
            loop {
                match poll(&mut watched, None) {
                    Ok(_) if watched[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) => {
                        return fail(ErrorKind::BrokenPipe.into());
                    }
                    Err(rustix::io::Errno::INTR) => {}
                    _ => return,
                }
            }
        };
        // If the thread cannot be started, the next write detects the closed pipe.
        let _ = thread::Builder::new().name("output".into()).spawn(watch);
    }
}

/// Flushes standard output, reports lost output, and returns the exit code. It is `code` if no output was lost.
pub(crate) fn exit_code(code: ExitCode) -> ExitCode {
    if let Err(error) = io::stdout().flush() {
        fail(error);
    }
    match FAILURE.get() {
        None => code,
        Some(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::from(EXIT_CLOSED_PIPE),
        Some(error) => {
            complain(format_args!("standard output cannot be written: {error}"));
            ExitCode::from(EXIT_FAILED)
        }
    }
}

/// Records the first error of a write to standard output.
pub(crate) fn fail(error: io::Error) {
    // Report the first failure; later ones follow from it.
    let _ = FAILURE.set(error);
    FAILED.notify_waiters();
}
