//! Who may run a stage of a debate: one process at a time.

use std::{convert::Infallible, future::Future, sync::Arc, time::Duration};

use nexus_core::{CancelToken, harness::try_blocking};
use nexus_files::FileLock;
use tokio::{sync::watch, time::Instant};

use super::debates::DebatesCore;
use crate::{
    debate::Debate,
    debate_error::{DebateError, DebateErrorKind},
};

/// How often another process is looked at that has the stage.
pub(super) const PAUSE: Duration = Duration::from_millis(100);
/// How often a running job looks whether another process wants the debate cancelled.
const STOP_PAUSE: Duration = Duration::from_millis(500);

impl DebatesCore {
    /// Does `work` with the debate's stage held, once nobody else has it.
    pub(super) async fn held<F>(
        self: Arc<Self>,
        debate: Debate,
        cancel: CancelToken,
        said: watch::Sender<String>,
        work: impl FnOnce(Arc<Self>, Debate, CancelToken, watch::Sender<String>) -> F + Send + 'static,
    ) -> Result<(), DebateError>
    where
        F: Future<Output = Result<(), DebateError>> + Send,
    {
        let waiting = self.hold(&debate, None);
        said.send_replace(
            "another process works on this debate, or has just ended; this call waits".to_owned(),
        );
        let _hold = tokio::select! {
            hold = waiting => hold?,
            () = cancel.cancelled() => {
                let message = "the call was interrupted while another process worked on the debate";
                return Err(DebateError::new(DebateErrorKind::Interrupted, message, "make the same call again"));
            }
        };
        let (watched, stopping) = (debate.clone(), cancel.clone());
        tokio::select! {
            done = work(self, debate, cancel, said) => done,
            never = stop_when_asked(&watched, &stopping) => match never {},
        }
    }

    /// Takes the right to change a debate, within so long. `None` is as long as it takes.
    pub(super) async fn hold(
        &self,
        debate: &Debate,
        patience: Option<Duration>,
    ) -> Result<FileLock, DebateError> {
        let deadline = patience.map(|patience| Instant::now() + patience);
        loop {
            if let Some(hold) = self.read(debate, Debate::try_hold_stage).await? {
                return Ok(hold);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                let message = format!("another process works on the debate {}", debate.id());
                let instead = "call debate_status with wait_s, which comes back when it ends";
                return Err(DebateError::new(DebateErrorKind::InUse, message, instead));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// What runs for a debate, here or in another process: a line for a person. `None` if nothing does.
    pub(super) async fn running_now(&self, debate: &Debate) -> Result<Option<String>, DebateError> {
        if let Some(job) = self.jobs.of(debate.id()) {
            return Ok(Some(job.progress()));
        }
        let is_free = self.read(debate, |debate| Ok(debate.try_hold_stage()?.is_some())).await?;
        Ok((!is_free).then(|| "another process works on this debate".to_owned()))
    }
}

/// Cancels what runs when another process wants the debate cancelled.
async fn stop_when_asked(debate: &Debate, cancel: &CancelToken) -> Infallible {
    loop {
        tokio::time::sleep(STOP_PAUSE).await;
        let reading = debate.clone();
        if try_blocking(move || Ok::<_, DebateError>(reading.snapshot()?.data.stop)).await.unwrap_or(false) {
            cancel.cancel();
        }
    }
}
