//! Backends that do as they are told, for tests through the public API.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use nexus_core::{
    AccessEnforcer, AccessSupport, Availability, BackendId, BackendKind, BuildContext, Capabilities, Clock,
    ConversationMode, Effects, Effort, ErrorKind, EventEnvelope, EventSink, ExecutionBackend, FinishReason,
    ForgetError, Forgotten, LoopMode, Outbox, OutputSupport, Provenance, Recorder, Registry, ResumeHandle,
    Retry, SettingsError, Support, TurnError, TurnEvent, TurnHost, TurnRequest, TurnResult, Usage, VendorId,
    turn::{MessageEnded, Started, TextDelta, ToolCallStarted, ToolOrigin},
};
use nexus_router::{Router, RouterBuilder};
use serde_json::{Map, Value, json};

/// What a fake does with one turn.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Answers this.
    Answer(String),
    /// Fails so, before anything was said.
    Fail(ErrorKind, Retry, &'static str),
    /// Says something, calls a tool with these effects, then fails so.
    FailLate(ErrorKind, Effects),
    /// Says something, calls a tool with these effects, then panics.
    Panic(Effects),
    /// Runs for as long as nobody stops it.
    Hang,
    /// Takes this long, then answers.
    Slow(Duration),
    /// Takes this long, then fails so.
    SlowFail(Duration, ErrorKind),
    /// Fails so while somebody cancels the turn.
    CancelAndFail(ErrorKind),
}

/// A backend that does as it is told, one act per turn; the last act is repeated.
pub(crate) struct Fake {
    id: BackendId,
    acts: Mutex<VecDeque<Act>>,
    /// Every request it got.
    pub(crate) requests: Mutex<Vec<TurnRequest>>,
    capabilities: Capabilities,
    running: Mutex<(usize, usize)>,
}

impl fmt::Debug for Fake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fake").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Fake {
    pub(crate) fn new(id: &str, acts: impl IntoIterator<Item = Act>) -> Arc<Self> {
        Self::with_capabilities(id, acts, capabilities())
    }

    pub(crate) fn with_capabilities(
        id: &str,
        acts: impl IntoIterator<Item = Act>,
        capabilities: Capabilities,
    ) -> Arc<Self> {
        Arc::new(Self {
            id: id.into(),
            acts: Mutex::new(acts.into_iter().collect()),
            requests: Mutex::default(),
            capabilities,
            running: Mutex::default(),
        })
    }

    pub(crate) fn answering(id: &str) -> Arc<Self> {
        Self::new(id, [Act::Answer(format!("from {id}"))])
    }

    /// How many turns it got.
    pub(crate) fn turns(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    /// The last request it got.
    pub(crate) fn last(&self) -> TurnRequest {
        self.requests.lock().unwrap().last().cloned().expect("a request")
    }

    /// The most turns it ever ran at once.
    pub(crate) fn most_at_once(&self) -> usize {
        self.running.lock().unwrap().1
    }

    pub(crate) fn running(&self) -> usize {
        self.running.lock().unwrap().0
    }

    fn next_act(&self) -> Act {
        let mut acts = self.acts.lock().unwrap();
        if acts.len() > 1 { acts.pop_front().unwrap() } else { acts.front().cloned().expect("an act") }
    }
}

/// Everything but pictures.
pub(crate) fn capabilities() -> Capabilities {
    let mut capabilities = Capabilities::new(LoopMode::Native);
    capabilities.system = Support::Yes;
    capabilities.resume = Support::Yes;
    capabilities.caller_tools = Support::Yes;
    capabilities.output = OutputSupport::Instructed;
    capabilities.efforts = Effort::ALL.to_vec();
    capabilities.access.scoped_only = AccessSupport::Kept(AccessEnforcer::None);
    capabilities.access.workspace_write = AccessSupport::Kept(AccessEnforcer::Os);
    let ours = nexus_core::Enforcement::Ours;
    capabilities.limits = nexus_core::LimitSupport::new()
        .with_tool_calls(ours)
        .with_model_calls(ours)
        .with_output_tokens(ours)
        .with_cost(ours);
    capabilities
}

struct Running<'a>(&'a Fake);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.lock().unwrap().0 -= 1;
    }
}

