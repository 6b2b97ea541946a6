//! Activity of a task's agents: a progress line for a person, and the log.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use nexus_core::{
    BackendId, EventEnvelope, RecordedOutcome, Skipped, TurnEvent, TurnRecord, harness::try_blocking,
    turn::WaitingForReset,
};
use nexus_files::rfc3339;
use nexus_work::{AgentTurn, LoggedTurn, WorkspaceEvent};
use serde_json::json;
use tokio::sync::{mpsc, watch};

use crate::{
    agent::AgentPhase,
    step::{AgentEnding, AgentProgress, StepAgent, StepWatcher},
    store::{Task, TaskLogEvent},
};

/// Name of a cartographer's turns in the turn log.
pub(super) const MAP_TURNS: &str = "map";

/// Writes the log of a task in the background, so that no caller waits for the disk.
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
                // The log is informative only, so a failed write is ignored.
                let _ = try_blocking(move || task.log(&event)).await;
            }
        });
        Self { sender, writing }
    }

    pub(super) fn log(&self, event: TaskLogEvent) {
        // The writer ends before its senders only when the runtime shuts down.
        let _ = self.sender.send(event);
    }

    pub(super) fn sender(&self) -> mpsc::UnboundedSender<TaskLogEvent> {
        self.sender.clone()
    }

    /// Waits until all events are written.
    pub(super) async fn finish(self) {
        // The writer ends when the last sender is dropped, so watchers with a clone have to be dropped before.
        drop(self.sender);
        let _ = self.writing.await;
    }
}

/// Watches one attempt at a step.
pub(super) struct AttemptWatcher {
    said: watch::Sender<String>,
    log: mpsc::UnboundedSender<TaskLogEvent>,
    /// `step 1 of 3`, with the number of the retry if it is not the first attempt.
    place: String,
    working: Mutex<BTreeMap<String, String>>,
    waiting: Mutex<BTreeMap<String, AgentWait>>,
}

/// Wait of one agent for the reset of a vendor's limit.
#[derive(Debug, Default)]
pub(super) struct AgentWait(Option<WaitingForReset>);

impl AgentWait {
    /// Follows an event of the agent's turn. Returns the event for the log if a wait began, changed or ended.
    pub(super) fn see(
        &mut self,
        attempt: Option<u32>,
        agent: &str,
        event: &TurnEvent,
    ) -> Option<TaskLogEvent> {
        let agent = agent.to_owned();
        if let TurnEvent::Waiting(waiting) = event {
            let backends = waiting.held.iter().map(|held| held.backend.to_string()).collect();
            let reasons: Vec<_> = waiting.held.iter().map(|held| held.reason.as_str()).collect();
            let (until, reason) = (rfc3339::seconds(waiting.until), reasons.join("; "));
            self.0 = Some(waiting.clone());
            return Some(TaskLogEvent::WaitBegan { attempt, agent, until, backends, reason });
        }
        // Any other event of the turn shows that the wait is over.
        self.0.take().map(|_| TaskLogEvent::WaitEnded { attempt, agent })
    }

    /// Returns the wait as the end of a progress line: `waits until 2026-05-04T10:00:00Z for alpha`.
    pub(super) fn in_words(&self) -> Option<String> {
        let waiting = self.0.as_ref()?;
        let backends: Vec<_> = waiting.held.iter().map(|held| held.backend.as_str()).collect();
        Some(format!("waits until {} for {}", rfc3339::seconds(waiting.until), backends.join(", ")))
    }
}

impl AttemptWatcher {
    pub(super) fn new(
        said: watch::Sender<String>,
        log: mpsc::UnboundedSender<TaskLogEvent>,
        place: String,
    ) -> Self {
        Self { said, log, place, working: Mutex::default(), waiting: Mutex::default() }
    }

    /// Updates the activity of one agent, and publishes that of all agents.
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

/// Returns the activity of an agent of this phase, as a verb.
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
            phase: agent.phase.name().to_owned(),
        });
        self.say(&who, Some(format!("{} ({who}) {}", agent.agent_type, does(agent.phase))));
    }

    fn agent_event(&self, agent: &StepAgent, progress: AgentProgress, event: &EventEnvelope) {
        let who = agent.to_string();
        let waits = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let wait = waiting.entry(who.clone()).or_default();
            if let Some(changed) = wait.see(Some(agent.attempt), &who, &event.event) {
                let _ = self.log.send(changed);
            }
            wait.in_words()
        };
        if let Some(waits) = waits {
            self.say(&who, Some(format!("{} ({who}) {waits}", agent.agent_type)));
            return;
        }
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
            let turn = LoggedTurn::of(turn, Some(agent.attempt), &who, &agent.agent_type, agent.phase.name());
            let _ = self.log.send(TaskLogEvent::TurnEnded(turn));
        }
        self.say(&who, None);
    }

    fn said(&self, line: &str) {
        self.said.send_replace(format!("{}: {line}", self.place));
    }
}

