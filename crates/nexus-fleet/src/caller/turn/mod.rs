//! One turn, as its caller sees it.

mod begin;

use std::{
    collections::{HashSet, VecDeque},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use futures::{FutureExt as _, future::BoxFuture};
use nexus_core::{
    CallId, Effects, ErrorKind, EventSink, ExecutionBackend as _, Limit, TurnError, TurnEvent, TurnHost,
    TurnRequest, TurnResult,
    harness::{Failure, ModelCall, TurnLog, TurnSpan, Watch, admit},
};
use tokio::time::{Instant, MissedTickBehavior};

use super::{
    FleetBackend,
    answers::Answers,
    arrival::{self, Way},
    dead_worker::{self, WorkerContact},
    end::{self, FoundEnd},
    frames::Frames,
    handle::WorkerHandle,
    stop::StopGuard,
    travelling_files::CallerFiles,
};
use crate::{
    error::FleetError,
    measure, objects,
    protocol::{Frame, Item, Payload, StartedBy, StoredObject, WireOutcome, WorkerCommand},
    wait::{done, until},
};

/// Pause between two checks of the link.
const TICK: Duration = Duration::from_millis(250);
/// Time for which missing frames are requested.
const LOST: Duration = Duration::from_secs(30);
/// Time that a worker has to end a turn after a stop command.
const STOP_TIME: Duration = Duration::from_secs(15);
/// Number of frames that are received before an acknowledgement is sent.
const ACK_EVERY: u64 = 32;
/// Longest wait for a worker, for a turn without a deadline.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3_600);

pub(super) async fn run(
    backend: &FleetBackend,
    request: TurnRequest,
    host: TurnHost,
    events: &mut dyn EventSink,
) -> Result<TurnResult, TurnError> {
    let id = backend.id();
    let started = Instant::now();
    let _steered = host.steered(backend.capabilities.steering);
    admit(id, &backend.capabilities, &request, &host).map_err(|failure| failure.into_error(id.clone()))?;
    let deadline = request.limits.deadline.and_then(|limit| started.checked_add(limit));
    let cancel = host.cancel.clone();
    let span = TurnSpan::new(id, &backend.capabilities, &request);
    // True if a worker may receive the turn, even if the servers did not confirm that they stored it.
    let is_sent = AtomicBool::new(false);
    let begun = {
        let begin = RemoteTurn::begin(backend, request, &host, &span, (deadline, &is_sent));
        let mut begin = std::pin::pin!(span.run(begin));
        let failure = tokio::select! {
            // `biased`: check the cancellation and the deadline first, so that a turn that is already over is not
            // sent.
            biased;
            () = cancel.cancelled() => Failure::cancelled(),
            () = until(deadline) => {
                Failure::out_of_time(ErrorKind::LimitReached(Limit::Deadline), started.elapsed())
            }
            begun = &mut begin => return begun?.drive(&host, events).await,
        };
        failure.into_error(id.clone())
    };
    Err(match is_sent.load(Ordering::Relaxed) {
        true => with_effects(begun, Effects::Unknown),
        false => begun,
    })
}

fn with_effects(mut error: TurnError, effects: Effects) -> TurnError {
    error.partial_mut().effects = effects;
    error
}

/// A turn that was put into a queue.
struct RemoteTurn<'b> {
    backend: &'b FleetBackend,
    /// Stops the turn when this is dropped.
    guard: StopGuard,
    watch: Watch,
    deadline: Option<Instant>,
    answers: Answers,
    frames: Frames,
    arrived: ArrivedItems,
    contact: WorkerContact,
    /// Record of the worker's messages, and their spans.
    log: TurnLog,
    reply: LatestReply,
    /// Lookup that runs in the background.
    looking: Option<BoxFuture<'static, FoundEnd>>,
    /// Reason to end the turn, and the time limit for it.
    stopping: Option<Stopping>,
    /// True if the access level lets a program write without a call of the caller's tools.
    writes_by_itself: bool,
    files: TurnFiles,
}

