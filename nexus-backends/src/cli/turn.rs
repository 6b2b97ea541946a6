//! One delegated turn: its processes, the shape of its answer, and its end.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use nexus_core::{
    AppliedEffort, Approver, BackendId, ConversationMode, CostReport, Effects, ErrorKind, EventSink,
    FinishReason, Limit, OnLost, SteeredTurn, ToolAccess, TraceContext, TurnError, TurnEvent, TurnHost,
    TurnRequest, TurnResult, TurnSession,
    harness::{Failure, TurnSpan, is_submitted, sleep_until, with_submission},
    turn::{MessageVoided, VoidCause},
};
use serde_json::Value;

use super::asks::Asks;
use super::caller_tools::CallerTools;
use super::contract::{Attempt, Cli, Prepared, TurnPlan};
use super::drive::{Drive, FinishedProcess, Handed};
use super::refusal::{not_started, unwritable};
use super::startup::StartupWait;
use super::state::TurnState;
use super::stats::ProcessStats;
use crate::mcp_server::McpServer;
use crate::prices::Prices;
use crate::redact::with_key_prefixes;
use nexus_process::containment::ContainmentPolicy;
use nexus_process::private_home::PrivateHome;
use nexus_process::run_registry::RunEntry;
use nexus_process::spawn::Bounds;

/// Maximum number of restarts of a process that could not connect the caller's tools. Source: our own choice.
const MAX_RESTARTS: u32 = 2;

/// Settings that all turns of one backend share.
#[derive(Debug)]
pub(super) struct DriverSettings {
    /// Folder of all of Nexus's state.
    pub(super) nexus_home: PathBuf,
    /// Folder for the redacted raw output of each process.
    pub(super) capture: Option<PathBuf>,
    /// Maximum length of a complete line, in bytes.
    pub(super) max_line_bytes: Option<usize>,
    /// Required containment of a process.
    pub(super) containment: ContainmentPolicy,
    /// Prices of models, for a program that reports no cost.
    pub(super) prices: Arc<Prices>,
}

/// Runner of one turn on one CLI.
pub(super) struct TurnRunner<'a, C> {
    backend: &'a BackendId,
    cli: &'a C,
    driver: &'a DriverSettings,
    request: Arc<TurnRequest>,
    effort: Option<AppliedEffort>,
    session: TurnSession,
    trace_context: Option<TraceContext>,
    has_approver: bool,
    takes_questions: bool,
    steered: SteeredTurn,
    is_steered: bool,
    state: TurnState,
}

/// Outcome of one process.
enum ProcessOutcome {
    Answered { finish: FinishReason, output: Option<Value> },
    AskAgain { instruction: String, home: Option<PrivateHome> },
}

impl<'a, C: Cli> TurnRunner<'a, C> {
    /// Creates the runner of a request that was already checked.
    pub(super) fn new(
        backend: &'a BackendId,
        cli: &'a C,
        driver: &'a DriverSettings,
        request: Arc<TurnRequest>,
        host: TurnHost,
        steered: SteeredTurn,
        span: &TurnSpan,
    ) -> Self {
        let session = host.open_turn(&request);
        let capabilities = cli.capabilities();
        let effort = request.effort.and_then(|effort| effort.clamp_to(&capabilities.efforts));
        let stats = ProcessStats::default().with_prices(
            Arc::clone(&driver.prices),
            request.model.clone(),
            capabilities.cost == CostReport::Never,
        );
        let mut state = TurnState::new(backend, &request, effort, host.cancel, span, stats);
        if session.definitions().is_empty() && request.tool_access == ToolAccess::ScopedOnly {
            state.log.recorder = state.log.recorder.without_tools();
        }
        state.log.redact_with(with_key_prefixes(session.redactor()));
        let (has_approver, is_steered) = (host.approver.is_some(), host.steering.is_some());
        let takes_questions = host.approver.as_ref().is_some_and(Approver::takes_questions);
        let trace_context = host.trace_context;
        Self {
            backend,
            cli,
            driver,
            request,
            effort,
            session,
            trace_context,
            has_approver,
            takes_questions,
            steered,
            is_steered,
            state,
        }
    }

