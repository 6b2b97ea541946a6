//! Puts a turn into its queue.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_nats::jetstream::message::PublishMessage;
use nexus_core::{
    BackendId, CancelToken, ConversationMode, Effects, ErrorKind, ExecutionBackend as _, ForgetSupport,
    Retry, TurnError, TurnHost, TurnRequest,
    harness::{Failure, TurnLog, TurnSpan, Watch},
};
use nexus_nats::{NatsError, NatsStoreError};
use tokio::time::Instant;

use super::{ArrivedItems, LONGEST_WAIT, LatestReply, RemoteTurn, TICK, TurnFiles, with_effects};
use crate::{
    blocking::off_thread,
    caller::{
        FleetBackend,
        answers::Answers,
        dead_worker::WorkerContact,
        end::{self, FoundEnd},
        frames::Frames,
        handle::WorkerHandle,
        list_workers,
        stop::StopGuard,
        travelling_files::CallerFiles,
    },
    error::FleetError,
    link::Link,
    objects::{self, FileToStore},
    protocol::{
        FILES_VERSION, FIRST_VERSION, Lane, Payload, Priority, QueuedTurn, StoredObject, TravellingFiles,
        TurnBody, queue_stream, queue_subject,
    },
    settings::{FleetSettings, WorkspaceMode},
    setup,
    started_key::now_milliseconds,
};

/// Time that the servers have to store a turn in a queue.
const QUEUE_TIME: Duration = Duration::from_secs(30);
/// Longest time for taking back a turn whose queue did not answer.
const TAKE_BACK_TIME: Duration = Duration::from_secs(5);
/// The label that sets the priority of one turn.
const PRIORITY_LABEL: &str = "nexus.priority";

