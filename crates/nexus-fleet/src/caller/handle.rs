//! Resume handles of a fleet. A conversation is stored on the machine of one worker, so its handle names the worker. If
//! files travel, the handle also names their folder there, because programs tie conversations to their folder.

use nexus_core::{BackendId, ResumeHandle};
use serde_json::json;

use crate::protocol::token_fault;

/// Resume handle of a worker, and the worker that accepts it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WorkerHandle {
    pub(super) worker: String,
    /// Handle that the worker returned.
    pub(super) inner: ResumeHandle,
    /// Name of the conversation's folder at the worker, if its files travelled.
    pub(super) place: Option<String>,
}

impl WorkerHandle {
    /// Returns the handle for the caller, with the worker's handle inside.
    pub(super) fn wrap(self, backend: &BackendId) -> ResumeHandle {
        let Self { worker, inner, place } = self;
        let mut state = json!({ "worker": worker, "state": inner.state() });
        if let Some(place) = place {
            state["place"] = place.into();
        }
        ResumeHandle::new(backend.clone(), state).with_items(inner.items().clone())
    }

    /// Reads a handle that [`wrap`](Self::wrap) created. `None` for any other handle.
    pub(super) fn of(handle: &ResumeHandle) -> Option<Self> {
        let state = handle.state().as_object()?;
        let token = |name: &str| state.get(name)?.as_str().filter(|token| token_fault(token).is_none());
        let place = token("place").map(str::to_owned);
        if state.len() != 2 + usize::from(place.is_some()) {
            return None;
        }
        let inner = ResumeHandle::new(handle.backend().clone(), state.get("state")?.clone())
            .with_items(handle.items().clone());
        Some(Self { worker: token("worker")?.to_owned(), inner, place })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_comes_back_as_it_was_and_a_stranger_is_none() {
        let backend = BackendId::new("alpha");
        let inner = ResumeHandle::new(backend.clone(), json!({ "thread": 1 }));
        for place in [None, Some("0f3c".to_owned())] {
            let kept = WorkerHandle { worker: "w1".to_owned(), inner: inner.clone(), place };
            assert_eq!(WorkerHandle::of(&kept.clone().wrap(&backend)), Some(kept));
        }
        for state in [
            json!({}),
            json!({ "worker": "a.b", "state": 1 }),
            json!({ "worker": "a", "state": 1, "place": "../x" }),
            json!({ "worker": "a", "state": 1, "more": 1 }),
        ] {
            assert_eq!(WorkerHandle::of(&ResumeHandle::new(backend.clone(), state.clone())), None, "{state}");
        }
    }
}
