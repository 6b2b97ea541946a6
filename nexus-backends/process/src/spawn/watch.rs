//! Periodic check of a running process, which may end it.

use std::fmt;
use std::time::Duration;

use crate::containment::Enclosure;

/// Condition that ends the process, checked against its containment.
type EndCondition = Box<dyn FnMut(&mut Enclosure) -> bool + Send>;

/// Watch over a running process.
pub(crate) struct EndWatch {
    /// Pause between two checks.
    pub(super) every: Duration,
    pub(super) look: EndCondition,
    /// Maximum number of bytes that the program may write to both outputs together.
    pub(super) output_bytes: u64,
    /// Number of bytes stored of each output, in place of lines and a tail. `None`: lines and a tail.
    pub(super) kept_bytes: Option<usize>,
}

impl EndWatch {
    pub(crate) fn new(every: Duration, look: impl FnMut(&mut Enclosure) -> bool + Send + 'static) -> Self {
        Self { every, look: Box::new(look), output_bytes: u64::MAX, kept_bytes: None }
    }

    /// Ends the process once it has written more than `most` bytes. `kept` bytes of each output can be read at the end.
    pub(crate) fn output(mut self, most: u64, kept: usize) -> Self {
        (self.output_bytes, self.kept_bytes) = (most, Some(kept));
        self
    }
}

impl fmt::Debug for EndWatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a look every {:?}", self.every)
    }
}