#[async_trait]
impl ExecutionBackend for Fake {
    fn id(&self) -> &BackendId {
        &self.id
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    async fn probe(&self) -> Availability {
        Availability::ready(Some("1.0".into()))
    }

    async fn forget(&self, _handle: &ResumeHandle) -> Result<Forgotten, ForgetError> {
        Err(ForgetError::Unsupported { backend: self.id.clone() })
    }

    async fn run_turn(
        &self,
        request: TurnRequest,
        host: TurnHost,
        events: &mut dyn EventSink,
    ) -> Result<TurnResult, TurnError> {
        self.requests.lock().unwrap().push(request.clone());
        let _running = {
            let mut running = self.running.lock().unwrap();
            running.0 += 1;
            running.1 = running.1.max(running.0);
            Running(self)
        };
        let mut turn = Turn { recorder: Recorder::new(), outbox: Outbox::new() };
        turn.say(Started::new(self.id.clone()).with_model(request.model.clone()));
        turn.recorder.provenance = Some(Provenance::new(self.id.clone()));
        let mut used = Usage::new();
        used.input_tokens = Some(10);
        used.output_tokens = Some(5);
        turn.recorder.set_usage(used);

        let outcome = match self.next_act() {
            Act::Answer(text) => Ok(text),
            Act::Slow(time) => {
                tokio::time::sleep(time).await;
                Ok(format!("slowly from {}", self.id))
            }
            Act::SlowFail(time, kind) => {
                tokio::time::sleep(time).await;
                Err(TurnError::new(kind, self.id.clone()))
            }
            Act::CancelAndFail(kind) => {
                host.cancel.cancel();
                Err(TurnError::new(kind, self.id.clone()))
            }
            Act::Fail(kind, retry, words) => {
                let error = TurnError::new(kind, self.id.clone()).with_retry(retry);
                Err(if words.is_empty() { error } else { error.with_message(words) })
            }
            Act::FailLate(kind, effects) => {
                turn.say(TextDelta::new("m1".into(), format!("half of {}", self.id)));
                turn.say(ToolCallStarted::new("c1".into(), "tool", ToolOrigin::Harness, effects));
                Err(TurnError::new(kind, self.id.clone()))
            }
            Act::Panic(effects) => {
                turn.say(TextDelta::new("m1".into(), format!("half of {}", self.id)));
                turn.say(ToolCallStarted::new("c1".into(), "tool", ToolOrigin::Harness, effects));
                turn.outbox.flush(events).await;
                panic!("{} breaks down, as it should", self.id);
            }
            Act::Hang => {
                let deadline = request.limits.deadline;
                let late = async {
                    match deadline {
                        Some(deadline) => tokio::time::sleep(deadline).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = host.cancel.cancelled() => Err(TurnError::new(ErrorKind::Cancelled, self.id.clone())),
                    () = late => Err(TurnError::new(
                        ErrorKind::LimitReached(nexus_core::Limit::Deadline),
                        self.id.clone(),
                    )),
                }
            }
        };
        match outcome {
            Ok(text) => {
                turn.say(TextDelta::new("m1".into(), text.clone()));
                turn.say(MessageEnded::new("m1".into(), text));
                if request.conversation != ConversationMode::Ephemeral {
                    turn.recorder.resume = Some(ResumeHandle::new(self.id.clone(), json!("here")));
                }
                turn.outbox.flush(events).await;
                let mut provenance = Provenance::new(self.id.clone());
                provenance.model = request.model;
                Ok(turn.recorder.into_result(FinishReason::Stop, provenance))
            }
            Err(error) => {
                turn.outbox.flush(events).await;
                Err(error.with_partial(turn.recorder.into_partial()))
            }
        }
    }
}

struct Turn {
    recorder: Recorder,
    outbox: Outbox,
}

impl Turn {
    fn say(&mut self, event: impl Into<TurnEvent>) {
        let event = event.into();
        self.recorder.observe(&event);
        self.outbox.push(event);
    }
}

/// A kind whose backends answer, with one setting `base_url` that must be an address, and one number.
#[derive(Debug)]
pub(crate) struct FakeKind {
    name: &'static str,
    vendor: &'static str,
}

impl FakeKind {
    pub(crate) fn shared(name: &'static str, vendor: &'static str) -> Arc<dyn BackendKind> {
        Arc::new(Self { name, vendor })
    }
}

impl BackendKind for FakeKind {
    fn name(&self) -> &str {
        self.name
    }

    fn vendor(&self, _settings: &Map<String, Value>) -> VendorId {
        self.vendor.into()
    }

    fn settings_schema(&self) -> Value {
        json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "base_url": { "type": "string" },
                "credential": {
                    "type": "object",
                    "additionalProperties": false,
                    "properties": { "env": { "type": "string" } },
                },
                "billing": { "enum": ["plan", "metered"] },
            },
        })
    }

    fn build(
        &self,
        id: BackendId,
        settings: &Map<String, Value>,
        _context: &BuildContext,
    ) -> Result<Arc<dyn ExecutionBackend>, SettingsError> {
        match settings.get("base_url") {
            None => {}
            Some(Value::String(url)) if url.starts_with("http") => {}
            Some(_) => return Err(SettingsError::new("base_url", "not an http address")),
        }
        if let Some(env) = settings.get("credential").and_then(|credential| credential.get("env"))
            && env.as_str().is_none_or(str::is_empty)
        {
            let path = vec!["credential".to_owned(), "env".to_owned()];
            return Err(SettingsError { path, reason: "not the name of a variable".into() });
        }
        Ok(Fake::answering(id.as_str()))
    }
}

