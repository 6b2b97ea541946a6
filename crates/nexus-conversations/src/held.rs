//! A conversation that this process has locked, and turns of it.

use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use nexus_core::{
    ConversationMode, ErrorKind, EventEnvelope, EventSink, OnLost, ResumeHandle, TurnError, TurnEvent,
    TurnHost, TurnRequest, TurnResult, harness::try_blocking, redact::Redactor,
};
use nexus_files::FileLock;
use nexus_router::{Router, WorkKind, spending::WorkLabel};

use crate::{
    continuity::{Continuity, ConversationOptions, ConversationOutcome, WhenLost},
    conversation::{Conversation, ConversationTurn},
    conversation_end::ConversationEnd,
    conversation_error::ConversationError,
    name::ConversationName,
    seed::Seed,
    store::Conversations,
    turn_made::TurnOrder,
};

/// A conversation that this process has locked: no other thread or process can run a turn of it until this is dropped. The
/// operating system releases the lock of a process that dies.
#[derive(Debug)]
pub struct HeldConversation {
    store: Conversations,
    end: ConversationEnd,
    is_new: bool,
    /// True after a write with an unknown result: the end of the conversation is read again before the next turn.
    is_stale: bool,
    hold: Arc<NameHold>,
}

/// The lock of a name. A running write keeps it until the end, even if the caller has dropped its future.
#[derive(Debug)]
struct NameHold {
    store: Conversations,
    name: ConversationName,
    hold: Option<FileLock>,
    /// Locked by a write. A write that its caller dropped may still run when the next one begins.
    writing: Mutex<()>,
}

impl NameHold {
    fn add(
        &self,
        end: ConversationEnd,
        turn: ConversationTurn,
        resume: Option<ResumeHandle>,
    ) -> Result<ConversationEnd, ConversationError> {
        // A write of a dropped future may still run, so the next one waits for it.
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.store.add(end, turn, resume)
    }
}

impl Drop for NameHold {
    fn drop(&mut self) {
        if let Some(hold) = self.hold.take() {
            self.store.let_go(&self.name, hold);
        }
    }
}

impl Conversations {
    /// Locks a conversation for this process, to run turns of it. The conversation need not exist: its first turn creates
    /// it.
    ///
    /// # Errors
    ///
    /// [`InUse`](crate::ConversationErrorKind::InUse) after 50 ms if another thread or process has it; errors of reading.
    /// Of a conversation in version 1, every turn is read, because the next turn converts it.
    pub fn hold(&self, name: &ConversationName) -> Result<HeldConversation, ConversationError> {
        self.hold_within(name, Duration::ZERO)
    }

    /// Like [`Conversations::hold`], but waits up to `patience` for other users of the name. Blocks meanwhile.
    ///
    /// # Errors
    ///
    /// Errors of [`Conversations::hold`].
    pub fn hold_within(
        &self,
        name: &ConversationName,
        patience: Duration,
    ) -> Result<HeldConversation, ConversationError> {
        let hold = Some(self.lock_name(name, patience)?);
        let hold = NameHold { store: self.clone(), name: name.clone(), hold, writing: Mutex::default() };
        let hold = Arc::new(hold);
        // Read after the lock, so that no other process adds a turn in between.
        let found = self.end_before_turn(name)?;
        let is_new = found.is_none();
        let end = found.unwrap_or_else(|| ConversationEnd::new(name.clone()));
        Ok(HeldConversation { store: self.clone(), end, is_new, is_stale: false, hold })
    }
}

impl HeldConversation {
    /// Returns the name.
    pub fn name(&self) -> &ConversationName {
        &self.end.name
    }

    /// Returns true if the conversation did not exist before.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Returns the number of messages.
    pub fn messages(&self) -> u64 {
        self.end.state.messages
    }

    /// Reads the conversation. Blocks.
    ///
    /// # Errors
    ///
    /// [`Damaged`](crate::ConversationErrorKind::Damaged) if one of its files was changed from outside.
    pub fn load(&self) -> Result<Conversation, ConversationError> {
        self.store.load_to(&self.end)
    }

    /// Returns the vendor's handle with which the next turn can continue.
    pub fn resume(&self) -> Option<&ResumeHandle> {
        self.end.state.resume.as_ref()
    }

