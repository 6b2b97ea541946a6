//! One turn: speak, answer tools, until there is an answer.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{Mutex, MutexGuard, PoisonError},
    task::Poll,
    time::Duration,
};

use futures::future::join_all;
use nexus_core::{
    CallId, Effects, ErrorKind, EventSink, ExecutionBackend as _, FinishReason, Limit, MessageId, Outbox,
    Phase, Provenance, Recorder, Retry, ToolCallStatus, ToolContent, TurnError, TurnEvent, TurnHost,
    TurnRequest, TurnResult, TurnSession,
    turn::{
        MessageEnded, MessageVoided, Retrying, Started, TextDelta, ThinkingDelta, ToolCallArguments,
        ToolCallFinished, ToolCallStarted, ToolOrigin, VoidCause,
    },
};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::{
    backend::Parrot,
    voice::{Asked, End, Piece, Utterance, Wanted},
};

/// How often a torn utterance is asked for.
const TRIES: u32 = 3;

/// How long a sink that is not ready may hold up a cancelled turn.
const LAST_FLUSH: Duration = Duration::from_millis(100);

pub(crate) struct Turn<'a> {
    parrot: &'a Parrot,
    request: TurnRequest,
    host: TurnHost,
    /// The caller's tools, for this turn.
    session: TurnSession,
    log: Mutex<(Outbox, Recorder)>,
}

/// Why it failed.
struct Failure(ErrorKind, Retry);

enum Said {
    Answer,
    Calls(Vec<Wanted>),
    Torn(MessageId),
}

impl<'a> Turn<'a> {
    pub(crate) fn new(parrot: &'a Parrot, request: TurnRequest, host: TurnHost) -> Self {
        let session = host.open_turn(&request);
        Self { parrot, request, host, session, log: Mutex::new((Outbox::new(), Recorder::new())) }
    }

