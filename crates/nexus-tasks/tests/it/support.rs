//! An agent that follows a script, for tests through the public API.

pub(crate) mod attempts;

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use nexus_core::{
    AccessEnforcer, AccessSupport, Availability, BackendId, BuildContext, Capabilities, ErrorKind, EventSink,
    ExecutionBackend, FinishReason, ForgetError, Forgotten, LoopMode, Provenance, Recorder, Registry,
    ResumeHandle, Support, ToolCall, ToolContent, ToolResult, TurnError, TurnHost, TurnRequest, TurnResult,
};
use nexus_router::Router;
use serde_json::{Value, json};

/// What a scripted agent does in one turn, in order; then the turn ends well.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Say(&'static str),
    Call(&'static str, Value),
    Fail(ErrorKind),
    /// Does what this says, by what the calls of this turn were answered so far.
    Then(Compute),
    /// Is at work beside its tools.
    Beside(Effect),
    /// Waits until as many agents as the barrier says have come to it.
    Meet(Arc<tokio::sync::Barrier>),
    /// Never goes on.
    Hang,
}

/// Computes what an agent does next.
#[derive(Clone)]
pub(crate) struct Compute(Arc<ByAnswers>);

/// What is done next, by the answers so far.
type ByAnswers = dyn Fn(&[String]) -> Vec<Act> + Send + Sync;

/// Something that an agent does beside its tools.
#[derive(Clone)]
pub(crate) struct Effect(Arc<dyn Fn() + Send + Sync>);

impl fmt::Debug for Compute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Compute")
    }
}

impl fmt::Debug for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Effect")
    }
}

impl Act {
    pub(crate) fn then(compute: impl Fn(&[String]) -> Vec<Act> + Send + Sync + 'static) -> Self {
        Self::Then(Compute(Arc::new(compute)))
    }

    pub(crate) fn beside(effect: impl Fn() + Send + Sync + 'static) -> Self {
        Self::Beside(Effect(Arc::new(effect)))
    }
}

/// The text of an answer.
pub(crate) fn text(answer: &ToolResult) -> String {
    let text = |content: &ToolContent| match content {
        ToolContent::Text { text } => text.clone(),
        _ => String::new(),
    };
    answer.content.iter().map(text).collect()
}

/// The script of a turn, by what is asked.
type ByRequest = Box<dyn Fn(&TurnRequest) -> Vec<Act> + Send + Sync>;