impl<'b> RemoteTurn<'b> {
    /// Puts the turn into its queue.
    pub(super) async fn begin(
        backend: &'b FleetBackend,
        mut request: TurnRequest,
        host: &TurnHost,
        span: &TurnSpan,
        (deadline, is_sent): (Option<Instant>, &AtomicBool),
    ) -> Result<Self, TurnError> {
        let id = backend.id();
        let fleet = &backend.fleet.0;
        let settings = &fleet.settings;
        let turn = uuid::Uuid::new_v4().simple().to_string();
        let mut place = turn.clone();
        let lane = match &request.conversation {
            ConversationMode::Resume { handle, .. } => {
                let Some(WorkerHandle { worker, inner, place: kept }) = WorkerHandle::of(handle) else {
                    let reason = "the conversation to resume is not stored by a worker of the fleet";
                    return Err(Failure::new(ErrorKind::ConversationLost, reason).into_error(id.clone()));
                };
                let on_lost = match &request.conversation {
                    ConversationMode::Resume { on_lost, .. } => *on_lost,
                    _ => nexus_core::OnLost::Fail,
                };
                request.conversation = ConversationMode::Resume { handle: inner, on_lost };
                place = kept.unwrap_or(place);
                // If the handle itself contains the conversation, any worker can resume it.
                match backend.capabilities.forget {
                    ForgetSupport::InHandle => Lane::Any(priority(&request, settings.priority, id)?),
                    _ => Lane::At(worker),
                }
            }
            _ => Lane::Any(priority(&request, settings.priority, id)?),
        };
        let failed = |error: FleetError| error.into_turn_error(id);
        let files = take_files(settings, &turn, id, &request)
            .await
            .map_err(|failure| failure.into_error(id.clone()))?;
        let link = fleet.link_for_turns().await.map_err(failed)?;
        // Only this worker serves the lane, so the turn would wait in it until the time limit.
        if let Lane::At(worker) = &lane {
            let workers = list_workers(&link, Some(&backend.pool)).await.map_err(failed)?;
            if !workers.contains_key(&(backend.pool.clone(), worker.clone())) {
                let reason = format!(
                    "the worker {worker} of the pool {}, which stores the conversation, is not running",
                    backend.pool
                );
                let failure = Failure::new(ErrorKind::Overloaded, reason)
                    .with_retry(Retry::after_failure(ErrorKind::Overloaded, None));
                return Err(failure.into_error(id.clone()));
            }
        }
        let key = uuid::Uuid::new_v4().simple().to_string();
        let owner = objects::owner(settings.name(), &turn);
        let session = host.open_turn(&request);
        let mut guard = StopGuard::new(
            backend.fleet.clone(),
            link.clone(),
            backend.pool.clone(),
            turn.clone(),
            key.clone(),
        );
        let mut workspace = None;
        if let Some((files, bundle)) = &files {
            let base = store_base(&link, &owner, bundle).await.map_err(failed)?;
            guard.keep(&Payload::Object(base.clone()));
            let (directory, roots) = (files.directory.clone(), files.roots.clone());
            workspace = Some(TravellingFiles { base, place: place.clone(), directory, roots });
            // These folders exist only on this machine.
            (request.working_directory, request.extra_roots) = (None, Vec::new());
        }
        // Use the first version wherever possible: workers of that version accept the turn.
        let version = if workspace.is_some() { FILES_VERSION } else { FIRST_VERSION };
        let body = TurnBody {
            participant: session.participant().as_str().to_owned(),
            tools: session.definitions().to_vec(),
            has_approver: host.approver.is_some(),
            request: request.clone(),
            workspace,
        };
        let body = objects::pack(&link, &owner, &body).await.map_err(|error| match error {
            FleetError::TooLarge { bytes, most, .. } => {
                failed(FleetError::TooLarge { what: "the request, with its tools,".to_owned(), bytes, most })
            }
            error => failed(error),
        })?;
        guard.keep(&body);
        let queued = QueuedTurn {
            version,
            turn: turn.clone(),
            key,
            instance: fleet.instance.clone(),
            backend: id.as_str().to_owned(),
            sent_at: now_milliseconds(),
            traceparent: host.trace_context.as_ref().and_then(nexus_core::TraceContext::traceparent),
            body,
            fault: None,
        };
        let wait =
            deadline.map_or(LONGEST_WAIT, |deadline| deadline.saturating_duration_since(Instant::now()));
        let subject = queue_subject(&backend.pool, &lane, settings.name());
        // Set both before the request: if this future is dropped while it waits for the answer, the turn may be in the
        // queue.
        guard.is_queued = true;
        is_sent.store(true, Ordering::Relaxed);
        let stored = put_into_queue(&link, &backend.pool, &subject, &queued, wait).await;
        backend.sent(&lane, &stored);
        match stored {
            Ok(number) => guard.queue_number = Some(number),
            Err(NatsStoreError::Full) => {
                guard.is_queued = false;
                return Err(overloaded(backend, &link).await);
            }
            Err(error @ NatsStoreError::Forbidden(_)) => {
                guard.is_queued = false;
                return Err(FleetError::from(error).into_turn_error(id));
            }
            // The turn may be stored although the call failed. Then another backend must not get the work.
            Err(error) => {
                let error = FleetError::from(error).into_turn_error(id);
                let taken = tokio::time::timeout(TAKE_BACK_TIME, end::take_back(guard.address())).await;
                if matches!(taken, Ok(FoundEnd::TakenBack)) {
                    guard.is_queued = false;
                    return Err(error);
                }
                return Err(with_effects(error.with_retry(Retry::Never), Effects::Unknown));
            }
        }
        let watch = Watch::new(&request.limits);
        let mut log = TurnLog::new(id.clone(), request.model.clone(), None).in_span(span);
        log.infer_model_calls();
        Ok(Self {
            backend,
            answers: Answers::new(session.share(), link, owner),
            guard: guard.with_session(session),
            watch,
            deadline,
            frames: Frames::default(),
            arrived: ArrivedItems::default(),
            contact: WorkerContact::new(),
            log,
            reply: LatestReply::default(),
            looking: None,
            stopping: None,
            writes_by_itself: request.tool_access >= nexus_core::ToolAccess::WorkspaceWrite,
            files: TurnFiles { sent: files.map(|(files, _)| (files, place)), change: None },
        })
    }
}

/// Bundles the travelling files of the turn, if it has any.
async fn take_files(
    settings: &Arc<FleetSettings>,
    turn: &str,
    backend: &BackendId,
    request: &TurnRequest,
) -> Result<Option<(CallerFiles, FileToStore)>, Failure> {
    if settings.workspace == WorkspaceMode::Shared
        || (request.working_directory.is_none() && request.extra_roots.is_empty())
    {
        return Ok(None);
    }
    let (settings, turn) = (Arc::clone(settings), turn.to_owned());
    let (backend, request) = (backend.clone(), request.clone());
    let taken = off_thread(CancelToken::new(), move |cancel| {
        CallerFiles::take(&settings, &turn, &backend, &request, cancel)
    });
    taken.await.map(Some)
}