/// Adds to the log those recorded turns of a task that it lacks. A turn is logged when its agent ends, so the turns of an agent that was
/// killed with its process are missing. Only agents that `is_meant` accepts count; none of them may be running.
pub(super) fn log_unlogged(task: &Task, is_meant: impl Fn(&str) -> bool) {
    let (Ok(turns), Ok(log)) = (task.turn_log(), task.events()) else { return };
    let is_logged = |id: &str| {
        let known = log.events.iter().filter_map(|event| event.data.get("turn"));
        known.filter_map(serde_json::Value::as_str).any(|known| known == id)
    };
    for turn in &turns.turns {
        let (agent, purpose) = turn.name.rsplit_once(' ').unwrap_or((&turn.name, ""));
        if is_meant(agent) && !is_logged(&turn.id) {
            // The log is informative only, so a failed write is ignored.
            let _ = task.log(&TaskLogEvent::TurnEnded(logged(turn, agent, purpose, &log.events)));
        }
    }
}

/// Converts the record of a turn for the log. The record does not name the type and phase of the agent, so they come from the log's
/// entry for the agent's beginning.
fn logged(turn: &TurnRecord, name: &str, purpose: &str, log: &[WorkspaceEvent]) -> LoggedTurn {
    // The name format of `StepAttempt::record_of`: `0.3 unit 1`.
    let (place, agent) = name.split_once(' ').unwrap_or(("", name));
    let attempt = place.split_once('.').and_then(|(_, attempt)| attempt.parse().ok());
    let begun_as = |key: &str| {
        let is_begun = |event: &&WorkspaceEvent| {
            let data = &event.data;
            event.kind == "agent_began" && data["agent"] == agent && data["attempt"] == json!(attempt)
        };
        log.iter().rev().find(is_begun).and_then(|event| event.data[key].as_str())
    };
    let started = turn.events.iter().rev().find_map(|envelope| match &envelope.event {
        TurnEvent::Started(started) => Some(started),
        _ => None,
    });
    let number = |is_meant: fn(&TurnEvent) -> bool| {
        u32::try_from(turn.events.iter().filter(|envelope| is_meant(&envelope.event)).count())
            .unwrap_or(u32::MAX)
    };
    let begun = number(|event| matches!(event, TurnEvent::Started(_)));
    let (usage, provenance, error) = (turn.usage_so_far(), turn.provenance(), turn.error());
    let backend = provenance
        .map(|provenance| &provenance.backend)
        .or_else(|| error.map(|error| &error.backend))
        .or_else(|| started.map(|started| &started.backend));
    let calls = turn.result().map(|result| &result.tool_calls);
    let calls = calls.or_else(|| error.map(|error| &error.partial.tool_calls));
    let failure = match &turn.outcome {
        None => Some("interrupted, because the program that ran it ended".to_owned()),
        Some(RecordedOutcome::Result(_)) => None,
        Some(RecordedOutcome::Error(error)) => Some(format!(
            "{:?}: {}",
            error.kind,
            error.message.as_deref().unwrap_or(
                "it reported no reason \
                for its failure"
            )
        )),
        Some(_) => Some("ended with an outcome that this version cannot read".to_owned()),
    };
    LoggedTurn {
        turn: Some(turn.id.clone()),
        attempt,
        agent: agent.to_owned(),
        agent_type: begun_as("agent_type").unwrap_or_default().to_owned(),
        phase: begun_as("phase").unwrap_or_else(|| phase_of(agent)).to_owned(),
        purpose: purpose.to_owned(),
        backend: backend.cloned().unwrap_or_else(|| BackendId::new("unknown")),
        vendor: None,
        model: provenance
            .and_then(|provenance| provenance.model.clone())
            .or_else(|| started.and_then(|started| started.model.clone())),
        effort: provenance.and_then(|provenance| provenance.effort).map(|effort| effort.applied.to_string()),
        cost: turn.cost(),
        input_tokens: usage.all_input_tokens(),
        output_tokens: usage.all_output_tokens(),
        attempts: provenance.map(|provenance| provenance.attempts).or((begun > 0).then_some(begun)),
        skipped: provenance.map_or_else(Vec::new, |provenance| {
            let reason = |skipped: &Skipped| format!("{}: {}", skipped.backend, skipped.reason);
            provenance.skipped.iter().map(reason).collect()
        }),
        effects: Some(turn.effects()),
        tool_calls: calls.map_or_else(
            || number(|event| matches!(event, TurnEvent::ToolCallStarted(_))),
            |calls| u32::try_from(calls.len()).unwrap_or(u32::MAX),
        ),
        failure,
    }
}

/// Returns the phase of an agent without an entry in the log, by the name of its turns. A unit of either phase has the same name, so its
/// phase is unknown.
fn phase_of(agent: &str) -> &'static str {
    match agent.split(' ').next() {
        Some("seat") => "review",
        Some("reflector") => "reflect",
        Some("framing") => "orchestrate",
        Some(MAP_TURNS) => "cartographer",
        _ => "unknown",
    }
}