    /// Runs the turn to its end.
    pub(super) async fn run(mut self, events: &mut dyn EventSink) -> Result<TurnResult, TurnError> {
        let outcome = self.run_with_tools(events).await;
        // Includes calls that no process reported, such as a call during which the process ended.
        self.state.log.recorder.add_effects(self.session.effects());
        // A program that ended early may have reported its tokens and not its cost.
        self.state.stats.compute_cost(&mut self.state.log);
        let is_cancelled = matches!(&outcome, Err(failure) if failure.kind == ErrorKind::Cancelled);
        self.state.log.flush(events, &self.state.cancel, &self.state.watch, is_cancelled).await;
        let keeps = !matches!(self.request.conversation, ConversationMode::Ephemeral);
        match with_submission(outcome, is_submitted(&self.session, &self.request)) {
            Ok((finish, output)) => Ok(self.state.log.into_result(finish, output, keeps)),
            Err(failure) => Err(self.state.log.into_error(failure, keeps)),
        }
    }

    /// Runs the processes and, if the caller has tools, their MCP server. Calls are answered within this future, so
    /// dropping it ends them.
    async fn run_with_tools(
        &mut self,
        events: &mut dyn EventSink,
    ) -> Result<(FinishReason, Option<Value>), Failure> {
        self.state.stats.check_price(&self.request.limits)?;
        if self.session.definitions().is_empty() {
            return self.run_processes(None, events).await;
        }
        let unserved = |error| {
            let reason = "no local port could be opened for them";
            Failure::new(ErrorKind::ToolsUnavailable, reason).with_source(error)
        };
        let mut server = McpServer::open(self.session.share()).await.map_err(unserved)?;
        let tools = CallerTools::served_by(&server);
        tokio::select! {
            biased;
            outcome = self.run_processes(Some(tools), events) => outcome,
            never = server.serve() => match never {},
        }
    }

    async fn run_processes(
        &mut self,
        tools: Option<CallerTools>,
        events: &mut dyn EventSink,
    ) -> Result<(FinishReason, Option<Value>), Failure> {
        let nexus_home = &self.driver.nexus_home;
        let home = nexus_home.display();
        let run = RunEntry::begin(nexus_home).map_err(|error| unwritable(&home, error))?;
        let (working_directory, private_directory) = match &self.request.working_directory {
            Some(directory) => {
                (std::path::absolute(directory).map_err(|error| unplaced(directory, error))?, None)
            }
            None => {
                let home = run.home().map_err(|error| unwritable(&home, error))?;
                (home.path().to_owned(), Some(home))
            }
        };
        let mut plan = TurnPlan {
            has_approver: self.has_approver,
            takes_questions: self.takes_questions,
            is_steered: self.is_steered,
            backend: self.backend.clone(),
            run,
            request: Arc::clone(&self.request),
            effort: self.effort,
            tools,
            working_directory,
            is_private_directory: private_directory.is_some(),
            nexus_home: nexus_home.clone(),
            trace_parent: self.trace_context.as_ref().and_then(TraceContext::traceparent),
            renewed: None,
            redactor: with_key_prefixes(self.session.redactor()),
        };
        // The folder is dropped before the plan: a sweep must know the run's entry as long as the folder exists.
        let _private_directory = private_directory;
        if let Some(tools) = &plan.tools {
            plan.redactor.learn(tools.token().expose());
        }
        if let Some(effort) = self.effort.filter(|effort| effort.is_clamped()) {
            let text =
                format!("the effort {} is not supported; {} is used", effort.requested, effort.applied);
            self.state.log.event(TurnEvent::warning(text));
        }

        let kept = self.request.conversation.handle().and_then(|handle| self.cli.kept(nexus_home, handle));
        let _in_use = match &kept {
            Some(kept) => kept.begin_use(nexus_home).await,
            None => None,
        };
        let mut attempt = Attempt::First;
        let mut restarts = 0;
        loop {
            let is_first = matches!(attempt, Attempt::First);
            // The process takes over the home of a repair, so only the other attempts can run again.
            let same_again = match attempt {
                Attempt::First => Some(Attempt::First),
                Attempt::Fresh => Some(Attempt::Fresh),
                _ => None,
            };
            let messages = self.state.log.recorder.messages().len();
            let outcome = self.run_process(&plan, attempt, events).await;
            if let Err(failure) = &outcome {
                self.state.log.model_failed(failure.kind);
            }
            attempt = match outcome {
                Ok(ProcessOutcome::Answered { finish, output }) => return Ok((finish, output)),
                Ok(ProcessOutcome::AskAgain { instruction, home }) => match self.state.log.resume.clone() {
                    Some(resume) => Attempt::Repair { instruction, resume, home },
                    None => {
                        let reason = "the answer does not fit the schema, and the conversation cannot be \
                            resumed";
                        return Err(Failure::new(ErrorKind::OutputInvalid, reason));
                    }
                },
                Err(failure) if is_first && self.may_start_afresh(&failure) => {
                    self.state.log.event(TurnEvent::warning(
                        "the conversation to resume is gone; a new conversation is \
                            started",
                    ));
                    Attempt::Fresh
                }
                Err(failure) => match same_again {
                    Some(attempt) if self.renews(&mut plan, &failure, events).await? => {
                        self.void_messages_from(messages);
                        attempt
                    }
                    Some(attempt) if restarts < MAX_RESTARTS && self.may_restart(&plan, &failure) => {
                        restarts += 1;
                        let why =
                            failure.message.as_deref().unwrap_or("the caller's tools were missing in it");
                        self.void_messages_from(messages);
                        self.state.log.event(TurnEvent::warning(format!("the process is restarted: {why}")));
                        attempt
                    }
                    _ => return Err(failure),
                },
            };
            self.state.log.provenance.attempts += 1;
        }
    }

