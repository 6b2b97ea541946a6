//! Loop from request to reply to request, until the model stops or a limit is reached.

use futures::StreamExt as _;
use nexus_core::{
    CallId, ConversationMode, ErrorKind, EventSink, FinishReason, Limit, Limits, ModelId, Phase, SteeredTurn,
    ToolResult, TurnError, TurnEvent, TurnHost, TurnRequest, TurnResult,
    harness::{
        AnswerCheck, Checked, Failure, Overrun, Repeats, Round, TurnLog, TurnSpan, Watch, is_submitted,
        over_limit, with_submission,
    },
    redact::Redactor,
    turn::{
        Cost, InputReceived, RateLimitNotification, ToolCallArguments, ToolCallFinished, ToolCallStarted,
    },
};
use serde_json::Value;

use super::context_fill::ContextFill;
use super::model_server::ModelServer;
use super::own_tools::OwnTools;
use super::reply::{CallEnding, ModelReply, OutputItem};
use super::tool_calls::{Decided, RequestedCall, ToolDispatcher};
use super::transcript::Transcript;
use super::turn_context::TurnContext;
use crate::redact::with_key_prefixes;

/// Maximum number of replies without calls in a turn that request another model call. Source: our own bound.
const MAX_CONTINUATIONS: u32 = 32;

/// One turn at one server.
#[derive(Debug)]
pub(crate) struct TurnLoop<'a> {
    pub(super) backend: &'a ModelServer,
    pub(super) request: TurnRequest,
    host: TurnHost,
    steered: SteeredTurn,
    /// Removes the turn's credentials from its output.
    pub(super) redactor: Redactor,
    pub(super) context: TurnContext,
    /// Number of requests so far, including retries.
    pub(super) requests: u32,
    pub(super) last_limits: Vec<RateLimitNotification>,
    /// Model that answered last, if a header names it.
    pub(super) last_model: Option<ModelId>,
    /// Number of replies without calls that requested another model call.
    continuations: u32,
    /// True if the answer was submitted, which ends the turn.
    is_submitted: bool,
    has_warned_of_usage: bool,
    /// Size of the last request and its reply, as the server reported it.
    pub(super) context_fill: Option<ContextFill>,
    /// True if a compaction could not make enough room in the model's context.
    pub(super) has_full_context: bool,
    /// True if the model for summaries failed, so that later compactions have no summary.
    pub(super) has_no_summaries: bool,
    answer: AnswerCheck,
    overrun: Overrun,
    /// Limits of the request without the limit on tool calls, which the session enforces.
    limits: Limits,
}

/// Continuation of the turn after a reply.
enum AfterReply {
    /// Call the model with the results of its calls.
    Answer,
    /// Call the model again: it paused, or its answer needs a repair.
    Ask,
    Answered {
        finish: FinishReason,
        output: Option<Value>,
    },
}

impl<'a> TurnLoop<'a> {
    /// Creates the loop for a request that was admitted.
    pub(crate) fn new(
        backend: &'a ModelServer,
        request: TurnRequest,
        host: TurnHost,
        steered: SteeredTurn,
        span: &TurnSpan,
    ) -> Self {
        let log = TurnLog::new(backend.id.clone(), request.model.clone(), None).in_span(span);
        let mut limits = request.limits.clone();
        limits.tool_calls = None;
        Self {
            backend,
            context: TurnContext::new(host.cancel.clone(), Watch::new(&request.limits), log),
            requests: 0,
            last_limits: Vec::new(),
            last_model: None,
            continuations: 0,
            is_submitted: false,
            has_warned_of_usage: false,
            context_fill: None,
            has_full_context: false,
            has_no_summaries: false,
            answer: AnswerCheck::new(request.output.clone()),
            overrun: Overrun::default(),
            limits,
            redactor: Redactor::default(),
            host,
            steered,
            request,
        }
    }

