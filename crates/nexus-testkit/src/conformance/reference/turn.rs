//! One turn of the reference backend: calls the model and runs its tool calls until it is done.

mod calls;

use std::time::Duration;

use nexus_core::{
    ConversationMode, Cost, CostSource, Credential, ErrorKind, FinishReason, MessageId, OnLost, Phase,
    PromptBlock, Retry, TurnEvent, Usage, Usd,
    harness::{Checked, Failure, Renewal, RunningTurn},
    turn::{MessageEnded, Retrying, TextDelta, ThinkingDelta, Unrecognized, VoidCause},
};
use serde_json::Value;
use tokio::{task::yield_now, time::sleep};

use super::{
    access::Sandbox,
    backend::ReferenceBackend,
    fault::{bad_end, refusal},
    session::{self, History, Session},
};
use crate::sim::{Fault, Odd, Part, Reply, long_text};
use calls::Called;

/// Minimum remaining lifetime of a credential.
const LIFE: Duration = Duration::from_secs(60);

/// Number of repetitions of a model call whose answer broke off.
const RETRIES: u32 = 2;

/// Price of a token, in US dollars. Any estimate will do, since no real model is charged for.
const USD_PER_TOKEN: f64 = 0.000_01;

/// One turn.
pub(super) struct Turn<'a, 'e> {
    pub(super) backend: &'a ReferenceBackend,
    pub(super) running: RunningTurn<'e>,
    /// The borrowed credential, after it was borrowed.
    pub(super) credential: Option<Credential>,
    pub(super) renewal: Renewal,
}

/// Result of one reply.
enum Delivered {
    Answer(String),
    Calls(Vec<Called>),
    Broken,
}

impl Turn<'_, '_> {
    /// Runs the turn. Returns the finish reason, and the value of the answer.
    pub(super) async fn work(&mut self) -> Result<(FinishReason, Option<Value>), Failure> {
        let private =
            tempfile::tempdir().map_err(|error| Failure::new(ErrorKind::Crashed, error.to_string()))?;
        let (mut history, session) = self.history()?;
        let request = &self.running.request;
        let sandbox = Sandbox {
            access: request.tool_access,
            directory: request.working_directory.clone().unwrap_or_else(|| private.path().to_owned()),
            roots: request.extra_roots.clone(),
        };
        history.user_texts.push(request.prompt_text());
        let is_image = |block: &&PromptBlock| matches!(block, PromptBlock::Image { .. });
        history.images += request.prompt.iter().filter(is_image).count();
        let keeps = !matches!(request.conversation, ConversationMode::Ephemeral);

        let (finish, output) = self.converse(&mut history, &sandbox).await?;
        if keeps {
            let session = session.as_ref();
            let handle = session::keep(&self.backend.home, &self.backend.id, &history, session)
                .map_err(|error| Failure::new(ErrorKind::InvalidRequest, error.to_string()))?;
            self.running.log.resume = Some(handle);
        }
        Ok((finish, output))
    }

    /// Loads the history from before this turn.
    fn history(&mut self) -> Result<(History, Option<Session>), Failure> {
        let ConversationMode::Resume { handle, on_lost } = &self.running.request.conversation else {
            return Ok((History::default(), None));
        };
        match (session::take_up(&self.backend.home, handle), on_lost) {
            (Some((history, session)), _) => Ok((history, Some(session))),
            (None, OnLost::Fresh) => {
                let text = "the conversation to resume is gone; a new one begins";
                self.running.event(TurnEvent::warning(text));
                Ok((History::default(), None))
            }
            (None, _) => Err(Failure::new(ErrorKind::ConversationLost, "it is not there any more")),
        }
    }

