//! A subject whose turns run elsewhere than their caller.

use std::sync::Arc;

use async_trait::async_trait;
use nexus_core::{
    ApprovalRequest, Availability, BackendId, Capabilities, Denial, EventSink, ExecutionBackend, ForgetError,
    Forgotten, ModelId, RemoteSession, ResumeHandle, Session, ToolCall, ToolResult, TurnError, TurnHost,
    TurnRequest, TurnResult, TurnSession, harness::admit,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::subject::{Departure, Setting, Stage, StageError, Subject, Timing};
use crate::sim::ToolCall as ScriptedCall;

/// A subject whose backend runs its turns in a [remote session](Session::remote), as on another machine: every call of a
/// caller's tool is written, read, and decided on by the caller's session. All else is that of the subject within, and every
/// case holds as it does there.
#[derive(Debug)]
pub struct RemoteSubject(Arc<dyn Subject>);

impl RemoteSubject {
    /// Has the turns of `subject` run in a remote session.
    pub fn new(subject: Arc<dyn Subject>) -> Self {
        Self(subject)
    }
}

#[async_trait]
impl Subject for RemoteSubject {
    fn name(&self) -> &str {
        self.0.name()
    }

    async fn stage(&self, setting: Setting) -> Result<Stage, StageError> {
        let mut stage = self.0.stage(setting).await?;
        stage.backend = Arc::new(Worker(stage.backend));
        Ok(stage)
    }

    fn model(&self) -> Option<ModelId> {
        self.0.model()
    }

    fn timing(&self) -> Timing {
        self.0.timing()
    }

    fn caller_tool(&self, name: &str, arguments: Value) -> ScriptedCall {
        self.0.caller_tool(name, arguments)
    }

    fn idle_tools(&self) -> &[&str] {
        self.0.idle_tools()
    }

    fn is_lent_credential(&self) -> bool {
        self.0.is_lent_credential()
    }

    fn cannot_stage(&self, case: &str) -> Option<String> {
        self.0.cannot_stage(case)
    }

    fn departures(&self) -> &[Departure] {
        self.0.departures()
    }
}

/// Runs turns on the backend, without the caller's session.
#[derive(Debug)]
struct Worker(Arc<dyn ExecutionBackend>);

#[async_trait]
impl ExecutionBackend for Worker {
    fn id(&self) -> &BackendId {
        self.0.id()
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    async fn probe(&self) -> Availability {
        self.0.probe().await
    }

    async fn run_turn(
        &self,
        request: TurnRequest,
        host: TurnHost,
        events: &mut dyn EventSink,
    ) -> Result<TurnResult, TurnError> {
        let capabilities = self.capabilities();
        let _steered = host.steered(capabilities.steering);
        // Only the caller's side knows whether its session can take another turn.
        admit(self.id(), &capabilities, &request, &host)
            .map_err(|failure| failure.into_error(self.id().clone()))?;
        let turn = host.open_turn(&request);
        let (participant, definitions) = (turn.participant().clone(), turn.definitions().to_vec());
        let remote = Session::remote(participant, sent(&definitions), Arc::new(Connection(turn)));
        self.0.run_turn(request, host.with_session(remote), events).await
    }

    async fn forget(&self, handle: &ResumeHandle) -> Result<Forgotten, ForgetError> {
        self.0.forget(handle).await
    }
}

/// A connection to the caller: every message through it is serialized and parsed.
#[derive(Debug)]
struct Connection(TurnSession);

fn sent<T: Serialize + DeserializeOwned>(value: &T) -> T {
    let written = serde_json::to_string(value);
    written.and_then(|written| serde_json::from_str(&written)).expect("what was written can be read")
}

#[async_trait]
impl RemoteSession for Connection {
    async fn call(&self, call: ToolCall) -> Result<ToolResult, Denial> {
        sent(&self.0.try_call(self.0.token(), sent(&call)).await)
    }

    async fn approve(&self, request: ApprovalRequest) -> Result<(), Denial> {
        sent(&self.0.approve(sent(&request)).await)
    }

    fn withdraw(&self, tool: &str) {
        self.0.withdraw(tool);
    }
}
