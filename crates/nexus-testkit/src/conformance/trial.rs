//! One case, tried on one subject: its own folder, staged backends, and observed turns.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use nexus_core::{
    BackendId, Capabilities, ErrorKind, EventEnvelope, ExecutionBackend, LoopMode, ToolAccess, TurnError,
    TurnEvent, TurnHost, TurnRequest, TurnResult,
};
use tracing::instrument::WithSubscriber as _;

use super::{
    contract,
    feature::Feature,
    finding::{Finding, Verdict, ensure, short},
    subject::{MARK_VARIABLE, Setting, Stage, Subject, TOKEN_VARIABLE, Timing},
    telemetry::Telemetry,
    watch::{PacedSink, Seen, SinkPace},
};
use crate::model_call::{Line, ModelCall};
use crate::sim::Scenario;

/// One case, tried on one subject.
#[derive(Debug)]
pub struct Trial<'a> {
    subject: &'a dyn Subject,
    case: &'static str,
    folder: tempfile::TempDir,
    unique: String,
    brings_tools: bool,
    loops_itself: bool,
}

impl<'a> Trial<'a> {
    /// Creates a trial with its own folder for `case`.
    pub(super) fn new(subject: &'a dyn Subject, case: &'static str) -> Result<Self, Finding> {
        let folder = tempfile::Builder::new().prefix("nexus-conformance-").tempdir();
        let folder = folder.map_err(|error| Finding::new("a temporary folder", error.to_string()))?;
        let unique = folder.path().file_name().map(|name| name.to_string_lossy().into_owned());
        let unique = unique.unwrap_or_default();
        let trial = Self { subject, case, folder, unique, brings_tools: false, loops_itself: false };
        for name in ["workspace", "user", "nexus"] {
            trial.new_folder(name)?;
        }
        Ok(trial)
    }

    /// Notes what is known of the backend before one is staged.
    pub(super) fn of(self, capabilities: &Capabilities) -> Self {
        Self {
            brings_tools: capabilities.harness_tools.is_yes(),
            loops_itself: capabilities.mode == LoopMode::Native,
            ..self
        }
    }

    /// Returns true if the backend brings its own tools.
    pub(super) fn brings_tools(&self) -> bool {
        self.brings_tools
    }

    /// Returns true if the backend runs the loop, so that it makes the calls of a reply in their order.
    pub(super) fn loops_itself(&self) -> bool {
        self.loops_itself
    }

    /// Time limits of the subject.
    pub(super) fn timing(&self) -> Timing {
        self.subject.timing()
    }

    /// The subject.
    pub(super) fn subject(&self) -> &dyn Subject {
        self.subject
    }

    /// Returns a text that no other trial has: `what` and a unique suffix.
    pub(super) fn canary(&self, what: &str) -> String {
        format!("canary-{what}-{}", self.unique)
    }

    /// Marker in the environment of the processes of this trial.
    pub(super) fn mark(&self) -> &str {
        &self.unique
    }

    /// Working directory of the turns.
    pub(super) fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }

    /// The folder that everything of this trial is in.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Makes a folder in the trial's own.
    pub(super) fn new_folder(&self, name: &str) -> Result<PathBuf, Finding> {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(&path)
            .map_err(|error| Finding::new("a temporary folder", error.to_string()))?;
        Ok(path)
    }

    /// The host's environment: the credential, the mark, a private home, and where programs are.
    pub(super) fn environment(&self) -> BTreeMap<String, String> {
        let mut environment = BTreeMap::from([
            (TOKEN_VARIABLE.to_owned(), self.canary("token")),
            (MARK_VARIABLE.to_owned(), self.unique.clone()),
            ("HOME".to_owned(), self.folder.path().join("user").to_string_lossy().into_owned()),
        ]);
        environment.extend(std::env::var("PATH").map(|path| ("PATH".to_owned(), path)));
        environment
    }

    /// The setting for a script, with the trial's own home.
    pub(super) fn setting(&self, script: impl Into<Scenario>) -> Setting {
        self.setting_at("nexus", script)
    }

    /// The setting for a script, with the home `name`.
    pub(super) fn setting_at(&self, name: &str, script: impl Into<Scenario>) -> Setting {
        Setting::new(script.into(), self.folder.path().join(name), self.environment())
    }

    /// Builds a backend against a model that plays `script`.
    pub(super) async fn stage(&self, script: impl Into<Scenario>) -> Result<Staged<'_>, Finding> {
        self.stage_setting(self.setting(script)).await
    }

    /// Builds a backend whose connections to the model are refused.
    pub(super) async fn stage_refused(&self) -> Result<Staged<'_>, Finding> {
        let mut setting = self.setting(Scenario::default());
        setting.line = Line::Refused;
        self.stage_setting(setting).await
    }

    /// Stages `setting`.
    pub(super) async fn stage_setting(&self, setting: Setting) -> Result<Staged<'_>, Finding> {
        let stage = self.subject.stage(setting).await;
        let stage = stage.map_err(|error| Finding::new("staging", error.to_string()))?;
        Ok(Staged { trial: self, stage })
    }

    /// Checks that the kind of `error` is among `kinds`, or among the departures of the subject for this case.
    pub(super) fn expect_kind(&self, error: &TurnError, kinds: &[ErrorKind]) -> Verdict {
        let departure = self.subject.departures().iter().find(|departure| departure.case == self.case);
        let kinds = departure.map_or(kinds, |departure| &departure.kinds);
        ensure(kinds.contains(&error.kind()), "error kind", || {
            format!("wanted {kinds:?}, saw {}", short(error))
        })
    }
}