/// Two kinds of two vendors, and one that is not part of the build.
pub(crate) fn registry() -> Registry {
    Registry::new()
        .with(FakeKind::shared("alpha-cli", "alpha"))
        .with(FakeKind::shared("beta-cli", "beta"))
        .with(FakeKind::shared("beta-native", "beta"))
        .with_absent("gamma-cli", "gamma-cli is not part of this build")
}

pub(crate) fn context() -> BuildContext {
    BuildContext::in_home("home")
}

/// A router over backends of the test's own. `text` knows them by their ids.
pub(crate) fn router(text: &str, fakes: &[&Arc<Fake>]) -> Router {
    builder(fakes).from_str(text).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn builder(fakes: &[&Arc<Fake>]) -> RouterBuilder {
    let mut builder = Router::builder(registry(), context());
    for fake in fakes {
        builder = builder.backend(Arc::clone(fake) as Arc<dyn ExecutionBackend>);
    }
    builder
}

/// One type `work` over these backends, in this order.
pub(crate) fn chain(ids: &str) -> String {
    format!("groups: {{ main: [{ids}] }}\ntypes: {{ work: {{ group: main }} }}\n")
}

/// A clock that stands still until it is told otherwise.
#[derive(Debug)]
pub(crate) struct ManualClock(Mutex<SystemTime>);

impl ManualClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000))))
    }

    pub(crate) fn advance(&self, by: Duration) {
        *self.0.lock().unwrap() += by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> SystemTime {
        *self.0.lock().unwrap()
    }
}

/// Runs `work` and gives back what was seen and how it ended.
pub(crate) async fn run(
    router: &Router,
    request: TurnRequest,
) -> (Vec<EventEnvelope>, Result<TurnResult, TurnError>) {
    run_with(router, request, TurnHost::new()).await
}

pub(crate) async fn run_with(
    router: &Router,
    request: TurnRequest,
    host: TurnHost,
) -> (Vec<EventEnvelope>, Result<TurnResult, TurnError>) {
    let mut seen = Vec::new();
    let mut sink = |event: EventEnvelope| seen.push(event);
    let outcome = router.run_turn("work", request, host, &mut sink).await;
    (seen, outcome)
}

/// A kind whose backends say which folder they were built in.
#[derive(Debug)]
pub(crate) struct WhereKind;

struct Where(std::path::PathBuf, BackendId);

impl fmt::Debug for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Where").field(&self.0).finish()
    }
}

impl BackendKind for WhereKind {
    fn name(&self) -> &str {
        "where-cli"
    }

    fn vendor(&self, _settings: &Map<String, Value>) -> VendorId {
        "where".into()
    }

    fn settings_schema(&self) -> Value {
        json!({ "type": "object", "additionalProperties": false })
    }

    fn build(
        &self,
        id: BackendId,
        _settings: &Map<String, Value>,
        context: &BuildContext,
    ) -> Result<Arc<dyn ExecutionBackend>, SettingsError> {
        Ok(Arc::new(Where(context.base_directory.clone(), id)))
    }
}

#[async_trait]
impl ExecutionBackend for Where {
    fn id(&self) -> &BackendId {
        &self.1
    }

    fn capabilities(&self) -> Capabilities {
        capabilities()
    }

    async fn probe(&self) -> Availability {
        Availability::ready(None)
    }

    async fn forget(&self, _handle: &ResumeHandle) -> Result<Forgotten, ForgetError> {
        Err(ForgetError::Unsupported { backend: self.1.clone() })
    }

    async fn run_turn(
        &self,
        _request: TurnRequest,
        _host: TurnHost,
        _events: &mut dyn EventSink,
    ) -> Result<TurnResult, TurnError> {
        Err(TurnError::new(ErrorKind::NotInstalled, self.1.clone()))
    }
}
