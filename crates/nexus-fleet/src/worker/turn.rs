//! One turn, as its worker runs it.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use nexus_core::{
    Approval, Approver, BackendId, CancelToken, Effects, ErrorKind, ParticipantId, Session, ToolResult,
    TurnError, TurnHost, TurnRequest, TurnResult,
    harness::{EventQueue, Failure},
};
use nexus_router::Router;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::{Instant, MissedTickBehavior},
};
use tracing::Instrument as _;

use super::{
    calls::CallerRequests,
    job::{BEGIN_WITHIN, TakenTurn},
    measured::{Figures, MeasuredTurn},
    policy::Policy,
    stored::{effects_of, packed, size_of, store_effects, store_result},
    trace::Trace,
    travelling_files::WorkerFiles,
    window::Window,
};
use crate::{
    caller::SILENCE,
    link::Link,
    objects,
    protocol::{
        CallerAnswer, FILES_VERSION, Frame, INLINE_BYTES, Item, PROTOCOL_VERSION, QueuedTurn, StoredEffects,
        StoredObject, TravellingFiles, TurnBody, WireOutcome, WorkerCommand, frames_subject,
    },
    spoiled::spoiled,
    wait::{done, until as until_time},
};

/// How soon frames are sent again that were just sent again.
const RESEND_AFTER: Duration = Duration::from_millis(100);
/// How often a turn looks after its link.
const TICK: Duration = Duration::from_millis(500);
/// How often a caller hears of its worker at least.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// The first and the longest wait until a call that is not answered is asked again.
const ASK_AGAIN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));
/// How long a caller is waited for that has not said that it has the end.
const LAST_WORDS: Duration = Duration::from_secs(60);
/// As [`LAST_WORDS`], at a worker that takes no further turn: the end is stored, and its caller finds it there.
const LAST_WORDS_DRAINING: Duration = Duration::from_secs(2);
/// Events in one message.
const MAX_ITEMS: usize = 64;
/// Answers that are read at once, each of which may be as large as a document. The others are asked for again.
const MAX_READING: usize = 16;

/// Runs a turn to its end.
pub(super) async fn run(job: TakenTurn, attempt: String) {
    let measured = MeasuredTurn::begin(job.figures.clone());
    ServedTurn::new(job, attempt).run(measured).await;
}

/// Turn that this worker runs.
struct ServedTurn {
    link: Link,
    worker: Arc<str>,
    router: Router,
    policy: Arc<Policy>,
    caller: String,
    queued: QueuedTurn,
    figures: Figures,
    trace: Trace,
    commands: mpsc::Receiver<WorkerCommand>,
    slot: Option<OwnedSemaphorePermit>,
    lingering: Arc<Semaphore>,
    lingers: Option<OwnedSemaphorePermit>,
    taken_at: Instant,
    drain: CancelToken,
    attempt: String,
    subject: String,
    window: Window,
    cancel: CancelToken,
    calls: CallerRequests,
    asked: mpsc::UnboundedReceiver<Item>,
    /// Answers that are being read.
    reading: FuturesUnordered<BoxFuture<'static, (u64, CallerAnswer)>>,
    resent_at: Instant,
    asked_again: Instant,
    /// How long until it is asked again.
    ask_wait: Duration,
    /// What its caller is to be told next.
    items: VecDeque<Item>,
    /// Items that are made ready: their effects stored, and what is large put into the object store.
    preparing: Option<BoxFuture<'static, Vec<Item>>>,
    effects: Effects,
    last_sent: Instant,
    caller_heard: Instant,
    offline_since: Option<Instant>,
    /// Whether it was stopped because its caller was not heard of.
    is_orphan: bool,
}

/// A turn that may run.
struct Begun {
    request: TurnRequest,
    host: TurnHost,
    /// Its files, where they travel.
    workspace: Option<TravellingFiles>,
}

/// Result of a turn, and its changes to the files that travelled.
type EndedTurn = (Result<TurnResult, TurnError>, Option<StoredObject>);

/// What a command comes to.
#[derive(PartialEq, Eq)]
enum Next {
    Goes,
    /// It is to end at once.
    Abandoned,
    /// The caller wants to hear no more.
    Done,
}

impl ServedTurn {
    fn new(job: TakenTurn, attempt: String) -> Self {
        let TakenTurn {
            link,
            worker,
            router,
            policy,
            caller,
            queued,
            figures,
            trace,
            commands,
            slot,
            lingering,
            taken_at,
            tenure: _,
            is_offered: _,
            drain,
        } = job;
        let (calls, asked) = CallerRequests::new();
        let now = Instant::now();
        Self {
            subject: frames_subject(&caller, &queued.instance, &queued.turn),
            link,
            worker,
            router,
            policy,
            caller,
            queued,
            figures,
            trace,
            commands,
            slot,
            lingering,
            lingers: None,
            taken_at,
            drain,
            attempt,
            window: Window::new(),
            cancel: CancelToken::new(),
            calls,
            asked,
            reading: FuturesUnordered::new(),
            resent_at: now - RESEND_AFTER,
            asked_again: now,
            ask_wait: ASK_AGAIN.0,
            items: VecDeque::new(),
            preparing: None,
            effects: Effects::None,
            last_sent: now,
            caller_heard: now,
            offline_since: None,
            is_orphan: false,
        }
    }

