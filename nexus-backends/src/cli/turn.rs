//! One delegated turn: its processes, the shape of its answer, and how it ends.

use std::sync::Arc;

use nexus_core::{
    AppliedEffort, CancelToken, Effects, ErrorKind, EventSink, FinishReason, Limit, OnLost, SessionMode,
    TurnError, TurnEvent, TurnRequest, TurnResult, TurnSession,
    harness::{AnswerCheck, Failure, Overrun, TurnLog, Watch, sleep_until},
    turn::{MessageVoided, VoidCause},
};
use serde_json::Value;

use super::adapter::{Attempt, Cli, Prepared, TurnPlan};
use super::backend::DelegatedBackend;
use super::caller_tools::CallerTools;
use super::drive::{Drive, Ended};
use super::startup::Queue;
use super::stats::Tally;
use crate::mcp_server::ToolsDoor;
use nexus_process::private_home::PrivateHome;
use nexus_process::run_registry::RunEntry;
use nexus_process::spawn::{Bounds, SpawnError};

/// How many times a process is started again that did not find the caller's tools. Source: our own choice.
const MAX_RESTARTS: u32 = 2;

/// Runs one turn on one CLI.
pub(crate) struct Turn<'a, C> {
    backend: &'a DelegatedBackend<C>,
    request: Arc<TurnRequest>,
    effort: Option<AppliedEffort>,
    cancel: CancelToken,
    session: TurnSession,
    watch: Watch,
    log: TurnLog,
    tally: Tally,
    overrun: Overrun,
    answer: AnswerCheck,
}

/// What became of one process.
enum Outcome {
    Answered { finish: FinishReason, output: Option<Value> },
    AskAgain { instruction: String, home: Option<PrivateHome> },
}

impl<'a, C: Cli> Turn<'a, C> {
    /// The request has been checked.
    pub(crate) fn new(
        backend: &'a DelegatedBackend<C>,
        request: Arc<TurnRequest>,
        cancel: CancelToken,
        session: TurnSession,
    ) -> Self {
        let efforts = backend.cli.capabilities().efforts;
        let effort = request.effort.and_then(|effort| effort.clamp_to(&efforts));
        Self {
            backend,
            effort,
            cancel,
            session,
            watch: Watch::new(&request.limits),
            log: TurnLog::new(backend.id.clone(), request.model.clone(), effort),
            tally: Tally::default(),
            overrun: Overrun::default(),
            answer: AnswerCheck::new(request.output.clone()),
            request,
        }
    }

    /// Runs the turn to its end.
    pub(crate) async fn run(mut self, events: &mut dyn EventSink) -> Result<TurnResult, TurnError> {
        let outcome = self.run_with_tools(events).await;
        // Also of calls that no process told of, such as one that ended while a tool ran.
        self.log.recorder.add_effects(self.session.effects());
        let is_cancelled = matches!(&outcome, Err(failure) if failure.kind == ErrorKind::Cancelled);
        self.log.flush(events, &self.cancel, &self.watch, is_cancelled).await;
        let keeps = !matches!(self.request.session, SessionMode::Ephemeral);
        match outcome {
            Ok((finish, output)) => Ok(self.log.into_result(finish, output, keeps)),
            Err(failure) => Err(self.log.into_error(failure, keeps)),
        }
    }

    /// Runs the processes beside the door to the caller's tools, if there are any. Calls are answered within this
    /// future: dropped, it ends them.
    async fn run_with_tools(
        &mut self,
        events: &mut dyn EventSink,
    ) -> Result<(FinishReason, Option<Value>), Failure> {
        if self.session.definitions().is_empty() {
            return self.run_processes(None, events).await;
        }
        let unserved = |error| {
            let reason = "no port of this machine could be opened for them";
            Failure::new(ErrorKind::ToolsUnavailable, reason).with_source(error)
        };
        let mut door = ToolsDoor::open(self.session.share()).await.map_err(unserved)?;
        let tools = CallerTools::behind(&door);
        tokio::select! {
            biased;
            outcome = self.run_processes(Some(tools), events) => outcome,
            never = door.serve() => match never {},
        }
    }

