//! Lines that a person types while a turn runs.

use std::{
    io::{self, PipeWriter},
    thread::{self, JoinHandle},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::{Errno, read},
    termios::{
        InputModes, LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr,
    },
};
use tokio::sync::mpsc;

use crate::{
    screen::{self, LineKind},
    typed_key::{KeyDecoder, TypedKey},
};

/// Input of a person.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    /// A line was entered.
    Line(LineKind, String),
    /// A line was erased before it was entered.
    Erased,
    /// Ctrl-D, or the end of the terminal.
    End,
}

/// Mode of the terminal in which keys arrive one by one and without an echo. Ctrl-C still sends its signal. Dropping it restores the
/// mode before.
#[derive(Debug)]
pub(crate) struct QuietTerminal(Termios);

impl QuietTerminal {
    /// Sets the mode.
    ///
    /// # Errors
    ///
    /// Standard input is not a terminal.
    pub(crate) fn start() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut modes = before.clone();
        modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        // An editor that starts later would take a converted Enter for Ctrl-J.
        modes.input_modes.remove(InputModes::ICRNL);
        tcsetattr(io::stdin(), OptionalActions::Now, &modes)?;
        Ok(Self(before))
    }
}

impl Drop for QuietTerminal {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

/// Reader of the terminal on standard input, on a thread of its own. It echoes the line through the [`screen`], so that a stream does
/// not break it. Dropping it restores the terminal.
#[derive(Debug)]
pub(crate) struct LineReader {
    typed: mpsc::UnboundedReceiver<Typed>,
    quiet: Option<QuietTerminal>,
    /// Closed to end the thread.
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

/// Keys that were typed before the reader started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TypedBefore {
    Keep,
    /// Drop them: they cannot be meant as the answer to a question that was not shown yet.
    Drop,
}

impl LineReader {
    /// Starts to read.
    ///
    /// # Errors
    ///
    /// Standard input is not a terminal, or a thread cannot be started.
    pub(crate) fn start(before: TypedBefore) -> io::Result<Self> {
        let stdin = io::stdin();
        if before == TypedBefore::Drop {
            tcflush(&stdin, QueueSelector::IFlush)?;
        }
        // Closing the writer wakes the thread, which otherwise waits for a key.
        let (stopped, stop) = io::pipe()?;
        let (sender, typed) = mpsc::unbounded_channel();
        let quiet = Some(QuietTerminal::start()?);
        let mut reader = Self { typed, quiet, stop: Some(stop), thread: None };
        let run = move || {
            let stdin = io::stdin();
            let (mut decoder, mut bytes) = (KeyDecoder::default(), [0; 1024]);
            loop {
                let mut watched = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(&stopped, PollFlags::IN)];
                match poll(&mut watched, None) {
                    Err(Errno::INTR) => continue,
                    Err(_) => return,
                    Ok(_) if !watched[1].revents().is_empty() => return,
                    Ok(_) => {}
                }
                let read = match read(&stdin, &mut bytes) {
                    Err(Errno::INTR | Errno::AGAIN) => continue,
                    Ok(read @ 1..) => read,
                    Ok(0) | Err(_) => {
                        // The receiver may be gone.
                        let _ = sender.send(Typed::End);
                        return;
                    }
                };
                for key in bytes[..read].iter().filter_map(|byte| decoder.push(*byte)) {
                    let Some(typed) = take(key) else { continue };
                    let is_reply = matches!(typed, Typed::Line(LineKind::Reply(_), _));
                    if sender.send(typed).is_err() {
                        return;
                    }
                    // The next question may be on the screen already, and these keys are older.
                    if is_reply {
                        break;
                    }
                }
            }
        };
        reader.thread = Some(thread::Builder::new().name("typing".into()).spawn(run)?);
        Ok(reader)
    }

    /// Returns the next input. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Typed {
        match self.typed.recv().await {
            Some(typed) => typed,
            // The thread has ended with the terminal, which was reported.
            None => std::future::pending().await,
        }
    }

    /// Stops reading. Returns a line that was begun and not entered.
    pub(crate) fn stop(mut self) -> String {
        self.end();
        screen::take_unfinished()
    }

    fn end(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // Only its end counts.
            let _ = thread.join();
        }
        // Restore the terminal only after the thread has ended, because it still reads keys until then.
        drop(self.quiet.take());
    }
}

impl Drop for LineReader {
    fn drop(&mut self) {
        if self.stop.is_some() {
            self.end();
            drop(screen::take_unfinished());
        }
    }
}

fn take(key: TypedKey) -> Option<Typed> {
    match key {
        TypedKey::Character(character) => screen::type_character(character),
        TypedKey::Erase | TypedKey::EraseLine => {
            return screen::erase(key == TypedKey::EraseLine).then_some(Typed::Erased);
        }
        TypedKey::Enter => {
            let (kind, line) = screen::enter()?;
            return Some(Typed::Line(kind, line));
        }
        TypedKey::End => return Some(Typed::End),
    }
    None
}
