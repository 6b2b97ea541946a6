//! A broker over a file, and agents that do what a test says.

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    process::Command,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use nexus_broker::{
    Address, AgentDocument, AgentScope, AgentStatus, Broker, BrokerOptions, Envelope, QueueLimits,
    SqliteStore,
};
use nexus_conversations::Conversations;
use nexus_core::{
    AccessEnforcer, AccessSupport, Availability, BackendId, BuildContext, CancelToken, Capabilities, Clock,
    ErrorKind, EventSink, ExecutionBackend, FinishReason, ForgetError, Forgotten, LoopMode, Provenance,
    Recorder, Registry, ResumeHandle, SteeredTurn, Support, ToolAccess, ToolCall, ToolContent, TurnError,
    TurnHost, TurnRequest, TurnResult, TurnSession, turn::MessageEnded,
};
use nexus_router::Router;
use serde_json::{Value, json};

/// A turn as a script sees it.
pub(crate) struct Puppet {
    pub(crate) system: String,
    pub(crate) prompt: String,
    pub(crate) folder: Option<PathBuf>,
    session: Arc<TurnSession>,
    input: Arc<SteeredTurn>,
    calls: u32,
}

impl Puppet {
    /// Calls a tool: what it answered, and whether that was an error.
    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> (String, bool) {
        self.calls += 1;
        let call = ToolCall::new(format!("c{}", self.calls), tool, arguments);
        let answer = self.session.call(self.session.token(), call).await;
        let text = |content: &ToolContent| match content {
            ToolContent::Text { text } => text.clone(),
            ToolContent::Json { value } => value.to_string(),
            other => format!("{other:?}"),
        };
        (answer.content.iter().map(text).collect(), answer.is_error)
    }

    /// Calls a tool so many times at once, and waits until all have answered.
    pub(crate) async fn calls_at_once(&mut self, tool: &str, arguments: Value, count: u32) {
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..count {
            self.calls += 1;
            let call = ToolCall::new(format!("c{}", self.calls), tool, arguments.clone());
            let session = Arc::clone(&self.session);
            calls.spawn(async move { session.call(session.token(), call).await });
        }
        let answers = calls.join_all().await;
        assert!(answers.iter().all(|answer| !answer.is_error), "{answers:?}");
    }

    /// Calls a tool that is to succeed.
    pub(crate) async fn done(&mut self, tool: &str, arguments: Value) -> String {
        let (answer, is_error) = self.call(tool, arguments).await;
        assert!(!is_error, "{tool}: {answer}");
        answer
    }

    /// Calls a tool that is to refuse.
    pub(crate) async fn refused(&mut self, tool: &str, arguments: Value) -> String {
        let (answer, is_error) = self.call(tool, arguments).await;
        assert!(is_error, "{tool} was not refused: {answer}");
        answer
    }

    /// The first line of the message that the turn handles, such as `[query from poet, id …]`. Earlier ones may stand above it.
    pub(crate) fn handles(&self) -> &str {
        let mut heads = self.prompt.lines().filter(|line| line.starts_with('[') && line.contains(" from "));
        heads.next_back().unwrap_or_default()
    }

    /// What is said to the running turn next.
    pub(crate) async fn next_input(&mut self) -> String {
        loop {
            self.input.arrived().await;
            if let Some(input) = self.input.take() {
                return input.delivered();
            }
        }
    }

    pub(crate) fn tools(&self) -> Vec<String> {
        self.session.definitions().iter().map(|tool| tool.name.clone()).collect()
    }
}

type Turn = Pin<Box<dyn Future<Output = Result<String, ErrorKind>> + Send>>;
type Script = Box<dyn Fn(Puppet) -> Turn + Send + Sync>;

/// One backend for each type of agent.
#[derive(Default)]
pub(crate) struct Scripts(BTreeMap<String, Script>);

