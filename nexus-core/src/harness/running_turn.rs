//! Runs one turn from its admission to its end with the parts of this module.

use std::{
    collections::{BTreeMap, HashSet},
    future::Future,
    time::Duration,
};

use futures::{StreamExt as _, stream::FuturesUnordered};
use serde_json::Value;

use super::{
    AnswerCheck, Checked, Failure, ModelCall, Overrun, PendingCall, Repeats, Round, TurnLog, TurnSpan, Watch,
    admit, batches, is_submitted, over_limit, over_limit_with, pending_call::DecidedCall, with_submission,
};
use crate::{
    BackendId, CallId, CancelToken, Capabilities, ConversationMode, ErrorKind, EventSink, FinishReason,
    Limits, MessageId, Phase, Secret, SteeredTurn, ToolAccess, ToolCall, ToolResult, TurnError, TurnEvent,
    TurnHost, TurnRequest, TurnResult, TurnSession,
    turn::{InputReceived, MessageVoided, ToolOrigin, VoidCause},
};

/// Maximum number of repetitions of the same calls with the same answers in a row. Source: our own choice.
const MAX_REPEATS: u32 = 10;

/// One turn of a backend that owns its loop.
///
/// [`RunningTurn::begin`] admits the turn, and [`RunningTurn::end`] returns the result of the trait method. Between them,
/// every wait goes through [`RunningTurn::wait`], which serves cancellation, time limits and the sink. The awaited future
/// runs in the span of the turn: [`TurnSpan`].
#[derive(Debug)]
pub struct RunningTurn<'e> {
    /// The caller's request.
    pub request: TurnRequest,
    /// Session with the caller's tools for this turn.
    pub session: TurnSession,
    /// Events and record of the turn.
    pub log: TurnLog,
    /// Time limits of the turn.
    pub watch: Watch,
    /// Ends a turn that repeats the same calls with the same answers: by default, more than ten times in a row.
    pub repeats: Repeats,
    span: TurnSpan,
    steered: SteeredTurn,
    cancel: CancelToken,
    events: Events<'e>,
    answer: AnswerCheck,
    overrun: Overrun,
    call_ids: HashSet<CallId>,
    /// Limits of the request, except the limit on tool calls, which the session enforces for the caller's tools.
    limits: Limits,
}

impl<'e> RunningTurn<'e> {
    /// Begins a turn, unless [`admit`] rejects it. Clamps the effort to the capabilities. Times count from now.
    ///
    /// # Errors
    ///
    /// As [`admit`]. No event is sent then.
    pub fn begin(
        id: &BackendId,
        capabilities: &Capabilities,
        request: TurnRequest,
        host: TurnHost,
        events: &'e mut dyn EventSink,
    ) -> Result<Self, TurnError> {
        // Begin before admission, so that a rejected turn also ends its steering and its senders get an answer.
        let steered = host.steered(capabilities.steering);
        admit(id, capabilities, &request, &host).map_err(|failure| failure.into_error(id.clone()))?;
        let effort = request.effort.and_then(|effort| effort.clamp_to(&capabilities.efforts));
        let mut limits = request.limits.clone();
        // The session and `check_own_calls` enforce this limit.
        limits.tool_calls = None;
        let session = host.open_turn(&request);
        let span = TurnSpan::new(id, capabilities, &request);
        let mut log = TurnLog::new(id.clone(), request.model.clone(), effort).in_span(&span);
        log.redact_with(session.redactor().clone());
        // Without tools an unknown event cannot be a tool call, so it has no effects.
        if session.definitions().is_empty() && request.tool_access == ToolAccess::ScopedOnly {
            log.recorder = log.recorder.without_tools();
        }
        Ok(Self {
            session,
            log,
            watch: Watch::new(&request.limits),
            span,
            steered,
            cancel: host.cancel,
            events: Events(events),
            answer: AnswerCheck::new(request.output.clone()),
            overrun: Overrun::default(),
            repeats: Repeats::new(MAX_REPEATS),
            call_ids: HashSet::new(),
            limits,
            request,
        })
    }

    /// Removes `secret` from all further output of the turn and from the arguments of its calls. Use it for a credential that
    /// the backend sends to other parties, which may repeat it.
    pub fn hide(&self, secret: &Secret) {
        self.session.redactor().learn(secret.expose());
    }

    /// Records an event and queues it for the sink. Never waits.
    pub fn event(&mut self, event: impl Into<TurnEvent>) {
        self.log.event(event);
    }