    /// Deletes the conversation, as [`Conversations::delete`] does. Blocks.
    ///
    /// # Errors
    ///
    /// [`Unknown`](crate::ConversationErrorKind::Unknown) if it has no turn yet;
    /// [`InUse`](crate::ConversationErrorKind::InUse) while a dropped [`HeldConversation::run_turn`] still stores its turn;
    /// errors of the file system.
    pub fn delete(self) -> Result<(), ConversationError> {
        // A write of a dropped future still has a reference.
        if Arc::strong_count(&self.hold) > 1 {
            return Err(self.store.in_use(&self.end.name));
        }
        self.store.remove(&self.end.name)
    }

    /// Adds a turn that ran elsewhere. `resume` is the vendor's handle for the next turn, if the vendor's
    /// conversation equals this one including the turn. Blocks.
    ///
    /// # Errors
    ///
    /// Errors of writing; then the conversation is unchanged, unless the disk failed after the last step.
    pub fn add(
        &mut self,
        turn: ConversationTurn,
        resume: Option<ResumeHandle>,
    ) -> Result<(), ConversationError> {
        // Stale until the write succeeds: after an error its result is unknown, and the end is read again.
        self.is_stale = true;
        self.end = self.hold.add(self.end.clone(), turn, resume)?;
        self.is_stale = false;
        Ok(())
    }

    /// Runs a turn of the conversation on the backends of a work-kind, and stores it.
    ///
    /// A backend that ran the earlier turn resumes by its own handle. If that is impossible, `options` decides,
    /// and a warning event and [`Continuity`] report the result. If a backend of the chain cannot run the turn,
    /// the others can get the messages as text. That requires that `options` allows it and that the first backend
    /// had no effects. The conversation mode of `request` is ignored.
    ///
    /// If the call is dropped while the turn is being stored, the storing continues on its own, and the name
    /// stays locked until it has ended.
    ///
    /// # Errors
    ///
    /// Errors of reading the earlier messages, if a backend must get them as text. Then no backend ran the turn; at
    /// most one tried to resume the conversation and failed. [`ConversationOutcome`] has the result of the turn itself,
    /// and of storing it.
    pub async fn run_turn(
        &mut self,
        router: &Router,
        kind: impl Into<WorkKind>,
        request: TurnRequest,
        host: TurnHost,
        options: ConversationOptions,
        events: &mut dyn EventSink,
    ) -> Result<ConversationOutcome, ConversationError> {
        if self.is_stale {
            let (store, name) = (self.store.clone(), self.end.name.clone());
            let found = try_blocking(move || store.end_before_turn(&name)).await?;
            self.end = found.unwrap_or_else(|| ConversationEnd::new(self.end.name.clone()));
            self.is_stale = false;
        }
        let turn = Turn {
            router: router.snapshot().labelled(WorkLabel::Conversation, self.end.name.to_string()),
            kind: kind.into(),
            redactor: host.session().redactor().clone(),
            host,
            began: Instant::now(),
        };
        let mut sink = NumberedSink {
            inner: events,
            next: 0,
            began: turn.began,
            order: TurnOrder::default(),
            warnings: VecDeque::new(),
            waits_since: None,
            waited: Duration::ZERO,
        };
        let (continuity, outcome) = self.run(&turn, &request, options, &mut sink).await?;
        let made = ConversationTurn::of(&request, &outcome, &sink.order, &turn.redactor);
        let own = match &outcome {
            Ok(result) => &result.resume,
            Err(error) => &error.partial().resume,
        };
        let former = self.end.state.resume.clone();
        let own = own.as_ref().map(|handle| {
            // Items that the former turn stored contain no secret, so a long conversation is not searched at each turn.
            let known = former.as_ref().map_or(0, |former| handle.items().equal_beginning(former.items()));
            handle.without_secrets(known, &turn.redactor).unwrap_or_else(|| handle.clone())
        });
        // After a failed turn, some vendors have its messages and some do not. So do not resume by its handle.
        let resume = own.clone().filter(|_| outcome.is_ok());
        let stored = match made {
            None => Ok(false),
            Some(mut made) => {
                made.begins_afresh = matches!(continuity, Continuity::Fresh { .. });
                // The name stays locked until the write ends, even if the caller has dropped its future.
                let (end, hold) = (self.end.clone(), Arc::clone(&self.hold));
                self.is_stale = true;
                let added = try_blocking(move || hold.add(end, made, resume)).await;
                added.map(|end| {
                    self.end = end;
                    self.is_stale = false;
                    true
                })
            }
        };
        let kept = &self.end.state.resume;
        if let (Some(handle), None, Ok(true)) = (&own, kept, &stored)
            && outcome.is_ok()
        {
            sink.warn(format!(
                "the handle of {} cannot be stored: the next turn of the conversation {} cannot resume by it",
                handle.backend(),
                self.end.name
            ));
        }
        sink.flush().await;
        let mut superseded: Vec<ResumeHandle> = former.into_iter().chain(own).collect();
        // A vendor may return the same handle again.
        superseded.dedup();
        // If the turn resumed, the former handle belongs to the same conversation, so it is not superseded.
        superseded.retain(|handle| {
            let is_former = matches!(continuity, Continuity::Resumed | Continuity::Lost { .. });
            kept.as_ref() != Some(handle) && (kept.is_none() || !is_former)
        });
        Ok(ConversationOutcome { outcome, continuity, stored, superseded })
    }