/// An agent that does as its script says, whatever it is told.
pub(crate) struct Scripted {
    id: BackendId,
    turns: Mutex<VecDeque<Vec<Act>>>,
    by_request: Option<ByRequest>,
    /// What it was asked, and which tools it was offered.
    pub(crate) asked: Mutex<Vec<(TurnRequest, Vec<String>)>>,
    /// What its calls were answered.
    pub(crate) answers: Mutex<Vec<ToolResult>>,
    /// The handles that it was to forget.
    pub(crate) forgotten: Mutex<Vec<ResumeHandle>>,
    /// Whether it forgets nothing.
    pub(crate) keeps: Mutex<bool>,
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
        capabilities.access.scoped_only = AccessSupport::Kept(AccessEnforcer::None);
        capabilities
    }

    async fn probe(&self) -> Availability {
        Availability::ready(None)
    }

    async fn forget(&self, handle: &ResumeHandle) -> Result<Forgotten, ForgetError> {
        self.forgotten.lock().unwrap().push(handle.clone());
        match *self.keeps.lock().unwrap() {
            true => Err(ForgetError::Unsupported { backend: self.id.clone() }),
            false => Ok(Forgotten::WasGone),
        }
    }

    async fn run_turn(
        &self,
        request: TurnRequest,
        host: TurnHost,
        _events: &mut dyn EventSink,
    ) -> Result<TurnResult, TurnError> {
        let session = host.open_turn(&request);
        let offered = session.definitions().iter().map(|tool| tool.name.clone()).collect();
        self.asked.lock().unwrap().push((request, offered));
        let mut acts: VecDeque<Act> = match &self.by_request {
            Some(script) => script(&self.asked.lock().unwrap().last().expect("it was asked").0).into(),
            None => self.turns.lock().unwrap().pop_front().expect("a turn in the script").into(),
        };
        let mut recorder = Recorder::new();
        let mut finish = FinishReason::Stop;
        let (mut number, mut answered) = (0, Vec::new());
        while let Some(act) = acts.pop_front() {
            number += 1;
            if host.cancel.is_cancelled() {
                return Err(TurnError::new(ErrorKind::Cancelled, self.id.clone()));
            }
            match act {
                Act::Say(text) => {
                    let message = format!("m{number}");
                    recorder
                        .observe(&nexus_core::turn::MessageEnded::new(message.as_str().into(), text).into());
                }
                Act::Call(tool, arguments) => {
                    let call = ToolCall::new(format!("c{number}"), tool, arguments);
                    let answer = session.call(session.token(), call).await;
                    answered.push(text(&answer));
                    self.answers.lock().unwrap().push(answer);
                    recorder.add_effects(session.effects());
                    if session.is_handed_in() {
                        finish = FinishReason::Submitted;
                    }
                }
                Act::Then(compute) => {
                    for act in (compute.0)(&answered).into_iter().rev() {
                        acts.push_front(act);
                    }
                }
                Act::Beside(effect) => (effect.0)(),
                Act::Meet(barrier) => {
                    barrier.wait().await;
                }
                Act::Hang => {
                    host.cancel.cancelled().await;
                    return Err(TurnError::new(ErrorKind::Cancelled, self.id.clone()));
                }
                Act::Fail(kind) => {
                    return Err(TurnError::new(kind, self.id.clone()).with_partial(recorder.into_partial()));
                }
            }
        }
        recorder.resume = Some(ResumeHandle::new(self.id.clone(), json!("here")));
        Ok(recorder.into_result(finish, Provenance::new(self.id.clone())))
    }
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scripted").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Scripted {
    /// A backend that runs each turn by what is asked.
    pub(crate) fn by(
        id: &str,
        script: impl Fn(&TurnRequest) -> Vec<Act> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let mut scripted = Arc::into_inner(Self::new(id, Vec::new())).expect("it is shared with nobody yet");
        scripted.by_request = Some(Box::new(script));
        Arc::new(scripted)
    }

    /// The texts of all that its calls were answered.
    pub(crate) fn answered(&self) -> Vec<String> {
        self.answers.lock().unwrap().iter().map(text).collect()
    }

    /// How many turns it had.
    pub(crate) fn turns_run(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    /// A backend that runs turns by a script, a list of acts a turn.
    pub(crate) fn new(id: &str, turns: Vec<Vec<Act>>) -> Arc<Self> {
        Arc::new(Self {
            id: id.into(),
            turns: Mutex::new(turns.into()),
            by_request: None,
            asked: Mutex::default(),
            answers: Mutex::default(),
            forgotten: Mutex::default(),
            keeps: Mutex::default(),
        })
    }
}

/// Such a backend, and a router whose only work-kind is `worker`.
pub(crate) fn scripted(turns: Vec<Vec<Act>>) -> (Router, Arc<Scripted>) {
    let backend = Scripted::new("alpha", turns);
    (router_over(&[&backend], "before-writes"), backend)
}

/// A router whose only work-kind is `worker`: these backends, one after the other, by a fallback rule.
pub(crate) fn router_over(backends: &[&Arc<Scripted>], fallback: &str) -> Router {
    let ids: Vec<&str> = backends.iter().map(|backend| backend.id.as_str()).collect();
    let configuration = json!({
        "groups": { "only": ids },
        "types": { "worker": {
            "tier": "execution", "phase": "implement", "group": "only", "model": { "exact": "any" }, "fallback": fallback,
        } },
    });
    let builder = Router::builder(Registry::new(), BuildContext::in_home("home"));
    let builder = backends
        .iter()
        .fold(builder, |builder, backend| builder.backend(Arc::clone(backend) as Arc<dyn ExecutionBackend>));
    builder.from_value(configuration).unwrap()
}