    fn may_start_afresh(&self, failure: &Failure) -> bool {
        let wants_fresh =
            matches!(self.request.conversation, ConversationMode::Resume { on_lost: OnLost::Fresh, .. });
        failure.kind == ErrorKind::ConversationLost && wants_fresh
    }

    /// Returns true if a process failed only because the caller's tools were missing, so that it may run again.
    fn may_restart(&self, plan: &TurnPlan, failure: &Failure) -> bool {
        failure.kind == ErrorKind::ToolsUnavailable && plan.tools.is_some() && self.has_done_nothing(plan)
    }

    /// Returns true if no tool was called so far, so that the turn may run again from its beginning.
    fn has_done_nothing(&self, plan: &TurnPlan) -> bool {
        let recorder = &self.state.log.recorder;
        recorder.effects() == Effects::None
            && recorder.tool_calls().is_empty()
            && plan.tools.as_ref().is_none_or(|tools| !tools.were_called())
    }

    /// Renews a rejected credential, once per turn, if the turn has done nothing so far. Returns true if it got another
    /// credential. A turn that has done something fails; the next turn gets the rejection at its first request and
    /// renews the credential.
    ///
    /// A resumed conversation then contains the question twice, because the program recorded it at the first attempt.
    async fn renews(
        &mut self,
        plan: &mut TurnPlan,
        failure: &Failure,
        events: &mut dyn EventSink,
    ) -> Result<bool, Failure> {
        let Some(lease) = self.state.refused.take() else { return Ok(false) };
        if failure.kind != ErrorKind::Unauthenticated || !self.has_done_nothing(plan) {
            return Ok(false);
        }
        let TurnState { watch, log, cancel, renewal, .. } = &mut self.state;
        watch.rest();
        let renewing = lease.renew(renewal, plan.lifetime());
        let Some(renewed) = log.wait_for(renewing, watch, cancel, events).await?? else { return Ok(false) };
        let refusal = failure.message.as_deref().unwrap_or_default();
        log.renewed(log.provenance.attempts + 1, &lease.place(), refusal);
        self.state.end_as_asked();
        plan.renewed = Some(renewed);
        Ok(true)
    }

    fn void_messages_from(&mut self, first: usize) {
        let messages = self.state.log.recorder.messages().iter().skip(first);
        let voided: Vec<_> = messages.map(|message| message.id.clone()).collect();
        for message in voided {
            self.state.log.event(MessageVoided::new(message, VoidCause::Retry));
        }
    }

