//! One delegated turn: its processes, the shape of its answer, and how it ends.

use std::{sync::Arc, time::Duration};

use nexus_core::{
    AppliedEffort, CancelToken, ErrorKind, EventSink, FinishReason, MessageId, OnLost, OutputSchema,
    SessionMode, TurnError, TurnEvent, TurnRequest, TurnResult,
    turn::{MessageVoided, VoidCause},
};
use serde_json::Value;

use super::{
    backend::DelegatedBackend,
    conversation::{Attempt, Cli, Conversation, Failure, Prepared, Repair, Step, TurnPlan},
    drive::{Drive, Ended},
    ledger::LedgerEntry,
    redact::Redactor,
    run_home::RunHome,
    spawn::{Bounds, SpawnError},
    turn_log::TurnLog,
    watch::{Watch, sleep_until},
};

/// How long a sink that is not ready may hold up the return of a cancelled turn.
const CANCELLED_FLUSH: Duration = Duration::from_millis(250);

/// Runs one turn on one CLI.
pub(super) struct Turn<'a, C> {
    backend: &'a DelegatedBackend<C>,
    request: Arc<TurnRequest>,
    effort: Option<AppliedEffort>,
    cancel: CancelToken,
    watch: Watch,
    log: TurnLog,
    answer: AnswerCheck,
}

/// What became of one process.
enum Outcome {
    Answered { finish: FinishReason, output: Option<Value> },
    AskAgain { instruction: String, home: Option<RunHome> },
}

impl<'a, C: Cli> Turn<'a, C> {
    /// The request has been checked.
    pub(super) fn new(
        backend: &'a DelegatedBackend<C>,
        request: Arc<TurnRequest>,
        cancel: CancelToken,
    ) -> Self {
        let efforts = backend.cli.capabilities().efforts;
        let effort = request.effort.and_then(|effort| effort.clamp_to(&efforts));
        Self {
            backend,
            effort,
            cancel,
            watch: Watch::new(&request.limits),
            log: TurnLog::new(backend.id.clone(), request.model.clone(), effort),
            answer: AnswerCheck::new(request.output.clone()),
            request,
        }
    }

    /// Runs the turn to its end.
    pub(super) async fn run(mut self, events: &mut dyn EventSink) -> Result<TurnResult, TurnError> {
        let outcome = self.run_processes(events).await;
        let is_cancelled = matches!(&outcome, Err(failure) if failure.kind == ErrorKind::Cancelled);
        self.flush(events, is_cancelled).await;
        let keeps = !matches!(self.request.session, SessionMode::Ephemeral);
        match outcome {
            Ok((finish, output)) => Ok(self.log.into_result(finish, output, keeps)),
            Err(failure) => Err(self.log.into_error(failure, keeps)),
        }
    }

    async fn run_processes(
        &mut self,
        events: &mut dyn EventSink,
    ) -> Result<(FinishReason, Option<Value>), Failure> {
        let nexus_home = &self.backend.nexus_home;
        let unwritable = |error: std::io::Error| {
            let reason = format!("{} cannot be written: choose another NEXUS_HOME", nexus_home.display());
            Failure::new(ErrorKind::InvalidRequest, reason).with_source(error)
        };
        let ledger = LedgerEntry::begin(nexus_home).map_err(unwritable)?;
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
            working_directory,
            is_private_directory: private_directory.is_some(),
            nexus_home: nexus_home.clone(),
        };
        if let Some(effort) = self.effort.filter(|effort| effort.is_clamped()) {
            let text = format!("effort {} is not offered; {} is used", effort.requested, effort.applied);
            self.log.event(TurnEvent::warning(text));
        }

