//! One turn on its worker.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture};
use nexus_core::{
    Approval, Approver, BackendId, CancelToken, ErrorKind, ParticipantId, Session, TurnError, TurnHost,
    TurnRequest, TurnResult,
    harness::{EventQueue, Failure},
};
use nexus_nats::StoredObject;
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, MissedTickBehavior},
};
use tracing::Instrument as _;

use super::{
    job::{BEGIN_WITHIN, TakenTurn},
    measured::MeasuredTurn,
    open_calls::OpenCalls,
    outgoing::Outgoing,
    stored::TurnStore,
    travelling_files::WorkerFiles,
};
use crate::{
    caller::SILENCE,
    objects,
    protocol::{
        FILES_VERSION, Item, PROTOCOL_VERSION, TravellingFiles, TurnBody, WireOutcome, WorkerCommand,
    },
    spoiled::spoiled,
    wait::{done, until as until_time},
};

/// Pause between two checks of the link.
const TICK: Duration = Duration::from_millis(500);
/// Longest wait until the caller confirms that it has the end.
const LAST_WORDS: Duration = Duration::from_secs(60);
/// [`LAST_WORDS`] of a draining worker. It is short, because the caller also finds the stored end.
const LAST_WORDS_DRAINING: Duration = Duration::from_secs(2);
/// Runs a turn from its claim to its end.
pub(super) async fn run(job: TakenTurn, attempt: String) {
    let measured = MeasuredTurn::begin(job.figures.clone());
    ServedTurn::new(job, attempt).run(measured).await;
}

/// A turn that this worker runs.
struct ServedTurn {
    job: TakenTurn,
    store: TurnStore,
    outgoing: Outgoing,
    calls: OpenCalls,
    cancel: CancelToken,
    /// Permit of an ended turn to wait for its caller without a slot.
    lingers: Option<OwnedSemaphorePermit>,
    caller_heard: Instant,
    /// True if the turn was stopped because its caller was silent.
    is_orphan: bool,
}

/// A checked turn, ready to run.
struct Begun {
    request: TurnRequest,
    host: TurnHost,
    /// Travelling files of the turn, if it has any.
    workspace: Option<TravellingFiles>,
}

/// Outcome of a turn, and its change of the travelling files.
type EndedTurn = (Result<TurnResult, TurnError>, Option<StoredObject>);

/// Effect of a command on the turn.
#[derive(PartialEq, Eq)]
enum Next {
    Goes,
    /// The turn must end at once.
    Abandoned,
    /// The caller does not wait for the turn any more.
    Done,
}

impl ServedTurn {
    fn new(job: TakenTurn, attempt: String) -> Self {
        let store = TurnStore {
            link: job.worker.link.clone(),
            caller: job.caller.clone(),
            turn: job.queued.turn.clone(),
            attempt,
        };
        Self {
            outgoing: Outgoing::new(&job, store.clone()),
            job,
            store,
            calls: OpenCalls::new(),
            cancel: CancelToken::new(),
            lingers: None,
            caller_heard: Instant::now(),
            is_orphan: false,
        }
    }

    async fn run(mut self, mut measured: MeasuredTurn) {
        // Tell the caller which worker has its turn.
        self.outgoing.say_where();
        let queue = EventQueue::new();
        let begun = self.begin().await;
        let outcome = match begun {
            Ok(begun) => {
                let turn = self.turn(begun, queue.clone());
                self.attend(turn, &queue).await
            }
            Err(failure) => {
                Some((Err(failure.into_error(BackendId::new(self.job.queued.backend.as_str()))), None))
            }
        };
        match outcome {
            Some((outcome, change)) => {
                // The worker cancelled the turn because the caller was silent. A caller that comes back must not read this
                // as its own cancellation.
                let outcome = match outcome {
                    Err(error) if self.is_orphan && error.kind() == ErrorKind::Cancelled => {
                        let reason = "the worker received nothing from the caller for 30 s, and stopped the \
                            turn";
                        Err(error.with_kind(ErrorKind::Crashed).with_message(reason))
                    }
                    outcome => outcome,
                };
                measured.ended(&outcome);
                self.end(WireOutcome::from(outcome).with_change(change)).await;
            }
            None => {
                drop(measured);
                self.abandon().await;
            }
        }
    }

    /// Releases the slot for another turn, unless too many ended turns are still here.
    fn give_slot_back(&mut self) {
        if self.job.slot.is_some()
            && let Ok(lingers) = Arc::clone(&self.job.worker.lingering).try_acquire_owned()
        {
            (self.job.slot, self.lingers) = (None, Some(lingers));
        }
    }