/// A staged backend.
#[derive(Debug)]
pub(super) struct Staged<'t> {
    trial: &'t Trial<'t>,
    pub(super) stage: Stage,
}

impl<'t> Staged<'t> {
    /// The backend.
    pub(super) fn backend(&self) -> &Arc<dyn ExecutionBackend> {
        &self.stage.backend
    }

    /// Capabilities that the backend declares.
    pub(super) fn capabilities(&self) -> Capabilities {
        self.stage.backend.capabilities()
    }

    /// The calls that reached the model.
    pub(super) fn model_calls(&self) -> Vec<ModelCall> {
        self.stage.witness.model_calls()
    }

    /// A request at the narrowest level that the backend can enforce, for the subject's model.
    pub(super) fn request(&self, prompt: impl Into<String>) -> TurnRequest {
        let capabilities = self.capabilities();
        let kept = [
            (Feature::ScopedOnly, ToolAccess::ScopedOnly),
            (Feature::ReadOnly, ToolAccess::ReadOnly),
            (Feature::WorkspaceWrite, ToolAccess::WorkspaceWrite),
            (Feature::Unrestricted, ToolAccess::Unrestricted),
        ];
        let level = kept.iter().find(|(feature, _)| feature.is_declared(&capabilities));
        let mut request = TurnRequest::new(prompt)
            .with_tool_access(level.map_or(ToolAccess::ScopedOnly, |(_, level)| *level))
            .with_variable(MARK_VARIABLE);
        request.model = self.trial.subject.model();
        request
    }

    /// A request to work in the trial's workspace at `access`.
    pub(super) fn work(&self, prompt: impl Into<String>, access: ToolAccess) -> TurnRequest {
        self.request(prompt).with_tool_access(access).in_directory(self.trial.workspace())
    }

    /// The same at the narrowest level that the backend can enforce.
    pub(super) fn narrow_work(&self, prompt: impl Into<String>) -> TurnRequest {
        self.request(prompt).in_directory(self.trial.workspace())
    }

    /// Runs a turn to its end and holds it against the contract.
    pub(super) async fn run(&self, request: TurnRequest) -> Result<Observed, Finding> {
        self.run_with(request, TurnHost::new(), SinkPace::Ready).await
    }

    /// Runs a turn to its end, with a host and a sink of the case's choice.
    pub(super) async fn run_with(
        &self,
        request: TurnRequest,
        host: TurnHost,
        pace: SinkPace,
    ) -> Result<Observed, Finding> {
        let seen = Seen::default();
        let began = Instant::now();
        let has_tools = has_tools(&request, &host);
        let mut sink = PacedSink::new(seen.clone(), pace);
        let telemetry = Telemetry::start();
        let turn = self.stage.backend.run_turn(request, host, &mut sink).with_subscriber(telemetry.clone());
        let outcome = tokio::time::timeout(self.trial.timing().bound, turn).await;
        let outcome = outcome.map_err(|_elapsed| self.overdue(&seen))?;
        let how = (began.elapsed(), pace == SinkPace::Ready, has_tools);
        self.observe(&seen, telemetry, outcome, how)
    }

    /// Runs a turn, calls `act` as soon as `is_time` returns true, and then waits for the end.
    pub(super) async fn run_until(
        &self,
        request: TurnRequest,
        host: TurnHost,
        pace: SinkPace,
        is_time: impl Fn(&Seen, &Self) -> bool,
        act: impl FnOnce(),
    ) -> Result<(Observed, Duration), Finding> {
        let seen = Seen::default();
        let began = Instant::now();
        let has_tools = has_tools(&request, &host);
        let mut sink = PacedSink::new(seen.clone(), pace);
        let telemetry = Telemetry::start();
        let turn = self.stage.backend.run_turn(request, host, &mut sink);
        let mut turn = turn.with_subscriber(telemetry.clone());
        let bound = self.trial.timing().bound;
        tokio::select! {
            outcome = &mut turn => {
                return Err(Finding::new("the turn was still running", short(&outcome)));
            }
            in_time = tokio::time::timeout(bound, self.until(&seen, is_time)) => {
                in_time.map_err(|_elapsed| self.overdue(&seen))?;
            }
        }
        act();
        let acted = Instant::now();
        let outcome = tokio::time::timeout(bound, turn).await.map_err(|_elapsed| self.overdue(&seen))?;
        let took = acted.elapsed();
        let how = (began.elapsed(), pace == SinkPace::Ready, has_tools);
        Ok((self.observe(&seen, telemetry, outcome, how)?, took))
    }

