//! The caller's side: a backend whose turns run in a pool.

mod answers;
mod arrival;
mod dead_worker;
mod end;
mod frames;
mod handle;
mod measured;
mod stop;
mod travelling_files;
mod turn;

pub(crate) use dead_worker::SILENCE;

use handle::WorkerHandle;

use std::{collections::BTreeMap, time::Duration};

use async_nats::{RequestErrorKind, client::Request};
use async_trait::async_trait;
use nexus_core::{
    Availability, BackendId, Capabilities, EventSink, ExecutionBackend, ForgetError, ForgetSupport,
    Forgotten, ModelListError, ModelListing, ResumeHandle, TurnError, TurnHost, TurnRequest, TurnResult,
};
use std::sync::Arc;

use crate::{
    error::FleetError,
    fleet::Fleet,
    link::Link,
    protocol::{CallerMessage, WORKERS_BUCKET, WireForget, WorkerCard, control_subject},
};

/// Time that a worker has to forget a conversation.
const FORGET_TIME: Duration = Duration::from_secs(30);

/// A backend whose turns run in a pool of workers.
///
/// It has the capabilities of `local`, which has the same kind and the same settings. The workers' backends have settings of
/// their own, in their own files. A worker rejects a request that its backend cannot run.
///
/// It cannot be steered: input from a [`Steering`](nexus_core::Steering) is rejected at once.
#[derive(Debug)]
pub struct FleetBackend {
    local: Arc<dyn ExecutionBackend>,
    capabilities: Capabilities,
    pool: String,
    fleet: Fleet,
}

impl FleetBackend {
    /// Creates a backend like `local`, whose turns run in `pool`. `local` itself runs no turn.
    pub fn new(local: Arc<dyn ExecutionBackend>, pool: impl Into<String>, fleet: Fleet) -> Self {
        let mut capabilities = local.capabilities();
        // The fleet protocol has no message for input during a turn.
        capabilities.steering = nexus_core::Support::No;
        // Nothing is known about the containment in advance, as any machine may run the turn. The result names it.
        capabilities.containment = capabilities.containment.map(|_| nexus_core::Containment::default());
        Self { local, capabilities, pool: pool.into(), fleet }
    }

    /// Returns the workers of the pool that offer this backend.
    async fn workers(&self) -> Result<BTreeMap<String, WorkerCard>, FleetError> {
        let link = self.fleet.0.link().await?;
        let mut workers = list_workers(&link, Some(&self.pool)).await?;
        workers.retain(|_, card| card.backends.contains_key(self.id().as_str()));
        Ok(workers.into_iter().map(|((_, name), card)| (name, card)).collect())
    }
}

/// Returns the present workers by pool and name, optionally of one pool.
pub(crate) async fn list_workers(
    link: &Link,
    pool: Option<&str>,
) -> Result<BTreeMap<(String, String), WorkerCard>, FleetError> {
    let of_pool = |key: &str| pool.is_none_or(|pool| key.split_once('.').is_some_and(|(of, _)| of == pool));
    let values = link.nats.bucket_values(WORKERS_BUCKET, of_pool).await?;
    let workers = values.into_iter().filter_map(|(key, value)| {
        let (of, name) = key.split_once('.')?;
        // Skip the card of a worker with a later protocol version.
        let card = serde_json::from_slice(&value).ok()?;
        Some(((of.to_owned(), name.to_owned()), card))
    });
    Ok(workers.collect())
}

#[async_trait]
impl ExecutionBackend for FleetBackend {
    fn id(&self) -> &BackendId {
        self.local.id()
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    async fn probe(&self) -> Availability {
        let workers = match self.workers().await {
            Ok(workers) => workers,
            Err(error) => return Availability::Unusable { reason: error.to_string() },
        };
        let ready: Vec<_> = workers.values().filter(|card| !card.is_draining).collect();
        if ready.is_empty() {
            let reason = format!(
                "no worker of the pool {} offers {}: start one with `nexus worker --pool {}`",
                self.pool,
                self.id(),
                self.pool
            );
            return Availability::Unusable { reason };
        }
        let mut versions: Vec<_> =
            ready.iter().filter_map(|card| card.backends.get(self.id().as_str())?.clone()).collect();
        versions.sort_unstable();
        versions.dedup();
        let version = (!versions.is_empty()).then(|| versions.join(", "));
        Availability::ready(version)
    }

    // The workers call the server, so the list of this machine would be another one.
    async fn models(&self) -> Result<ModelListing, ModelListError> {
        let advice = format!("its turns run in the pool {}: list them on a machine of the pool", self.pool);
        Err(ModelListError::Unsupported { backend: self.id().clone(), advice: Some(advice) })
    }

    async fn run_turn(
        &self,
        request: TurnRequest,
        host: TurnHost,
        events: &mut dyn EventSink,
    ) -> Result<TurnResult, TurnError> {
        let measured = measured::MeasuredTurn::begin(self);
        let outcome = turn::run(self, request, host, events).await;
        measured.ended(&outcome);
        outcome
    }

    async fn forget(&self, handle: &ResumeHandle) -> Result<Forgotten, ForgetError> {
        ForgetError::unless_of(self.id(), handle)?;
        let backend = self.id().clone();
        let Some(WorkerHandle { worker, inner, .. }) = WorkerHandle::of(handle) else {
            return Err(ForgetError::InvalidHandle { backend });
        };
        if self.capabilities.forget == ForgetSupport::InHandle {
            return self.local.forget(&inner).await;
        }
        let no_backend = |reason: String| ForgetError::NoBackend { backend: backend.clone(), reason };
        let link = self.fleet.0.link().await.map_err(|error| no_backend(error.to_string()))?;
        let message = CallerMessage::Forget { backend: self.id().as_str().to_owned(), handle: inner };
        let message = serde_json::to_vec(&message).map_err(|error| no_backend(error.to_string()))?;
        let request = Request::new().payload(message.into()).timeout(Some(FORGET_TIME));
        let answer = link.nats.client().send_request(control_subject(&self.pool, &worker), request).await;
        match answer {
            Ok(answer) => serde_json::from_slice::<WireForget>(&answer.payload)
                .map_err(|error| no_backend(error.to_string()))?
                .into_outcome(self.id()),
            Err(error) if error.kind() == RequestErrorKind::NoResponders => Err(no_backend(format!(
                "the worker {worker} of the pool {}, which stores the conversation, is not running",
                self.pool
            ))),
            Err(error) => Err(no_backend(format!("the worker {worker} did not answer: {error}"))),
        }
    }
}
