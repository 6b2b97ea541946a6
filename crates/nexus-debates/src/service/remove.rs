//! Removes a debate.

use std::time::Duration;

use nexus_work::WorkspaceState as _;

use super::{answer::DebateRemoved, debates::Debates, request::DebateRemoveRequest};
use crate::{debate::Debate, debate_error::DebateError};

/// Longest wait for another process that works on the debate.
const PATIENCE: Duration = Duration::from_secs(2);

impl Debates {
    /// Removes a debate that ended: its folder with all records. Tasks that follow from it remain.
    pub async fn remove(&self, request: DebateRemoveRequest) -> Result<DebateRemoved, DebateError> {
        self.remove_if(request, |_| Ok(true)).await
    }

    /// Removes a debate like [`remove`](Self::remove), unless it has changed since a program looked at it: `is_removable` is called while no
    /// process can change it.
    ///
    /// # Errors
    ///
    /// [`WrongStatus`](crate::DebateErrorKind::WrongStatus) also if `is_removable` returns false. Its error is returned.
    pub async fn remove_if(
        &self,
        request: DebateRemoveRequest,
        is_removable: impl FnOnce(&Debate) -> Result<bool, DebateError> + Send + 'static,
    ) -> Result<DebateRemoved, DebateError> {
        let debate = self.0.open(&request.debate_id).await?;
        // A stage needs this lock, so none can begin while the folder is removed.
        let _lock = self.0.jobs.lock(&debate, PATIENCE).await?;
        let store = self.0.store.clone();
        self.0
            .read(&debate, move |debate| {
                let state = debate.snapshot()?.state;
                if !state.is_final() {
                    let message = format!("the debate is {}", state.word());
                    return Err(DebateError::wrong_status(message, "first call debate_cancel to end it"));
                }
                if !is_removable(debate)? {
                    let message = "the debate changed meanwhile";
                    return Err(DebateError::wrong_status(message, "look at it again by debate_status"));
                }
                store.remove(debate)?;
                Ok(DebateRemoved { debate_id: debate.id().to_string() })
            })
            .await
    }
}