    pub(crate) async fn run(self, events: &mut dyn EventSink) -> Result<TurnResult, TurnError> {
        let outcome = match self.check() {
            Ok(()) => self.watched(events).await,
            Err(failure) => Err(failure),
        };
        tokio::select! {
            biased;
            () = poll_fn(|context| self.log().0.poll_flush(events, context)) => {}
            () = async { self.host.cancel.cancelled().await; sleep(LAST_FLUSH).await } => {}
        }
        let id = self.parrot.id().clone();
        let mut provenance = Provenance::new(id.clone());
        provenance.model = self.request.model;
        let (_, recorder) = self.log.into_inner().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            Ok(()) => Ok(recorder.into_result(FinishReason::Stop, provenance)),
            Err(Failure(kind, retry)) => {
                Err(TurnError::new(kind, id).with_retry(retry).with_partial(recorder.into_partial()))
            }
        }
    }

    fn check(&self) -> Result<(), Failure> {
        let offers_tools = !self.session.definitions().is_empty();
        let directory_is_there = self.request.working_directory.as_ref().is_none_or(|path| path.is_dir());
        let kind = if self.parrot.capabilities().unmet(&self.request, offers_tools).is_some() {
            ErrorKind::Unsupported
        } else if self.request.is_empty() || !directory_is_there {
            ErrorKind::InvalidRequest
        } else {
            return Ok(());
        };
        Err(Failure(kind, Retry::Never))
    }

    /// The work, stopped by the caller or by the deadline, with events handed over as they come.
    async fn watched(&self, events: &mut dyn EventSink) -> Result<(), Failure> {
        let mut work = pin!(self.work());
        let mut cancelled = pin!(self.host.cancel.cancelled());
        let mut overdue = pin!(async {
            match self.request.limits.deadline {
                Some(deadline) => sleep(deadline).await,
                None => std::future::pending().await,
            }
        });
        poll_fn(|context| {
            if cancelled.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(Failure(ErrorKind::Cancelled, Retry::Never)));
            }
            if overdue.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(Failure(ErrorKind::LimitReached(Limit::Deadline), Retry::Never)));
            }
            let done = work.as_mut().poll(context);
            let _ = self.log().0.poll_flush(events, context);
            done
        })
        .await
    }

    async fn work(&self) -> Result<(), Failure> {
        self.event(Started::new(self.parrot.id().clone()).with_model(self.request.model.clone()));
        let mut asked = Asked {
            prompt: self.request.prompt_text(),
            model: self.request.model.as_ref().map(ToString::to_string),
            tools: self.session.definitions().iter().map(|tool| tool.name.clone()).collect(),
            answers: Vec::new(),
        };
        let (mut count, mut tries) = (0, 1);
        loop {
            count += 1;
            let message = MessageId::new(format!("utterance-{count}"));
            let utterance = self.parrot.voice().answer(asked.clone());
            let utterance = utterance.ok_or(Failure(ErrorKind::Transport, Retry::Now))?;
            match self.utter(message, utterance).await? {
                Said::Answer => return Ok(()),
                Said::Calls(calls) => {
                    tries = 1;
                    let answers = join_all(calls.into_iter().map(|wanted| self.call(wanted)));
                    asked.answers.extend(self.in_phase(Phase::Tool, answers).await?);
                }
                Said::Torn(_) if tries == TRIES => return Err(Failure(ErrorKind::Transport, Retry::Now)),
                Said::Torn(message) => {
                    tries += 1;
                    self.event(MessageVoided::new(message, VoidCause::Retry));
                    self.event(Retrying::new(tries, "the utterance broke off"));
                }
            }
        }
    }

    async fn utter(&self, message: MessageId, utterance: Utterance) -> Result<Said, Failure> {
        self.in_phase(Phase::FirstByte, sleep(utterance.delay)).await?;
        let (mut text, mut calls, mut phase) = (String::new(), Vec::new(), Phase::FirstByte);
        for piece in utterance.pieces {
            self.in_phase(phase, sleep(utterance.gap)).await?;
            phase = Phase::Model;
            match piece {
                Piece::Word(word) => {
                    text.push_str(&word);
                    self.event(TextDelta::new(message.clone(), word));
                }
                Piece::Thought(thought) => self.event(ThinkingDelta::new(message.clone(), thought)),
                Piece::Call(call) => calls.push(call),
            }
        }
        match utterance.end {
            End::Silence => self.in_phase(phase, std::future::pending::<()>()).await?,
            End::Torn => return Ok(Said::Torn(message)),
            End::Done | End::Failed { .. } => {}
        }
        let is_silent = text.is_empty() && calls.is_empty();
        self.event(MessageEnded::new(message, text).with_usage(utterance.usage));
        match utterance.end {
            End::Failed { kind, retry } => Err(Failure(kind, retry)),
            _ if is_silent => Err(Failure(ErrorKind::Incomplete, Retry::Never)),
            _ if calls.is_empty() => Ok(Said::Answer),
            _ => Ok(Said::Calls(calls)),
        }
    }

    /// Answers a call, if the session lets it through. Returns what the voice is told.
    async fn call(&self, Wanted { id, name, arguments }: Wanted) -> String {
        let id = CallId::new(id);
        // What is no JSON is shown to the gate as the text that it is: it knows what to say.
        let arguments = serde_json::from_str::<Value>(&arguments).unwrap_or(Value::String(arguments));
        let permit = self.session.authorize(self.session.token(), &name, &arguments);
        let effects = permit.as_ref().map_or(Effects::None, |permit| permit.definition().effects);
        self.event(ToolCallStarted::new(id.clone(), name, ToolOrigin::Caller, effects));
        self.event(ToolCallArguments::new(id.clone(), arguments));
        let (status, content) = match permit {
            Err(denial) => (ToolCallStatus::Denied, vec![ToolContent::text(denial.to_string())]),
            Ok(permit) => {
                let answer = self.session.answer(id.clone(), permit).await;
                let status = if answer.is_error { ToolCallStatus::Failed } else { ToolCallStatus::Succeeded };
                (status, answer.content)
            }
        };
        let text = content.iter().map(told).collect::<Vec<_>>().join("\n");
        self.event(ToolCallFinished::new(id, status, content));
        text
    }

    async fn in_phase<T>(&self, phase: Phase, wait: impl Future<Output = T>) -> Result<T, Failure> {
        match self.request.limits.idle.of(phase) {
            Some(limit) => {
                timeout(limit, wait).await.map_err(|_elapsed| Failure(ErrorKind::Starved(phase), Retry::Now))
            }
            None => Ok(wait.await),
        }
    }

    fn event(&self, event: impl Into<TurnEvent>) {
        let event = event.into();
        let (outbox, recorder) = &mut *self.log();
        recorder.observe(&event);
        outbox.push(event);
    }

    fn log(&self) -> MutexGuard<'_, (Outbox, Recorder)> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A piece of an answer, for a voice that reads text alone.
fn told(piece: &ToolContent) -> String {
    match piece {
        ToolContent::Text { text } => text.clone(),
        other => format!("{other:?}"),
    }
}
