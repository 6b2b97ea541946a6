//! The person at the terminal: questions, and commands that a person agreed to.

use std::{
    io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _},
    process::Command,
};

use nexus::harness::run_blocking;
use rustix::termios::{QueueSelector, tcflush};

use crate::{
    activity, child::output_of, command_error::CommandError, interrupt::Interrupts, output::complain,
};

/// Longest answer, in bytes.
const MOST_ANSWER: u64 = 1 << 10;

/// The person at the terminal. From its creation on, a signal cancels the command between two steps.
pub(super) struct Person(Interrupts);

impl Person {
    /// Returns the person, if standard input and standard error are a terminal.
    pub(super) fn at_terminal() -> Result<Option<Self>, CommandError> {
        if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
            return Ok(None);
        }
        Ok(Some(Self(Interrupts::listen().map_err(|error| CommandError::deaf(&error))?)))
    }

    /// Asks a question, and returns true for yes. An empty answer means `default`, and the end of input means no.
    pub(super) async fn agrees(&mut self, question: &str, default: bool) -> Result<bool, CommandError> {
        activity::clear();
        // Drop keys that were typed before the question. If the terminal is gone, the read below fails.
        let _ = tcflush(io::stdin(), QueueSelector::IFlush);
        let choices = if default { "[Y/n]" } else { "[y/N]" };
        let _ = write!(io::stderr(), "{question} {choices} ");
        let answer = run_blocking(|| {
            let mut answer = String::new();
            io::stdin().lock().take(MOST_ANSWER).read_line(&mut answer).map(|bytes| (bytes, answer))
        });
        let (bytes, answer) = tokio::select! {
            answer = answer => match answer {
                Ok(Ok(answer)) => answer,
                _ => return Err(CommandError::failed("the answer cannot be read from standard input")),
            },
            came = self.0.next() => {
                // The terminal shows ^C behind the question.
                let _ = writeln!(io::stderr());
                return Err(CommandError::by_signal(came));
            }
        };
        // The end of input agrees to nothing, not even to the default.
        if bytes == 0 {
            let _ = writeln!(io::stderr());
            return Ok(false);
        }
        Ok(match answer.trim() {
            "" => default,
            answer => answer.eq_ignore_ascii_case("y") || answer.eq_ignore_ascii_case("yes"),
        })
    }

    /// Runs a command line in a shell, at the terminal of the person. Returns true if it succeeded.
    pub(super) async fn run(&mut self, line: &str) -> Result<bool, CommandError> {
        let mut command = Command::new("/bin/sh");
        // `nexus` in the line is this program, wherever it is.
        let own = std::env::current_exe().map_err(CommandError::failed)?;
        let script = match line.strip_prefix("nexus ") {
            Some(rest) => format!("\"$0\" {rest}"),
            None => line.to_owned(),
        };
        command.arg("-c").arg(script).arg(own);
        let child = command
            .spawn()
            .map_err(|error| CommandError::failed(format_args!("/bin/sh cannot be started: {error}")))?;
        let status = output_of(child, &mut self.0).await?.status;
        if !status.success() {
            complain(format_args!("`{line}` ended with {status}"));
        }
        Ok(status.success())
    }
}