/// Stores the bundle of a base. Creates the object store if it does not exist.
async fn store_base(link: &Link, owner: &str, bundle: &FileToStore) -> Result<StoredObject, FleetError> {
    match objects::store_file(link, owner, bundle).await {
        Err(FleetError::Nats(NatsError::NotSetUp { .. })) => {
            setup::ensure_shared(link).await?;
            objects::store_file(link, owner, bundle).await
        }
        stored => stored,
    }
}

/// Stores the turn in its queue. Creates the queue if it does not exist.
async fn put_into_queue(
    link: &Link,
    pool: &str,
    subject: &str,
    queued: &QueuedTurn,
    wait: Duration,
) -> Result<u64, NatsStoreError> {
    let unclear = |error: &dyn std::fmt::Display| NatsStoreError::Unclear(error.to_string());
    let text = serde_json::to_vec(queued).map_err(|error| unclear(&error))?;
    let message = || {
        PublishMessage::build()
            .payload(text.clone().into())
            .message_id(&queued.turn)
            .ttl(wait.min(LONGEST_WAIT) + Duration::from_secs(1))
    };
    let until = Instant::now() + QUEUE_TIME;
    let (mut is_made, mut is_unclear) = (false, false);
    loop {
        let stored = link.nats.store(subject, message()).await;
        match &stored {
            Err(NatsStoreError::NoStream) if !is_made => {
                let made = async {
                    setup::ensure_shared(link).await?;
                    setup::ensure_pool(link, pool).await
                };
                match made.await {
                    Ok(()) => is_made = true,
                    // Only an account with permission to query the stream can learn that it is missing.
                    Err(error @ NatsError::Forbidden { .. }) if Instant::now() >= until => {
                        let missing =
                            NatsError::NotSetUp { what: queue_stream(pool), reason: error.to_string() };
                        return Err(unclear(&missing));
                    }
                    Err(NatsError::Unclear { reason } | NatsError::NoMajority { reason })
                        if Instant::now() >= until =>
                    {
                        return Err(NatsStoreError::Unclear(reason));
                    }
                    Err(error) if Instant::now() >= until => return Err(unclear(&error)),
                    Err(_) => tokio::time::sleep(TICK).await,
                }
            }
            // During an election, and shortly before and after it, no stream is found either. The id prevents a
            // duplicate.
            Err(error @ (NatsStoreError::Unclear(_) | NatsStoreError::NoStream))
                if Instant::now() < until =>
            {
                is_unclear |= matches!(error, NatsStoreError::Unclear(_));
                tokio::time::sleep(TICK).await;
            }
            // The message that fills the queue may be this one, stored by the unclear attempt.
            Err(NatsStoreError::Full) if is_unclear => {
                return Err(NatsStoreError::Unclear("the queue is full".to_owned()));
            }
            _ => return stored,
        }
    }
}

/// Returns the error for a full queue, with a guess of when it will have room.
async fn overloaded(backend: &FleetBackend, link: &Link) -> TurnError {
    let workers = list_workers(link, Some(&backend.pool)).await.unwrap_or_default();
    let slots: usize = workers.values().map(|card| card.slots).sum();
    let mean = workers.values().map(|card| card.mean_turn).max().unwrap_or_default();
    // One slot becomes free when one turn has ended.
    let guess = match slots {
        0 => Retry::RATE_LIMIT_GUESS,
        slots => Duration::from_millis(mean / slots as u64).max(Duration::from_secs(1)),
    };
    let reason = format!(
        "the queue of the pool {} is full; the pool has {slots} slots at {} workers",
        backend.pool,
        workers.len()
    );
    Failure::new(ErrorKind::Overloaded, reason)
        .with_retry(Retry::Guessed(guess))
        .into_error(backend.id().clone())
}

fn priority(
    request: &TurnRequest,
    default: Priority,
    id: &nexus_core::BackendId,
) -> Result<Priority, TurnError> {
    let Some(word) = request.labels.get(PRIORITY_LABEL) else { return Ok(default) };
    Priority::ALL.into_iter().find(|priority| priority.as_str() == word).ok_or_else(|| {
        let reason = format!("the label {PRIORITY_LABEL} is {word:?}: use high, normal or low");
        Failure::new(ErrorKind::InvalidRequest, reason).into_error(id.clone())
    })
}