    async fn run_processes(
        &mut self,
        tools: Option<CallerTools>,
        events: &mut dyn EventSink,
    ) -> Result<(FinishReason, Option<Value>), Failure> {
        let nexus_home = &self.backend.nexus_home;
        let unwritable = |error: std::io::Error| {
            let reason = format!("{} cannot be written: choose another NEXUS_HOME", nexus_home.display());
            Failure::new(ErrorKind::InvalidRequest, reason).with_source(error)
        };
        let ledger = RunEntry::begin(nexus_home).map_err(unwritable)?;
        let (working_directory, private_directory) = match &self.request.working_directory {
            Some(directory) => (std::path::absolute(directory).map_err(unwritable)?, None),
            None => {
                let home = ledger.home().map_err(unwritable)?;
                (home.path().to_owned(), Some(home))
            }
        };
        let plan = TurnPlan {
            backend: self.backend.id.clone(),
            ledger,
            request: Arc::clone(&self.request),
            effort: self.effort,
            tools,
            working_directory,
            is_private_directory: private_directory.is_some(),
            nexus_home: nexus_home.clone(),
        };
        if let Some(effort) = self.effort.filter(|effort| effort.is_clamped()) {
            let text = format!("effort {} is not offered; {} is used", effort.requested, effort.applied);
            self.log.event(TurnEvent::warning(text));
        }

        let mut attempt = Attempt::First;
        let mut restarts = 0;
        loop {
            let is_first = matches!(attempt, Attempt::First);
            let same_again = match attempt {
                Attempt::First if restarts < MAX_RESTARTS => Some(Attempt::First),
                Attempt::Fresh if restarts < MAX_RESTARTS => Some(Attempt::Fresh),
                _ => None,
            };
            let messages = self.log.recorder.messages().len();
            attempt = match self.run_process(&plan, attempt, events).await {
                Ok(Outcome::Answered { finish, output }) => return Ok((finish, output)),
                Ok(Outcome::AskAgain { instruction, home }) => match self.log.resume.clone() {
                    Some(resume) => Attempt::Repair { instruction, resume, home },
                    None => {
                        let reason = "the answer does not fit, and the conversation cannot be taken up again";
                        return Err(Failure::new(ErrorKind::OutputInvalid, reason));
                    }
                },
                Err(failure) if is_first && self.may_start_afresh(&failure) => {
                    self.log
                        .event(TurnEvent::warning("the conversation to resume is gone; a new one begins"));
                    Attempt::Fresh
                }
                Err(failure) => match same_again {
                    Some(attempt) if self.may_restart(&plan, &failure) => {
                        restarts += 1;
                        let why = failure.message.as_deref().unwrap_or("its tools were not there");
                        self.void_messages_from(messages);
                        self.log.event(TurnEvent::warning(format!("it is started again: {why}")));
                        attempt
                    }
                    _ => return Err(failure),
                },
            };
            self.log.provenance.attempts += 1;
        }
    }

    fn may_start_afresh(&self, failure: &Failure) -> bool {
        let wants_fresh = matches!(self.request.session, SessionMode::Resume { on_lost: OnLost::Fresh, .. });
        failure.kind == ErrorKind::SessionLost && wants_fresh
    }

    /// Whether a process did nothing but miss the caller's tools.
    fn may_restart(&self, plan: &TurnPlan, failure: &Failure) -> bool {
        failure.kind == ErrorKind::ToolsUnavailable
            && self.log.recorder.effects() == Effects::None
            && plan.tools.as_ref().is_some_and(|tools| !tools.were_called())
    }

