//! Backends that do as they are told, an agent over them, and a client that nobody here wrote.

use std::{
    collections::VecDeque,
    fmt, fs,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use agent_client_protocol::{
    Agent, ByteStreams, Client, Error,
    schema::ProtocolVersion,
    v1::{
        ConnectionTo,
        schema::{
            ContentBlock, InitializeRequest, InitializeResponse, NewSessionRequest, NewSessionResponse,
            PromptRequest, PromptResponse, RequestPermissionOutcome, RequestPermissionRequest,
            RequestPermissionResponse, SelectedPermissionOutcome, SessionId, SessionNotification,
            SessionUpdate,
        },
    },
};
use async_trait::async_trait;
use nexus_core::{
    AccessEnforcer, AccessSupport, ApprovalRequest, Availability, BackendId, BuildContext, Capabilities,
    ConversationMode, ErrorKind, EventSink, ExecutionBackend, FinishReason, ForgetError, Forgotten, LoopMode,
    Outbox, Provenance, Recorder, Registry, ResumeHandle, Support, ToolCall, ToolDefinition, ToolResult,
    TurnError, TurnEvent, TurnHost, TurnRequest, TurnResult,
    turn::{MessageEnded, TextDelta, ToolCallFinished, ToolCallStatus},
};
use nexus_editor::{AcpAgent, AcpEnd, AcpOptions};
use nexus_router::Router;
use serde_json::{Value, json};
use tokio::{
    io::{
        AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, split,
    },
    task::JoinHandle,
};
use tokio_util::compat::{TokioAsyncReadCompatExt as _, TokioAsyncWriteCompatExt as _};

/// Longest wait for what the agent does, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// One thing that a backend does in a turn.
#[derive(Clone)]
pub(crate) enum Act {
    Tell(TurnEvent),
    /// Asks for an approval; what comes after is done only if it is given. Ends the call otherwise.
    Ask(ApprovalRequest),
    /// Calls a tool of the session without arguments; what it answers is in [`Fake::answers`].
    Call(&'static str),
    Write(PathBuf, &'static str),
    /// Waits until the turn is cancelled.
    Wait,
    Panic,
    Fail(ErrorKind),
    Finish(FinishReason),
}

impl Act {
    pub(crate) fn say(text: &str) -> Vec<Self> {
        vec![
            Self::Tell(TextDelta::new("m1".into(), text).into()),
            Self::Tell(MessageEnded::new("m1".into(), text).into()),
        ]
    }
}

/// A backend that does as it is told, one script per turn; the last one is repeated.
pub(crate) struct Fake {
    id: BackendId,
    scripts: Mutex<VecDeque<Vec<Act>>>,
    pub(crate) requests: Mutex<Vec<TurnRequest>>,
    /// What the tools answered that it called.
    pub(crate) answers: Mutex<Vec<ToolResult>>,
    /// The tools of each turn.
    pub(crate) tools: Mutex<Vec<Vec<ToolDefinition>>>,
    /// How many events it told of.
    pub(crate) told: AtomicUsize,
    writes: bool,
}

impl fmt::Debug for Fake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fake").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Fake {
    pub(crate) fn new(id: &str, scripts: impl IntoIterator<Item = Vec<Act>>) -> Arc<Self> {
        let scripts = Mutex::new(scripts.into_iter().collect());
        Arc::new(Self {
            id: id.into(),
            scripts,
            requests: Mutex::default(),
            answers: Mutex::default(),
            tools: Mutex::default(),
            told: AtomicUsize::new(0),
            writes: true,
        })
    }

    /// One that has no tools of its own.
    pub(crate) fn without_tools(id: &str) -> Arc<Self> {
        let scripts = Mutex::new(VecDeque::from([Act::say("No.")]));
        Arc::new(Self {
            id: id.into(),
            scripts,
            requests: Mutex::default(),
            answers: Mutex::default(),
            tools: Mutex::default(),
            told: AtomicUsize::new(0),
            writes: false,
        })
    }

    /// The tools of the last turn.
    pub(crate) fn last_tools(&self) -> Vec<ToolDefinition> {
        self.tools.lock().unwrap().last().cloned().unwrap()
    }

    pub(crate) fn last(&self) -> TurnRequest {
        self.requests.lock().unwrap().last().cloned().unwrap()
    }
}

#[async_trait]
impl ExecutionBackend for Fake {
    fn id(&self) -> &BackendId {
        &self.id
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(LoopMode::Delegated);
        capabilities.resume = Support::Yes;
        capabilities.images = Support::Yes;
        let kept = AccessSupport::Kept(AccessEnforcer::None);
        capabilities.access.scoped_only = kept;
        if self.writes {
            capabilities.access.read_only = kept;
            capabilities.access.workspace_write = kept;
            capabilities.access.unrestricted = kept;
        }
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
        events: &mut dyn EventSink,
    ) -> Result<TurnResult, TurnError> {
        self.requests.lock().unwrap().push(request.clone());
        let script = {
            let mut scripts = self.scripts.lock().unwrap();
            if scripts.len() > 1 { scripts.pop_front().unwrap() } else { scripts[0].clone() }
        };
        let session = host.open_turn(&request);
        self.tools.lock().unwrap().push(session.definitions().to_vec());
        let (mut recorder, mut outbox) = (Recorder::new(), Outbox::new());
        let (mut finish, mut failure) = (FinishReason::Stop, None);
        let mut script = script.into_iter();
        while let Some(act) = script.next() {
            match act {
                Act::Tell(event) => {
                    recorder.observe(&event);
                    outbox.push(event);
                    outbox.flush(events).await;
                    self.told.fetch_add(1, Ordering::SeqCst);
                }
                Act::Ask(asked) => {
                    let answer = tokio::select! {
                        answer = session.approve(asked) => answer.is_ok(),
                        () = host.cancel.cancelled() => { failure = Some(ErrorKind::Cancelled); break }
                    };
                    if !answer {
                        let denied: TurnEvent =
                            ToolCallFinished::new("c1".into(), ToolCallStatus::Denied, Vec::new()).into();
                        recorder.observe(&denied);
                        outbox.push(denied);
                        // What was for the call is left out.
                        script.by_ref().find(|act| matches!(act, Act::Tell(TurnEvent::ToolCallFinished(_))));
                    }
                }
                Act::Call(name) => {
                    let call = ToolCall::new("called", name, json!({}));
                    let answer = tokio::select! {
                        answer = session.call(session.token(), call) => answer,
                        () = host.cancel.cancelled() => { failure = Some(ErrorKind::Cancelled); break }
                    };
                    self.answers.lock().unwrap().push(answer);
                }
                Act::Write(path, text) => fs::write(path, text).unwrap(),
                Act::Wait => {
                    host.cancel.cancelled().await;
                    failure = Some(ErrorKind::Cancelled);
                    break;
                }
                Act::Panic => panic!("a backend that panics"),
                Act::Fail(kind) => failure = Some(kind),
                Act::Finish(reason) => finish = reason,
            }
        }
        outbox.flush(events).await;
        if request.conversation != ConversationMode::Ephemeral {
            recorder.resume = Some(ResumeHandle::new(self.id.clone(), json!({})));
        }
        match failure {
            None => Ok(recorder.into_result(finish, Provenance::new(self.id.clone()))),
            Some(kind) => Err(TurnError::new(kind, self.id.clone())
                .with_message("in the vendor's words")
                .with_partial(recorder.into_partial())),
        }
    }
}

/// A home, a folder to work in, and an agent whose configuration is a file.
pub(crate) struct Stage {
    pub(crate) home: tempfile::TempDir,
    pub(crate) folder: tempfile::TempDir,
    fakes: Vec<Arc<Fake>>,
    pub(crate) options: AcpOptions,
}

impl Stage {
    /// With a type of each backend's name.
    pub(crate) fn new(fakes: &[&Arc<Fake>]) -> Self {
        let stage = Self {
            home: tempfile::tempdir().unwrap(),
            folder: tempfile::tempdir().unwrap(),
            fakes: fakes.iter().map(|fake| Arc::clone(fake)).collect(),
            options: AcpOptions::default(),
        };
        let ids: Vec<&str> = fakes.iter().map(|fake| fake.id.as_str()).collect();
        let mut text = String::from("groups:\n");
        ids.iter().for_each(|id| text.push_str(&format!("  {id}: [{id}]\n")));
        text.push_str("types:\n");
        ids.iter().for_each(|id| text.push_str(&format!("  {id}: {{ group: {id} }}\n")));
        stage.configure(&text);
        stage
    }

    pub(crate) fn configure(&self, text: &str) {
        fs::write(self.home.path().join("nexus.yaml"), text).unwrap();
    }

    pub(crate) fn cwd(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    pub(crate) fn agent(&self) -> AcpAgent {
        let (fakes, home) = (self.fakes.clone(), self.home.path().to_owned());
        let open = move || {
            let mut builder = Router::builder(Registry::new(), BuildContext::in_home(&home));
            for fake in &fakes {
                builder = builder.backend(Arc::clone(fake) as Arc<dyn ExecutionBackend>);
            }
            builder.from_file(home.join("nexus.yaml")).map_err(|error| error.to_string())
        };
        AcpAgent::new(open, self.home.path(), self.options.clone())
    }

    /// The files below the home but for the configuration.
    pub(crate) fn kept(&self) -> Vec<PathBuf> {
        let (mut folders, mut found) = (vec![self.home.path().to_owned()], Vec::new());
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                match entry.file_type().unwrap().is_dir() {
                    true => folders.push(entry.path()),
                    false => found.push(entry.path()),
                }
            }
        }
        found.retain(|path| !path.ends_with("nexus.yaml") && !path.ends_with("store.lock"));
        found
    }

    /// Has a client do something with the agent, and waits for the agent's end.
    pub(crate) async fn drive<T>(&self, person: Person, client: impl AsyncFnOnce(Editor) -> T) -> T {
        let (theirs, ours) = tokio::io::duplex(1 << 16);
        let agent = self.agent();
        let serving = tokio::spawn(async move {
            let (input, output) = split(ours);
            agent.serve(input, output, std::future::pending()).await
        });
        let done = edit(theirs, person, client).await;
        let end = tokio::time::timeout(PATIENCE, serving).await.unwrap().unwrap();
        assert!(matches!(end, AcpEnd::InputClosed | AcpEnd::OutputFailed(_)), "{end:?}");
        done
    }
}

/// How the person at the client answers a permission request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Person {
    Allows,
    Rejects,
    Cancels,
    NeverAnswers,
}

