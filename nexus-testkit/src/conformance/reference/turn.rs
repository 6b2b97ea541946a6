//! One turn of the reference backend: ask the model, run what it calls, go on until it is done.

mod calls;

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};

use nexus_core::{
    AppliedEffort, ConversationMode, Cost, CostSource, ErrorKind, EventSink, ExecutionBackend as _,
    FinishReason, Limit, MessageId, OnLost, Outbox, Phase, PromptBlock, Provenance, Recorder, Retry,
    TurnError, TurnEvent, TurnHost, TurnRequest, TurnResult, TurnSession, Usage, Usd,
    turn::{MessageEnded, MessageVoided, Retrying, Started, TextDelta, ThinkingDelta, VoidCause},
};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::{
    access::Sandbox,
    backend::ReferenceBackend,
    fault::{Failure, bad_end, refusal},
    session::{self, History},
};
use crate::sim::{Fault, Part, Reply, long_text};
use calls::{Called, Repeated};

/// How often a broken answer is asked for again.
const RETRIES: u32 = 2;

/// Price of a token, in US dollars: an estimate as good as any, since nobody is charged.
const USD_PER_TOKEN: f64 = 0.000_01;

/// How long a sink that is not ready may hold up a turn that was cancelled.
const LAST_FLUSH: Duration = Duration::from_millis(50);

/// One turn.
pub(super) struct Turn<'a> {
    backend: &'a ReferenceBackend,
    request: TurnRequest,
    host: TurnHost,
    /// The caller's tools: what is called passes its gate.
    session: TurnSession,
    effort: Option<AppliedEffort>,
    log: Mutex<Log>,
    names: AtomicU64,
}

/// What was seen, and what was not yet handed over.
struct Log {
    outbox: Outbox,
    recorder: Recorder,
    model_calls: u32,
    harness_calls: u32,
    repeated: Repeated,
}

/// What one reply came to.
enum Delivered {
    Answer { message: MessageId, text: String },
    Calls(Vec<Called>),
    Broken,
}

impl<'a> Turn<'a> {
    pub(super) fn new(backend: &'a ReferenceBackend, request: TurnRequest, host: TurnHost) -> Self {
        let effort = request.effort.and_then(|effort| effort.clamp_to(&backend.capabilities().efforts));
        let log = Log {
            outbox: Outbox::new(),
            recorder: Recorder::new(),
            model_calls: 0,
            harness_calls: 0,
            repeated: Repeated::default(),
        };
        let session = host.open_turn(&request);
        Self { backend, request, host, session, effort, log: Mutex::new(log), names: AtomicU64::new(1) }
    }

