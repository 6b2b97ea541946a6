//! Blocking work on trees, on a separate thread.

use std::panic::resume_unwind;

use nexus_core::{CancelToken, harness::run_cancellable};
use nexus_trees::{Tree, TreeError};

/// Runs `work` on a tree by [`run_cancellable`]. It ends with [`Cancelled`](nexus_trees::TreeErrorKind::Cancelled) when `cancel` is
/// cancelled. A panic of the work resumes in the caller.
pub(super) async fn on_tree<T: Send + 'static>(
    tree: &Tree,
    cancel: &CancelToken,
    work: impl FnOnce(&Tree) -> Result<T, TreeError> + Send + 'static,
) -> Result<T, TreeError> {
    let tree = tree.clone();
    let done = run_cancellable(cancel.child(), |cancel| work(&tree.with_cancel(cancel))).await;
    done.unwrap_or_else(|panic| resume_unwind(panic))
}
