//! Runs the agents of a step: chooses their work-kinds and bounds, and records and reports their turns.

use std::time::Duration;

use nexus_core::{Cost, EventEnvelope, Limits, ToolDefinition, TurnEvent, TurnHost, Usage};
use nexus_router::{FallbackRule, KindError, Router, WorkKind, spending::WorkLabel};
use nexus_work::{AgentFailure, AgentRecord, AgentReport, AgentRoute, AgentTurn, Assignment, run_agent};

use super::{
    attempt::StepAttempt,
    watcher::{AgentEnding, AgentProgress, StepAgent, StepRole},
};
use crate::{agent::AgentPhase, problem_brief::PlanEntry};

/// Tier and default phase of agents that change files.
const EXECUTION: (&str, &str) = ("execution", "implement");

impl StepAttempt<'_> {
    /// Returns the work-kind of an entry: by the name of its type, its tier and phase, or the tier on which its tier is based.
    pub(super) fn kind_of(&self, router: &Router, entry: &PlanEntry) -> WorkKind {
        let by_name = WorkKind::from(entry.agent_type());
        let by_phase = WorkKind::from((entry.tier(), entry.phase()));
        let like = self.types.built_in_tier(entry.tier()).unwrap_or(entry.tier());
        let mut kinds = vec![by_name, by_phase.clone(), WorkKind::from((like, entry.phase()))];
        // Every type that changes files can at least use the binding of executors.
        if like == EXECUTION.0 {
            kinds.push(WorkKind::from(EXECUTION));
        }
        kinds.into_iter().find(|kind| is_bound(router, kind)).unwrap_or(by_phase)
    }

    /// Returns the route of an entry's work. Unless the configuration says `never`, another backend may take over even after writes; the
    /// changes are undone first.
    pub(super) fn route_of(&self, router: &Router, entry: &PlanEntry) -> AgentRoute {
        let kind = self.kind_of(router, entry);
        match router.seat(0, &kind) {
            // Also replaces `continue`: a task repeats unfinished work rather than resuming it, so that the evidence is that of one agent.
            Ok(seat) if matches!(seat.fallback, FallbackRule::BeforeWrites | FallbackRule::Continue) => {
                AgentRoute::Seat(Box::new(seat.with_fallback(FallbackRule::Restore)))
            }
            // The turn reports an invalid work-kind.
            _ => AgentRoute::Kind(kind),
        }
    }

    /// Returns the limits of a turn, if `turns` of them run at once.
    pub(super) fn limits(&self, turns: usize) -> Limits {
        let mut limits = Limits::new().with_deadline(Duration::from_secs(self.settings.turn_seconds));
        if let Some(budget) = self.budget.as_ref().filter(|_| turns > 1) {
            budget.share(&mut limits, turns);
        }
        limits
    }

    /// Returns the host of a turn, without its session.
    pub(super) fn host(&self) -> TurnHost {
        let wait = self.settings.max_wait_seconds.longest();
        let host = TurnHost::new().with_cancel(self.cancel.child()).with_longest_wait(wait);
        match &self.budget {
            Some(budget) => host.with_budget(budget.clone()),
            None => host,
        }
    }

    /// Describes an agent of this attempt.
    pub(super) fn agent(
        &self,
        entry: usize,
        role: StepRole,
        agent_type: &str,
        phase: AgentPhase,
    ) -> StepAgent {
        let attempt = self.cursor.attempt;
        StepAgent { entry, attempt, role, agent_type: agent_type.to_owned(), phase }
    }

    /// Returns the log for an agent's turns.
    pub(super) fn record_of(&self, agent: &StepAgent) -> Option<AgentRecord> {
        let name = format!("{}.{} {agent}", agent.entry, agent.attempt);
        self.turns.clone().map(|file| AgentRecord { file, name })
    }

    /// Runs an agent, and reports its progress.
    pub(super) async fn run_agent<T>(
        &self,
        router: &Router,
        agent: &StepAgent,
        assignment: &Assignment<T>,
    ) -> AgentReport<T> {
        self.watcher.agent_began(agent);
        let most_tool_calls = assignment.tool_calls;
        let mut calls = CountedCalls::new(assignment.tools.definitions());
        let mut events = |event: EventEnvelope| {
            calls.see(&event.event);
            self.watcher.agent_event(
                agent,
                AgentProgress { tool_calls: calls.made, most_tool_calls },
                &event,
            );
        };
        // A seat has no type of its own.
        let router = router.labelled(WorkLabel::Type, agent.agent_type.as_str());
        let report = run_agent(&router, assignment, &mut events).await;
        self.watcher.agent_ended(agent, &ending(&report), &report.turns);
        for (handle, error) in &report.left_behind {
            let line = format!("{agent}: {} still stores its conversation: {error}", handle.backend());
            self.watcher.said(&line);
        }
        for error in &report.unrecorded {
            self.watcher.said(&format!("{agent}: parts of the record of its turns are missing: {error}"));
        }
        report
    }
}