/// Items in order, up to the first that must be fetched from the object store.
#[derive(Default)]
struct ArrivedItems {
    /// Items after the item that `fetching` fetches.
    waiting: VecDeque<Item>,
    fetching: Option<BoxFuture<'static, Result<Item, FleetError>>>,
}

/// Travelling files of a turn.
struct TurnFiles {
    /// Files that were sent, and the name of their folder at the worker.
    sent: Option<(CallerFiles, String)>,
    /// Change of the files by the turn.
    change: Option<StoredObject>,
}

/// Progress of the model's latest reply.
#[derive(Default)]
struct LatestReply {
    /// True if a message event reported the end of the reply.
    has_ended: bool,
    /// Unanswered calls of the reply.
    running: HashSet<CallId>,
}

struct Stopping {
    failure: Failure,
    until: Instant,
}

/// Outcome of one step of the loop.
enum LoopStep {
    Goes,
    Ended(Box<Result<TurnResult, TurnError>>),
}

impl<'b> RemoteTurn<'b> {
    /// Follows the turn to its end.
    async fn drive(mut self, host: &TurnHost, events: &mut dyn EventSink) -> Result<TurnResult, TurnError> {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let cancel = host.cancel.clone();
        let mut cancelled = std::pin::pin!(cancel.cancelled());
        let outcome = loop {
            let is_stopping = self.stopping.is_some();
            let has_events = !self.log.outbox.is_empty();
            let step = tokio::select! {
                biased;
                // `biased`: check the cancellation and the deadline first, so that many frames cannot delay them.
                () = &mut cancelled, if !is_stopping => {
                    self.stop(Failure::cancelled());
                    LoopStep::Goes
                }
                () = until(self.deadline), if !is_stopping => {
                    let kind = ErrorKind::LimitReached(Limit::Deadline);
                    self.stop(Failure::out_of_time(kind, self.watch.elapsed()));
                    LoopStep::Goes
                }
                () = self.log.outbox.flush(events), if has_events => LoopStep::Goes,
                frame = self.guard.next_frame() => self.take(frame),
                fetched = done(&mut self.arrived.fetching) => {
                    self.arrived.fetching = None;
                    self.fetched(fetched)
                }
                (id, answer) = self.answers.next() => {
                    self.guard.keep(&answer);
                    self.tell(WorkerCommand::Answer { id, answer });
                    LoopStep::Goes
                }
                found = done(&mut self.looking) => {
                    self.looking = None;
                    self.found(found)
                }
                _ = tick.tick() => self.look_after(),
            };
            if let LoopStep::Ended(outcome) = step {
                break *outcome;
            }
        };
        let outcome = match self.files.sent.take() {
            Some((files, _)) => {
                let way = Way {
                    link: &self.guard.link,
                    owner: &self.guard.owner(),
                    backend: self.backend.id(),
                    cancel: &cancel,
                    deadline: self.deadline,
                };
                arrival::receive(files, self.files.change.take(), outcome, way).await
            }
            None => outcome,
        };
        let is_cancelled = matches!(&outcome, Err(error) if error.kind() == ErrorKind::Cancelled);
        self.log.flush(events, &cancel, &self.watch, is_cancelled).await;
        self.close_spans(&outcome);
        outcome
    }

    /// Ends the spans with the outcome of the turn.
    fn close_spans(self, outcome: &Result<TurnResult, TurnError>) {
        let mut log = self.log;
        match outcome {
            Ok(result) => {
                log.recorder.set_usage(result.usage);
                log.provenance = result.provenance.clone();
                drop(log.into_result(result.finish.clone(), None, false));
            }
            Err(error) => {
                log.recorder.set_usage(error.partial().usage);
                if let Some(provenance) = &error.partial().provenance {
                    log.provenance = provenance.clone();
                }
                drop(log.into_error(Failure::new(error.kind(), ""), false));
            }
        }
    }