    /// Calls the model and runs tools until an answer is usable.
    async fn converse(
        &mut self,
        history: &mut History,
        sandbox: &Sandbox,
    ) -> Result<(FinishReason, Option<Value>), Failure> {
        let mut broken = 0;
        let mut takes_input = false;
        loop {
            let delivered = match self.ask(history, sandbox, takes_input).await {
                Err(failure) if self.renews(&failure).await? => continue,
                delivered => delivered?,
            };
            match delivered {
                Delivered::Broken if broken == RETRIES => {
                    let failure = Failure::new(ErrorKind::Transport, "the answer broke off");
                    return Err(failure.with_retry(Retry::Now));
                }
                Delivered::Broken => {
                    broken += 1;
                    self.running.void_open_messages(VoidCause::Retry);
                    self.running.event(Retrying::new(broken + 1, "the answer broke off"));
                }
                Delivered::Calls(calls) => {
                    broken = 0;
                    for result in self.run_tools(&calls, sandbox).await? {
                        history.take_result(&result.content);
                    }
                    takes_input = true;
                    if self.running.is_submitted() {
                        return Ok((FinishReason::Submitted, None));
                    }
                }
                Delivered::Answer(text) => {
                    takes_input = false;
                    history.assistant_texts.push(text);
                    match self.running.check_answer(None) {
                        Checked::Fits(output) => return Ok((FinishReason::Stop, output)),
                        Checked::AskAgain(instruction) => history.user_texts.push(instruction),
                        Checked::Useless(failure) => return Err(failure),
                    }
                }
            }
        }
    }

    /// Renews a rejected credential, if another is available.
    async fn renews(&mut self, failure: &Failure) -> Result<bool, Failure> {
        let (Some(source), Some(refused)) = (&self.backend.credential, &self.credential) else {
            return Ok(false);
        };
        if failure.kind != ErrorKind::Unauthenticated {
            return Ok(false);
        }
        let Some(renewed) = self.renewal.replace(&**source, refused, LIFE).await? else { return Ok(false) };
        let refusal = failure.message.as_deref().unwrap_or_default();
        self.running.log.renewed(2, &source.describe(), refusal);
        self.running.hide(&renewed.token);
        self.credential = Some(renewed);
        Ok(true)
    }

    /// One call of the model.
    async fn ask(
        &mut self,
        history: &mut History,
        sandbox: &Sandbox,
        takes_input: bool,
    ) -> Result<Delivered, Failure> {
        self.running.model_call()?;
        if takes_input {
            history.user_texts.extend(self.running.input());
        }
        if let (Some(source), None) = (&self.backend.credential, &self.credential) {
            let lent = source.credential(LIFE).await?;
            self.running.hide(&lent.token);
            self.credential = Some(lent);
        }
        let RunningTurn { request, session, log, .. } = &self.running;
        let mut call = history.as_call();
        call.model = request.model.as_ref().map(|model| model.to_string());
        call.effort = log.provenance.effort.map(|effort| effort.applied.to_string());
        call.credential = self.credential.as_ref().map(|lent| lent.token.expose().to_owned());
        call.system = request.system.clone().unwrap_or_default();
        call.tools = session.definitions().iter().map(|tool| tool.name.clone()).collect();
        call.tools.extend(sandbox.tools().iter().map(|&name| name.to_owned()));
        match self.backend.model.answer(call) {
            Some(reply) => self.deliver(&reply).await,
            None => {
                let failure = Failure::new(ErrorKind::Transport, "the connection was refused");
                Err(failure.with_retry(Retry::Now))
            }
        }
    }

