//! State shared between the consumer and the serving thread.

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

/// Memory of one stored line, in addition to its bytes.
const LINE_OVERHEAD_BYTES: usize = size_of::<Line>();

/// State of a child, shared by its thread and its handle.
#[derive(Debug)]
pub(super) struct ChildChannel {
    state: Mutex<ChildState>,
    pub(super) lines: Notify,
    pub(super) stdin: Notify,
    pub(super) ended: Notify,
    wake: OwnedFd,
}

/// State of a child, behind the channel's lock.
#[derive(Debug)]
pub(super) struct ChildState {
    pub(super) queue: LineQueue,
    pub(super) stderr: Tail,
    /// Standard output and standard error, if they are stored as bytes.
    pub(super) kept: Option<[KeptOutput; 2]>,
    pub(super) stdin: StdinState,
    pub(super) kill_now: bool,
    pub(super) stop: Option<Stop>,
    pub(super) exit: Option<Exit>,
    /// Number of the last check of the pipes that the consumer requested.
    pub(super) looks_asked: u64,
    /// Number of the last finished check.
    pub(super) looks_taken: u64,
}

/// Lines between the reader and the consumer, limited in bytes.
#[derive(Debug)]
pub(super) struct LineQueue {
    lines: VecDeque<Line>,
    bytes: usize,
    bound: usize,
    /// True while the reader waits for room.
    pub(super) is_waited_for: bool,
    /// True if no more output will come.
    pub(super) closed: bool,
}

#[derive(Debug, Default)]
pub(super) struct StdinState {
    pub(super) pending: VecDeque<Bytes>,
    /// Total number of accepted bytes, and of written bytes.
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

impl LineQueue {
    pub(super) fn new(bound: usize) -> Self {
        Self { lines: VecDeque::new(), bytes: 0, bound, is_waited_for: false, closed: false }
    }

    /// Returns the number of bytes that may be read now, if `extra` bytes may wait beyond the bound. An empty
    /// queue has room for any line, so a single large line always arrives.
    pub(super) fn room(&self, extra: usize) -> usize {
        let room = (self.bound + extra).saturating_sub(self.bytes);
        if self.lines.is_empty() { room.max(1) } else { room }
    }

    /// Adds all lines of `incoming`. Returns true if there were any.
    pub(super) fn extend(&mut self, incoming: &mut Vec<Line>) -> bool {
        let added = !incoming.is_empty();
        self.bytes += incoming.iter().map(|line| line.bytes.len() + LINE_OVERHEAD_BYTES).sum::<usize>();
        self.lines.extend(incoming.drain(..));
        added
    }

    /// Moves all lines to `batch`, which must be empty. Returns true if the reader waits for room.
    pub(super) fn take(&mut self, batch: &mut VecDeque<Line>) -> bool {
        std::mem::swap(&mut self.lines, batch);
        self.bytes = 0;
        std::mem::take(&mut self.is_waited_for)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

impl ChildChannel {
    pub(super) fn new(state: ChildState, wake: OwnedFd) -> Self {
        Self {
            state: Mutex::new(state),
            lines: Notify::new(),
            stdin: Notify::new(),
            ended: Notify::new(),
            wake,
        }
    }

    /// Locks the state. A panic elsewhere does not poison it, because every change is complete in itself.
    pub(super) fn lock(&self) -> MutexGuard<'_, ChildState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the serving thread, which then checks the state.
    pub(super) fn wake(&self) {
        // If the pipe is full, the thread will wake up anyway.
        let _ = rustix::io::write(&self.wake, &[0]);
    }

    /// Waits until `ready` returns a value, and calls it after each notification.
    pub(super) async fn until<T>(
        &self,
        notify: &Notify,
        mut ready: impl FnMut(&mut ChildState) -> Option<T>,
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
    fn a_full_queue_has_no_room_until_it_is_taken() {
        let mut queue = LineQueue::new(3 * (4 + LINE_OVERHEAD_BYTES));
        for _ in 0..3 {
            assert!(queue.room(0) > 0);
            assert!(queue.extend(&mut vec![line(b"tool")]));
        }
        assert_eq!(queue.room(0), 0);
        assert_eq!(queue.room(10), 10);
        queue.is_waited_for = true;
        let mut batch = VecDeque::new();
        assert!(queue.take(&mut batch), "the reader is to be woken");
        assert_eq!(batch.len(), 3);
        assert!(queue.room(0) > 0 && queue.is_empty());
        assert!(!queue.take(&mut VecDeque::new()), "it was woken");
    }

    #[test]
    fn an_empty_queue_takes_a_line_above_its_bound() {
        let mut queue = LineQueue::new(0);
        assert_eq!(queue.room(0), 1);
        queue.extend(&mut vec![line(b"larger than nothing")]);
        assert_eq!(queue.room(0), 0);
    }
}