    async fn run(
        &self,
        turn: &Turn,
        request: &TurnRequest,
        options: ConversationOptions,
        sink: &mut NumberedSink<'_>,
    ) -> Result<(Continuity, Result<TurnResult, TurnError>), ConversationError> {
        if self.end.state.messages == 0 {
            return Ok((Continuity::First, turn.run(turn.kept(request.clone()), sink).await));
        }
        // Check this first: together with the earlier messages, an empty prompt would not count as empty.
        if request.is_empty() {
            let reason = "the prompt is empty".to_owned();
            return Ok((Continuity::Lost { reason }, turn.run(request.clone(), sink).await));
        }
        let chain = turn.router.binding(turn.kind.clone()).map(|binding| binding.chain).unwrap_or_default();
        let mut failed = None;
        let reason = match &self.end.state.resume {
            Some(handle) if turn.router.can_resume(turn.kind.clone(), handle) => {
                // The backend must not start a new conversation by itself; the code below decides about that.
                let mode = ConversationMode::Resume { handle: handle.clone(), on_lost: OnLost::Fail };
                let outcome = turn.run(request.clone().with_conversation(mode), sink).await;
                let is_own = chain.contains(handle.backend());
                match outcome {
                    Err(error) if is_lost(&error, is_own, chain.len(), options.when_lost) => {
                        let reason = error.to_string();
                        failed = Some(error);
                        reason
                    }
                    outcome => return Ok((Continuity::Resumed, outcome)),
                }
            }
            Some(handle) => format!("it belongs to {}, which does not run this turn", handle.backend()),
            None => match &self.end.unreadable_handle {
                Some(reason) => format!("its stored items cannot be read: {reason}"),
                None => "no backend has stored its latest state".to_owned(),
            },
        };
        let (name, messages) = (&self.end.name, self.end.state.messages);
        match options.when_lost {
            WhenLost::Fail => {
                let backend = turn.kind.to_string().into();
                let message = format!(
                    "the conversation {name} cannot be resumed: {reason}; send its {messages} messages to \
                     the model again (`reseed`), or start without them (`fresh`)"
                );
                let error = failed.unwrap_or_else(|| TurnError::new(ErrorKind::ConversationLost, backend));
                let error = error.with_message(message);
                Ok((Continuity::Lost { reason }, Err(error)))
            }
            WhenLost::Fresh => {
                sink.warn(format!(
                    "the conversation {name} starts without its {messages} earlier messages: {reason}"
                ));
                Ok((Continuity::Fresh { reason }, turn.run(turn.kept(request.clone()), sink).await))
            }
            WhenLost::Reseed => {
                let (store, end) = (self.store.clone(), self.end.clone());
                let (takes_pictures, bytes) = (turn.takes_pictures(), options.seed_bytes);
                let Seed { mut blocks, messages, not_carried } =
                    try_blocking(move || store.seed_to(&end, takes_pictures, bytes)).await?;
                sink.warn(format!(
                    "the conversation {name} is sent to the model again, with {messages} messages: {reason}; \
                    not included: {not_carried}"
                ));
                let mut seeded = turn.kept(request.clone());
                blocks.append(&mut seeded.prompt);
                seeded.prompt = blocks;
                let outcome = turn.run(seeded, sink).await;
                Ok((Continuity::Reseeded { reason, messages, not_carried }, outcome))
            }
        }
    }
}