    /// Runs a turn, and drops it as soon as `is_time` returns true.
    pub(super) async fn drop_when(
        &self,
        request: TurnRequest,
        host: TurnHost,
        is_time: impl Fn(&Seen, &Self) -> bool,
    ) -> Result<Dropped, Finding> {
        let seen = Seen::default();
        let mut sink = PacedSink::new(seen.clone(), SinkPace::Ready);
        let mut turn = self.stage.backend.run_turn(request, host, &mut sink);
        let bound = self.trial.timing().bound;
        tokio::select! {
            outcome = &mut turn => {
                return Err(Finding::new("the turn was still running", short(&outcome)));
            }
            in_time = tokio::time::timeout(bound, self.until(&seen, is_time)) => {
                in_time.map_err(|_elapsed| self.overdue(&seen))?;
            }
        }
        // Counted before the drop, so that a call after it is noticed.
        let model_calls = self.model_calls().len();
        let began = Instant::now();
        drop(turn);
        Ok(Dropped { took: began.elapsed(), model_calls })
    }

    async fn until(&self, seen: &Seen, is_time: impl Fn(&Seen, &Self) -> bool) {
        while !is_time(seen, self) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn overdue(&self, seen: &Seen) -> Finding {
        let events = seen.events();
        let last = events.last().map(|envelope| &envelope.event);
        let bound = self.trial.timing().bound;
        Finding::new(
            "bounded time",
            format!("not over after {bound:?}; {} events, the last {}", events.len(), short(&last)),
        )
    }

    fn observe(
        &self,
        seen: &Seen,
        telemetry: Telemetry,
        outcome: Result<TurnResult, TurnError>,
        (took, is_whole, has_tools): (Duration, bool, bool),
    ) -> Result<Observed, Finding> {
        let observed = Observed {
            backend: self.stage.backend.id().clone(),
            secrets: ["token", "renewed"].map(|what| self.trial.canary(what)),
            events: seen.events(),
            telemetry,
            outcome,
            took,
            is_whole,
            has_tools,
        };
        contract::check(&observed, &self.capabilities())?;
        let is_lent = self.model_calls().iter().any(|call| call.credential.is_some());
        ensure(!is_lent || self.trial.subject.is_lent_credential(), "a credential is declared", || {
            "a request to the model has a credential, but the subject declares none".into()
        })?;
        Ok(observed)
    }
}

/// A turn that was dropped.
pub(super) struct Dropped {
    /// Duration of the drop.
    pub(super) took: Duration,
    /// Number of model calls just before the drop.
    pub(super) model_calls: usize,
}

/// A turn that has ended.
#[derive(Debug)]
pub(super) struct Observed {
    /// Backend that ran it.
    pub(super) backend: BackendId,
    /// Credentials that must not leak.
    pub(super) secrets: [String; 2],
    /// Events that the sink received.
    pub(super) events: Vec<EventEnvelope>,
    /// Captured `tracing` data.
    pub(super) telemetry: Telemetry,
    /// Outcome of the turn.
    pub(super) outcome: Result<TurnResult, TurnError>,
    /// Duration of the turn.
    pub(super) took: Duration,
    /// True if the sink was always ready, so that no delta may be missing.
    pub(super) is_whole: bool,
    /// True if the turn had any tools, the caller's or others.
    pub(super) has_tools: bool,
}

fn has_tools(request: &TurnRequest, host: &TurnHost) -> bool {
    request.tool_access != ToolAccess::ScopedOnly || !host.session().definitions().is_empty()
}

impl Observed {
    /// The result; a failure is a finding.
    pub(super) fn result(&self) -> Result<&TurnResult, Finding> {
        self.outcome.as_ref().map_err(|error| Finding::new("the turn ends well", short(error)))
    }

    /// The error; a result is a finding.
    pub(super) fn error(&self) -> Result<&TurnError, Finding> {
        match &self.outcome {
            Err(error) => Ok(error),
            Ok(result) => Err(Finding::new("the turn fails", format!("it ended well: {}", short(result)))),
        }
    }

    /// Returns true if an event satisfies `is_such`.
    pub(super) fn saw(&self, is_such: impl Fn(&TurnEvent) -> bool) -> bool {
        self.events.iter().any(|envelope| is_such(&envelope.event))
    }
}
