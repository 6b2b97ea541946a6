//! Claim of a queued turn: decides if this worker runs it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_nats::{RequestErrorKind, client::Request, jetstream::AckKind};
use nexus_core::CancelToken;
use nexus_nats::Tenure;
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    time::Instant,
};

use super::{context::WorkerContext, measured::Figures, queue::give_back};
use crate::{
    protocol::{QueuedTurn, WorkerCommand, frames_subject},
    started_key::{self, KeyClaim},
};

/// Longest wait for the caller's answer that it is present. A caller that does not answer counts as present.
const CALLER_TIME: Duration = Duration::from_millis(500);
/// Pause before a turn with an absent caller is delivered again, and the maximum number of its deliveries.
const DELIVER_AGAIN: Duration = Duration::from_secs(5);
const DELIVERIES: i64 = 24;
/// Maximum number of attempts at a claim with an unclear result. Each takes 20 s.
const MAX_CLAIMS: u32 = 15;
/// Pause before a turn is delivered to a worker that offers its backend, and the maximum number of such deliveries.
const ELSEWHERE_AGAIN: Duration = Duration::from_millis(500);
const DELIVERIES_ELSEWHERE: i64 = 12;
/// Time after its delivery within which a turn must begin. The caller counts silence from about the delivery on.
pub(super) const BEGIN_WITHIN: Duration = Duration::from_secs(20);

/// A slot that a turn has.
pub(super) struct TurnSlot {
    _permit: OwnedSemaphorePermit,
    is_taken: Arc<AtomicBool>,
}

impl TurnSlot {
    pub(super) fn new(permit: OwnedSemaphorePermit) -> Self {
        Self { _permit: permit, is_taken: Arc::new(AtomicBool::new(true)) }
    }

    /// Returns a mark that becomes false once the slot is given back.
    pub(super) fn mark(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_taken)
    }
}

impl Drop for TurnSlot {
    fn drop(&mut self) {
        self.is_taken.store(false, Ordering::Relaxed);
    }
}

/// Turn that this worker took out of a queue.
pub(super) struct TakenTurn {
    /// The worker that took it.
    pub(super) worker: WorkerContext,
    /// Name of the caller, from the subject.
    pub(super) caller: String,
    pub(super) queued: QueuedTurn,
    pub(super) figures: Figures,
    pub(super) commands: mpsc::Receiver<WorkerCommand>,
    /// Permit of a slot, released when the turn has ended.
    pub(super) slot: Option<TurnSlot>,
    /// Time of its delivery.
    pub(super) taken_at: Instant,
    /// The worker's claim on its name.
    pub(super) tenure: Tenure,
    /// True if the worker offers the turn's backend now.
    pub(super) is_offered: bool,
    /// Cancelled when the worker stops taking turns.
    pub(super) drain: CancelToken,
}

/// Claims the turn, and acknowledges its message or returns it to the queue. Returns the attempt if this worker runs the
/// turn.
pub(super) async fn claim(job: &TakenTurn, message: &async_nats::jetstream::Message) -> Option<String> {
    let deliveries = message.info().map_or(0, |info| info.delivered);
    if !job.is_offered && deliveries < DELIVERIES_ELSEWHERE {
        job.figures.declined("not_offered");
        // Ignore an error: the server delivers a message without an acknowledgement again.
        let _ = message.ack_with(AckKind::Nak(Some(ELSEWHERE_AGAIN))).await;
        return None;
    }
    if !is_waited_for(job).await {
        job.figures.declined("no_caller");
        // The caller may be reconnecting. It ends its turn by itself if that takes more than a minute.
        if deliveries < DELIVERIES {
            let _ = message.ack_with(AckKind::Nak(Some(DELIVER_AGAIN))).await;
            return None;
        }
        // Claim the turn without running it. If the caller returns later, it finds that the turn was never started and never
        // will be.
        let attempt = uuid::Uuid::new_v4().simple().to_string();
        if let Ok(KeyClaim::Won | KeyClaim::Lost(_)) =
            started_key::claim(&job.worker.link, &job.caller, &job.queued.turn, None, &attempt).await
        {
            // Ignore an error: the claim already prevents a start by any worker.
            let _ = message.ack_with(AckKind::Term).await;
        }
        return None;
    }
    // After such a delay the caller would count this worker as silent, so leave the turn to another worker.
    if job.taken_at.elapsed() > BEGIN_WITHIN {
        job.figures.declined("late");
        return None;
    }
    if !job.tenure.is_active() {
        job.figures.declined("no_entry");
        give_back(message).await;
        return None;
    }
    let attempt = uuid::Uuid::new_v4().simple().to_string();
    let mut claims = 0;
    loop {
        claims += 1;
        match started_key::claim(
            &job.worker.link,
            &job.caller,
            &job.queued.turn,
            Some(&job.worker.name),
            &attempt,
        )
        .await
        {
            Ok(KeyClaim::Won) => break,
            Ok(KeyClaim::Lost(holder)) => {
                job.figures.declined(if holder.worker.is_some() {
                    "started_elsewhere"
                } else {
                    "taken_back"
                });
                // Ignore an error: the next worker that gets the message finds the same claim.
                let _ = message.ack().await;
                return None;
            }
            // Without a clear answer this worker does not start the turn. If its key exists after all, the caller learns
            // that nothing was run: see `BEGIN_WITHIN`.
            Ok(KeyClaim::Unclear) if claims < MAX_CLAIMS => {}
            Ok(KeyClaim::Unclear) => {
                job.figures.declined("unclear");
                return None;
            }
            Err(error) => {
                job.figures.declined("unclear");
                tracing::warn!(%error, turn = job.queued.turn, "a turn could not be started");
                return None;
            }
        }
    }
    // The acknowledgement removes the turn from the queue. If it is lost, the next worker finds the started key.
    let _ = message.ack().await;
    Some(attempt)
}

/// Returns true if the caller is present, as far as the servers know.
async fn is_waited_for(job: &TakenTurn) -> bool {
    let subject = frames_subject(&job.caller, &job.queued.instance, &job.queued.turn);
    let request = Request::new().timeout(Some(CALLER_TIME));
    let asked = job.worker.link.nats.client().send_request(subject, request).await;
    !asked.is_err_and(|error| error.kind() == RequestErrorKind::NoResponders)
}
