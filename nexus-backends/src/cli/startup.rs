//! Last wait of a prepared process: for other processes of the same vendor.

use std::fmt;

use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};

/// Wait of one process before it may start. Meanwhile the idle limits are suspended, but not the deadline of the turn.
///
/// Dropping it cancels the wait.
pub struct StartupWait(BoxStream<'static, String>);

impl StartupWait {
    /// Returns a wait that ends at once.
    #[must_use]
    pub fn none() -> Self {
        Self::until(stream::empty())
    }

    /// Returns a wait that ends with `stream`. Each item becomes a warning of the turn.
    pub fn until(stream: impl futures::Stream<Item = String> + Send + 'static) -> Self {
        Self(stream.boxed())
    }

    /// Returns the next warning about the wait; `None` once the process may start. Cancel-safe.
    pub(crate) async fn warning(&mut self) -> Option<String> {
        self.0.next().await
    }
}

impl fmt::Debug for StartupWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StartupWait")
    }
}
