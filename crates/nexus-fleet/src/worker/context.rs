//! Parts of a worker that its turns share.

use std::sync::Arc;

use nexus_router::Router;
use tokio::sync::Semaphore;

use super::{policy::Policy, trace::Trace};
use crate::link::Link;

/// Parts of a worker that its turns share. Clones are cheap.
#[derive(Clone)]
pub(super) struct WorkerContext {
    pub(super) link: Link,
    pub(super) pool: Arc<str>,
    /// The worker's name in its pool.
    pub(super) name: Arc<str>,
    pub(super) router: Router,
    pub(super) policy: Arc<Policy>,
    /// Permits of ended turns that have given their slot back but still wait for their callers.
    pub(super) lingering: Arc<Semaphore>,
    pub(super) trace: Trace,
}