    /// Begins to end the turn.
    fn stop(&mut self, failure: Failure) {
        // The worker has to collect and store the changes so far.
        let time = if self.files.sent.is_some() { arrival::GRACE } else { STOP_TIME };
        self.stopping = Some(Stopping { failure, until: Instant::now() + time });
        match self.guard.worker {
            Some(_) => self.tell(WorkerCommand::Cancel),
            // No worker is known to have started the turn. Removing it from the queue prevents a later start.
            None => self.looking = Some(end::take_back(self.guard.address()).boxed()),
        }
    }

    fn tell(&mut self, command: WorkerCommand) {
        self.guard.tell(command);
        self.contact.sent();
    }

    fn ask_again(&mut self, from: u64) {
        measure::GAPS.add(1, self.backend.labels());
        self.tell(WorkerCommand::Resend { from });
    }

    /// Records the time until the first message of a worker. Records it once.
    fn measure_wait(&mut self) {
        if let Some(waited) = self.contact.waited() {
            measure::WAIT_TIME.time(waited, self.backend.labels());
        }
    }

    /// Handles a frame from the worker.
    fn take(&mut self, frame: Frame) -> LoopStep {
        if !self.guard.is_of_turn(&frame) {
            return LoopStep::Goes;
        }
        self.contact.heard();
        self.measure_wait();
        let items = self.frames.take(frame);
        if let Some(from) = self.frames.wanted_again() {
            self.ask_again(from);
        }
        self.arrived.waiting.extend(items);
        let step = self.take_arrived();
        if self.frames.unacknowledged() >= ACK_EVERY {
            self.acknowledge();
        }
        step
    }

    fn take_arrived(&mut self) -> LoopStep {
        while self.arrived.fetching.is_none()
            && let Some(item) = self.arrived.waiting.pop_front()
        {
            match item {
                Item::Event(envelope) => self.event(envelope.event),
                Item::Large(payload) => {
                    self.guard.keep(&payload);
                    let (link, owner) = (self.guard.link.clone(), self.guard.owner());
                    self.arrived.fetching =
                        Some(async move { objects::unpack(&link, &owner, &payload).await }.boxed());
                }
                Item::Call { id, call } => {
                    if let Some(answer) = self.answers.call(id, *call) {
                        self.tell(WorkerCommand::Answer { id, answer });
                    }
                }
                Item::Approval { id, request } => {
                    if let Some(answer) = self.answers.approve(id, *request) {
                        self.tell(WorkerCommand::Answer { id, answer });
                    }
                }
                Item::Withdraw { tool } => self.answers.withdraw(&tool),
                Item::GivenUp { id } => self.answers.give_up(id),
                // Only an abandoned turn ends with this item, and its caller has stopped listening.
                Item::Abandoned => {}
                Item::End(payload) => {
                    self.guard.keep(&payload);
                    self.looking = Some(end::read(self.guard.address(), payload).boxed());
                    self.arrived.waiting.clear();
                }
            }
        }
        LoopStep::Goes
    }

    fn fetched(&mut self, fetched: Result<Item, FleetError>) -> LoopStep {
        match fetched {
            Ok(Item::Large(_)) => self.broken("an item within an item".to_owned()),
            Ok(item) => {
                self.arrived.waiting.push_front(item);
                self.take_arrived()
            }
            Err(error) => self.broken(error.to_string()),
        }
    }

    fn event(&mut self, event: TurnEvent) {
        match event {
            // The log adds its own start event before all events of the backend.
            TurnEvent::Started(started) => {
                self.log.provenance.model = started.model;
                self.log.provenance.effort = started.effort;
                self.log.provenance.version = started.version;
                self.log.start();
                // Later events show when the model is called again.
                self.log.model_asked();
            }
            TurnEvent::Queued(_) => self.log.outbox.push(event),
            event => {
                self.see_reply(&event);
                self.log.event(event);
            }
        }
    }