    /// Waits for `future` in `phase`. The silence limit of the phase counts from now.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Cancelled`], [`ErrorKind::LimitReached`] at the deadline, [`ErrorKind::Starved`] with `phase`. The future
    /// is dropped.
    pub async fn wait<F: Future>(&mut self, phase: Phase, future: F) -> Result<F::Output, Failure> {
        self.watch.heard(phase);
        self.attend(future).await
    }

    /// Waits for a delay of the backend's own, for example before a retry. No silence limit applies.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Cancelled`], and [`ErrorKind::LimitReached`] at the deadline.
    pub async fn pause(&mut self, delay: Duration) -> Result<(), Failure> {
        self.watch.rest();
        self.attend(tokio::time::sleep(delay)).await
    }

    async fn attend<F: Future>(&mut self, future: F) -> Result<F::Output, Failure> {
        // Queue the start event now, so that the sink sees it during the first wait and not with the first
        // output.
        self.log.start();
        self.log.wait_for(self.span.run(future), &self.watch, &self.cancel, self.events.0).await
    }

    /// Counts a model call that is about to start. Its span ends as described at [`TurnLog::model_asked`], or when its calls
    /// run.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LimitReached`], if the call would exceed a limit.
    pub fn model_call(&mut self) -> Result<(), Failure> {
        self.log.model_calls += 1;
        self.log.model_asked();
        self.check_limits()
    }

    /// Checks the record against the limits on model calls, output tokens and cost. Call it when one of these counts grew.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LimitReached`], if the record exceeds a limit.
    pub fn check_limits(&self) -> Result<(), Failure> {
        over_limit(&self.log, &self.limits).map_or(Ok(()), Err)
    }

    /// Returns a unique id for a call that the model names `id`: `id` itself, unless an earlier call of the turn has it.
    pub fn call_id(&mut self, id: &str) -> CallId {
        // The numbers never run out, so the search always ends with a free id. The fallback only satisfies
        // the type.
        let others = (2..).map(|number| CallId::new(format!("{id}-{number}")));
        let mut ids = std::iter::once(CallId::new(id)).chain(others);
        let fresh = ids.find(|id| !self.call_ids.contains(id)).unwrap_or_else(|| CallId::new(id));
        self.call_ids.insert(fresh.clone());
        fresh
    }

    /// Answers the calls of one reply with the caller's tools, as [`RunningTurn::run_calls`]. Returns the results for the
    /// model in the order of the calls. A denied call also has a result. Afterwards the turn may be over:
    /// [`RunningTurn::is_submitted`].
    ///
    /// A call with an id that the turn has already seen is reported under another id.
    ///
    /// # Errors
    ///
    /// As [`RunningTurn::run_calls`].
    pub async fn answer_calls(&mut self, calls: Vec<ToolCall>) -> Result<Vec<ToolResult>, Failure> {
        // Share the session, because the calls borrow it while `run_calls` borrows `self`.
        let session = self.session.share();
        let calls = calls.into_iter().map(|call| {
            let id = self.call_id(call.call.as_str());
            PendingCall::of_caller(&session, ToolCall { call: id, ..call })
        });
        let calls = calls.collect();
        self.run_calls(calls).await
    }

    /// [`RunningTurn::answer_calls`] for a backend with tools of its own. Every call needs an id of its own:
    /// [`RunningTurn::call_id`]. All calls run at once, except as [`batches`] separates them.
    ///
    /// # Errors
    ///
    /// Errors of [`RunningTurn::wait`]; and [`ErrorKind::LimitReached`] with
    /// [`Limit::ToolCalls`](crate::Limit::ToolCalls): before anything runs, if the backend's own calls exceed
    /// the limit, and afterwards by [`Overrun::check`] and [`Repeats::observe`].
    pub async fn run_calls(&mut self, calls: Vec<PendingCall<'_>>) -> Result<Vec<ToolResult>, Failure> {
        self.check_own_calls(&calls)?;
        // A reply that only calls tools may end without a message, so its model call ends here in the trace.
        self.log.model_call_ended(&ModelCall::new());
        let mut asked = Vec::with_capacity(calls.len());
        // Calls end in any order, but the model gets the results in the order of its calls.
        let mut results = BTreeMap::new();
        for batch in batches(calls, PendingCall::is_terminal) {
            let mut jobs = FuturesUnordered::new();
            for call in batch {
                // Decide when the batch starts, not earlier: after a submission in an earlier batch, the
                // session denies these calls.
                let DecidedCall { started, arguments, answer } = call.decide();
                let (index, id) = (asked.len(), started.call.clone());
                asked.push((started.name.clone(), arguments.arguments.to_string()));
                self.log.event(started);
                self.log.event(arguments);
                // The span exists only after the log has seen `started`.
                let answer = self.log.tool_span(&id).run(answer);
                jobs.push(async move { (index, id, answer.await) });
            }
            // Wait for one call at a time: each call that ends restarts the silence limit of the phase.
            while let Some((index, id, answer)) = self.wait(Phase::Tool, jobs.next()).await? {
                self.log.event(answer.finished(id));
                results.insert(index, answer.result);
            }
        }
        // A reply that submits the answer never counts as an overrun, even with other calls.
        if !self.session.is_handed_in()
            && let Some(failure) = self.overrun.check(&self.session)
        {
            return Err(failure);
        }
        self.overrun.told(&self.session);
        let results: Vec<_> = results.into_values().collect();
        let mut round = Round::default();
        // Both lists have the order of the calls, so the order in which the calls end does not change the
        // hash.
        for ((name, arguments), result) in asked.iter().zip(&results) {
            round.add(name, arguments, serde_json::to_string(&result.content).ok());
        }
        self.repeats.observe(&round)?;
        Ok(results)
    }