    /// Runs one process, from its preparation to its end.
    async fn run_process(
        &mut self,
        plan: &TurnPlan,
        attempt: Attempt,
        events: &mut dyn EventSink,
    ) -> Result<ProcessOutcome, Failure> {
        // Each process gets the whole limits on silence.
        self.state.watch.restart();
        let prepared = tokio::select! {
            biased;
            () = self.state.cancel.cancelled() => return Err(Failure::new(ErrorKind::Cancelled, "before it began")),
            () = sleep_until(self.state.watch.next()) => {
                let kind = self.state.watch.ran_out().unwrap_or(ErrorKind::Starved(nexus_core::Phase::Start));
                return Err(Failure::new(kind, "while the process was prepared"));
            }
            prepared = self.cli.prepare(plan, attempt) => prepared?,
        };
        // The home is dropped last, after the lent credential. The process that used both has ended by then.
        let Prepared { invocation, mut translator, home, sandbox, mut lease, startup, version, warnings } =
            prepared;
        if version.is_some() {
            self.state.log.provenance.version = version;
        }
        for warning in warnings {
            self.state.log.event(TurnEvent::warning(warning));
        }
        if let Some(lease) = &lease {
            self.state.end_with(lease)?;
        }
        self.wait_for(startup, events).await?;
        let mut invocation = invocation
            .entry(&plan.run)
            .redactor(plan.redactor.clone())
            .containment(self.driver.containment)
            .end_with_host();
        if self.request.tool_access == ToolAccess::Unrestricted {
            // At this level the agent may use the user's privileges, for example with `sudo` and `ssh`.
            invocation = invocation.keep_privileges();
        }
        if let Some(folder) = &self.driver.capture {
            let name = format!("{}-{}", plan.run.run(), self.state.log.provenance.attempts);
            invocation = invocation.capture(folder.join(name));
        }
        if let Some(line_bytes) = self.driver.max_line_bytes {
            let mut bounds = Bounds::default();
            bounds.line_bytes = line_bytes;
            invocation = invocation.bounds(bounds);
        }
        // Declared after the home, so dropped before it: then no process can write to the home any more.
        let process = invocation.spawn().map_err(|error| not_started(&error))?;
        self.state.log.provenance.containment = Some(process.containment());
        self.state.stats.begin_process(&mut self.state.log);
        self.state.watch.restart();
        let drive = Drive {
            process: &process,
            translator: &mut translator,
            tools: plan.tools.as_ref(),
            session: &self.session,
            asks: Asks::default(),
            steered: &self.steered,
            handed: Handed::default(),
            home: home.as_ref().map(PrivateHome::path),
            has_asked: false,
            unsent_bytes: 0,
            request: &self.request,
            turn: &mut self.state,
            events,
        };
        let mut ended = drive.run().await;
        if let Some(sandbox) = sandbox {
            for warning in sandbox.warnings() {
                self.state.log.event(TurnEvent::warning(warning));
            }
            if let Err(failure) = &mut ended {
                sandbox.explain(failure, &process).await;
            }
        }
        if let (Err(Failure { kind: ErrorKind::Unauthenticated, .. }), Some(mut refused)) =
            (&ended, lease.take())
        {
            refused.erase();
            self.state.refused = Some(refused);
        }
        match ended? {
            FinishedProcess::Answered { finish, output } => Ok(ProcessOutcome::Answered { finish, output }),
            FinishedProcess::AskAgain { instruction } => Ok(ProcessOutcome::AskAgain { instruction, home }),
        }
    }
}

impl<C: Cli> TurnRunner<'_, C> {
    /// Waits until a prepared process may start.
    async fn wait_for(
        &mut self,
        mut startup: StartupWait,
        events: &mut dyn EventSink,
    ) -> Result<(), Failure> {
        self.state.watch.rest();
        loop {
            tokio::select! {
                biased;
                () = self.state.cancel.cancelled() => {
                    return Err(Failure::new(ErrorKind::Cancelled, "before it began"));
                }
                () = sleep_until(self.state.watch.next()) => {
                    let kind = self.state.watch.ran_out().unwrap_or(ErrorKind::LimitReached(Limit::Deadline));
                    return Err(self.state.out_of_time(kind));
                }
                warning = startup.warning() => match warning {
                    Some(text) => self.state.log.event(TurnEvent::warning(text)),
                    None => return Ok(()),
                },
                () = self.state.log.outbox.flush(events), if !self.state.log.outbox.is_empty() => {}
            }
        }
    }
}

/// Returns the failure for a working directory that cannot be made absolute, because the host's own one no longer
/// exists.
fn unplaced(directory: &Path, error: io::Error) -> Failure {
    let reason = format!("the working directory {} cannot be made absolute", directory.display());
    Failure::new(ErrorKind::InvalidRequest, reason).with_source(error)
}