        let mut attempt = Attempt::First;
        loop {
            let is_first = matches!(attempt, Attempt::First);
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
                Err(failure) => return Err(failure),
            };
            self.log.provenance.attempts += 1;
        }
    }

    fn may_start_afresh(&self, failure: &Failure) -> bool {
        let wants_fresh = matches!(self.request.session, SessionMode::Resume { on_lost: OnLost::Fresh, .. });
        failure.kind == ErrorKind::SessionLost && wants_fresh
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
        let Prepared { invocation, mut conversation, home, secrets, version, warnings } = prepared;
        if version.is_some() {
            self.log.provenance.version = version;
        }
        for warning in warnings {
            self.log.event(TurnEvent::warning(warning));
        }
        let mut invocation = invocation
            .ledger(&plan.ledger)
            .redactor(Redactor::new(secrets.iter().map(|secret| secret.expose().as_bytes())));
        if let Some(record) = &self.backend.record {
            let name = format!("{}-{}", plan.ledger.run(), self.log.provenance.attempts);
            invocation = invocation.record(record.join(name));
        }
        if let Some(line_bytes) = self.backend.max_line_bytes {
            invocation = invocation.bounds(Bounds { line_bytes, ..Bounds::default() });
        }
        // Declared after the home, hence dropped before it: nobody writes there any more.
        let process = invocation.spawn()?;
        self.log.begin_process();
        self.watch.restart();
        let drive = Drive {
            process: &process,
            conversation: &mut conversation,
            home: home.as_ref().map(RunHome::path),
            cancel: &self.cancel,
            watch: &mut self.watch,
            log: &mut self.log,
            limits: &self.request.limits,
            answer: &mut self.answer,
            events,
        };
        match drive.run().await? {
            Ended::Answered { finish, output } => Ok(Outcome::Answered { finish, output }),
            Ended::AskAgain { instruction } => Ok(Outcome::AskAgain { instruction, home }),
        }
    }

    /// Hands the rest of the events over. A sink that is not ready delays neither a cancelled turn nor the
    /// deadline; what it did not take is in the result.
    async fn flush(&mut self, events: &mut dyn EventSink, is_cancelled: bool) {
        self.log.start();
        let patience = async {
            if is_cancelled {
                tokio::time::sleep(CANCELLED_FLUSH).await;
                return;
            }
            match self.watch.remaining() {
                Some(left) => tokio::time::sleep(left.max(CANCELLED_FLUSH)).await,
                None => std::future::pending().await,
            }
        };
        let cancelled_meanwhile = async {
            self.cancel.cancelled().await;
            tokio::time::sleep(CANCELLED_FLUSH).await;
        };
        tokio::select! {
            biased;
            () = self.log.outbox.flush(events) => {}
            () = patience => {}
            () = cancelled_meanwhile => {}
        }
    }
}

impl From<SpawnError> for Failure {
    fn from(error: SpawnError) -> Self {
        let kind = match &error {
            SpawnError::Executable(_) | SpawnError::WrongFormat { .. } => ErrorKind::NotInstalled,
            SpawnError::System { .. } => ErrorKind::Crashed,
            _ => ErrorKind::InvalidRequest,
        };
        Self::of(kind, &error)
    }
}

/// Holds an answer against the schema, and counts how often the model may be asked again.
#[derive(Debug)]
pub(super) struct AnswerCheck {
    schema: Option<OutputSchema>,
    repairs_left: u32,
}

/// What the check of an answer came to.
pub(super) enum Checked {
    /// It can be used; the value is there if a schema was.
    Fits(Option<Value>),
    /// It cannot, and the process that gave it was asked again.
    AskedAgain,
    /// It cannot, and another process must ask again.
    AskAgain(String),
    /// It cannot, and the model was asked often enough.
    Useless(Failure),
}

impl AnswerCheck {
    fn new(schema: Option<OutputSchema>) -> Self {
        Self { repairs_left: schema.as_ref().map_or(0, OutputSchema::repairs), schema }
    }

    /// Checks the answer: `output` if the vendor names a value apart, else the last message.
    pub(super) fn check(
        &mut self,
        output: Option<Value>,
        log: &mut TurnLog,
        conversation: &mut dyn Conversation,
        step: &mut Step,
    ) -> Checked {
        let Some(schema) = &self.schema else { return Checked::Fits(output) };
        let last = log.recorder.last_message();
        let read = match output {
            Some(value) => schema.check(&value).map(|()| value),
            None => schema.read(last.map_or("", |message| &message.text)),
        };
        let problem = match read {
            Ok(value) => return Checked::Fits(Some(value)),
            Err(problem) => problem,
        };
        if self.repairs_left == 0 {
            return Checked::Useless(Failure::new(ErrorKind::OutputInvalid, problem.to_string()));
        }
        self.repairs_left -= 1;
        let instruction = schema.repair_instruction(&problem);
        let voided: Option<MessageId> = last.map(|message| message.id.clone());
        if let Some(message) = voided {
            log.event(MessageVoided::new(message, VoidCause::Repair));
        }
        match conversation.repair(&instruction, step) {
            Repair::SameProcess => Checked::AskedAgain,
            Repair::NewProcess => Checked::AskAgain(instruction),
        }
    }
}
