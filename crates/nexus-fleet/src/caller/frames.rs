//! Puts the frames of a turn in order.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use crate::protocol::{Frame, Item};

/// Maximum number of frames that are stored while an earlier one is missing.
const MAX_AHEAD: usize = 1_024;
/// Pause between two requests for missing frames.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// Frames of one attempt, in order.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// Number of the last frame in order.
    taken: u64,
    /// Frames that arrived before an earlier one.
    ahead: BTreeMap<u64, Vec<Item>>,
    /// Last number that was acknowledged to the worker.
    acknowledged: u64,
    /// Highest number that is known to exist.
    known: u64,
    /// Time since which a frame is missing.
    missing_since: Option<Instant>,
    asked_at: Option<Instant>,
}

impl Frames {
    /// Adds a frame, and returns the items that are now in order.
    pub(super) fn take(&mut self, frame: Frame) -> Vec<Item> {
        self.known = self.known.max(frame.number);
        // A frame without items only reports the last number.
        if !frame.items.is_empty() && frame.number > self.taken && self.ahead.len() < MAX_AHEAD {
            self.ahead.entry(frame.number).or_insert(frame.items);
        }
        let mut items = Vec::new();
        while let Some(next) = self.ahead.remove(&(self.taken + 1)) {
            self.taken += 1;
            items.extend(next);
        }
        if self.taken >= self.known {
            self.missing_since = None;
        } else if !items.is_empty() || self.missing_since.is_none() {
            self.missing_since = Some(Instant::now());
        }
        items
    }

    /// Returns the number of the first missing frame, if it is time to request it again.
    pub(super) fn wanted_again(&mut self) -> Option<u64> {
        self.missing_since?;
        let now = Instant::now();
        if self.asked_at.is_some_and(|asked| now < asked + ASK_AGAIN) {
            return None;
        }
        self.asked_at = Some(now);
        Some(self.taken + 1)
    }

    /// Returns the range of the missing frames, if they have been missing for `patience` or longer.
    pub(super) fn lost_for(&self, patience: Duration) -> Option<(u64, u64)> {
        let since = self.missing_since?;
        let last = self.ahead.keys().next().map_or(self.known, |next| next - 1);
        (since.elapsed() >= patience).then_some((self.taken + 1, last))
    }

    /// Returns the number of received frames that are not acknowledged to the worker.
    pub(super) fn unacknowledged(&self) -> u64 {
        self.taken - self.acknowledged
    }

    /// Returns the number to acknowledge to the worker, and marks it as acknowledged.
    pub(super) fn acknowledge(&mut self) -> u64 {
        self.acknowledged = self.taken;
        self.taken
    }
}

#[cfg(test)]
mod tests {
    use nexus_core::{EventEnvelope, TurnEvent};

    use super::*;

    fn frame(number: u64, items: usize) -> Frame {
        let event = |index| EventEnvelope::new(index, Duration::ZERO, TurnEvent::warning(number.to_string()));
        let items = (0..items as u64).map(|index| Item::Event(Box::new(event(index)))).collect();
        Frame { key: "k".into(), worker: "w".into(), attempt: "a".into(), number, items }
    }

    fn numbers(items: &[Item]) -> Vec<String> {
        let text = |item: &Item| match item {
            Item::Event(envelope) => match &envelope.event {
                TurnEvent::Warning(warning) => warning.text.clone(),
                _ => String::new(),
            },
            _ => String::new(),
        };
        items.iter().map(text).collect()
    }

    #[test]
    fn frames_are_put_in_order_and_repeats_are_dropped() {
        let mut frames = Frames::default();
        assert_eq!(numbers(&frames.take(frame(1, 1))), ["1"]);
        assert!(frames.take(frame(3, 1)).is_empty());
        assert_eq!(frames.wanted_again(), Some(2));
        assert_eq!(frames.wanted_again(), None, "not at once again");
        assert!(frames.take(frame(1, 1)).is_empty());
        assert!(frames.take(frame(3, 1)).is_empty());
        assert_eq!(numbers(&frames.take(frame(2, 1))), ["2", "3"]);
        assert_eq!((frames.unacknowledged(), frames.acknowledge(), frames.unacknowledged()), (3, 3, 0));
        assert_eq!(frames.lost_for(Duration::ZERO), None);
    }

    #[test]
    fn a_frame_without_items_tells_what_is_missing() {
        let mut frames = Frames::default();
        assert!(frames.take(frame(0, 0)).is_empty());
        assert_eq!(frames.lost_for(Duration::ZERO), None);
        assert!(frames.take(frame(2, 0)).is_empty());
        assert_eq!((frames.lost_for(Duration::ZERO), frames.wanted_again()), (Some((1, 2)), Some(1)));
        frames.take(frame(2, 1));
        assert_eq!(frames.lost_for(Duration::ZERO), Some((1, 1)));
    }
}
