//! Notes on the backends' programs, for example on a version that is untested or refused.

use nexus::{Availability, BackendId, LoopMode, Router};
use schemars::JsonSchema;
use serde::Serialize;

/// A note on one backend's program.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct ProgramNote {
    #[schemars(with = "String")]
    pub(crate) backend: BackendId,
    pub(crate) note: String,
}

/// Asks each program for its version. A program that is missing or not logged in gets no note.
pub(crate) async fn notes(router: &Router) -> Vec<ProgramNote> {
    let mut found = Vec::new();
    for (backend, runs) in router.backends() {
        if runs.capabilities().mode != LoopMode::Delegated {
            continue;
        }
        let notes = match runs.probe().await {
            Availability::Ready { notes, .. } => notes,
            Availability::Unusable { reason } => vec![reason],
            _ => Vec::new(),
        };
        found.extend(notes.into_iter().map(|note| ProgramNote { backend: backend.clone(), note }));
    }
    found
}