impl Scripts {
    /// What agents of the type `kind` do in a turn: what they say last.
    pub(crate) fn with<F>(mut self, kind: &str, script: impl Fn(Puppet) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<String, ErrorKind>> + Send + 'static,
    {
        self.0.insert(kind.to_owned(), Box::new(move |puppet| Box::pin(script(puppet))));
        self
    }
}

struct Scripted {
    id: BackendId,
    script: Script,
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scripted").field("id", &self.id).finish_non_exhaustive()
    }
}

#[async_trait]
impl ExecutionBackend for Scripted {
    fn id(&self) -> &BackendId {
        &self.id
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(LoopMode::Native);
        capabilities.system = Support::Yes;
        capabilities.resume = Support::Yes;
        capabilities.caller_tools = Support::Yes;
        if self.id.as_str() == "steered" {
            capabilities.steering = Support::Yes;
        }
        capabilities.access.scoped_only = AccessSupport::Kept(AccessEnforcer::None);
        capabilities.access.workspace_write = AccessSupport::Kept(AccessEnforcer::None);
        capabilities
    }

    async fn probe(&self) -> Availability {
        Availability::ready(None)
    }

    async fn forget(&self, _handle: &ResumeHandle) -> Result<Forgotten, ForgetError> {
        Ok(Forgotten::WasGone)
    }

    async fn run_turn(
        &self,
        request: TurnRequest,
        host: TurnHost,
        _events: &mut dyn EventSink,
    ) -> Result<TurnResult, TurnError> {
        let puppet = Puppet {
            system: request.system.clone().unwrap_or_default(),
            prompt: request.prompt_text(),
            folder: request.working_directory.clone(),
            session: Arc::new(host.open_turn(&request)),
            input: Arc::new(host.steered(self.capabilities().steering)),
            calls: 0,
        };
        let said = tokio::select! {
            said = (self.script)(puppet) => said,
            () = host.cancel.cancelled() => Err(ErrorKind::Cancelled),
        };
        let text = said.map_err(|kind| TurnError::new(kind, self.id.clone()))?;
        let mut recorder = Recorder::new();
        recorder.observe(&MessageEnded::new("m".into(), text).into());
        Ok(recorder.into_result(FinishReason::Stop, Provenance::new(self.id.clone())))
    }
}

/// A clock that a test moves.
#[derive(Debug)]
pub(crate) struct Moved(Mutex<SystemTime>);

impl Moved {
    pub(crate) fn by(&self, time: Duration) {
        *self.0.lock().unwrap() += time;
    }

    pub(crate) fn set(&self, time: SystemTime) {
        *self.0.lock().unwrap() = time;
    }

    pub(crate) fn back(&self, time: Duration) {
        *self.0.lock().unwrap() -= time;
    }
}

impl Clock for Moved {
    fn now(&self) -> SystemTime {
        *self.0.lock().unwrap()
    }
}

/// A store in a folder, and what runs over it.
pub(crate) struct Kit {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) clock: Arc<Moved>,
    router: Router,
}

/// A broker that runs. It is ended with this.
pub(crate) struct Running {
    pub(crate) broker: Broker,
    drain: CancelToken,
    task: tokio::task::JoinHandle<()>,
}

impl Running {
    /// Ends it as a crash does: nothing more is done.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    /// Ends it when its turns have ended.
    pub(crate) async fn drain(self) {
        self.drain.cancel();
        self.task.await.unwrap();
    }
}