    /// Tracks the end of a reply, for the trace. A reply that only calls tools may have no end event; it ends when its calls
    /// are answered.
    fn see_reply(&mut self, event: &TurnEvent) {
        let reply = &mut self.reply;
        match event {
            TurnEvent::MessageEnded(ended) if ended.parent.is_none() => {
                reply.has_ended = ended.usage.is_some() || ended.finish.is_some();
            }
            TurnEvent::ToolCallStarted(started) if started.parent.is_none() => {
                reply.running.insert(started.call.clone());
            }
            TurnEvent::ToolCallFinished(finished) => {
                let is_last = reply.running.remove(&finished.call) && reply.running.is_empty();
                if is_last && !std::mem::take(&mut reply.has_ended) {
                    self.log.model_call_ended(&ModelCall::new());
                }
            }
            _ => {}
        }
    }

    /// Acknowledges the received frames to the worker.
    fn acknowledge(&mut self) {
        let number = self.frames.acknowledge();
        self.tell(WorkerCommand::Ack { number });
    }

    /// Does the periodic checks.
    fn look_after(&mut self) -> LoopStep {
        let now = Instant::now();
        if self.contact.is_offline(self.guard.link.nats.is_connected()) {
            let reason = "the connection to the servers of the fleet is lost, so the turn is lost too";
            return self.fail(Failure::new(ErrorKind::Transport, reason), Effects::Unknown);
        }
        if let Some(stopping) = &self.stopping {
            if now >= stopping.until {
                let failure = self.stopping.take().map(|stopping| stopping.failure);
                if let Some((worker, _)) = &self.guard.worker {
                    self.backend.fleet.0.is_mute_now(format!("{}.{worker}", self.backend.pool));
                }
                return self.fail(failure.unwrap_or_else(Failure::cancelled), Effects::Unknown);
            }
            if self.guard.worker.is_some() {
                self.tell(WorkerCommand::Cancel);
            }
        }
        if self.guard.worker.is_some() {
            if self.frames.unacknowledged() > 0 || self.contact.needs_heartbeat() {
                self.acknowledge();
            }
            if let Some(from) = self.frames.wanted_again() {
                self.ask_again(from);
            }
            if let Some((from, to)) = self.frames.lost_for(LOST) {
                return self.broken(format!("messages {from} to {to} of the worker are lost"));
            }
            if self.contact.is_silent() && self.looking.is_none() {
                self.looking = Some(end::after_silence(self.guard.address()).boxed());
            }
        } else if self.stopping.is_none() && self.watch.elapsed() >= LONGEST_WAIT {
            let reason = format!("no worker of the pool {} took the turn within a day", self.backend.pool);
            self.stop(Failure::new(ErrorKind::Overloaded, reason));
        } else if self.contact.should_look() && self.looking.is_none() {
            self.contact.looked();
            self.looking = Some(end::look_for_worker(self.guard.address()).boxed());
        }
        LoopStep::Goes
    }