/// Returns true if a failed turn did nothing and can run only without the vendor's handle. There are three such cases: the
/// vendor has lost the conversation, another backend may take over, or a backend to which the conversation moved
/// (`is_own` is false) rejects it.
fn is_lost(error: &TurnError, is_own: bool, backends: usize, when_lost: WhenLost) -> bool {
    let partial = error.partial();
    let has_done_nothing = partial.messages.is_empty()
        && partial.tool_calls.is_empty()
        && partial.effects == nexus_core::Effects::None;
    // Another backend does not know the conversation, so it can continue only after a reseed.
    let may_others = backends > 1 && when_lost == WhenLost::Reseed && error.kind().could_not_run();
    // Other failures, such as a wrong key, do not depend on the conversation.
    let is_about_request = matches!(
        error.kind(),
        ErrorKind::InvalidRequest | ErrorKind::ContextExceeded | ErrorKind::Unsupported
    );
    let cannot_move = !is_own && is_about_request;
    has_done_nothing && (may_others || cannot_move || error.kind() == ErrorKind::ConversationLost)
}

/// Inputs for running a turn, with or without the vendor's handle.
struct Turn {
    router: Router,
    kind: WorkKind,
    host: TurnHost,
    redactor: Redactor,
    began: Instant,
}

impl Turn {
    async fn run(
        &self,
        mut request: TurnRequest,
        sink: &mut NumberedSink<'_>,
    ) -> Result<TurnResult, TurnError> {
        // The deadline covers all attempts, so subtract the elapsed time. Waits for a reset do not count.
        if let Some(deadline) = &mut request.limits.deadline {
            let worked = self.began.elapsed().saturating_sub(sink.waited);
            *deadline = deadline.saturating_sub(worked).max(Duration::from_millis(1));
        }
        let outcome = self.router.run_turn(self.kind.clone(), request, self.host.clone(), sink).await;
        sink.end_wait();
        outcome
    }

    /// Returns the request in a mode that stores the vendor's conversation, if the backend can store one.
    fn kept(&self, request: TurnRequest) -> TurnRequest {
        let can_keep = self.capability(|capabilities| capabilities.resume.is_yes());
        let mode = if can_keep { ConversationMode::Keep } else { ConversationMode::Ephemeral };
        request.with_conversation(mode)
    }

    fn takes_pictures(&self) -> bool {
        self.capability(|capabilities| capabilities.images.is_yes())
    }

    fn capability(&self, has: impl Fn(&nexus_core::Capabilities) -> bool) -> bool {
        use nexus_core::ExecutionBackend as _;
        self.router.backend(self.kind.clone()).is_ok_and(|backend| has(&backend.capabilities()))
    }
}

/// Numbers the events of all attempts as those of one turn, and records their order.
struct NumberedSink<'s> {
    inner: &'s mut dyn EventSink,
    next: u64,
    began: Instant,
    order: TurnOrder,
    /// Warnings that are sent before the next event.
    warnings: VecDeque<String>,
    /// Beginning of a wait for a reset, which lasts until the next event.
    waits_since: Option<Instant>,
    waited: Duration,
}

impl NumberedSink<'_> {
    /// Queues a warning, and does not wait. The following attempt waits for the sink, within its deadline and cancellation.
    fn warn(&mut self, text: String) {
        self.warnings.push_back(text);
    }

    fn end_wait(&mut self) {
        self.waited += self.waits_since.take().map(|since| since.elapsed()).unwrap_or_default();
    }

    /// Sends the warnings that no event followed, if the sink is ready.
    async fn flush(&mut self) {
        poll_fn(|context| {
            let _ = self.poll_ready(context);
            Poll::Ready(())
        })
        .await;
    }
}

impl EventSink for NumberedSink<'_> {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.inner.poll_ready(context));
            let Some(text) = self.warnings.pop_front() else { return Poll::Ready(()) };
            self.accept(EventEnvelope::new(0, Duration::ZERO, TurnEvent::warning(text)));
        }
    }

    fn accept(&mut self, envelope: EventEnvelope) {
        self.order.observe(&envelope.event);
        self.end_wait();
        self.waits_since = matches!(envelope.event, TurnEvent::Waiting(_)).then(Instant::now);
        self.inner.accept(EventEnvelope::new(self.next, self.began.elapsed(), envelope.event));
        self.next += 1;
    }
}
