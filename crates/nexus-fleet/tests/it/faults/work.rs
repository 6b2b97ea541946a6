//! The backend of the workers of these tests: what it does is written to a file, and what it is to do is in the labels.

use std::{fs::OpenOptions, io::Write as _, path::PathBuf, time::Duration};

use async_trait::async_trait;
use nexus_core::{
    AccessEnforcer, AccessSupport, Availability, BackendId, Capabilities, Effects, EventSink,
    ExecutionBackend, FinishReason, ForgetError, Forgotten, LoopMode, ResumeHandle, Support, ToolCall,
    TurnError, TurnHost, TurnRequest, TurnResult,
    harness::{Failure, RunningTurn},
    turn::{MessageEnded, TextDelta, ToolCallFinished, ToolCallStarted, ToolCallStatus, ToolOrigin},
};
use serde_json::{Value, json};

/// A line for each turn that began: its name, and its worker.
pub(crate) const EFFECTS: &str = "effects";
/// A line for each turn that is over at its worker, however it ended.
pub(crate) const OVER: &str = "over";

/// What a turn does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    /// Deltas, each of which is its number.
    pub(crate) events: u32,
    /// Before each delta.
    pub(crate) every: Duration,
    /// Before the end.
    pub(crate) wait: Duration,
    /// Calls of the tool `count` of the caller's, after the first delta.
    pub(crate) calls: u32,
}

impl Job {
    pub(crate) fn label(self, request: TurnRequest, name: &str) -> TurnRequest {
        let job = json!({ "turn": name, "events": self.events, "every": self.every.as_millis() as u64,
            "wait": self.wait.as_millis() as u64, "calls": self.calls });
        request.with_label("job", job.to_string())
    }
}

/// Does what the labels say.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) id: BackendId,
    pub(crate) worker: String,
    pub(crate) folder: PathBuf,
}

impl Work {
    pub(crate) fn new(worker: &str, folder: impl Into<PathBuf>) -> Self {
        Self { id: BackendId::new("work"), worker: worker.to_owned(), folder: folder.into() }
    }

    async fn work(&self, turn: &mut RunningTurn<'_>) -> Result<(FinishReason, Option<Value>), Failure> {
        let job: Value = serde_json::from_str(&turn.request.labels["job"]).expect("a job");
        let number = |key: &str| job[key].as_u64().expect("a number");
        let line = format!("{} {}", job["turn"].as_str().expect("a name"), self.worker);
        self.append(EFFECTS, &line);
        let _over = Over(self, line);
        turn.model_call()?;
        let call = turn.call_id("own");
        turn.event(ToolCallStarted::new(call.clone(), "append", ToolOrigin::Harness, Effects::Wrote));
        turn.event(ToolCallFinished::new(call, ToolCallStatus::Succeeded, Vec::new()));
        let mut text = String::new();
        for event in 0..number("events") {
            turn.pause(Duration::from_millis(number("every"))).await?;
            text += &format!("{event} ");
            turn.event(TextDelta::new("answer".into(), format!("{event} ")));
            if event == 0 {
                for call in 0..number("calls") {
                    turn.answer_calls(vec![ToolCall::new(
                        format!("call-{call}"),
                        "count",
                        json!({ "call": call }),
                    )])
                    .await?;
                }
            }
        }
        turn.pause(Duration::from_millis(number("wait"))).await?;
        turn.event(MessageEnded::new("answer".into(), text));
        Ok((FinishReason::Stop, None))
    }

    fn append(&self, file: &str, line: &str) {
        let mut file =
            OpenOptions::new().create(true).append(true).open(self.folder.join(file)).expect("a file");
        // In one piece, whoever else writes.
        file.write_all(format!("{line}\n").as_bytes()).expect("a line is written");
    }
}

struct Over<'w>(&'w Work, String);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.append(OVER, &self.1);
    }
}

#[async_trait]
impl ExecutionBackend for Work {
    fn id(&self) -> &BackendId {
        &self.id
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(LoopMode::Native);
        capabilities.access.scoped_only = AccessSupport::Kept(AccessEnforcer::None);
        capabilities.caller_tools = Support::Yes;
        capabilities
    }

    async fn probe(&self) -> Availability {
        Availability::ready(None)
    }

    async fn run_turn(
        &self,
        request: TurnRequest,
        host: TurnHost,
        events: &mut dyn EventSink,
    ) -> Result<TurnResult, TurnError> {
        let mut turn = RunningTurn::begin(&self.id, &self.capabilities(), request, host, events)?;
        let outcome = self.work(&mut turn).await;
        turn.end(outcome).await
    }

    async fn forget(&self, _handle: &ResumeHandle) -> Result<Forgotten, ForgetError> {
        Err(ForgetError::Unsupported { backend: self.id.clone() })
    }
}