    /// Shows a reply as it arrives.
    async fn deliver(&mut self, reply: &Reply) -> Result<Delivered, Failure> {
        self.running.wait(Phase::FirstByte, sleep(Duration::from_millis(reply.pace.delay_ms))).await?;
        match &reply.fault {
            Some(Fault::StallBeforeHeaders) => self.stall(Phase::FirstByte).await?,
            Some(Fault::ResetBeforeHeaders) => return Ok(Delivered::Broken),
            Some(Fault::Status(status)) => return Err(refusal(status)),
            Some(Fault::Html200) => {
                return Err(Failure::new(ErrorKind::Transport, "a page, and no answer of a model"));
            }
            Some(fault) if fault.replaces_the_reply() => {
                return Err(Failure::new(ErrorKind::Protocol, "the answer cannot be read"));
            }
            _ => {}
        }
        let asked = self.running.log.model_calls;
        let message = MessageId::new(format!("message-{asked}"));
        let (mut text, mut calls) = (String::new(), Vec::new());
        for part in &reply.parts {
            match part {
                Part::Text { text: piece } => self.say(&message, piece, reply, &mut text).await?,
                Part::Long { bytes } => self.say(&message, &long_text(*bytes), reply, &mut text).await?,
                Part::Thinking { text } | Part::RawThinking { text } => {
                    self.running.event(ThinkingDelta::new(message.clone(), text.clone()));
                }
                Part::Call(call) => {
                    let id = reply.call_id.clone().unwrap_or_else(|| format!("call-{asked}"));
                    calls.push(Called { id, call: call.clone() });
                }
                Part::Odd { odd: odd @ (Odd::Event | Odd::Item) } => {
                    let raw = serde_json::to_value(odd).unwrap_or_default();
                    self.running.event(Unrecognized::new(Some("odd".to_owned()), raw));
                }
                Part::Odd { .. } => {}
            }
        }
        self.after_the_parts(reply, &message).await?;
        if matches!(
            reply.fault,
            Some(Fault::Torn { .. } | Fault::NoEnd | Fault::TornCharacter { .. } | Fault::Length { .. })
        ) {
            return Ok(Delivered::Broken);
        }
        let usage = reply.usage.as_ref().map(count);
        self.running.event(MessageEnded::new(message, text.clone()).with_usage(usage));
        if let Some(failure) = bad_end(reply.finish) {
            return Err(failure);
        }
        let tokens = self.running.log.recorder.usage().total_tokens();
        let cost = tokens.map(|tokens| Usd(tokens as f64 * USD_PER_TOKEN));
        self.running.log.recorder.cost = cost.map(|usd| Cost { usd, source: CostSource::Estimated });
        self.running.check_limits()?;
        match (calls.is_empty(), text.trim().is_empty()) {
            (false, _) => Ok(Delivered::Calls(calls)),
            (true, true) => Err(Failure::new(ErrorKind::Incomplete, "the model said nothing")),
            (true, false) => Ok(Delivered::Answer(text)),
        }
    }

    async fn after_the_parts(&mut self, reply: &Reply, message: &MessageId) -> Result<(), Failure> {
        match &reply.fault {
            Some(Fault::Stall { .. }) if reply.parts.is_empty() => self.stall(Phase::FirstByte).await,
            Some(Fault::Stall { .. }) => self.stall(Phase::Model).await,
            // Ends only with an error of `wait`, such as a limit or a cancellation.
            Some(Fault::Flood) => loop {
                self.running.event(TextDelta::new(message.clone(), "and on "));
                self.running.wait(Phase::Model, yield_now()).await?;
            },
            Some(Fault::StreamError { code, message: words } | Fault::ErrorLine { code, message: words }) => {
                let kind = if code.contains("overloaded") {
                    ErrorKind::Overloaded
                } else {
                    ErrorKind::VendorFailure
                };
                Err(Failure::new(kind, words.clone()).with_named_retry(None))
            }
            _ => Ok(()),
        }
    }

    /// Says `words` in the reply's pieces and at its pace.
    async fn say(
        &mut self,
        message: &MessageId,
        words: &str,
        reply: &Reply,
        text: &mut String,
    ) -> Result<(), Failure> {
        let mut rest = words;
        while !rest.is_empty() {
            let end = rest.char_indices().nth(reply.pace.piece_chars.max(1)).map_or(rest.len(), |(at, _)| at);
            let (piece, later) = rest.split_at(end);
            self.running.event(TextDelta::new(message.clone(), piece));
            text.push_str(piece);
            rest = later;
            match reply.pace.gap_ms {
                0 => self.running.wait(Phase::Model, yield_now()).await?,
                gap => self.running.wait(Phase::Model, sleep(Duration::from_millis(gap))).await?,
            }
        }
        Ok(())
    }

    /// Waits in vain.
    async fn stall(&mut self, phase: Phase) -> Result<(), Failure> {
        self.running.wait(phase, std::future::pending()).await
    }
}

fn count(counted: &crate::sim::Usage) -> Usage {
    let mut usage = Usage::new();
    usage.input_tokens = Some(counted.input);
    usage.cache_read_tokens = Some(counted.cached);
    usage.cache_write_tokens = Some(counted.cache_write);
    usage.output_tokens = Some(counted.output);
    usage.reasoning_tokens = Some(counted.reasoning);
    usage
}
