//! What the consumer and the thread that serves the pipes share.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

use super::error::StdinError;
use super::exit::Exit;
use super::kept::KeptOutput;
use super::stdin::StdinMode;
use super::stop::Stop;
use crate::lines::Line;
use nexus_core::redact::Tail;

/// Cost of keeping one line, beside its bytes.
const LINE_OVERHEAD_BYTES: usize = size_of::<Line>();

/// Below this, a line that waits in a full queue is given a block of its own.
const SHORT_LINE_BYTES: usize = 16 << 10;

#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) lines: Notify,
    pub(super) stdin: Notify,
    pub(super) ended: Notify,
    wake: OwnedFd,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) queue: Queue,
    pub(super) stderr: Tail,
    /// Standard output and standard error, where they are kept as bytes.
    pub(super) kept: Option<[KeptOutput; 2]>,
    pub(super) stdin: StdinState,
    pub(super) kill_now: bool,
    pub(super) stop: Option<Stop>,
    pub(super) exit: Option<Exit>,
}

/// What was read and not delivered, because the consumer was too slow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dropped {
    /// Lines for display only.
    pub display_lines: u64,
    /// Their bytes.
    pub display_bytes: u64,
    /// Lines that mattered, dropped because the ceiling was reached. Such an output must not be
    /// believed.
    pub lost_lines: u64,
    /// Their bytes.
    pub lost_bytes: u64,
}

/// Lines between the reader and the consumer, bounded in bytes.
#[derive(Debug)]
pub(super) struct Queue {
    lines: VecDeque<Line>,
    bytes: usize,
    bound: usize,
    ceiling: usize,
    display_only: fn(&[u8]) -> bool,
    pub(super) dropped: Dropped,
    /// Whether nothing more will come.
    pub(super) closed: bool,
}

#[derive(Debug, Default)]
pub(super) struct StdinState {
    pub(super) pending: VecDeque<Bytes>,
    /// Bytes ever accepted, and bytes ever written.
    pub(super) accepted: u64,
    pub(super) written: u64,
    pub(super) close_when_written: bool,
    pub(super) closed: Option<StdinError>,
}

impl StdinState {
    pub(super) fn of(mode: StdinMode) -> Self {
        let mut stdin = Self::default();
        match mode {
            StdinMode::Empty => stdin.closed = Some(StdinError::ClosedByUs),
            StdinMode::Bytes(bytes) => {
                stdin.accepted = bytes.len() as u64;
                stdin.pending.extend((!bytes.is_empty()).then_some(bytes));
                stdin.close_when_written = true;
            }
            StdinMode::Open => {}
        }
        stdin
    }
}

impl Queue {
    pub(super) fn new(bound: usize, ceiling: usize, display_only: fn(&[u8]) -> bool) -> Self {
        Self {
            lines: VecDeque::new(),
            bytes: 0,
            bound,
            ceiling,
            display_only,
            dropped: Dropped::default(),
            closed: false,
        }
    }

    /// Takes every line of `incoming` that the bounds allow. Returns whether there was any.
    pub(super) fn extend(&mut self, incoming: &mut Vec<Line>) -> bool {
        let mut added = false;
        for mut line in incoming.drain(..) {
            let length = line.bytes.len();
            // An empty queue takes any line, so a single large one always arrives.
            if self.bytes > self.bound {
                if (self.display_only)(&line.bytes) {
                    self.dropped.display_lines += 1;
                    self.dropped.display_bytes += length as u64;
                    continue;
                }
                if self.bytes > self.ceiling {
                    self.dropped.lost_lines += 1;
                    self.dropped.lost_bytes += length as u64;
                    continue;
                }
                if length < SHORT_LINE_BYTES {
                    line.bytes = Bytes::copy_from_slice(&line.bytes);
                }
            }
            self.bytes += length + LINE_OVERHEAD_BYTES;
            self.lines.push_back(line);
            added = true;
        }
        added
    }

    /// Moves everything to `batch`, which is empty.
    pub(super) fn take(&mut self, batch: &mut VecDeque<Line>) {
        std::mem::swap(&mut self.lines, batch);
        self.bytes = 0;
    }
}

impl Shared {
    pub(super) fn new(state: State, wake: OwnedFd) -> Self {
        Self {
            state: Mutex::new(state),
            lines: Notify::new(),
            stdin: Notify::new(),
            ended: Notify::new(),
            wake,
        }
    }

    /// The state. A panic elsewhere does not poison it: every change is complete in itself.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the serving thread look at the state.
    pub(super) fn wake(&self) {
        // A full wake-up pipe is as good as one more byte in it.
        let _ = rustix::io::write(&self.wake, &[0]);
    }

    /// Waits until `ready` gives something, looking again after each notification.
    pub(super) async fn until<T>(
        &self,
        notify: &Notify,
        mut ready: impl FnMut(&mut State) -> Option<T>,
    ) -> T {
        loop {
            let notified = notify.notified();
            let mut notified = std::pin::pin!(notified);
            notified.as_mut().enable();
            if let Some(found) = ready(&mut self.lock()) {
                return found;
            }
            notified.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::LineEnding;

    fn line(bytes: &'static [u8]) -> Line {
        Line { bytes: Bytes::from_static(bytes), ending: LineEnding::Newline }
    }

    #[test]
    fn beyond_the_bound_display_lines_go_and_others_stay() {
        let mut queue = Queue::new(100, 10_000, |line| line.starts_with(b"delta"));
        for _ in 0..50 {
            queue.extend(&mut vec![line(b"delta"), line(b"tool")]);
        }
        let mut batch = VecDeque::new();
        queue.take(&mut batch);
        let tools = batch.iter().filter(|line| line.bytes == b"tool"[..]).count();
        assert_eq!(tools, 50);
        assert_eq!(batch.len() - tools + queue.dropped.display_lines as usize, 50);
        assert!(queue.dropped.display_lines > 40);
        assert_eq!(queue.dropped.display_bytes, queue.dropped.display_lines * 5);
        assert!(queue.extend(&mut vec![line(b"delta")]), "an emptied queue takes all again");
    }

    #[test]
    fn beyond_the_ceiling_every_line_is_lost_and_counted() {
        let mut queue = Queue::new(100, 1000, |_| false);
        for _ in 0..1000 {
            queue.extend(&mut vec![line(b"tool")]);
        }
        let mut batch = VecDeque::new();
        queue.take(&mut batch);
        assert!(batch.len() < 30);
        assert_eq!(batch.len() as u64 + queue.dropped.lost_lines, 1000);
    }
}