    async fn run(mut self, mut measured: MeasuredTurn) {
        // The caller learns who has its turn.
        self.say_where();
        let queue = EventQueue::new();
        let begun = self.begin().await;
        let outcome = match begun {
            Ok(begun) => {
                let turn = self.turn(begun, queue.clone());
                self.attend(turn, &queue).await
            }
            Err(failure) => {
                Some((Err(failure.into_error(BackendId::new(self.queued.backend.as_str()))), None))
            }
        };
        match outcome {
            Some((outcome, change)) => {
                // Whoever comes back did not cancel it.
                let outcome = match outcome {
                    Err(error) if self.is_orphan && error.kind() == ErrorKind::Cancelled => {
                        let reason = "the worker did not hear of the caller for 30 s, and stopped the turn";
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

    /// Lets another turn begin, unless too many that have ended are still here.
    fn give_slot_back(&mut self) {
        if self.slot.is_some()
            && let Ok(lingers) = Arc::clone(&self.lingering).try_acquire_owned()
        {
            (self.slot, self.lingers) = (None, Some(lingers));
        }
    }

    /// What the names of its objects begin with.
    fn owner(&self) -> String {
        objects::owner(&self.caller, &self.queued.turn)
    }

    /// Reads the turn, and holds it against what this worker takes on.
    async fn begin(&mut self) -> Result<Begun, Failure> {
        if self.queued.version > PROTOCOL_VERSION {
            let reason = format!(
                "the turn is of version {} of the fleet's messages, and this worker speaks {PROTOCOL_VERSION}: update it",
                self.queued.version
            );
            return Err(Failure::new(ErrorKind::Unsupported, reason));
        }
        let body: TurnBody = objects::unpack(&self.link, &self.owner(), &self.queued.body)
            .await
            .map_err(|error| Failure::new(ErrorKind::InvalidRequest, error.to_string()))?;
        let TurnBody { request, participant, tools, has_approver, workspace } = body;
        if workspace.is_some() && self.queued.version < FILES_VERSION {
            let reason = format!("files travel with turns of version {FILES_VERSION}; nothing was run");
            return Err(Failure::new(ErrorKind::InvalidRequest, reason));
        }
        let allowed = self.policy.check(&self.queued.backend, &request);
        allowed.inspect_err(|_| self.figures.declined("policy"))?;
        let session = Session::remote(ParticipantId::new(participant), tools, Arc::new(self.calls.clone()));
        let mut host = TurnHost::new().with_session(session).with_cancel(self.cancel.clone());
        if has_approver {
            // A backend asks its program for questions only where there is one. The session asks the caller's.
            host = host.with_approver(Approver::new(|_| async { Approval::Refused { reason: None } }));
        }
        if let Some(context) = self.trace.context(&self.queued) {
            host = host.with_trace_context(context);
        }
        // A worker that was paused meanwhile does not know what its caller was told.
        if self.taken_at.elapsed() > BEGIN_WITHIN {
            let reason = "the worker was held up before it could begin, so it did not; nothing was run";
            return Err(Failure::new(ErrorKind::Crashed, reason));
        }
        Ok(Begun { request, host, workspace })
    }

    /// The turn itself: with its files, where they travel.
    fn turn(&self, begun: Begun, mut sink: EventQueue) -> BoxFuture<'static, EndedTurn> {
        let Begun { mut request, host, workspace } = begun;
        let (router, backend) = (self.router.clone(), BackendId::new(self.queued.backend.as_str()));
        let (link, caller, owner) = (self.link.clone(), self.caller.clone(), self.owner());
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
        turn.instrument(self.trace.span(&self.figures.pool, &self.queued)).boxed()
    }

    /// Runs the turn, and talks with its caller meanwhile. `None`: nobody waits for it any more.
    async fn attend(&mut self, mut turn: BoxFuture<'_, EndedTurn>, queue: &EventQueue) -> Option<EndedTurn> {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                command = self.commands.recv() => match self.obey(command) {
                    Next::Goes | Next::Done => {}
                    Next::Abandoned => return None,
                },
                Some((id, answer)) = self.reading.next(), if !self.reading.is_empty() => {
                    self.calls.answer(id, answer);
                }
                prepared = done(&mut self.preparing) => {
                    self.preparing = None;
                    self.send(prepared);
                    // What came meanwhile.
                    self.prepare();
                }
                outcome = &mut turn => {
                    self.take_events(queue);
                    return Some(outcome);
                }
                // After the turn, which is what fills the queue while it is polled.
                () = filled(queue), if self.window.has_room() && self.preparing.is_none() => {
                    self.take_events(queue);
                    self.prepare();
                }
                // The caller that acknowledges nothing is asked nothing more.
                Some(item) = self.asked.recv(), if self.window.has_room() => {
                    (self.asked_again, self.ask_wait) = (Instant::now(), ASK_AGAIN.0);
                    self.items.push_back(item);
                    self.prepare();
                }
                _ = tick.tick() => self.look_after(),
            }
        }
    }

    /// Stores the end, tells it, and waits until the caller has it.
    async fn end(mut self, outcome: WireOutcome) {
        let (link, caller, turn, attempt) =
            (self.link.clone(), self.caller.clone(), self.queued.turn.clone(), self.attempt.clone());
        let mut storing =
            Some(async move { store_result(&link, &caller, &turn, attempt, &outcome).await }.boxed());
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.prepare();
        let mut until: Option<Instant> = None;
        let mut is_hurried = false;
        loop {
            if storing.is_none() && self.preparing.is_none() && self.items.is_empty() && until.is_none() {
                // What was said last is being sent: the end comes after it.
                until = Some(Instant::now() + LAST_WORDS);
            }
            tokio::select! {
                biased;
                command = self.commands.recv() => match self.obey(command) {
                    Next::Goes => {}
                    Next::Abandoned if storing.is_none() => return self.abandon().await,
                    Next::Abandoned => return self.abandon().await,
                    Next::Done if storing.is_none() => return,
                    Next::Done => {}
                },
                prepared = done(&mut self.preparing) => {
                    self.preparing = None;
                    self.send(prepared);
                    self.prepare();
                }
                payload = done(&mut storing) => {
                    storing = None;
                    self.give_slot_back();
                    self.items.push_back(Item::End(payload));
                    self.prepare();
                }
                () = until_time(until) => return,
                _ = tick.tick() => {
                    self.look_after();
                    // Nobody hears of the end soon; what is left to do needs no slot.
                    if self.caller_heard.elapsed() > SILENCE {
                        self.give_slot_back();
                    }
                    if until.is_some() && self.drain.is_cancelled() && !std::mem::replace(&mut is_hurried, true) {
                        until = until.map(|until| until.min(Instant::now() + LAST_WORDS_DRAINING));
                    }
                    if until.is_some() && self.caller_heard.elapsed() > SILENCE {
                        return;
                    }
                }
            }
        }
    }

    /// Tells the caller, who wants no result, that nothing of the turn is left.
    async fn abandon(mut self) {
        self.give_slot_back();
        self.items.clear();
        self.preparing = None;
        self.send(vec![Item::Abandoned]);
        let until = Instant::now() + LAST_WORDS / 4;
        loop {
            tokio::select! {
                command = self.commands.recv() => match command {
                    None | Some(WorkerCommand::Done) => return,
                    Some(WorkerCommand::Abandon) => {
                        let again: Vec<_> = self.window.from(self.window.last_number()).cloned().collect();
                        self.repeat(again);
                    }
                    Some(_) => {}
                },
                () = tokio::time::sleep_until(until) => return,
            }
        }
    }

    fn obey(&mut self, command: Option<WorkerCommand>) -> Next {
        self.caller_heard = Instant::now();
        match command {
            Some(WorkerCommand::Ack { number }) => self.window.acknowledge(number),
            // Whoever asks more often is answered less often.
            Some(WorkerCommand::Resend { .. }) if self.resent_at.elapsed() < RESEND_AFTER => {}
            Some(WorkerCommand::Resend { from }) => {
                self.resent_at = Instant::now();
                let again: Vec<_> = self.window.from(from).cloned().collect();
                self.repeat(again);
            }
            Some(WorkerCommand::Cancel) => self.cancel.cancel(),
            // Nobody waits for it, it is being read, or too many are: then it is asked for again.
            Some(WorkerCommand::Answer { id, .. })
                if self.reading.len() >= MAX_READING || !self.calls.begin_to_read(id) => {}
            Some(WorkerCommand::Answer { id, answer }) => {
                let (link, owner) = (self.link.clone(), self.owner());
                let reading = async move {
                    let read = objects::unpack::<CallerAnswer>(&link, &owner, &answer).await;
                    (
                        id,
                        read.unwrap_or_else(|error| {
                            let reason = format!("the tool answered, and its answer cannot be read: {error}");
                            CallerAnswer::Result(ToolResult::error(reason))
                        }),
                    )
                };
                self.reading.push(reading.boxed());
            }
            Some(WorkerCommand::Abandon) => return Next::Abandoned,
            Some(WorkerCommand::Done) => return Next::Done,
            // The worker is ending.
            None => return Next::Abandoned,
        }
        Next::Goes
    }

    fn take_events(&mut self, queue: &EventQueue) {
        while let Some(event) = queue.pop() {
            self.items.push_back(Item::Event(Box::new(event)));
        }
    }

    /// Makes what is to be said next ready, and says it at once if nothing has to be stored for it.
    fn prepare(&mut self) {
        while self.preparing.is_none() && !self.items.is_empty() {
            let count = self.items.len().min(MAX_ITEMS);
            let items: Vec<_> = self.items.drain(..count).collect();
            let effects = items.iter().map(effects_of).fold(self.effects, Effects::and);
            let raised = (effects > self.effects).then_some(effects);
            self.effects = effects;
            let is_large = items.iter().any(|item| size_of(item) > INLINE_BYTES);
            if raised.is_none() && !is_large {
                self.send(items);
                continue;
            }
            let (link, caller, turn, attempt) =
                (self.link.clone(), self.caller.clone(), self.queued.turn.clone(), self.attempt.clone());
            self.preparing = Some(
                async move {
                    if let Some(effects) = raised {
                        store_effects(&link, &caller, &turn, StoredEffects { attempt, effects }).await;
                    }
                    let mut ready = Vec::with_capacity(items.len());
                    for item in items {
                        ready.push(packed(&link, &caller, &turn, item).await);
                    }
                    ready
                }
                .boxed(),
            );
        }
    }

    /// Sends items as the next frames, each of which fits into a message.
    fn send(&mut self, items: Vec<Item>) {
        let mut batch = Vec::new();
        let mut bytes = 0;
        for item in items {
            let size = size_of(&item);
            if bytes + size > INLINE_BYTES && !batch.is_empty() {
                self.send_frame(std::mem::take(&mut batch));
                bytes = 0;
            }
            bytes += size;
            batch.push(item);
        }
        if !batch.is_empty() {
            self.send_frame(batch);
        }
    }

    fn send_frame(&mut self, items: Vec<Item>) {
        let number = self.window.next_number();
        if let Some(text) = self.frame(number, items) {
            self.link.nats.send(&self.subject, text.clone());
            self.window.add(text);
            self.last_sent = Instant::now();
        }
    }

    fn repeat(&mut self, frames: Vec<Vec<u8>>) {
        // They are asked for again.
        if self.link.nats.is_behind() {
            return;
        }
        self.figures.repeated(frames.len());
        for frame in frames {
            self.link.nats.send(&self.subject, frame);
        }
        self.last_sent = Instant::now();
    }

    /// Tells the caller who has its turn, and how far its words go.
    fn say_where(&mut self) {
        if let Some(text) = self.frame(self.window.last_number(), Vec::new()) {
            self.link.nats.send(&self.subject, text);
            self.last_sent = Instant::now();
        }
    }

    fn frame(&self, number: u64, items: Vec<Item>) -> Option<Vec<u8>> {
        let frame = Frame {
            key: self.queued.key.clone(),
            worker: self.worker.to_string(),
            attempt: self.attempt.clone(),
            number,
            items,
        };
        serde_json::to_vec(&frame)
            .inspect_err(|error| tracing::warn!(%error, "a message to a caller cannot be written"))
            .ok()
    }

    /// What is done now and then.
    fn look_after(&mut self) {
        let now = Instant::now();
        if self.link.nats.is_connected() {
            self.offline_since = None;
            let again: Vec<_> = self.window.overdue().cloned().collect();
            if !again.is_empty() {
                self.repeat(again);
            }
            if now >= self.asked_again + self.ask_wait && self.window.has_room() {
                self.asked_again = now;
                self.ask_wait = (self.ask_wait * 2).min(ASK_AGAIN.1);
                self.items.extend(self.calls.unanswered());
                self.prepare();
            }
        } else {
            self.offline_since.get_or_insert(now);
        }
        if now >= self.last_sent + HEARTBEAT {
            self.say_where();
        }
        // A caller that died, or that a broken network keeps away, would never end it.
        if now >= self.caller_heard + SILENCE && !self.cancel.is_cancelled() {
            tracing::info!(
                turn = self.queued.turn,
                "its caller was not heard of for 30 s, so the turn is stopped"
            );
            self.is_orphan = true;
            self.cancel.cancel();
        }
    }
}

/// Waits until a queue has an event. It is polled after what fills the queue, and so needs no waking.
async fn filled(queue: &EventQueue) {
    std::future::poll_fn(|_| {
        if queue.is_empty() { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
}