/// Counts the tool calls of a turn that count towards its limit.
struct CountedCalls {
    /// Tools that submit an answer. Calls of them do not count.
    submissions: Vec<String>,
    made: u32,
}

impl CountedCalls {
    fn new(mut tools: Vec<ToolDefinition>) -> Self {
        tools.retain(|tool| tool.terminal);
        Self { submissions: tools.into_iter().map(|tool| tool.name).collect(), made: 0 }
    }

    fn see(&mut self, event: &TurnEvent) {
        match event {
            TurnEvent::ToolCallStarted(call) if !self.submissions.contains(&call.name) => self.made += 1,
            // Each turn, and each further backend of a turn, starts its own count.
            TurnEvent::Started(_) | TurnEvent::Fallback(_) => self.made = 0,
            _ => {}
        }
    }
}

/// Returns true if a work-kind is bound, to a group or to a panel.
pub(super) fn is_bound(router: &Router, kind: &WorkKind) -> bool {
    !matches!(router.binding(kind), Err(KindError::Unknown(_)))
}

/// Returns the reason why an agent submitted nothing, without names of vendors.
pub(super) fn reason_of(agent: &StepAgent, failure: &AgentFailure) -> String {
    match failure {
        AgentFailure::Turn { .. } => format!("the turn of {agent} failed"),
        AgentFailure::Unrecorded { .. } => format!("the turn of {agent} cannot be recorded"),
        AgentFailure::Refused { .. } => format!("too many submissions of {agent} were rejected"),
        AgentFailure::Silent { .. } => format!("{agent} ended without a submission"),
    }
}

fn ending<T>(report: &AgentReport<T>) -> AgentEnding {
    let used = |turn: &AgentTurn| match &turn.outcome {
        Ok(result) => (result.usage, result.cost),
        Err(error) => (error.partial().usage, error.partial().cost),
    };
    let (mut usage, mut cost) = (Usage::new(), None);
    for turn in &report.turns {
        let (of_turn, cost_of_turn) = used(turn);
        usage = usage.plus(&of_turn);
        cost = sum(cost, cost_of_turn);
    }
    AgentEnding {
        failure: report.answer.as_ref().err().map(ToString::to_string),
        vendor: report.turns.last().and_then(|turn| turn.vendor.clone()),
        turns: report.turns.len(),
        tool_calls: report.turns.iter().map(|turn| turn.session.calls_made()).sum(),
        usage,
        cost,
    }
}

fn sum(one: Option<Cost>, other: Option<Cost>) -> Option<Cost> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.plus(&other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use nexus_core::{
        Effects,
        turn::{Started, ToolCallStarted, ToolOrigin},
    };

    use super::*;

    #[test]
    fn submissions_do_not_count_as_tool_calls() {
        let tool = |name: &str| ToolDefinition::new(name, "", serde_json::json!({ "type": "object" }));
        let mut calls = CountedCalls::new(vec![tool("read_file"), tool("submit_handoff").terminal()]);
        let mut counted = Vec::new();
        for name in ["read_file", "submit_handoff", "read_file", "", "Read"] {
            calls.see(&match name {
                "" => TurnEvent::Started(Started::new("beta".into())),
                name => TurnEvent::ToolCallStarted(ToolCallStarted::new(
                    "c".into(),
                    name,
                    ToolOrigin::Caller,
                    Effects::Unknown,
                )),
            });
            counted.push(calls.made);
        }
        assert_eq!(counted, [1, 1, 2, 0, 1]);
    }
}
