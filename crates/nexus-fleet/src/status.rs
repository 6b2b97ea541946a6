//! Workers, queues and holds of a fleet.

use std::collections::BTreeMap;

use futures::TryStreamExt as _;
use nexus_nats::{API, NatsError};
use nexus_router::Hold;
use serde::Serialize;

use crate::{
    caller::list_workers,
    error::FleetError,
    fleet::Fleet,
    hold_store::{accounts_held, hold_on},
    link::Link,
    measure::{self, Of},
    protocol::{Lane, Priority, queue_pool, queue_subjects, queued_at},
};

/// Workers, queues and holds of a fleet, as its servers had them at one moment.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct FleetStatus {
    /// The version of the server that answered.
    pub server: String,
    /// The pools that have a queue or a worker, by name.
    pub pools: BTreeMap<String, PoolStatus>,
    /// The suspended accounts, by name.
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub holds: BTreeMap<String, Hold>,
}

/// Workers and queues of a pool.
#[non_exhaustive]
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
pub struct PoolStatus {
    /// Its workers, by name.
    pub workers: BTreeMap<String, WorkerStatus>,
    /// The turns that any worker may take and none has started, by priority.
    #[schemars(with = "BTreeMap<String, u64>")]
    pub waiting: BTreeMap<Priority, u64>,
    /// Turns that resume a conversation and wait for the worker that has it, by its name.
    pub waiting_for: BTreeMap<String, u64>,
}

/// A worker.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct WorkerStatus {
    /// The backends that can start there, and the version of each program where it has one.
    pub backends: BTreeMap<String, Option<String>>,
    /// Turns it runs at once.
    pub slots: usize,
    /// Ids of the running turns.
    pub running: Vec<String>,
    /// Mean duration of its turns, in milliseconds. 0 before the first.
    pub mean_turn_milliseconds: u64,
    /// True if it takes no further turn.
    pub is_draining: bool,
}

impl Fleet {
    /// Returns the workers, queues and holds. Changes nothing.
    ///
    /// # Errors
    ///
    /// [`FleetError`]: the servers could not be used, or are not set up.
    pub async fn status(&self) -> Result<FleetStatus, FleetError> {
        let link = self.0.link().await?;
        let status = self.0.run(async move { status(&link).await }).await?;
        status.measure();
        Ok(status)
    }
}

impl FleetStatus {
    /// Reports the levels as measurements, including levels of zero.
    fn measure(&self) {
        let level = |metric: measure::Metric, count: usize, of: Of<'_>| metric.add(count, of);
        for (name, pool) in &self.pools {
            let of = Of { pool: Some(name), ..Of::default() };
            let any = Priority::ALL.map(|priority| {
                (priority.as_str(), pool.waiting.get(&priority).copied().unwrap_or_default())
            });
            for (lane, count) in any.into_iter().chain([("kept", pool.waiting_for.values().sum::<u64>())]) {
                let count = usize::try_from(count).unwrap_or(usize::MAX);
                level(measure::DEPTH, count, Of { lane: Some(lane), ..of });
            }
            for (state, is_draining) in [("ready", false), ("draining", true)] {
                let workers = pool.workers.values().filter(|worker| worker.is_draining == is_draining);
                level(measure::WORKERS, workers.count(), Of { state: Some(state), ..of });
            }
            let workers = pool.workers.values();
            level(measure::POOL_SLOTS, workers.clone().map(|worker| worker.slots).sum(), of);
            level(measure::POOL_RUNNING, workers.map(|worker| worker.running.len()).sum(), of);
        }
        level(measure::HOLDS, self.holds.len(), Of::default());
    }
}

async fn status(link: &Link) -> Result<FleetStatus, FleetError> {
    let mut pools: BTreeMap<String, PoolStatus> = BTreeMap::new();
    for ((pool, name), card) in list_workers(link, None).await? {
        let worker = WorkerStatus {
            backends: card.backends,
            slots: card.slots,
            running: card.running,
            mean_turn_milliseconds: card.mean_turn,
            is_draining: card.is_draining,
        };
        pools.entry(pool).or_default().workers.insert(name, worker);
    }
    let streams = link.nats.jetstream().stream_names().try_collect();
    let streams = link.nats.permitted(&format!("{API}STREAM.NAMES"), streams).await?;
    let streams: Vec<String> = streams.map_err(NatsError::unclear)?;
    for stream in &streams {
        let Some(pool) = queue_pool(stream) else { continue };
        let status = pools.entry(pool.to_owned()).or_default();
        status.waiting.extend(Priority::ALL.map(|priority| (priority, 0)));
        let depths = link.nats.stream(stream).await?.counts(queue_subjects(pool)).await?;
        for (subject, count) in depths {
            let count = count as u64;
            match queued_at(pool, &subject) {
                Some(Lane::Any(priority)) => *status.waiting.entry(priority).or_default() += count,
                Some(Lane::At(worker)) => *status.waiting_for.entry(worker).or_default() += count,
                None => {}
            }
        }
    }
    let mut holds = BTreeMap::new();
    for account in accounts_held(link).await? {
        if let Some(hold) = hold_on(link, &account).await? {
            holds.insert(account, hold);
        }
    }
    Ok(FleetStatus { server: link.nats.client().server_info().version, pools, holds })
}
