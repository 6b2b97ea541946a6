//! The frames of a turn that its caller has not acknowledged.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

/// Size of unacknowledged frames above which the turn has to wait, in bytes.
const MAX_BYTES: usize = 4 << 20;
/// [`MAX_BYTES`], in frames.
const MAX_FRAMES: usize = 512;
/// Time without an acknowledgement after which the oldest frames are sent again.
const SEND_AGAIN: Duration = Duration::from_millis(1_500);
/// Maximum number of frames that are sent again at once.
const AGAIN_AT_ONCE: usize = 64;

/// The frames of a turn that its caller has not acknowledged, oldest first.
#[derive(Debug)]
pub(super) struct Window {
    /// Number of the last frame.
    last: u64,
    frames: VecDeque<(u64, Vec<u8>)>,
    bytes: usize,
    /// Time of the last frame that was sent or acknowledged.
    moved_at: Instant,
}

impl Window {
    pub(super) fn new() -> Self {
        Self { last: 0, frames: VecDeque::new(), bytes: 0, moved_at: Instant::now() }
    }

    /// Returns the number of the next frame.
    pub(super) fn next_number(&self) -> u64 {
        self.last + 1
    }

    /// Returns the number of the last frame.
    pub(super) fn last_number(&self) -> u64 {
        self.last
    }

    /// Returns true if a further frame fits.
    pub(super) fn has_room(&self) -> bool {
        self.frames.len() < MAX_FRAMES && self.bytes < MAX_BYTES
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Stores the frame with the number [`next_number`](Self::next_number).
    pub(super) fn add(&mut self, frame: Vec<u8>) {
        self.last += 1;
        self.bytes += frame.len();
        self.frames.push_back((self.last, frame));
        self.moved_at = Instant::now();
    }

    /// Removes the frames up to `number`, which have arrived.
    pub(super) fn acknowledge(&mut self, number: u64) {
        while let Some((first, _)) = self.frames.front()
            && *first <= number
        {
            if let Some((_, frame)) = self.frames.pop_front() {
                self.bytes -= frame.len();
                self.moved_at = Instant::now();
            }
        }
    }

    /// Returns the frames from `from` on.
    pub(super) fn from(&mut self, from: u64) -> impl Iterator<Item = &Vec<u8>> {
        self.moved_at = Instant::now();
        self.frames
            .iter()
            .filter(move |(number, _)| *number >= from)
            .map(|(_, frame)| frame)
            .take(AGAIN_AT_ONCE)
    }

    /// Returns the oldest frames, if no acknowledgement arrived for [`SEND_AGAIN`].
    pub(super) fn overdue(&mut self) -> impl Iterator<Item = &Vec<u8>> {
        let is_overdue = !self.frames.is_empty() && self.moved_at.elapsed() >= SEND_AGAIN;
        let count = if is_overdue {
            self.moved_at = Instant::now();
            AGAIN_AT_ONCE
        } else {
            0
        };
        self.frames.iter().map(|(_, frame)| frame).take(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_acknowledged_is_let_go_and_the_rest_can_be_had_again() {
        let mut window = Window::new();
        for number in 1..=3 {
            assert_eq!(window.next_number(), number);
            window.add(vec![number as u8]);
        }
        assert_eq!(window.from(2).count(), 2);
        window.acknowledge(2);
        assert_eq!(window.from(0).cloned().collect::<Vec<_>>(), [[3]]);
        window.acknowledge(9);
        assert!(window.is_empty() && window.last_number() == 3 && window.bytes == 0);
    }

    #[test]
    fn a_full_window_has_no_room_until_something_is_acknowledged() {
        let mut window = Window::new();
        while window.has_room() {
            window.add(vec![0; 1 << 20]);
        }
        assert_eq!(window.last_number(), 4);
        window.acknowledge(1);
        assert!(window.has_room());
    }
}
