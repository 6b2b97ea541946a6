//! A backend whose turns follow the script of a test.
//!
//! ```
//! use nexus_core::{ErrorKind, ExecutionBackendExt as _, TurnRequest};
//! use nexus_testkit::scripted::{Act, ScriptedBackend, answer};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let backend = ScriptedBackend::playing("alpha", [answer("Here."), vec![Act::Fail(ErrorKind::Overloaded)]]);
//! assert_eq!(backend.run_text(TurnRequest::new("Where?")).await.unwrap().text, "Here.");
//! assert_eq!(backend.run_text(TurnRequest::new("Where?")).await.unwrap_err().kind(), ErrorKind::Overloaded);
//! assert_eq!(backend.turns(), 2);
//! # }
//! ```

mod act;
mod turn;

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use futures::future::BoxFuture;
use nexus_core::{
    AccessEnforcer, AccessSupport, Availability, BackendId, Capabilities, ErrorKind, EventSink,
    ExecutionBackend, FinishReason, ForgetError, Forgotten, LoopMode, ResumeHandle, Support, ToolContent,
    ToolDefinition, ToolResult, TurnError, TurnHost, TurnRequest, TurnResult, harness::Failure,
};
use serde_json::Value;

pub use act::{Act, ByAnswers, answer};
pub use turn::ScriptedTurn;

/// End of a scripted turn: the finish reason and the checked value, or a failure.
pub type ScriptedEnd = Result<(FinishReason, Option<Value>), Failure>;

type Script = dyn for<'t> Fn(&'t mut ScriptedTurn<'_>) -> BoxFuture<'t, ScriptedEnd> + Send + Sync;
type Forget = dyn for<'h> Fn(&'h ResumeHandle) -> BoxFuture<'h, Result<Forgotten, ForgetError>> + Send + Sync;

/// A backend over [`RunningTurn`](nexus_core::harness::RunningTurn): it admits requests, enforces limits of time and cancellation, and
/// records its turns. Each turn follows its script.
pub struct ScriptedBackend {
    id: BackendId,
    capabilities: Capabilities,
    script: Box<Script>,
    forget: Box<Forget>,
    record: Mutex<Record>,
}

#[derive(Default)]
struct Record {
    asked: Vec<Asked>,
    answers: Vec<ToolResult>,
    forgotten: Vec<ResumeHandle>,
    events_sent: usize,
    running: usize,
    most_at_once: usize,
}

/// A turn as the backend received it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The request.
    pub request: TurnRequest,
    /// The caller's tools, as offered to the model.
    pub tools: Vec<ToolDefinition>,
}

impl Asked {
    /// Names of the offered tools.
    pub fn tool_names(&self) -> Vec<String> {
        self.tools.iter().map(|tool| tool.name.clone()).collect()
    }
}

impl ScriptedBackend {
    /// A backend whose turns do what `script` does. It asks a native loop's model, takes a system prompt, resumes conversations and
    /// offers the caller's tools.
    pub fn new(
        id: impl Into<BackendId>,
        script: impl for<'t> Fn(&'t mut ScriptedTurn<'_>) -> BoxFuture<'t, ScriptedEnd> + Send + Sync + 'static,
    ) -> Self {
        let mut capabilities = Capabilities::new(LoopMode::Native);
        capabilities.system = Support::Yes;
        capabilities.resume = Support::Yes;
        capabilities.caller_tools = Support::Yes;
        capabilities.access.scoped_only = AccessSupport::Kept(AccessEnforcer::None);
        Self {
            id: id.into(),
            capabilities,
            script: Box::new(script),
            forget: Box::new(|_| Box::pin(async { Ok(Forgotten::WasGone) })),
            record: Mutex::default(),
        }
    }

    /// A backend with a list of acts for each turn. It panics if it gets more turns.
    pub fn playing(id: impl Into<BackendId>, turns: impl IntoIterator<Item = Vec<Act>>) -> Self {
        let turns: Vec<_> = turns.into_iter().collect();
        Self::new(id, move |turn| {
            let acts = turns.get(turn.number).expect("a turn in the script").clone();
            Box::pin(turn.play(acts))
        })
    }