    /// Continues with the result of a lookup.
    fn found(&mut self, found: FoundEnd) -> LoopStep {
        if !matches!(found, FoundEnd::Unclear) {
            self.contact.is_clear();
        }
        match found {
            FoundEnd::Nothing => LoopStep::Goes,
            // Count the worker's silence from now on.
            FoundEnd::StartedBy(StartedBy { worker: Some(worker), attempt, .. }) => {
                if self.guard.worker.is_none() {
                    self.guard.worker = Some((worker, attempt));
                    self.measure_wait();
                    self.contact.heard();
                    if self.stopping.is_some() {
                        // The worker does not acknowledge commands, so repeat this one until the turn ends.
                        self.tell(WorkerCommand::Cancel);
                    }
                }
                LoopStep::Goes
            }
            // An earlier attempt of this caller took the turn back, and the answer to it was lost.
            FoundEnd::StartedBy(StartedBy { worker: None, .. }) | FoundEnd::TakenBack => {
                self.guard.is_queued = false;
                let failure = self.stopping.take().map_or_else(
                    || {
                        let reason = "no worker received a message of this caller for two minutes, so none \
                            took the turn";
                        Failure::new(ErrorKind::Transport, reason)
                    },
                    |stopping| stopping.failure,
                );
                self.fail(failure, Effects::None)
            }
            FoundEnd::End(outcome) => self.end(*outcome),
            FoundEnd::Stored(outcome) => {
                if self.frames.lost_for(Duration::ZERO).is_some() || self.guard.worker.is_some() {
                    self.event(TurnEvent::warning(
                        "the worker stopped sending; this is its stored result, and events may be missing",
                    ));
                }
                self.end(*outcome)
            }
            FoundEnd::Silent { effects } => {
                let worker = self.guard.worker.as_ref().map_or("", |(worker, _)| worker.as_str());
                let failure = dead_worker::failure(worker, &self.backend.pool);
                // The worker may be paused. It then receives this command when it resumes.
                self.guard.tell(WorkerCommand::Abandon);
                self.guard.is_queued = false;
                // A program reports its own writes only afterwards, so count them as possible.
                let effects = match effects {
                    Some(effects) if effects >= Effects::Wrote || !self.writes_by_itself => effects,
                    _ => Effects::Unknown,
                };
                self.fail(failure, effects)
            }
            FoundEnd::Unreadable(reason) => self.broken(reason),
            FoundEnd::Unclear => {
                if !self.contact.is_unclear() {
                    return LoopStep::Goes;
                }
                let reason = "the servers of the fleet have no outcome of the turn";
                self.fail(Failure::new(ErrorKind::Transport, reason), Effects::Unknown)
            }
        }
    }

    /// Ends the turn with the outcome that the worker reported.
    fn end(&mut self, outcome: WireOutcome) -> LoopStep {
        self.guard.is_queued = false;
        self.guard.tell(WorkerCommand::Done);
        let id = self.backend.id();
        let worker = self.guard.worker.as_ref().map(|(worker, _)| worker.clone()).unwrap_or_default();
        let change = outcome.change.clone();
        let Some(mut outcome) = outcome.into_outcome() else {
            return self.broken("the end of the turn contains neither a result nor an error".to_owned());
        };
        if let Some(change) = &change {
            self.guard.keep(&Payload::Object(change.clone()));
        }
        self.files.change = change;
        let place = self.files.sent.as_ref().map(|(_, place)| place.clone());
        let wrap = |inner| WorkerHandle { worker, inner, place }.wrap(id);
        match &mut outcome {
            Ok(result) => result.resume = result.resume.take().map(wrap),
            Err(error) => {
                let partial = error.partial_mut();
                partial.resume = partial.resume.take().map(wrap);
            }
        }
        // If the caller's own clock stopped the turn, the caller gets that reason.
        if let (Err(error), Some(stopping)) = (&outcome, &self.stopping)
            && error.kind() == ErrorKind::Cancelled
            && stopping.failure.kind != ErrorKind::Cancelled
        {
            let (kind, message) =
                (stopping.failure.kind, stopping.failure.message.clone().unwrap_or_default());
            outcome = outcome.map_err(|error| error.with_kind(kind).with_message(message));
        }
        LoopStep::Ended(Box::new(outcome))
    }

    /// Ends the turn because a message of the worker cannot be read.
    fn broken(&mut self, reason: String) -> LoopStep {
        self.fail(Failure::new(ErrorKind::Protocol, reason), Effects::Unknown)
    }

    /// Ends the turn without a report of the worker. `effects`: effects that it may have had, in addition to the effects of
    /// the caller's tools.
    fn fail(&mut self, failure: Failure, effects: Effects) -> LoopStep {
        let mut recorder = self.log.recorder.clone();
        recorder.add_effects(effects.and(self.guard.session_effects()));
        recorder.provenance = Some(self.log.provenance.clone());
        let error = failure.into_error(self.backend.id().clone()).with_partial(recorder.into_partial());
        LoopStep::Ended(Box::new(Err(error)))
    }
}