impl Kit {
    pub(crate) fn new(scripts: Scripts) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut builder = Router::builder(Registry::new(), BuildContext::in_home(folder.path()));
        let (mut groups, mut types) = (json!({}), json!({}));
        for (kind, script) in scripts.0 {
            groups[&kind] = json!([kind]);
            types[&kind] = json!({ "group": kind, "model": { "exact": "any" } });
            builder = builder.backend(Arc::new(Scripted { id: kind.into(), script }));
        }
        let clock = Arc::new(Moved(Mutex::new(SystemTime::now())));
        let router = builder
            .clock(Arc::clone(&clock) as _)
            .from_value(json!({ "groups": groups, "types": types }))
            .unwrap();
        Self { folder, clock, router }
    }

    /// A broker of the store, that does not run.
    pub(crate) async fn broker(&self) -> Broker {
        let path = self.folder.path().join("broker/messages.db");
        let clock: Arc<dyn Clock> = Arc::clone(&self.clock) as _;
        let store = SqliteStore::open(path, QueueLimits::default(), Arc::clone(&clock)).await.unwrap();
        let conversations = Conversations::in_home(self.folder.path());
        let folder = self.folder.path().join("broker");
        let mut options = BrokerOptions::new(Arc::new(store), self.router.clone(), conversations, folder);
        options.clock = clock;
        Broker::new(options)
    }

    pub(crate) async fn run(&self) -> Running {
        self.run_with(self.broker().await.options().clone()).await
    }

    pub(crate) async fn run_with(&self, options: BrokerOptions) -> Running {
        let broker = Broker::new(options);
        let drain = CancelToken::new();
        let (runs, until) = (broker.clone(), drain.clone());
        let task = tokio::spawn(async move { runs.run(until, CancelToken::new()).await });
        Running { broker, drain, task }
    }

    /// A repository with one file.
    pub(crate) fn repository(&self) -> PathBuf {
        let path = self.folder.path().join("project");
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("poem.txt"), "one\n").unwrap();
        for arguments in [
            &["init", "-q", "-b", "main"][..],
            &["add", "."],
            &["-c", "user.name=A", "-c", "user.email=a@b", "commit", "-q", "-m", "begin"],
        ] {
            git(&path, arguments);
        }
        path
    }
}

pub(crate) fn git(path: &Path, arguments: &[&str]) -> String {
    let ran = Command::new("git").arg("-C").arg(path).args(arguments).output().unwrap();
    assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

/// An agent of the configuration, of the type of its name.
pub(crate) fn agent(name: &str) -> AgentDocument {
    let mut record: AgentDocument = serde_json::from_value(json!({
        "name": name, "kind": name, "access": "scoped-only", "status": "started",
        "changed_at": "2026-01-01T00:00:00Z",
    }))
    .unwrap();
    record.scope = AgentScope::default();
    record
}

/// A manager in a folder, with workers of the type `worker`.
pub(crate) fn manager(folder: &Path) -> AgentDocument {
    let mut record = agent("manager");
    record.folder = Some(folder.to_owned());
    record.access = ToolAccess::WorkspaceWrite;
    record.scope.max_workers = 2;
    record.scope.max_depth = 2;
    record.scope.worker_kinds = vec!["worker".to_owned()];
    record
}

pub(crate) fn caller() -> Address {
    "caller:me".parse().unwrap()
}

/// What has come for the caller, once so many messages have.
pub(crate) async fn inbox(broker: &Broker, count: usize) -> Vec<Envelope> {
    let mut found = Vec::new();
    let until = tokio::time::Instant::now() + Duration::from_secs(60);
    while found.len() < count {
        found.extend(broker.inbox("me", count - found.len()).await.unwrap());
        assert!(tokio::time::Instant::now() < until, "{} of {count} came: {found:?}", found.len());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    found
}

/// Like [`inbox`], while time passes: an agent that a broker has suspended is looked at again by the clock, which stands still
/// but for this.
pub(crate) async fn inbox_in_time(kit: &Kit, broker: &Broker, count: usize) -> Vec<Envelope> {
    let mut found = Vec::new();
    let until = tokio::time::Instant::now() + Duration::from_secs(60);
    while found.len() < count {
        kit.clock.by(Duration::from_secs(3));
        found.extend(broker.inbox("me", count - found.len()).await.unwrap());
        assert!(tokio::time::Instant::now() < until, "{} of {count} came: {found:?}", found.len());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    found
}

/// Waits until an agent is so far.
pub(crate) async fn until_status(broker: &Broker, name: &str, status: AgentStatus) -> AgentDocument {
    let until = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        let agents = broker.agents().await.unwrap();
        let found = agents.into_iter().find(|agent| agent.name == name);
        if let Some(found) = found.as_ref().filter(|agent| agent.status == status) {
            return found.clone();
        }
        assert!(tokio::time::Instant::now() < until, "{name} is {found:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