/// A client of the official crate.
pub(crate) struct Editor {
    pub(crate) connection: ConnectionTo<Agent>,
    pub(crate) updates: Arc<Mutex<Vec<SessionNotification>>>,
    pub(crate) asked: Arc<Mutex<Vec<RequestPermissionRequest>>>,
}

async fn edit<T>(stream: DuplexStream, person: Person, client: impl AsyncFnOnce(Editor) -> T) -> T {
    let (input, output) = split(stream);
    let updates: Arc<Mutex<Vec<SessionNotification>>> = Arc::default();
    let asked: Arc<Mutex<Vec<RequestPermissionRequest>>> = Arc::default();
    let (told, questions) = (Arc::clone(&updates), Arc::clone(&asked));
    let held = Arc::new(Mutex::new(Vec::new()));
    let done = Client
        .v1()
        .on_receive_notification(
            async move |update: SessionNotification, _| {
                told.lock().unwrap().push(update);
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _| {
                let id = |kind: &str| {
                    let mut options = request.options.iter();
                    options.find(|option| option.name.starts_with(kind)).unwrap().option_id.clone()
                };
                let selected = |id| RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(id));
                let outcome = match person {
                    Person::Allows => Some(selected(id("Allow"))),
                    Person::Rejects => Some(selected(id("Reject"))),
                    Person::Cancels => Some(RequestPermissionOutcome::Cancelled),
                    Person::NeverAnswers => None,
                };
                questions.lock().unwrap().push(request);
                match outcome {
                    Some(outcome) => responder.respond(RequestPermissionResponse::new(outcome)),
                    None => {
                        held.lock().unwrap().push(responder);
                        Ok(())
                    }
                }
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(
            ByteStreams::new(output.compat_write(), input.compat()),
            async |connection: ConnectionTo<Agent>| Ok(client(Editor { connection, updates, asked }).await),
        )
        .await;
    done.unwrap()
}

impl Editor {
    pub(crate) async fn initialize(&self) -> InitializeResponse {
        self.connection.send_request(InitializeRequest::new(ProtocolVersion::V1)).block_task().await.unwrap()
    }

    /// Introduces the client, and begins a session in the folder of the stage.
    pub(crate) async fn begin(&self, stage: &Stage) -> NewSessionResponse {
        self.initialize().await;
        self.new_session(stage).await
    }

    pub(crate) async fn new_session(&self, stage: &Stage) -> NewSessionResponse {
        self.connection.send_request(NewSessionRequest::new(stage.cwd())).block_task().await.unwrap()
    }

    pub(crate) async fn prompt(&self, session: &SessionId, text: &str) -> Result<PromptResponse, Error> {
        let request = PromptRequest::new(session.clone(), vec![ContentBlock::from(text)]);
        self.connection.send_request(request).block_task().await
    }

    pub(crate) fn seen(&self) -> Vec<SessionUpdate> {
        self.updates.lock().unwrap().iter().map(|told| told.update.clone()).collect()
    }

    /// What the agent said as its answers.
    pub(crate) fn said(&self) -> String {
        let texts = self.seen().into_iter().filter_map(|update| match update {
            SessionUpdate::AgentMessageChunk(chunk) => text(chunk.content),
            _ => None,
        });
        texts.collect()
    }

    /// What the agent told beside its answers.
    pub(crate) fn told(&self) -> String {
        let texts = self.seen().into_iter().filter_map(|update| match update {
            SessionUpdate::AgentThoughtChunk(chunk) => text(chunk.content),
            _ => None,
        });
        texts.collect()
    }

    /// Waits until something is so.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !holds(self) {
            assert!(Instant::now() < until, "{what}: {:?}", self.seen());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

pub(crate) fn text(content: ContentBlock) -> Option<String> {
    match content {
        ContentBlock::Text(text) => Some(text.text),
        _ => None,
    }
}

/// A client that sends whatever it likes.
pub(crate) struct Raw {
    input: Option<WriteHalf<DuplexStream>>,
    output: Lines<BufReader<ReadHalf<DuplexStream>>>,
    serving: JoinHandle<AcpEnd>,
}

impl Raw {
    pub(crate) fn start(agent: AcpAgent) -> Self {
        let (theirs, ours) = tokio::io::duplex(1 << 16);
        let serving = tokio::spawn(async move {
            let (input, output) = split(ours);
            agent.serve(input, output, std::future::pending()).await
        });
        let (output, input) = split(theirs);
        Self { input: Some(input), output: BufReader::new(output).lines(), serving }
    }

    pub(crate) async fn send(&mut self, line: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line).await.unwrap();
        input.write_all(b"\n").await.unwrap();
    }

    pub(crate) async fn request(&mut self, id: Value, method: &str, params: Value) {
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(line.to_string().as_bytes()).await;
    }

    /// The next message.
    pub(crate) async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(PATIENCE, self.output.next_line()).await;
        serde_json::from_str(&line.expect("no message came").unwrap().expect("the agent ended")).unwrap()
    }

    /// The answer to the request of this id. Others are passed over.
    pub(crate) async fn answer(&mut self, id: Value) -> Value {
        loop {
            let message = self.next().await;
            if message.get("method").is_none() && message["id"] == id {
                return message;
            }
        }
    }

    /// Asks, and waits for the answer.
    pub(crate) async fn call(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.request(json!(id), method, params).await;
        self.answer(json!(id)).await
    }

    /// Introduces the client, and begins a session.
    pub(crate) async fn begin(&mut self, stage: &Stage) -> String {
        self.call(1, "initialize", json!({ "protocolVersion": 1 })).await;
        let answer = self.call(2, "session/new", json!({ "cwd": stage.cwd(), "mcpServers": [] })).await;
        answer["result"]["sessionId"].as_str().unwrap().to_owned()
    }

    /// Closes the input, and waits for the agent's end.
    pub(crate) async fn end(mut self) -> (Vec<Value>, AcpEnd) {
        self.input.take().unwrap().shutdown().await.unwrap();
        let mut last = Vec::new();
        while let Some(line) = self.output.next_line().await.unwrap() {
            last.push(serde_json::from_str(&line).unwrap());
        }
        let end = tokio::time::timeout(PATIENCE, self.serving).await.unwrap().unwrap();
        (last, end)
    }
}

/// What a prompt of one text is.
pub(crate) fn prompt(session: &str, text: &str) -> Value {
    json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] })
}
