//! Interface of a turn for its script.

use std::{
    collections::VecDeque,
    future::{pending, ready},
    ops::{Deref, DerefMut},
    sync::Arc,
    task::{Context, Poll},
};

use nexus_core::{
    ConversationMode, Cost, CostSource, EventEnvelope, EventSink, FinishReason, Phase, ResumeHandle, Retry,
    SteeredTurn, ToolCall, ToolResult, TurnError, TurnEvent, TurnHost, TurnRequest, TurnResult, Usd,
    harness::{Failure, RunningTurn},
    turn::{MessageEnded, TextDelta, ToolCallFinished, ToolCallStatus},
};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{Act, Asked, ScriptedBackend, ScriptedEnd, failure, text_of};

/// One turn of a [`ScriptedBackend`]. It dereferences to its [`RunningTurn`].
#[derive(Debug)]
pub struct ScriptedTurn<'e> {
    /// Number of turns that the backend admitted before.
    pub number: usize,
    /// Host of the turn.
    pub host: TurnHost,
    /// Input to the agent while the turn runs.
    pub input: Arc<SteeredTurn>,
    backend: &'e ScriptedBackend,
    running: RunningTurn<'e>,
    taken: Arc<Notify>,
    answered: Vec<String>,
    messages: u32,
    calls: u32,
}

impl<'e> Deref for ScriptedTurn<'e> {
    type Target = RunningTurn<'e>;

    fn deref(&self) -> &Self::Target {
        &self.running
    }
}

impl DerefMut for ScriptedTurn<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.running
    }
}

/// Runs a turn of `backend`.
pub(super) async fn run(
    backend: &ScriptedBackend,
    request: TurnRequest,
    host: TurnHost,
    events: &mut dyn EventSink,
) -> Result<TurnResult, TurnError> {
    let taken = Arc::new(Notify::new());
    let mut sink = WatchedSink { sink: events, taken: Arc::clone(&taken) };
    let input = Arc::new(host.steered(backend.capabilities.steering));
    let mut running =
        RunningTurn::begin(&backend.id, &backend.capabilities, request, host.clone(), &mut sink)?;
    let number = {
        let mut record = backend.record();
        let (request, tools) = (running.request.clone(), running.session.definitions().to_vec());
        record.asked.push(Asked { request, tools });
        record.running += 1;
        record.most_at_once = record.most_at_once.max(record.running);
        record.asked.len() - 1
    };
    let _at_once = AtOnce(backend);
    if backend.capabilities.resume.is_yes() {
        running.log.resume = Some(ResumeHandle::new(backend.id.clone(), json!({ "turn": number })));
    }
    let mut turn = ScriptedTurn {
        number,
        host,
        input,
        backend,
        running,
        taken,
        answered: Vec::new(),
        messages: 0,
        calls: 0,
    };
    let end = (backend.script)(&mut turn).await;
    match end {
        // Imitates a third-party backend that reports a failure although an answer was submitted.
        Err(failure) if turn.is_submitted() => {
            let _ = turn.flush().await;
            let RunningTurn { log, request, .. } = turn.running;
            Err(log.into_error(failure, request.conversation != ConversationMode::Ephemeral))
        }
        end => turn.running.end(end).await,
    }
}

