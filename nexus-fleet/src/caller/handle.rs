//! A conversation is kept on the machine of one worker, so its handle names the worker.

use nexus_core::{BackendId, ResumeHandle};
use serde_json::json;

use crate::protocol::token_fault;

/// The handle that a caller sees of `inner`, which `worker` made.
pub(super) fn wrap(backend: &BackendId, worker: &str, inner: &ResumeHandle) -> ResumeHandle {
    ResumeHandle::new(backend.clone(), json!({ "worker": worker, "state": inner.state() }))
}

/// The worker, and its own handle. `None` if [`wrap`] did not make it.
pub(super) fn unwrap(handle: &ResumeHandle) -> Option<(String, ResumeHandle)> {
    let state = handle.state().as_object().filter(|state| state.len() == 2)?;
    let worker = state.get("worker")?.as_str().filter(|worker| token_fault(worker).is_none())?;
    let inner = ResumeHandle::new(handle.backend().clone(), state.get("state")?.clone());
    Some((worker.to_owned(), inner))
}