    fn void_messages_from(&mut self, first: usize) {
        let messages = self.log.recorder.messages().iter().skip(first);
        let voided: Vec<_> = messages.map(|message| message.id.clone()).collect();
        for message in voided {
            self.log.event(MessageVoided::new(message, VoidCause::Retry));
        }
    }

    /// Runs one process, from its preparation to its end.
    async fn run_process(
        &mut self,
        plan: &TurnPlan,
        attempt: Attempt,
        events: &mut dyn EventSink,
    ) -> Result<Outcome, Failure> {
        self.watch.restart();
        let prepared = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return Err(Failure::new(ErrorKind::Cancelled, "before it began")),
            () = sleep_until(self.watch.next()) => {
                let kind = self.watch.ran_out().unwrap_or(ErrorKind::Starved(nexus_core::Phase::Start));
                return Err(Failure::new(kind, "while the process was being prepared"));
            }
            prepared = self.backend.cli.prepare(plan, attempt) => prepared?,
        };
        // The home is dropped last, and before it what was lent: whoever was lent it is gone by then.
        let Prepared { invocation, mut conversation, home, redactor, mut lent, queue, version, warnings } =
            prepared;
        if version.is_some() {
            self.log.provenance.version = version;
        }
        for warning in warnings {
            self.log.event(TurnEvent::warning(warning));
        }
        self.wait_in(queue, events).await?;
        let mut invocation = invocation.ledger(&plan.ledger).redactor(redactor);
        if let Some(record) = &self.backend.record {
            let name = format!("{}-{}", plan.ledger.run(), self.log.provenance.attempts);
            invocation = invocation.record(record.join(name));
        }
        if let Some(line_bytes) = self.backend.max_line_bytes {
            let mut bounds = Bounds::default();
            bounds.line_bytes = line_bytes;
            invocation = invocation.bounds(bounds);
        }
        // Declared after the home, hence dropped before it: nobody writes there any more.
        let process = invocation.spawn().map_err(|error| could_not_spawn(&error))?;
        self.tally.begin_process(&self.log);
        self.watch.restart();
        let drive = Drive {
            process: &process,
            tools: plan.tools.as_ref(),
            overrun: &mut self.overrun,
            conversation: &mut conversation,
            home: home.as_ref().map(PrivateHome::path),
            lent: &mut lent,
            cancel: &self.cancel,
            watch: &mut self.watch,
            log: &mut self.log,
            tally: &mut self.tally,
            limits: &self.request.limits,
            access: self.request.tool_access,
            answer: &mut self.answer,
            events,
        };
        match drive.run().await? {
            Ended::Answered { finish, output } => Ok(Outcome::Answered { finish, output }),
            Ended::AskAgain { instruction } => Ok(Outcome::AskAgain { instruction, home }),
        }
    }
}

impl<C: Cli> Turn<'_, C> {
    /// Waits until a process that is ready may start.
    async fn wait_in(&mut self, mut queue: Queue, events: &mut dyn EventSink) -> Result<(), Failure> {
        self.watch.rest();
        loop {
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => {
                    return Err(Failure::new(ErrorKind::Cancelled, "before it began"));
                }
                () = sleep_until(self.watch.next()) => {
                    let kind = self.watch.ran_out().unwrap_or(ErrorKind::LimitReached(Limit::Deadline));
                    return Err(Failure::new(kind, "while the process waited for others"));
                }
                news = queue.news() => match news {
                    Some(text) => self.log.event(TurnEvent::warning(text)),
                    None => return Ok(()),
                },
                () = self.log.outbox.flush(events), if !self.log.outbox.is_empty() => {}
            }
        }
    }
}

fn could_not_spawn(error: &SpawnError) -> Failure {
    let kind = match error {
        SpawnError::Executable(_) | SpawnError::WrongFormat { .. } => ErrorKind::NotInstalled,
        SpawnError::System { .. } => ErrorKind::Crashed,
        _ => ErrorKind::InvalidRequest,
    };
    Failure::of(kind, error)
}