    /// Like [`ScriptedBackend::playing`], but the last list is repeated.
    pub fn repeating(id: impl Into<BackendId>, turns: impl IntoIterator<Item = Vec<Act>>) -> Self {
        let turns: Vec<_> = turns.into_iter().collect();
        Self::by(id, move |turn| turns[turn.number.min(turns.len() - 1)].clone())
    }

    /// A backend that computes the acts of each turn.
    pub fn by(
        id: impl Into<BackendId>,
        acts: impl Fn(&ScriptedTurn<'_>) -> Vec<Act> + Send + Sync + 'static,
    ) -> Self {
        Self::new(id, move |turn| {
            let acts = acts(turn);
            Box::pin(turn.play(acts))
        })
    }

    /// Replaces the capabilities.
    #[must_use]
    pub fn with_capabilities(mut self, capabilities: Capabilities) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// Changes the capabilities.
    #[must_use]
    pub fn capable(mut self, change: impl FnOnce(&mut Capabilities)) -> Self {
        change(&mut self.capabilities);
        self
    }

    /// Sets what [`ExecutionBackend::forget`] does. By default every conversation was gone before.
    #[must_use]
    pub fn forgetting(
        mut self,
        forget: impl for<'h> Fn(&'h ResumeHandle) -> BoxFuture<'h, Result<Forgotten, ForgetError>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.forget = Box::new(forget);
        self
    }

    /// The turns that it admitted, in their order.
    pub fn asked(&self) -> Vec<Asked> {
        self.record().asked.clone()
    }

    /// The request of the last turn that it admitted.
    ///
    /// # Panics
    ///
    /// Panics if it has admitted no turn.
    #[track_caller]
    pub fn last(&self) -> TurnRequest {
        self.record().asked.last().expect("a turn").request.clone()
    }

    /// Number of turns that it admitted.
    pub fn turns(&self) -> usize {
        self.record().asked.len()
    }

    /// Number of turns that run now.
    pub fn running(&self) -> usize {
        self.record().running
    }

    /// The most turns that ran at once.
    pub fn most_at_once(&self) -> usize {
        self.record().most_at_once
    }

    /// Answers to the calls of all its turns.
    pub fn answers(&self) -> Vec<ToolResult> {
        self.record().answers.clone()
    }

    /// Texts of [`ScriptedBackend::answers`].
    pub fn answered(&self) -> Vec<String> {
        self.record().answers.iter().map(text_of).collect()
    }

    /// Handles of the conversations that `forget` was called with.
    pub fn forgotten(&self) -> Vec<ResumeHandle> {
        self.record().forgotten.clone()
    }

    /// Number of events of [`ScriptedTurn::tell`] that the sinks have received.
    pub fn events_sent(&self) -> usize {
        self.record().events_sent
    }

    // Tests of crashes let a script panic, so ignore a poisoned lock.
    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ScriptedBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedBackend").field("id", &self.id).finish_non_exhaustive()
    }
}

#[async_trait]
impl ExecutionBackend for ScriptedBackend {
    fn id(&self) -> &BackendId {
        &self.id
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    async fn probe(&self) -> Availability {
        Availability::ready(Some("1.0".into()))
    }

    async fn run_turn(
        &self,
        request: TurnRequest,
        host: TurnHost,
        events: &mut dyn EventSink,
    ) -> Result<TurnResult, TurnError> {
        turn::run(self, request, host, events).await
    }

    async fn forget(&self, handle: &ResumeHandle) -> Result<Forgotten, ForgetError> {
        self.record().forgotten.push(handle.clone());
        (self.forget)(handle).await
    }
}

/// A failure without a message, for [`ScriptedBackend::new`].
pub fn failure(kind: ErrorKind) -> Failure {
    Failure { message: None, ..Failure::new(kind, "") }
}

/// Returns the text of a tool's answer.
pub fn text_of(answer: &ToolResult) -> String {
    let text = |content: &ToolContent| match content {
        ToolContent::Text { text } => text.clone(),
        ToolContent::Json { value } => value.to_string(),
        other => format!("{other:?}"),
    };
    answer.content.iter().map(text).collect()
}