    /// Runs it to its end.
    pub(super) async fn run(self, events: &mut dyn EventSink) -> Result<TurnResult, TurnError> {
        let outcome = match self.check() {
            Ok(()) => self.watched(events).await,
            Err(failure) => Err(failure),
        };
        let cancel = self.host.cancel.clone();
        let flush = poll_fn(|context| self.log().outbox.poll_flush(events, context));
        tokio::select! {
            biased;
            () = flush => {}
            () = async { cancel.cancelled().await; sleep(LAST_FLUSH).await } => {}
        }
        let provenance = self.provenance();
        let backend = self.backend.id.clone();
        let log = self.log.into_inner().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            Ok((finish, output)) => {
                let mut result = log.recorder.into_result(finish, provenance);
                result.output = output;
                Ok(result)
            }
            Err(failure) => Err(TurnError::new(failure.kind, backend)
                .with_retry(failure.retry)
                .with_message(failure.message)
                .with_partial(log.recorder.into_partial())),
        }
    }

    /// Refuses what cannot be run.
    fn check(&self) -> Result<(), Failure> {
        let offers_tools = !self.session.definitions().is_empty();
        if let Some(unmet) = self.backend.capabilities().unmet(&self.request, offers_tools) {
            return Err(Failure::new(ErrorKind::Unsupported, unmet));
        }
        let invalid = |reason: &str| Err(Failure::new(ErrorKind::InvalidRequest, reason));
        if self.request.is_empty() {
            return invalid("the prompt is empty");
        }
        if self.request.conversation.handle().is_some_and(|handle| *handle.backend() != self.backend.id) {
            return invalid("the conversation belongs to another backend");
        }
        let mut folders = self.request.working_directory.iter().chain(&self.request.extra_roots);
        if !folders.all(|folder| folder.is_dir()) {
            return invalid("the working directory or a root is no folder");
        }
        Ok(())
    }

    /// The work, under the caller's token, the deadline, and with events handed over as they come.
    async fn watched(&self, events: &mut dyn EventSink) -> Result<(FinishReason, Option<Value>), Failure> {
        let mut work = pin!(self.work());
        let mut cancelled = pin!(self.host.cancel.cancelled());
        let deadline = self.request.limits.deadline;
        let mut overdue = pin!(async {
            match deadline {
                Some(deadline) => sleep(deadline).await,
                None => std::future::pending().await,
            }
        });
        poll_fn(|context| {
            if cancelled.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(Failure::new(ErrorKind::Cancelled, "by the caller")));
            }
            if overdue.as_mut().poll(context).is_ready() {
                let kind = ErrorKind::LimitReached(Limit::Deadline);
                return Poll::Ready(Err(Failure::new(kind, "the deadline has passed")));
            }
            let done = work.as_mut().poll(context);
            let _ = self.log().outbox.poll_flush(events, context);
            done
        })
        .await
    }

    async fn work(&self) -> Result<(FinishReason, Option<Value>), Failure> {
        let model = self.request.model.clone();
        self.event(Started::new(self.backend.id.clone()).with_model(model).with_effort(self.effort));
        let private =
            tempfile::tempdir().map_err(|error| Failure::new(ErrorKind::Crashed, error.to_string()))?;
        let sandbox = Sandbox {
            access: self.request.tool_access,
            directory: self.request.working_directory.clone().unwrap_or_else(|| private.path().to_owned()),
            roots: self.request.extra_roots.clone(),
        };
        let mut history = self.history()?;
        history.user_texts.push(self.request.prompt_text());
        let is_image = |block: &&PromptBlock| matches!(block, PromptBlock::Image { .. });
        history.images += self.request.prompt.iter().filter(is_image).count();

        let output = self.converse(&mut history, &sandbox).await?;
        if !matches!(self.request.conversation, ConversationMode::Ephemeral) {
            let handle = session::keep(&self.backend.home, &self.backend.id, &history)
                .map_err(|error| Failure::new(ErrorKind::InvalidRequest, error.to_string()))?;
            self.log().recorder.resume = Some(handle);
        }
        Ok((FinishReason::Stop, output))
    }

    /// What was said before this turn.
    fn history(&self) -> Result<History, Failure> {
        let ConversationMode::Resume { handle, on_lost } = &self.request.conversation else {
            return Ok(History::default());
        };
        match (session::take_up(&self.backend.home, handle), on_lost) {
            (Some(history), _) => Ok(history),
            (None, OnLost::Fail) => {
                Err(Failure::new(ErrorKind::ConversationLost, "it is not there any more"))
            }
            (None, OnLost::Fresh) => {
                self.event(TurnEvent::warning("the conversation to resume is gone; a new one begins"));
                Ok(History::default())
            }
        }
    }

    /// Asks and runs tools until there is an answer that can be used.
    async fn converse(&self, history: &mut History, sandbox: &Sandbox) -> Result<Option<Value>, Failure> {
        let mut repairs_left = self.request.output.as_ref().map_or(0, |schema| schema.repairs());
        let mut broken = 0;
        loop {
            match self.ask(history, sandbox).await? {
                Delivered::Broken if broken == RETRIES => {
                    return Err(Failure::new(ErrorKind::Transport, "the answer broke off").retry(Retry::Now));
                }
                Delivered::Broken => {
                    broken += 1;
                    self.take_back(VoidCause::Retry);
                    self.event(Retrying::new(broken + 1, "the answer broke off"));
                }
                Delivered::Calls(calls) => {
                    broken = 0;
                    for told in self.run_tools(calls, sandbox).await? {
                        history.tool_results.push(told.text);
                        history.images += told.images;
                    }
                }
                Delivered::Answer { message, text } => {
                    let Some(schema) = &self.request.output else {
                        history.assistant_texts.push(text);
                        return Ok(None);
                    };
                    match schema.read(&text) {
                        Ok(value) => return Ok(Some(value)),
                        Err(problem) if repairs_left == 0 => {
                            return Err(Failure::new(ErrorKind::OutputInvalid, problem.to_string()));
                        }
                        Err(problem) => {
                            repairs_left -= 1;
                            self.event(MessageVoided::new(message, VoidCause::Repair));
                            history.assistant_texts.push(text);
                            history.user_texts.push(schema.repair_instruction(&problem));
                        }
                    }
                }
            }
        }
    }

    /// One call of the model.
    async fn ask(&self, history: &History, sandbox: &Sandbox) -> Result<Delivered, Failure> {
        let limits = &self.request.limits;
        let asked = {
            let mut log = self.log();
            log.model_calls += 1;
            log.model_calls
        };
        if limits.model_calls.is_some_and(|limit| asked > limit) {
            return Err(limit(Limit::ModelCalls));
        }
        let mut call = history.as_call();
        call.model = self.request.model.as_ref().map(|model| model.to_string());
        call.effort = self.effort.map(|effort| effort.applied.to_string());
        call.system = self.request.system.clone().unwrap_or_default();
        call.tools = self.session.definitions().iter().map(|tool| tool.name.clone()).collect();
        call.tools.extend(sandbox.tools().iter().map(|&name| name.to_owned()));
        match self.backend.model.answer(call) {
            Some(reply) => self.deliver(&reply).await,
            None => Err(Failure::new(ErrorKind::Transport, "the connection was refused").retry(Retry::Now)),
        }
    }

    /// Shows a reply as it comes.
    async fn deliver(&self, reply: &Reply) -> Result<Delivered, Failure> {
        self.in_phase(Phase::FirstByte, sleep(Duration::from_millis(reply.pace.delay_ms))).await?;
        match &reply.fault {
            Some(Fault::StallBeforeHeaders) => {
                self.in_phase(Phase::FirstByte, std::future::pending()).await?;
            }
            Some(Fault::ResetBeforeHeaders) => return Ok(Delivered::Broken),
            Some(Fault::Status(status)) => return Err(refusal(status)),
            Some(fault) if fault.replaces_the_reply() => {
                return Err(Failure::new(ErrorKind::Protocol, "the answer cannot be read"));
            }
            _ => {}
        }
        let message = MessageId::new(self.name("message"));
        let (mut text, mut calls) = (String::new(), Vec::new());
        for part in &reply.parts {
            match part {
                Part::Text { text: piece } => self.say(&message, piece, reply, &mut text).await?,
                Part::Long { bytes } => self.say(&message, &long_text(*bytes), reply, &mut text).await?,
                Part::Thinking { text } | Part::RawThinking { text } => {
                    self.event(ThinkingDelta::new(message.clone(), text.clone()));
                }
                Part::Call(call) => {
                    let id = reply.call_id.clone().unwrap_or_else(|| self.name("call"));
                    calls.push(Called { id, call: call.clone() });
                }
                Part::Odd { .. } => {}
            }
        }
        self.after_the_parts(reply, &message).await?;
        if matches!(
            reply.fault,
            Some(Fault::Torn { .. } | Fault::TornCharacter { .. } | Fault::Length { .. })
        ) {
            return Ok(Delivered::Broken);
        }
        let usage = reply.usage.map(|usage| self.count(&usage));
        self.event(MessageEnded::new(message.clone(), text.clone()).with_usage(usage));
        if let Some(failure) = bad_end(reply.finish) {
            return Err(failure);
        }
        self.check_spending()?;
        match (calls.is_empty(), text.is_empty()) {
            (false, _) => Ok(Delivered::Calls(calls)),
            (true, true) => Err(Failure::new(ErrorKind::Incomplete, "the model said nothing")),
            (true, false) => Ok(Delivered::Answer { message, text }),
        }
    }

    async fn after_the_parts(&self, reply: &Reply, message: &MessageId) -> Result<(), Failure> {
        match &reply.fault {
            Some(Fault::Stall { .. }) => {
                let phase = if reply.parts.is_empty() { Phase::FirstByte } else { Phase::Model };
                self.in_phase(phase, std::future::pending()).await
            }
            Some(Fault::Flood) => loop {
                self.event(TextDelta::new(message.clone(), "and on "));
                tokio::task::yield_now().await;
            },
            Some(Fault::StreamError { code, message: words } | Fault::ErrorLine { code, message: words }) => {
                let kind = if code.contains("overloaded") {
                    ErrorKind::Overloaded
                } else {
                    ErrorKind::VendorFailure
                };
                Err(Failure::new(kind, words.clone()).retry(Retry::Now))
            }
            _ => Ok(()),
        }
    }

    /// Says `words` in the reply's pieces and at its pace.
    async fn say(
        &self,
        message: &MessageId,
        words: &str,
        reply: &Reply,
        text: &mut String,
    ) -> Result<(), Failure> {
        let mut rest = words;
        while !rest.is_empty() {
            let end = rest.char_indices().nth(reply.pace.piece_chars.max(1)).map_or(rest.len(), |(at, _)| at);
            let (piece, later) = rest.split_at(end);
            self.event(TextDelta::new(message.clone(), piece));
            text.push_str(piece);
            rest = later;
            match reply.pace.gap_ms {
                0 => tokio::task::yield_now().await,
                gap => self.in_phase(Phase::Model, sleep(Duration::from_millis(gap))).await?,
            }
        }
        Ok(())
    }

    /// Bounds silence.
    async fn in_phase<T>(&self, phase: Phase, wait: impl Future<Output = T>) -> Result<T, Failure> {
        match self.request.limits.idle.of(phase) {
            Some(limit) => timeout(limit, wait)
                .await
                .map_err(|_elapsed| Failure::new(ErrorKind::Starved(phase), "silence").retry(Retry::Now)),
            None => Ok(wait.await),
        }
    }

    fn count(&self, counted: &crate::sim::Usage) -> Usage {
        let mut usage = Usage::new();
        usage.input_tokens = Some(counted.input);
        usage.cache_read_tokens = Some(counted.cached);
        usage.cache_write_tokens = Some(counted.cache_write);
        usage.output_tokens = Some(counted.output);
        usage.reasoning_tokens = Some(counted.reasoning);
        usage
    }

    fn check_spending(&self) -> Result<(), Failure> {
        let mut log = self.log();
        let usage = log.recorder.usage();
        let cost = usage.total_tokens().map(|tokens| Usd(tokens as f64 * USD_PER_TOKEN));
        log.recorder.cost = cost.map(|usd| Cost { usd, source: CostSource::Estimated });
        let limits = &self.request.limits;
        if limits.output_tokens.zip(usage.all_output_tokens()).is_some_and(|(limit, used)| used > limit) {
            return Err(limit(Limit::OutputTokens));
        }
        if limits.cost.zip(cost).is_some_and(|(limit, cost)| cost > limit) {
            return Err(limit(Limit::Cost));
        }
        Ok(())
    }

    /// Voids the message that was being written.
    fn take_back(&self, cause: VoidCause) {
        let open = {
            let log = self.log();
            let open = log.recorder.messages().iter().filter(|message| !message.complete);
            open.map(|message| message.id.clone()).collect::<Vec<_>>()
        };
        for message in open {
            self.event(MessageVoided::new(message, cause));
        }
    }

    fn event(&self, event: impl Into<TurnEvent>) {
        let event = event.into();
        let mut log = self.log();
        log.recorder.observe(&event);
        log.outbox.push(event);
    }

    fn name(&self, what: &str) -> String {
        format!("{what}-{}", self.names.fetch_add(1, Ordering::Relaxed))
    }

    fn provenance(&self) -> Provenance {
        let mut provenance = Provenance::new(self.backend.id.clone());
        provenance.model.clone_from(&self.request.model);
        provenance.effort = self.effort;
        provenance
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn limit(limit: Limit) -> Failure {
    Failure::new(ErrorKind::LimitReached(limit), "the request's limit")
}
