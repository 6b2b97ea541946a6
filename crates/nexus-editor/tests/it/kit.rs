//! Backends that do as they are told, an agent over them, and a client that nobody here wrote.

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use agent_client_protocol::{
    Agent, ByteStreams, Client, Error, JsonRpcRequest,
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
use nexus_core::{
    AccessEnforcer, AccessSupport, BuildContext, Capabilities, ExecutionBackend, LoopMode, Registry, Support,
};
use nexus_editor::{AcpAgent, AcpEnd, AcpOptions};
use nexus_router::Router;
use nexus_testkit::scripted::{Act, ScriptedBackend, answer};
use serde_json::{Value, json};
use tokio::{
    io::{
        AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, split,
    },
    sync::oneshot,
    task::JoinHandle,
};
use tokio_util::compat::{TokioAsyncReadCompatExt as _, TokioAsyncWriteCompatExt as _};

/// Longest wait for what the agent does, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A backend with tools of its own that plays these turns; the last one is repeated.
pub(crate) fn fake(id: &str, turns: impl IntoIterator<Item = Vec<Act>>) -> Arc<ScriptedBackend> {
    let mut capabilities = capabilities();
    let kept = AccessSupport::Kept(AccessEnforcer::None);
    capabilities.access.read_only = kept;
    capabilities.access.workspace_write = kept;
    capabilities.access.unrestricted = kept;
    Arc::new(ScriptedBackend::repeating(id, turns).with_capabilities(capabilities))
}

/// One that has no tools of its own.
pub(crate) fn without_tools(id: &str) -> Arc<ScriptedBackend> {
    Arc::new(ScriptedBackend::repeating(id, [answer("No.")]).with_capabilities(capabilities()))
}

fn capabilities() -> Capabilities {
    let mut capabilities = Capabilities::new(LoopMode::Delegated);
    capabilities.resume = Support::Yes;
    capabilities.images = Support::Yes;
    capabilities.caller_tools = Support::Yes;
    capabilities.access.scoped_only = AccessSupport::Kept(AccessEnforcer::None);
    capabilities
}

/// A turn that says something and waits until it is cancelled.
pub(crate) fn waiting(text: &str) -> Vec<Act> {
    vec![Act::Say(text.to_owned()), Act::Hang]
}

/// A home, a folder to work in, and an agent whose configuration is a file.
pub(crate) struct Stage {
    pub(crate) home: tempfile::TempDir,
    pub(crate) folder: tempfile::TempDir,
    fakes: Vec<Arc<ScriptedBackend>>,
    pub(crate) options: AcpOptions,
}

impl Stage {
    /// With a type of each backend's name.
    pub(crate) fn new(fakes: &[&Arc<ScriptedBackend>]) -> Self {
        let stage = Self {
            home: tempfile::tempdir().unwrap(),
            folder: tempfile::tempdir().unwrap(),
            fakes: fakes.iter().map(|fake| Arc::clone(fake)).collect(),
            options: AcpOptions::default(),
        };
        let ids: Vec<&str> = fakes.iter().map(|fake| fake.id().as_str()).collect();
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
        let Connected { editor, close, serving: connected } = connect(theirs, person).await;
        let done = client(editor).await;
        close.send(()).unwrap();
        connected.await.unwrap().unwrap();
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

/// A connection of an editor to the agent, which is served by a task of its own.
struct Connected {
    editor: Editor,
    close: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), Error>>,
}

/// Connects an editor. It is no generic function, because the crate's connection would be compiled again for each test.
async fn connect(stream: DuplexStream, person: Person) -> Connected {
    let (input, output) = split(stream);
    let (opened, connection) = oneshot::channel();
    let (close, closed) = oneshot::channel();
    let updates: Arc<Mutex<Vec<SessionNotification>>> = Arc::default();
    let asked: Arc<Mutex<Vec<RequestPermissionRequest>>> = Arc::default();
    let (told, questions) = (Arc::clone(&updates), Arc::clone(&asked));
    let held = Arc::new(Mutex::new(Vec::new()));
    let connected = Client
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
            async move |connection: ConnectionTo<Agent>| {
                let _ = opened.send(connection);
                let _ = closed.await;
                Ok(())
            },
        );
    let serving = tokio::spawn(connected);
    let connection = connection.await.unwrap();
    Connected { editor: Editor { connection, updates, asked }, close, serving }
}

impl Editor {
    /// Sends a request, and waits for its answer.
    pub(crate) async fn ask<R: JsonRpcRequest>(&self, request: R) -> Result<R::Response, Error> {
        self.connection.send_request(request).block_task().await
    }

    pub(crate) async fn initialize(&self) -> InitializeResponse {
        self.ask(InitializeRequest::new(ProtocolVersion::V1)).await.unwrap()
    }

    /// Introduces the client, and begins a session in the folder of the stage.
    pub(crate) async fn begin(&self, stage: &Stage) -> NewSessionResponse {
        self.initialize().await;
        self.new_session(stage).await
    }

    pub(crate) async fn new_session(&self, stage: &Stage) -> NewSessionResponse {
        self.ask(NewSessionRequest::new(stage.cwd())).await.unwrap()
    }

    pub(crate) async fn prompt(&self, session: &SessionId, text: &str) -> Result<PromptResponse, Error> {
        let request = PromptRequest::new(session.clone(), vec![ContentBlock::from(text)]);
        self.ask(request).await
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