    /// Reads the turn, and checks it against the limits of this worker.
    async fn begin(&mut self) -> Result<Begun, Failure> {
        if self.job.queued.version > PROTOCOL_VERSION {
            let reason = format!(
                "the turn has version {} of the fleet's messages, but this worker supports \
                {PROTOCOL_VERSION}: update it",
                self.job.queued.version
            );
            return Err(Failure::new(ErrorKind::Unsupported, reason));
        }
        if let Some(fault) = &self.job.queued.fault {
            let reason = format!("the turn's message cannot be read: {fault}; nothing was run");
            return Err(Failure::new(ErrorKind::InvalidRequest, reason));
        }
        let body: TurnBody = objects::unpack(&self.store.link, &self.store.owner(), &self.job.queued.body)
            .await
            .map_err(|error| Failure::new(ErrorKind::InvalidRequest, error.to_string()))?;
        let TurnBody { request, participant, tools, has_approver, workspace } = body;
        if workspace.is_some() && self.job.queued.version < FILES_VERSION {
            let reason = format!("only turns of version {FILES_VERSION} can contain files; nothing was run");
            return Err(Failure::new(ErrorKind::InvalidRequest, reason));
        }
        // The worker enforces its own limits, because a caller on another machine may have other settings.
        let allowed = self.job.worker.policy.check(&self.job.queued.backend, &request);
        allowed.inspect_err(|_| self.job.figures.declined("policy"))?;
        let session =
            Session::remote(ParticipantId::new(participant), tools, Arc::new(self.calls.requests.clone()));
        let mut host = TurnHost::new().with_session(session).with_cancel(self.cancel.clone());
        if has_approver {
            // A backend lets its program ask questions only if the host has an approver. This one never runs: the session
            // asks the caller's approver.
            host = host.with_approver(Approver::new(|_| async { Approval::Refused { reason: None } }));
        }
        if let Some(context) = self.job.worker.trace.context(&self.job.queued) {
            host = host.with_trace_context(context);
        }
        // A worker that was paused meanwhile does not know if the caller has already ended the turn.
        if self.job.taken_at.elapsed() > BEGIN_WITHIN {
            let reason = "the worker was delayed for too long before the start; nothing was run";
            return Err(Failure::new(ErrorKind::Crashed, reason));
        }
        Ok(Begun { request, host, workspace })
    }

