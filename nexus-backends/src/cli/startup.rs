//! The last wait of a prepared process: for other processes of its vendor.

use std::fmt;

use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};

/// The wait of one process before it may start. Idle limits do not run meanwhile; the deadline of the turn does.
///
/// Dropping it gives the wait up.
pub struct StartupWait(BoxStream<'static, String>);

impl StartupWait {
    /// No wait.
    #[must_use]
    pub fn none() -> Self {
        Self::until(stream::empty())
    }

    /// Waits until `stream` ends. Each item becomes a warning of the turn.
    pub fn until(stream: impl futures::Stream<Item = String> + Send + 'static) -> Self {
        Self(stream.boxed())
    }

    /// The next warning about the wait; `None` once the process may start. Cancel-safe.
    pub(crate) async fn warning(&mut self) -> Option<String> {
        self.0.next().await
    }
}

impl fmt::Debug for StartupWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StartupWait")
    }
}
