//! What a process waits for when all else is ready: its place among others.

use std::fmt;

use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};

/// The wait of one process before it may start. It is no silence of the process's: only the deadline of the turn
/// counts.
///
/// Dropped, it is given up.
pub(crate) struct Queue(BoxStream<'static, String>);

impl Queue {
    /// Nothing is waited for.
    pub(crate) fn none() -> Self {
        Self::of(stream::empty())
    }

    /// Waits until `stream` ends. What comes out of it is for the caller to know.
    pub(crate) fn of(stream: impl futures::Stream<Item = String> + Send + 'static) -> Self {
        Self(stream.boxed())
    }

    /// What the caller should know of the wait; `None` once the process may start. May be dropped and asked for again
    /// at any time.
    pub(crate) async fn news(&mut self) -> Option<String> {
        self.0.next().await
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Queue")
    }
}
