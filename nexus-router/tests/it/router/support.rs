//! Backends that do as they are told, for tests through the public API.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use futures::future::BoxFuture;
use nexus_core::{
    AccessEnforcer, AccessSupport, BackendId, BackendKind, BuildContext, Capabilities, Clock, Effects,
    Effort, ErrorKind, EventEnvelope, ExecutionBackend, FinishReason, LoopMode, OutputSupport, Registry,
    Retry, SettingsError, Support, TurnError, TurnEvent, TurnHost, TurnRequest, TurnResult, Usage, VendorId,
    harness::Failure,
    turn::{TextDelta, ToolCallStarted, ToolOrigin},
};
use nexus_router::{Router, RouterBuilder};
use nexus_testkit::scripted::{ScriptedBackend, ScriptedEnd, ScriptedTurn, failure};
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

/// A backend that does one act per turn; the last act is repeated.
pub(crate) fn fake(id: &str, acts: impl IntoIterator<Item = Act>) -> Arc<ScriptedBackend> {
    fake_with(id, acts, capabilities())
}

pub(crate) fn fake_with(
    id: &str,
    acts: impl IntoIterator<Item = Act>,
    capabilities: Capabilities,
) -> Arc<ScriptedBackend> {
    let acts: Vec<Act> = acts.into_iter().collect();
    let backend = scripted(id, move |turn| {
        let act = acts[turn.number.min(acts.len() - 1)].clone();
        Box::pin(perform(turn, act))
    });
    Arc::new(backend.with_capabilities(capabilities))
}

pub(crate) fn answering(id: &str) -> Arc<ScriptedBackend> {
    fake(id, [Act::Answer(format!("from {id}"))])
}

/// A backend with the capabilities of this kit.
pub(crate) fn scripted(
    id: &str,
    script: impl for<'t> Fn(&'t mut ScriptedTurn<'_>) -> BoxFuture<'t, ScriptedEnd> + Send + Sync + 'static,
) -> ScriptedBackend {
    ScriptedBackend::new(id, script).with_capabilities(capabilities())
}

async fn perform(turn: &mut ScriptedTurn<'_>, act: Act) -> ScriptedEnd {
    let id = turn.log.provenance.backend.clone();
    let mut used = Usage::new();
    used.input_tokens = Some(10);
    used.output_tokens = Some(5);
    turn.log.recorder.set_usage(used);
    let half = |effects| {
        let call = ToolCallStarted::new("c1".into(), "tool", ToolOrigin::Harness, effects);
        [TurnEvent::from(TextDelta::new("m1".into(), format!("half of {id}"))), call.into()]
    };
    match act {
        Act::Answer(text) => turn.say(text),
        Act::Slow(time) => {
            turn.pause(time).await?;
            turn.say(format!("slowly from {id}"));
        }
        Act::SlowFail(time, kind) => {
            turn.pause(time).await?;
            return Err(failure(kind));
        }
        Act::CancelAndFail(kind) => {
            turn.host.cancel.cancel();
            return Err(failure(kind));
        }
        Act::Fail(kind, retry, words) => {
            let message = Some(words.to_owned()).filter(|words| !words.is_empty());
            return Err(Failure { message, ..failure(kind).with_retry(retry) });
        }
        Act::FailLate(kind, effects) => {
            half(effects).into_iter().for_each(|event| turn.event(event));
            return Err(failure(kind));
        }
        Act::Panic(effects) => {
            for event in half(effects) {
                turn.tell(event).await?;
            }
            panic!("{id} breaks down, as it should");
        }
        Act::Hang => return Err(turn.hang().await),
    }
    Ok((FinishReason::Stop, None))
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

    fn vendor(&self, _settings: &Map<String, Value>, _context: &BuildContext) -> VendorId {
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
        Ok(answering(id.as_str()))
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
pub(crate) fn router(text: &str, fakes: &[&Arc<ScriptedBackend>]) -> Router {
    builder(fakes).from_str(text).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn builder(fakes: &[&Arc<ScriptedBackend>]) -> RouterBuilder {
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

impl BackendKind for WhereKind {
    fn name(&self) -> &str {
        "where-cli"
    }

    fn vendor(&self, _settings: &Map<String, Value>, _context: &BuildContext) -> VendorId {
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
        let folder = context.base_directory.display().to_string();
        Ok(Arc::new(scripted(id.as_str(), move |turn| {
            turn.say(folder.clone());
            Box::pin(async { Ok((FinishReason::Stop, None)) })
        })))
    }
}
