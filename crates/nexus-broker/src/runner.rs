//! Scheduler loop: polls the queues and starts a turn for each agent with waiting messages.

use std::{
    cmp::Reverse,
    time::{Duration, Instant},
};

use nexus_core::CancelToken;
use tokio::task::JoinSet;

use crate::{
    broker::Broker,
    error::BrokerError,
    store::{QueueStatus, burst, changed},
    turn,
};

/// Pause between two polls of the store while messages wait, or while the store does not notice changes by other processes. A message from
/// this process ends the pause.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// Pause while messages are only leased: the lease of a killed broker lapses without any change.
const LOOK_FOR_LAPSES: Duration = Duration::from_secs(1);
/// Pause while there are no messages. A change of the store ends the pause.
const LOOK_ANYWAY: Duration = Duration::from_secs(60);
/// Interval between two clean-ups of old turn counts.
const TIDY_EVERY: Duration = Duration::from_secs(3_600);
/// Beginning of the name of an agent's queue.
const AGENT_QUEUE: &str = "agent.";
/// Pause after a failure of the store.
const AFTER_FAILURE: Duration = Duration::from_secs(2);

impl Broker {
    /// Runs the turns of agents until `drain` or `end` is cancelled. Then it starts no further turns. Running
    /// turns complete if `drain` was cancelled, and are cancelled if `end` was.
    ///
    /// A failure of the store is logged as a warning, and the store is polled again.
    pub async fn run(&self, drain: CancelToken, end: CancelToken) {
        let mut turns = JoinSet::new();
        let mut tidied: Option<Instant> = None;
        let mut changes = self.store().changes();
        while !drain.is_cancelled() && !end.is_cancelled() {
            if tidied.is_none_or(|tidied| tidied.elapsed() >= TIDY_EVERY) {
                tidied = Some(Instant::now());
                if let Err(error) = self.forget_turn_counts().await {
                    tracing::debug!(%error, "old counts of turns are deleted later");
                }
            }
            let wait = match self.begin_turns(&mut turns, &drain, &end).await {
                Ok(pause) if changes.is_some() => pause,
                Ok(_) => LOOK_EVERY,
                Err(error) => {
                    tracing::warn!(%error, "the broker cannot list the waiting messages");
                    AFTER_FAILURE
                }
            };
            tokio::select! {
                () = drain.cancelled() => {}
                () = end.cancelled() => {}
                () = self.woken() => {}
                () = changed(&mut changes) => burst().await,
                () = tokio::time::sleep(wait) => {}
                Some(ended) = turns.join_next() => report(ended),
            }
        }
        while let Some(ended) = turns.join_next().await {
            report(ended);
        }
    }

    /// Starts turns for waiting messages. Returns the pause before the next poll.
    async fn begin_turns(
        &self,
        turns: &mut JoinSet<()>,
        drain: &CancelToken,
        end: &CancelToken,
    ) -> Result<Duration, BrokerError> {
        self.watch_clock();
        let mut queues = self.store().queues().await?;
        let pause = pause_after(&queues);
        // Serve the most urgent queue first, then the queue that has waited longest. Alphabetical order would
        // let some agents starve.
        queues.sort_by_key(|status| {
            let most_urgent = status.waiting.iter().rposition(|waiting| *waiting > 0);
            (Reverse(most_urgent), status.oldest)
        });
        for status in queues {
            // A waiting turn uses no resources, and the answer that it waits for may need a free slot. So do not count it.
            if turns.len().saturating_sub(self.waiting_turns()) >= self.options().max_turns_at_once {
                break;
            }
            let Some(name) = status.queue.strip_prefix(AGENT_QUEUE) else { continue };
            if status.waiting.iter().sum::<u64>() == 0 || !self.enter(name) {
                continue;
            }
            let (broker, name, drain, end) = (self.clone(), name.to_owned(), drain.clone(), end.clone());
            turns.spawn(async move {
                let entered = EnteredAgent { broker: &broker, name: &name };
                if let Err(error) = turn::handle(&broker, &name, &drain, &end).await {
                    tracing::warn!(agent = %name, %error, "a message could not be handled and will be delivered again");
                    broker.suspend(&name, AFTER_FAILURE);
                }
                // Mark the agent as free before the wake, so that the next look can start a turn for it.
                drop(entered);
                broker.wake();
            });
        }
        Ok(pause)
    }
}

/// Returns the pause after a poll that found these queues.
fn pause_after(queues: &[QueueStatus]) -> Duration {
    let agents = queues.iter().filter(|status| status.queue.starts_with(AGENT_QUEUE));
    let pauses = agents.map(|status| match (status.waiting.iter().sum::<u64>(), status.taken) {
        (0, 0) => LOOK_ANYWAY,
        (0, _) => LOOK_FOR_LAPSES,
        _ => LOOK_EVERY,
    });
    pauses.min().unwrap_or(LOOK_ANYWAY)
}

/// Marks an agent as busy in this process. Dropping it ends that.
struct EnteredAgent<'b> {
    broker: &'b Broker,
    name: &'b str,
}

impl Drop for EnteredAgent<'_> {
    fn drop(&mut self) {
        self.broker.leave(self.name);
    }
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a turn of the broker panicked");
    }
}
