//! What a process was lent, for as long as it runs.

use std::fmt;

use futures::{StreamExt as _, stream::BoxStream};

use crate::auth::Lease;

/// What a process was lent. Dropped after the process, it takes that back.
#[derive(Default)]
pub(crate) enum Lent {
    /// Nothing: the program has a login of its own.
    #[default]
    Nothing,
    /// A credential that stays as it is.
    Lease(Lease),
    /// A credential that is renewed while the process runs, as long as this is polled. What comes out of it is for
    /// the caller to know.
    Renewed(BoxStream<'static, String>),
}

impl Lent {
    /// Renews what can be renewed, and completes with what the caller should know of it. May be dropped and asked
    /// for again at any time.
    pub(crate) async fn renew(&mut self) -> String {
        match self {
            Self::Renewed(renewal) => match renewal.next().await {
                Some(warning) => warning,
                None => std::future::pending().await,
            },
            Self::Nothing | Self::Lease(_) => std::future::pending().await,
        }
    }
}

impl From<Option<Lease>> for Lent {
    fn from(lease: Option<Lease>) -> Self {
        lease.map_or(Self::Nothing, Self::Lease)
    }
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("Nothing"),
            Self::Lease(lease) => f.debug_tuple("Lease").field(lease).finish(),
            Self::Renewed(_) => f.write_str("Renewed"),
        }
    }
}
