//! A broker over a file, and agents that do what a test says.

use std::{
    collections::BTreeMap,
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    process::Command,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use nexus_broker::{
    Address, AgentDocument, AgentScope, AgentStatus, Broker, BrokerOptions, Envelope, QueueLimits,
    SqliteStore,
};
use nexus_conversations::Conversations;
use nexus_core::{
    AccessEnforcer, AccessSupport, BuildContext, CancelToken, Clock, ErrorKind, FinishReason, Phase,
    Registry, Session, SteeredTurn, Support, ToolAccess, ToolCall,
};
use nexus_router::Router;
use nexus_testkit::scripted::{ScriptedBackend, failure, text_of};
use serde_json::{Value, json};

/// A turn as a script sees it.
pub(crate) struct Puppet {
    pub(crate) system: String,
    pub(crate) prompt: String,
    pub(crate) folder: Option<PathBuf>,
    session: Arc<Session>,
    input: Arc<SteeredTurn>,
    calls: u32,
}

impl Puppet {
    /// Calls a tool: what it answered, and whether that was an error.
    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> (String, bool) {
        self.calls += 1;
        let call = ToolCall::new(format!("c{}", self.calls), tool, arguments);
        let answer = self.session.call(self.session.token(), call).await;
        (text_of(&answer), answer.is_error)
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

fn agent_backend(kind: &str, script: Script) -> ScriptedBackend {
    let script: Arc<Script> = Arc::new(script);
    let backend = ScriptedBackend::new(kind, move |turn| {
        let script = Arc::clone(&script);
        Box::pin(async move {
            // The next turn is shown the transcript.
            turn.log.resume = None;
            let puppet = Puppet {
                system: turn.request.system.clone().unwrap_or_default(),
                prompt: turn.request.prompt_text(),
                folder: turn.request.working_directory.clone(),
                session: turn.session.share(),
                input: Arc::clone(&turn.input),
                calls: 0,
            };
            let said = turn.wait(Phase::Model, script(puppet)).await?;
            turn.say(said.map_err(failure)?);
            Ok((FinishReason::Stop, None))
        })
    });
    backend.capable(|capabilities| {
        capabilities.access.workspace_write = AccessSupport::Kept(AccessEnforcer::None);
        if kind == "steered" {
            capabilities.steering = Support::Yes;
        }
    })
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
            builder = builder.backend(Arc::new(agent_backend(&kind, script)));
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

/// An agent that may write to the caller of the tests.
pub(crate) fn reporting(mut record: AgentDocument) -> AgentDocument {
    record.scope.may_write_to.push("caller:me".to_owned());
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