    /// Runs the turn to its end.
    pub(crate) async fn run(
        mut self: Box<Self>,
        events: &mut dyn EventSink,
    ) -> Result<TurnResult, TurnError> {
        let mut conversation = None;
        let outcome = self.iterate(&mut conversation, events).await;
        let keeps = !matches!(self.request.conversation, ConversationMode::Ephemeral);
        if let Some(conversation) = conversation.filter(|_| keeps) {
            self.context.log.resume = Some(conversation.keep(&self.backend.id));
        }
        let is_cancelled = matches!(&outcome, Err(failure) if failure.kind == ErrorKind::Cancelled);
        // Flush before the outcome is returned, because no event may follow it.
        let TurnContext { cancel, watch, log, .. } = &mut self.context;
        log.flush(events, cancel, watch, is_cancelled).await;
        match with_submission(outcome, self.is_submitted) {
            Ok((finish, output)) => Ok(self.context.log.into_result(finish, output, keeps)),
            Err(failure) => Err(self.context.log.into_error(failure, keeps)),
        }
    }

    async fn iterate(
        &mut self,
        kept: &mut Option<Box<dyn Transcript>>,
        events: &mut dyn EventSink,
    ) -> Result<(FinishReason, Option<Value>), Failure> {
        let session = self.host.open_turn(&self.request);
        self.redactor = with_key_prefixes(session.redactor());
        self.context.log.redact_with(self.redactor.clone());
        let own = OwnTools::open(&self.backend.surroundings, &self.request, &session).await?;
        if let Some(own) = &own {
            self.use_own_tools(own);
        }
        let has_own = own.as_ref().is_some_and(|own| !own.session().definitions().is_empty());
        if session.definitions().is_empty() && !has_own {
            let recorder = std::mem::take(&mut self.context.log.recorder);
            self.context.log.recorder = recorder.without_tools();
        }
        let mut setup = self.set_up(&session, own.as_ref(), events).await?;
        // The caller owns the conversation, so a turn that fails later can also be resumed.
        let conversation = &mut **kept.insert(self.open(&setup)?);
        self.context.log.name_conversation(conversation.id());
        let calls_before = conversation.calls_before().clone();
        let mut dispatcher =
            ToolDispatcher::new(session, own, &setup.left_out, self.backend.parallel_tools, calls_before);
        let mut repeats = Repeats::new(self.backend.repeated_calls);
        let mut has_answers = false;
        loop {
            self.may_ask()?;
            if has_answers {
                self.add_input(conversation);
            }
            self.make_room(&mut setup, conversation, events).await?;
            let mut reply = self.ask(&mut setup, conversation, events).await?;
            setup.refused_tools.drain(..).for_each(|name| dispatcher.withdraw(&name));
            // Rename before the conversation stores the calls, because the id pairs each result with its call.
            dispatcher.tell_apart(&mut reply.items);
            conversation.model(&reply.items);
            self.account(&reply)?;
            let next = self.judge(&reply, &dispatcher, &mut repeats, conversation, events).await;
            for warning in dispatcher.new_warnings() {
                self.context.log.event(TurnEvent::warning(warning));
            }
            match next? {
                AfterReply::Answer => has_answers = true,
                AfterReply::Ask => has_answers = false,
                AfterReply::Answered { finish, output } => return Ok((finish, output)),
            }
        }
    }

    /// Adds the system text and the warnings of the loop's own tools.
    fn use_own_tools(&mut self, own: &OwnTools) {
        self.request.system = Some(match self.request.system.take() {
            Some(system) => format!("{}\n\n{system}", own.system),
            None => own.system.clone(),
        });
        for warning in &own.warnings {
            self.context.log.event(TurnEvent::warning(warning));
        }
    }

    /// Returns an error if another model call would exceed a limit.
    pub(super) fn may_ask(&self) -> Result<(), Failure> {
        let made = self.context.log.model_calls;
        if self.limits.model_calls.is_some_and(|limit| made >= limit) {
            return Err(Failure::new(ErrorKind::LimitReached(Limit::ModelCalls), format!("{made} calls")));
        }
        let used = self.context.log.recorder.usage().all_output_tokens().unwrap_or(0);
        if self.limits.output_tokens.is_some_and(|limit| used >= limit && used > 0) {
            return Err(out_of_tokens(used));
        }
        Ok(())
    }

    /// Returns the number of output tokens that the turn may still use.
    pub(super) fn output_tokens_left(&self) -> Option<u64> {
        let used = self.context.log.recorder.usage().all_output_tokens().unwrap_or(0);
        self.limits.output_tokens.map(|limit| limit.saturating_sub(used))
    }

