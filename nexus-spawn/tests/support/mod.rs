//! An agent that follows a script, for tests through the public API.

#![allow(dead_code, reason = "each test uses its part")]

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use nexus_core::{
    AccessEnforcer, AccessSupport, Availability, BackendId, BuildContext, Capabilities, ErrorKind, EventSink,
    ExecutionBackend, FinishReason, ForgetError, Forgotten, LoopMode, Provenance, Recorder, Registry,
    ResumeHandle, Support, ToolCall, ToolResult, TurnError, TurnHost, TurnRequest, TurnResult,
};
use nexus_router::Router;
use serde_json::{Value, json};

/// What a scripted agent does in one turn, in order; then the turn ends well.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Say(&'static str),
    Call(&'static str, Value),
    Fail(ErrorKind),
}

/// An agent that does as its script says, whatever it is told.
#[derive(Debug)]
pub(crate) struct Scripted {
    id: BackendId,
    turns: Mutex<VecDeque<Vec<Act>>>,
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
        let acts = self.turns.lock().unwrap().pop_front().expect("a turn in the script");
        let mut recorder = Recorder::new();
        let mut finish = FinishReason::Stop;
        for (number, act) in acts.into_iter().enumerate() {
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
                    self.answers.lock().unwrap().push(answer);
                    recorder.add_effects(session.effects());
                    if session.is_handed_in() {
                        finish = FinishReason::Submitted;
                    }
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

impl Scripted {
    /// A backend that runs turns by a script, a list of acts a turn.
    pub(crate) fn new(id: &str, turns: Vec<Vec<Act>>) -> Arc<Self> {
        Arc::new(Self {
            id: id.into(),
            turns: Mutex::new(turns.into()),
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