    /// Checks the calls of the backend's own tools. The limit on tool calls covers own and caller's calls together; the
    /// session counts only the caller's.
    fn check_own_calls(&self, calls: &[PendingCall<'_>]) -> Result<(), Failure> {
        let next = calls.iter().filter(|call| call.is_own()).count();
        let before = self.log.recorder.tool_calls();
        let before = before.iter().filter(|call| call.origin == ToolOrigin::Harness).count();
        // Denied calls count on both sides.
        let made = before + next + self.session.calls_made() as usize;
        over_limit_with(made, &self.log, &self.request.limits).map_or(Ok(()), Err)
    }

    /// Returns the steering input since the last call and reports it as received. Call it when the next model call is
    /// certain. Add each text to that model call, as the user's words, after the answers to earlier tool calls.
    pub fn input(&mut self) -> Vec<String> {
        let mut texts = Vec::new();
        while let Some(input) = self.steered.take() {
            let text = input.delivered();
            self.event(InputReceived::new(text.clone()));
            texts.push(text);
        }
        texts
    }

    /// Returns true if the turn is over because a tool submitted its answer. The backend then makes no further model call,
    /// and the turn ends with [`FinishReason::Submitted`].
    pub fn is_submitted(&self) -> bool {
        is_submitted(&self.session, &self.request)
    }

    /// Checks the answer, as [`AnswerCheck::check`] does.
    pub fn check_answer(&mut self, output: Option<Value>) -> Checked {
        self.answer.check(output, &mut self.log)
    }

    /// Voids the messages that have not ended, for example when a reply breaks off and the request is repeated.
    pub fn void_open_messages(&mut self, cause: VoidCause) {
        // Collect the ids first, because each void changes the list of messages.
        let open = self.log.recorder.messages().iter().filter(|message| !message.complete);
        let open: Vec<MessageId> = open.map(|message| message.id.clone()).collect();
        // Void the newest message first: `Recorder` removes from the end fastest.
        for message in open.into_iter().rev() {
            self.event(MessageVoided::new(message, cause));
        }
    }

    /// Sends the remaining events to the sink and ends the turn, with the model's stop reason and the checked value, or with
    /// a failure. A turn with a submitted answer succeeds with any outcome.
    ///
    /// # Errors
    ///
    /// The failure, with everything produced so far.
    pub async fn end(
        mut self,
        outcome: Result<(FinishReason, Option<Value>), Failure>,
    ) -> Result<TurnResult, TurnError> {
        // Also count effects of calls that were abandoned while they ran.
        self.log.recorder.add_effects(self.session.effects());
        let is_cancelled = matches!(&outcome, Err(failure) if failure.kind == ErrorKind::Cancelled);
        self.log.flush(self.events.0, &self.cancel, &self.watch, is_cancelled).await;
        let keeps_conversation = !matches!(self.request.conversation, ConversationMode::Ephemeral);
        match with_submission(outcome, self.is_submitted()) {
            Ok((finish, output)) => Ok(self.log.into_result(finish, output, keeps_conversation)),
            Err(failure) => Err(self.log.into_error(failure, keeps_conversation)),
        }
    }
}

/// Wraps the sink, which does not implement `Debug`.
struct Events<'e>(&'e mut dyn EventSink);

impl std::fmt::Debug for Events<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Events")
    }
}