    /// Adds the caller's new inputs. From here on only a failed request can keep them from the model, and a resumed
    /// conversation contains them.
    fn add_input(&mut self, conversation: &mut dyn Transcript) {
        while let Some(input) = self.steered.take() {
            let text = input.delivered();
            conversation.remark(&text);
            self.context.log.event(InputReceived::new(text));
        }
    }

    /// Checks the limits after a reply. A reply of unknown cost ends a turn with a limit on cost.
    fn account(&mut self, reply: &ModelReply) -> Result<(), Failure> {
        if reply.usage.is_none() && self.limits.output_tokens.is_some() && !self.has_warned_of_usage {
            self.has_warned_of_usage = true;
            let text = "the server does not report its usage: the limit on output tokens applies to each reply \
                separately";
            self.context.log.event(TurnEvent::warning(text));
        }
        self.within_limits()?;
        let model = self.context.log.provenance.model.as_ref();
        self.knows_cost(reply.cost, model)
    }

    /// Returns an error if the turn has a limit on cost and the cost of a reply is not known.
    pub(super) fn knows_cost(&self, cost: Option<Cost>, model: Option<&ModelId>) -> Result<(), Failure> {
        // Another call could exceed the limit unseen, and a budget would not count this reply.
        if cost.is_none() && self.limits.cost.is_some() {
            let model = model.map_or("this model", ModelId::as_str);
            let reason = format!(
                "the cost of a reply of {model} is not known, because the server reports no cost and no usage that \
                 `prices` of this backend could apply to: remove the limit on cost, or use another backend"
            );
            return Err(Failure::new(ErrorKind::LimitReached(Limit::Cost), reason));
        }
        Ok(())
    }

    /// Returns an error if the turn exceeds its limits.
    pub(super) fn within_limits(&self) -> Result<(), Failure> {
        over_limit(&self.context.log, &self.limits).map_or(Ok(()), Err)
    }

    /// Returns the next step after a reply.
    async fn judge(
        &mut self,
        reply: &ModelReply,
        dispatcher: &ToolDispatcher,
        repeats: &mut Repeats,
        conversation: &mut dyn Transcript,
        events: &mut dyn EventSink,
    ) -> Result<AfterReply, Failure> {
        // Check this first: the arguments of the last call may be cut off, so no call of an incomplete reply is
        // dispatched.
        if let CallEnding::Incomplete { reason } = &reply.ending {
            return Err(self.incomplete(reason));
        }
        let batches = dispatcher.batches(&reply.items);
        if !batches.is_empty() {
            self.answer_calls(&batches, dispatcher, repeats, conversation, events).await?;
            return Ok(match self.is_submitted {
                true => AfterReply::Answered { finish: FinishReason::Submitted, output: None },
                false => AfterReply::Answer,
            });
        }
        if matches!(reply.ending, CallEnding::Completed { end_turn: Some(false) }) {
            self.continuations += 1;
            if self.continuations > MAX_CONTINUATIONS {
                let reason =
                    format!("the model requested {MAX_CONTINUATIONS} continuations without finishing");
                return Err(Failure::new(ErrorKind::Incomplete, reason));
            }
            return Ok(AfterReply::Ask);
        }
        let refusal = reply.items.iter().find_map(|item| match item {
            OutputItem::Message { refusal: Some(refusal), .. } => Some(refusal),
            _ => None,
        });
        if let Some(refusal) = refusal {
            return Err(Failure::new(ErrorKind::Refused, refusal));
        }
        let has_text =
            |item: &OutputItem| matches!(item, OutputItem::Message { text, .. } if !text.trim().is_empty());
        if !reply.items.iter().any(has_text) {
            return Err(Failure::new(ErrorKind::Incomplete, "the model answered nothing"));
        }
        match self.answer.check(None, &mut self.context.log) {
            Checked::Fits(output) => Ok(AfterReply::Answered { finish: FinishReason::Stop, output }),
            Checked::Useless(failure) => Err(failure),
            Checked::AskAgain(instruction) => {
                conversation.remark(&instruction);
                self.context.log.provenance.attempts += 1;
                Ok(AfterReply::Ask)
            }
        }
    }

