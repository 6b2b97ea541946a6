//! The backend of the workers of these tests: what it does is written to a file, and what it is to do is in the labels.

use std::{fs::OpenOptions, io::Write as _, path::PathBuf, sync::Arc, time::Duration};

use nexus_core::{
    Effects, FinishReason, ToolCall, TurnRequest,
    turn::{MessageEnded, TextDelta, ToolCallFinished, ToolCallStarted, ToolCallStatus, ToolOrigin},
};
use nexus_testkit::scripted::{ScriptedBackend, ScriptedEnd, ScriptedTurn};
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

/// A backend of `worker` that does what the labels say, and writes what it did into files of `folder`.
pub(crate) fn working(worker: &str, folder: impl Into<PathBuf>) -> ScriptedBackend {
    let log = Arc::new(WorkLog { worker: worker.to_owned(), folder: folder.into() });
    ScriptedBackend::new("work", move |turn| {
        let log = Arc::clone(&log);
        Box::pin(async move { log.work(turn).await })
    })
}

struct WorkLog {
    worker: String,
    folder: PathBuf,
}

impl WorkLog {
    async fn work(&self, turn: &mut ScriptedTurn<'_>) -> ScriptedEnd {
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
                    let call = ToolCall::new(format!("call-{call}"), "count", json!({ "call": call }));
                    turn.answer_calls(vec![call]).await?;
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

struct Over<'w>(&'w WorkLog, String);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.append(OVER, &self.1);
    }
}
