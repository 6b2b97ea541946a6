//! What the agents of a task do: a line for a person, and the log.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use nexus_core::EventEnvelope;
use tokio::sync::{mpsc, watch};

use super::blocking::blocking;
use crate::{
    agent::{AgentPhase, AgentTurn},
    step::{AgentEnding, AgentProgress, StepAgent, StepWatcher},
    store::{LoggedTurn, Task, TaskLogEvent},
};

/// Writes the log of a task beside its work: whoever has something to say does not wait for the disk.
#[derive(Debug)]
pub(super) struct LogWriter {
    sender: mpsc::UnboundedSender<TaskLogEvent>,
    writing: tokio::task::JoinHandle<()>,
}

impl LogWriter {
    pub(super) fn of(task: &Task) -> Self {
        let (sender, mut events) = mpsc::unbounded_channel::<TaskLogEvent>();
        let task = task.clone();
        let writing = tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                let task = task.clone();
                // What cannot be written is missing in the log, and nowhere else.
                let _ = blocking(move || task.log(&event)).await;
            }
        });
        Self { sender, writing }
    }

    pub(super) fn log(&self, event: TaskLogEvent) {
        let _ = self.sender.send(event);
    }

    pub(super) fn sender(&self) -> mpsc::UnboundedSender<TaskLogEvent> {
        self.sender.clone()
    }

    /// Comes back when all of it is written.
    pub(super) async fn finish(self) {
        drop(self.sender);
        let _ = self.writing.await;
    }
}

/// Watches one attempt at a step.
pub(super) struct AttemptWatcher {
    said: watch::Sender<String>,
    log: mpsc::UnboundedSender<TaskLogEvent>,
    /// `step 1 of 3`, and the attempt if it is not the first.
    place: String,
    working: Mutex<BTreeMap<String, String>>,
}

impl AttemptWatcher {
    pub(super) fn new(
        said: watch::Sender<String>,
        log: mpsc::UnboundedSender<TaskLogEvent>,
        place: String,
    ) -> Self {
        Self { said, log, place, working: Mutex::default() }
    }

    /// Changes what one agent is known to do, and says what all of them do.
    fn say(&self, agent: &str, does: Option<String>) {
        let mut working = self.working.lock().unwrap_or_else(PoisonError::into_inner);
        match does {
            Some(does) => working.insert(agent.to_owned(), does),
            None => working.remove(agent),
        };
        let all: Vec<&str> = working.values().map(String::as_str).collect();
        let line = match all.as_slice() {
            [] => self.place.clone(),
            all => format!("{}: {}", self.place, all.join("; ")),
        };
        self.said.send_replace(line);
    }
}

/// What an agent of this phase does, in a word.
fn does(phase: AgentPhase) -> &'static str {
    match phase {
        AgentPhase::Orchestrate => "plans",
        AgentPhase::Implement => "works",
        AgentPhase::Survey | AgentPhase::Cartographer => "reads",
        AgentPhase::Review => "reviews",
        AgentPhase::Reflect => "reflects",
    }
}

impl StepWatcher for AttemptWatcher {
    fn agent_began(&self, agent: &StepAgent) {
        let who = agent.to_string();
        let _ = self.log.send(TaskLogEvent::AgentBegan {
            attempt: Some(agent.attempt),
            agent: who.clone(),
            agent_type: agent.agent_type.clone(),
        });
        self.say(&who, Some(format!("{} ({who}) {}", agent.agent_type, does(agent.phase))));
    }

    fn agent_event(&self, agent: &StepAgent, progress: AgentProgress, _event: &EventEnvelope) {
        let who = agent.to_string();
        let AgentProgress { tool_calls, most_tool_calls } = progress;
        let line = format!(
            "{} ({who}) {}, {tool_calls} of {most_tool_calls} tool calls",
            agent.agent_type,
            does(agent.phase)
        );
        self.say(&who, Some(line));
    }

    fn agent_ended(&self, agent: &StepAgent, _ending: &AgentEnding, turns: &[AgentTurn]) {
        let who = agent.to_string();
        for turn in turns {
            let turn = logged_turn(turn, Some(agent.attempt), &who, &agent.agent_type, agent.phase);
            let _ = self.log.send(TaskLogEvent::TurnEnded(turn));
        }
        self.say(&who, None);
    }

    fn said(&self, line: &str) {
        self.said.send_replace(format!("{}: {line}", self.place));
    }
}

/// A turn as the log has it.
pub(super) fn logged_turn(
    turn: &AgentTurn,
    attempt: Option<u32>,
    agent: &str,
    agent_type: &str,
    phase: AgentPhase,
) -> LoggedTurn {
    let (partial, result) = match &turn.outcome {
        Ok(result) => (None, Some(result)),
        Err(error) => (Some(error.partial()), None),
    };
    let provenance = result
        .map(|result| &result.provenance)
        .or_else(|| partial.and_then(|partial| partial.provenance.as_ref()));
    let usage = result.map(|result| result.usage).or_else(|| partial.map(|partial| partial.usage));
    let calls =
        result.map(|result| &result.tool_calls).or_else(|| partial.map(|partial| &partial.tool_calls));
    LoggedTurn {
        turn: turn.recorded_as.clone(),
        attempt,
        agent: agent.to_owned(),
        agent_type: agent_type.to_owned(),
        phase: format!("{phase:?}").to_lowercase(),
        purpose: turn.purpose.to_string(),
        backend: turn.backend.clone(),
        vendor: turn.vendor.clone(),
        model: provenance.and_then(|provenance| provenance.model.clone()),
        effort: provenance.and_then(|provenance| provenance.effort).map(|effort| effort.applied.to_string()),
        cost: result.and_then(|result| result.cost).or_else(|| partial.and_then(|partial| partial.cost)),
        input_tokens: usage.and_then(|usage| usage.all_input_tokens()),
        output_tokens: usage.and_then(|usage| usage.all_output_tokens()),
        attempts: provenance.map(|provenance| provenance.attempts),
        skipped: provenance
            .map(|provenance| {
                provenance
                    .skipped
                    .iter()
                    .map(|skipped| format!("{}: {}", skipped.backend, skipped.reason))
                    .collect()
            })
            .unwrap_or_default(),
        effects: result.map(|result| result.effects).or_else(|| partial.map(|partial| partial.effects)),
        tool_calls: calls.map_or(0, |calls| u32::try_from(calls.len()).unwrap_or(u32::MAX)),
        failure: turn.outcome.as_ref().err().map(|error| format!("{:?}: {error}", error.kind())),
    }
}