impl ScriptedTurn<'_> {
    /// Sends an event, and waits until the sink has taken it.
    ///
    /// # Errors
    ///
    /// Same as [`RunningTurn::wait`].
    pub async fn tell(&mut self, event: impl Into<TurnEvent>) -> Result<(), Failure> {
        self.running.event(event);
        self.flush().await?;
        self.backend.record().events_sent += 1;
        Ok(())
    }

    /// Waits until the sink has taken all events.
    ///
    /// # Errors
    ///
    /// Same as [`RunningTurn::wait`].
    pub async fn flush(&mut self) -> Result<(), Failure> {
        while !self.running.log.outbox.is_empty() {
            self.running.wait(Phase::Model, self.taken.notified()).await?;
        }
        Ok(())
    }

    /// Sends a message: its text, then its end.
    pub fn say(&mut self, text: impl Into<String>) {
        let text = text.into();
        self.messages += 1;
        let message = format!("m{}", self.messages);
        self.running.event(TextDelta::new(message.as_str().into(), text.clone()));
        self.running.event(MessageEnded::new(message.into(), text));
    }

    /// Calls a tool of the caller's. No event reports it; [`RunningTurn::answer_calls`] makes calls with events.
    ///
    /// # Errors
    ///
    /// Same as [`RunningTurn::wait`].
    pub async fn call(&mut self, tool: &str, arguments: Value) -> Result<ToolResult, Failure> {
        self.calls += 1;
        let call = ToolCall::new(format!("c{}", self.calls), tool, arguments);
        let session = self.running.session.share();
        let answer = self.running.wait(Phase::Tool, session.call(session.token(), call)).await?;
        self.answered.push(text_of(&answer));
        self.backend.record().answers.push(answer.clone());
        Ok(answer)
    }

    /// Waits until the turn is cancelled or out of time.
    pub async fn hang(&mut self) -> Failure {
        match self.running.wait(Phase::Model, pending::<std::convert::Infallible>()).await {
            Ok(never) => match never {},
            Err(failure) => failure,
        }
    }

    /// Plays `acts`. Unless an act sets them, the finish reason is `Stop` and the structured value `None`.
    ///
    /// # Errors
    ///
    /// The error of [`Act::Fail`], or of [`RunningTurn::wait`].
    ///
    /// # Panics
    ///
    /// Panics at [`Act::Panic`].
    pub async fn play(&mut self, acts: Vec<Act>) -> ScriptedEnd {
        let mut acts = VecDeque::from(acts);
        let mut finish = FinishReason::Stop;
        while let Some(act) = acts.pop_front() {
            match act {
                Act::Tell(event) => self.tell(event).await?,
                Act::Say(text) => self.say(text),
                Act::Call(tool, arguments) => {
                    self.call(tool, arguments).await?;
                }
                Act::Ask(asked) => {
                    let session = self.running.session.share();
                    if self.running.wait(Phase::Tool, session.approve(asked)).await?.is_err() {
                        let ends = |act: &Act| matches!(act, Act::Tell(TurnEvent::ToolCallFinished(_)));
                        let end = acts.iter().position(ends).map_or(acts.len(), |end| end + 1);
                        acts.drain(..end);
                        let denied = ToolCallFinished::new("c1".into(), ToolCallStatus::Denied, Vec::new());
                        self.tell(denied).await?;
                    }
                }
                Act::Question(question) => {
                    let session = self.running.session.share();
                    let reply = self.running.wait(Phase::Tool, session.question(question)).await?;
                    self.say(format!("{reply:?}"));
                }
                Act::Then(compute) => {
                    compute(&self.answered).into_iter().rev().for_each(|act| acts.push_front(act));
                }
                Act::Beside(effect) => effect(),
                Act::Meet(barrier) => {
                    self.running.wait(Phase::Tool, barrier.wait()).await?;
                }
                Act::Wait(gate) => {
                    let permit = self.running.wait(Phase::Tool, gate.acquire()).await?;
                    permit.expect("it is never closed").forget();
                }
                Act::Cost(usd) => {
                    let cost = Cost { usd: Usd(usd), source: CostSource::Reported };
                    self.running.log.recorder.cost = Some(cost);
                }
                Act::Hang => return Err(self.hang().await),
                Act::Panic => panic!("{} breaks down, as it should", self.backend.id),
                Act::Fail(kind) => return Err(failure(kind)),
                Act::Refuse(kind, after) => return Err(failure(kind).with_retry(Retry::After(after))),
                Act::FailSaying(kind, words) => return Err(Failure::new(kind, words)),
                Act::Finish(reason) => finish = reason,
            }
            // A cancelled turn does nothing more.
            self.running.wait(Phase::Model, ready(())).await?;
        }
        Ok((finish, None))
    }
}

/// Counts a turn while it runs.
struct AtOnce<'b>(&'b ScriptedBackend);

impl Drop for AtOnce<'_> {
    fn drop(&mut self) {
        self.0.record().running -= 1;
    }
}

/// A sink that notifies when it has taken an event.
struct WatchedSink<'e> {
    sink: &'e mut dyn EventSink,
    taken: Arc<Notify>,
}

impl EventSink for WatchedSink<'_> {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.sink.poll_ready(context)
    }

    fn accept(&mut self, event: EventEnvelope) {
        self.sink.accept(event);
        self.taken.notify_one();
    }
}
