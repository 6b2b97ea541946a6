//! Adds a process's counts to the turn's record. Each process of a turn counts from zero.

use super::translator::Step;
use nexus_core::harness::TurnLog;

/// Usage of the earlier processes.
#[derive(Debug, Default)]
pub(crate) struct ProcessStats {
    model_calls: u32,
    usd: f64,
}

impl ProcessStats {
    /// Starts the counts of another process at zero.
    pub(crate) fn begin_process(&mut self, log: &TurnLog) {
        self.usd = log.recorder.cost.map_or(0.0, |cost| cost.usd.0);
        self.model_calls = log.model_calls;
    }

    /// Moves a step's events into the record. Leaves its writes and its outcome.
    pub(crate) fn absorb(&self, step: &mut Step, log: &mut TurnLog) {
        if let Some(model) = step.model.take() {
            log.provenance.model = Some(model);
        }
        if let Some(effort) = step.effort.take() {
            log.provenance.effort = Some(effort);
        }
        if let Some(version) = step.version.take() {
            log.provenance.version = Some(version);
        }
        if let Some(usage) = step.usage.take() {
            log.recorder.set_usage(usage);
        }
        if let Some(mut cost) = step.cost.take() {
            cost.usd.0 += self.usd;
            log.recorder.cost = Some(cost);
        }
        if let Some(resume) = step.resume.take() {
            log.resume = Some(resume);
        }
        if let Some(calls) = step.model_calls.take() {
            log.model_calls = self.model_calls.saturating_add(calls);
        }
        if let Some(conversation) = step.conversation.take() {
            log.name_conversation(&conversation);
        }
        for call in step.model_calls_ended.drain(..) {
            log.model_call_ended(&call);
        }
        for event in step.events.drain(..) {
            log.event(event);
        }
        if let Some(delay) = step.retry_delay.take() {
            log.retry_cause.set_delay(delay);
        }
    }
}