    /// Returns the failure of an answer that ended early because of `reason`.
    fn incomplete(&self, reason: &str) -> Failure {
        let used = self.context.log.recorder.usage().all_output_tokens().unwrap_or(0);
        match reason {
            "content_filter" => Failure::new(ErrorKind::Refused, "the vendor's filter cut off the answer"),
            "max_output_tokens" | "max_tokens"
                if self.limits.output_tokens.is_some_and(|limit| used >= limit) =>
            {
                out_of_tokens(used)
            }
            reason => Failure::new(ErrorKind::Incomplete, format!("the answer is incomplete: {reason}")),
        }
    }

    /// Runs the calls of a reply, and adds the results to the conversation.
    async fn answer_calls(
        &mut self,
        batches: &[Vec<&OutputItem>],
        dispatcher: &ToolDispatcher,
        repeats: &mut Repeats,
        conversation: &mut dyn Transcript,
        events: &mut dyn EventSink,
    ) -> Result<(), Failure> {
        let mut round = Round::default();
        let mut failure = None;
        for batch in batches {
            let (calls, decided) = dispatcher.calls(batch);
            let mut results: Vec<Option<ToolResult>> = Vec::new();
            results.resize_with(calls.len(), || None);
            // Calls of a reply that was interrupted get a result too, so that a resumed conversation shows what has happened.
            let missing = match &failure {
                None => {
                    let answered = self.answer_batch(&calls, decided, dispatcher, &mut results, events).await;
                    self.is_submitted = is_submitted(dispatcher.session(), &self.request);
                    failure = answered.err();
                    "the turn ended before this call did; it may have had effects"
                }
                Some(_) => "the turn ended before this call was made",
            };
            // Use the order of the calls, not of their ends, so that the next request does not depend on timing.
            for (call, result) in calls.iter().zip(results) {
                if result.is_none() && failure.is_none() {
                    continue;
                }
                let result = result.unwrap_or_else(|| ToolResult::error(missing));
                let written = conversation.tool_output(&call.id, call.is_custom, &result);
                round.add(&call.name, &call.text, written);
            }
        }
        // Before the failure is returned: every call has its result, so the turn can be resumed from here.
        conversation.is_whole();
        if let Some(failure) = failure {
            return Err(failure);
        }
        // A submitted answer is valid, even if another call of the same reply exceeded the budget.
        if !dispatcher.session().is_handed_in()
            && let Some(failure) = self.overrun.check(dispatcher.session())
        {
            return Err(failure);
        }
        self.overrun.told(dispatcher.session());
        // The caller's tools and the loop's own tools have a session each, with the whole budget. So check the sum.
        let made = dispatcher.calls_made();
        if dispatcher.has_own_tools() && self.request.limits.tool_calls.is_some_and(|limit| made > limit) {
            return Err(Failure::new(ErrorKind::LimitReached(Limit::ToolCalls), format!("{made} calls")));
        }
        repeats.observe(&round)
    }

    /// Runs the calls of a batch, and sets the results in the order of the calls. Calls without a result were interrupted.
    async fn answer_batch(
        &mut self,
        calls: &[RequestedCall],
        decided: Vec<Decided<'_>>,
        dispatcher: &ToolDispatcher,
        results: &mut [Option<ToolResult>],
        events: &mut dyn EventSink,
    ) -> Result<(), Failure> {
        // Emit all start events first, because the calls run concurrently and end in any order.
        let mut spans = Vec::new();
        for call in calls {
            let id: CallId = call.id.as_str().into();
            let started = ToolCallStarted::new(id.clone(), &call.name, call.origin, call.effects);
            self.context.log.event(started);
            spans.push(self.context.log.tool_span(&id));
            let arguments = ToolCallArguments::new(call.id.as_str().into(), call.arguments.clone());
            self.context.log.event(arguments);
        }
        self.context.watch.heard(Phase::Tool);
        let mut answers = std::pin::pin!(dispatcher.answers(calls, decided, spans));
        while let Some((index, result, status)) = self.context.attend(events, answers.next()).await? {
            self.context.watch.heard(Phase::Tool);
            let Some((call, place)) = calls.get(index).zip(results.get_mut(index)) else { continue };
            let output = result.content.clone();
            self.context.log.event(ToolCallFinished::new(call.id.as_str().into(), status, output));
            *place = Some(result);
        }
        Ok(())
    }
}

fn out_of_tokens(used: u64) -> Failure {
    Failure::new(ErrorKind::LimitReached(Limit::OutputTokens), format!("{used} tokens"))
}