    /// Returns the future that runs the turn, with its travelling files.
    fn turn(&self, begun: Begun, mut sink: EventQueue) -> BoxFuture<'static, EndedTurn> {
        let Begun { mut request, host, workspace } = begun;
        // Clone all parts: the future runs beside `self`, which exchanges messages meanwhile.
        let (router, backend) =
            (self.job.worker.router.clone(), BackendId::new(self.job.queued.backend.as_str()));
        let (link, caller, owner) = (self.store.link.clone(), self.job.caller.clone(), self.store.owner());
        let cancel = self.cancel.clone();
        let turn = async move {
            let Some(workspace) = workspace else {
                return (router.run_on(&backend, request, host, &mut sink).await, None);
            };
            let laid_out =
                WorkerFiles::lay_out(&link, &caller, &owner, &workspace, &mut request, &cancel).await;
            let files = match laid_out {
                Ok(files) => files,
                Err(failure) => return (Err(failure.into_error(backend)), None),
            };
            let outcome = router.run_on(&backend, request, host, &mut sink).await;
            match files.take_back().await {
                Ok(change) => (outcome, change),
                Err(failure) => (Err(spoiled(outcome, &backend, failure)), None),
            }
        };
        turn.instrument(self.job.worker.trace.span(&self.job.figures.pool, &self.job.queued)).boxed()
    }

    /// Runs the turn, and exchanges messages with its caller meanwhile. `None`: the caller no longer waits for
    /// it.
    async fn attend(&mut self, mut turn: BoxFuture<'_, EndedTurn>, queue: &EventQueue) -> Option<EndedTurn> {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                // `biased`: obey the caller's commands first, so that a busy turn cannot delay a cancellation.
                biased;
                command = self.job.commands.recv() => match self.obey(command) {
                    Next::Goes | Next::Done => {}
                    Next::Abandoned => return None,
                },
                Some((id, answer)) = self.calls.reading.next(), if !self.calls.reading.is_empty() => {
                    self.calls.requests.answer(id, answer);
                }
                () = self.outgoing.prepared() => {}
                outcome = &mut turn => {
                    self.take_events(queue);
                    return Some(outcome);
                }
                // Poll this after the turn, because the turn fills the queue while it is polled.
                () = filled(queue), if self.outgoing.has_room() && !self.outgoing.is_preparing() => {
                    self.take_events(queue);
                    self.outgoing.prepare();
                }
                // If the caller acknowledges nothing, send it no further questions.
                Some(item) = self.calls.asked.recv(), if self.outgoing.has_room() => {
                    self.calls.asked_now();
                    self.outgoing.say([item]);
                }
                _ = tick.tick() => self.look_after(),
            }
        }
    }

    /// Stores and sends the end, and waits until the caller has it.
    async fn end(mut self, outcome: WireOutcome) {
        let store = self.store.clone();
        let mut storing = Some(async move { store.result(&outcome).await }.boxed());
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.outgoing.prepare();
        let mut until: Option<Instant> = None;
        let mut is_hurried = false;
        loop {
            if storing.is_none() && self.outgoing.is_empty() && until.is_none() {
                // The end is stored, and its frame follows the last items. Start the time limit for the caller.
                until = Some(Instant::now() + LAST_WORDS);
            }
            tokio::select! {
                biased;
                command = self.job.commands.recv() => match self.obey(command) {
                    Next::Abandoned => return self.abandon().await,
                    Next::Done if storing.is_none() => return,
                    Next::Goes | Next::Done => {}
                },
                () = self.outgoing.prepared() => {}
                payload = done(&mut storing) => {
                    storing = None;
                    self.give_slot_back();
                    self.outgoing.say([Item::End(payload)]);
                }
                () = until_time(until) => return,
                _ = tick.tick() => {
                    self.look_after();
                    // The caller is silent. The remaining work needs no slot.
                    if self.caller_heard.elapsed() > SILENCE {
                        self.give_slot_back();
                    }
                    if until.is_some() && self.job.drain.is_cancelled() && !std::mem::replace(&mut is_hurried, true) {
                        until = until.map(|until| until.min(Instant::now() + LAST_WORDS_DRAINING));
                    }
                    if until.is_some() && self.caller_heard.elapsed() > SILENCE {
                        return;
                    }
                }
            }
        }
    }

    /// Reports to the caller, which wants no result, that the turn no longer runs.
    async fn abandon(mut self) {
        self.give_slot_back();
        self.outgoing.abandon();
        let until = Instant::now() + LAST_WORDS / 4;
        loop {
            tokio::select! {
                command = self.job.commands.recv() => match command {
                    None | Some(WorkerCommand::Done) => return,
                    // The last frame may be lost, so a repeated command sends it again.
                    Some(WorkerCommand::Abandon) => self.outgoing.repeat_last(),
                    Some(_) => {}
                },
                () = tokio::time::sleep_until(until) => return,
            }
        }
    }

    fn obey(&mut self, command: Option<WorkerCommand>) -> Next {
        self.caller_heard = Instant::now();
        match command {
            Some(WorkerCommand::Ack { number }) => self.outgoing.acknowledge(number),
            Some(WorkerCommand::Resend { from }) => self.outgoing.repeat_from(from),
            Some(WorkerCommand::Cancel) => self.cancel.cancel(),
            Some(WorkerCommand::Answer { id, answer }) => self.calls.read_answer(&self.store, id, answer),
            Some(WorkerCommand::Abandon) => return Next::Abandoned,
            Some(WorkerCommand::Done) => return Next::Done,
            // The worker is ending.
            None => return Next::Abandoned,
        }
        Next::Goes
    }

    fn take_events(&mut self, queue: &EventQueue) {
        self.outgoing.queue(std::iter::from_fn(|| queue.pop()).map(|event| Item::Event(Box::new(event))));
    }

    /// Does the periodic work.
    fn look_after(&mut self) {
        // Without a connection, repeats would only fill the buffer of the client.
        if self.store.link.nats.is_connected() {
            self.outgoing.repeat_overdue();
            if self.outgoing.has_room()
                && let Some(unanswered) = self.calls.overdue()
            {
                self.outgoing.say(unanswered);
            }
        }
        self.outgoing.heartbeat();
        // A dead caller, or one behind a broken network, would never end the turn.
        if self.caller_heard.elapsed() >= SILENCE && !self.cancel.is_cancelled() {
            tracing::info!(
                turn = self.job.queued.turn,
                "its caller sent nothing for 30 s, so the turn is stopped"
            );
            self.is_orphan = true;
            self.cancel.cancel();
        }
    }
}

/// Waits until a queue has an event. The caller polls this after the future that fills the queue, so it needs no waker.
async fn filled(queue: &EventQueue) {
    std::future::poll_fn(|_| {
        if queue.is_empty() { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
}
