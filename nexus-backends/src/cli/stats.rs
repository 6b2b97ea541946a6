//! Adds a process's counts to the turn's record. Each process of a turn counts from zero.

use std::sync::Arc;

use nexus_core::{
    ErrorKind, Limit, Limits, ModelId, Usage,
    harness::{Failure, TurnLog},
};

use super::translator::Step;
use crate::prices::Prices;

/// Usage of the earlier processes, and the cost of the turn.
#[derive(Debug, Default)]
pub(crate) struct ProcessStats {
    model_calls: u32,
    usd: f64,
    prices: Arc<Prices>,
    /// Model of the request, if it names one.
    requested: Option<ModelId>,
    /// True if the program never reports a cost, so that prices give the cost during the turn.
    is_cost_computed: bool,
    /// True once the program has reported a cost, which replaces a computed one.
    has_reported_cost: bool,
    /// Usage of the last computed cost.
    priced: Usage,
}

impl ProcessStats {
    /// Sets the prices for a program that reports tokens and no cost. `never_reports_cost`: the program never does.
    pub(crate) fn with_prices(
        mut self,
        prices: Arc<Prices>,
        requested: Option<ModelId>,
        never_reports_cost: bool,
    ) -> Self {
        self.is_cost_computed = never_reports_cost && !prices.is_empty();
        (self.prices, self.requested) = (prices, requested);
        self
    }

    /// Starts the counts of another process at zero.
    pub(crate) fn begin_process(&mut self, log: &TurnLog) {
        self.usd = log.recorder.cost.map_or(0.0, |cost| cost.usd.0);
        self.model_calls = log.model_calls;
    }

    /// Moves a step's events into the record. Leaves its writes and its outcome.
    pub(crate) fn absorb(&mut self, step: &mut Step, log: &mut TurnLog) {
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
            self.has_reported_cost = true;
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
        if self.is_cost_computed {
            self.compute_cost(log);
        }
    }

    /// Computes the cost of the turn's tokens, unless the program has reported one.
    pub(crate) fn compute_cost(&mut self, log: &mut TurnLog) {
        let usage = log.recorder.usage();
        if self.prices.is_empty() || self.has_reported_cost || usage == self.priced {
            return;
        }
        let answered = log.provenance.model.as_ref();
        let Some(model) = self.requested.as_ref().or(answered) else { return };
        if let Some(cost) = self.prices.cost(model, answered, &usage) {
            log.recorder.cost = Some(cost);
            self.priced = usage;
        }
    }

    /// Rejects a limit on cost that prices enforce, if the requested model has none.
    pub(crate) fn check_price(&self, limits: &Limits) -> Result<(), Failure> {
        match &self.requested {
            Some(model) if self.is_cost_computed && limits.cost.is_some() && !self.prices.has(model) => {
                Err(Prices::missing(model))
            }
            _ => Ok(()),
        }
    }

    /// Returns the failure of a turn with a limit on cost, if tokens were used whose cost is not known.
    pub(crate) fn unknown_cost(&self, log: &TurnLog, limits: &Limits) -> Option<Failure> {
        let is_unknown = self.is_cost_computed
            && log.recorder.cost.is_none()
            && log.recorder.usage().total_tokens().is_some_and(|tokens| tokens > 0);
        if limits.cost.is_none() || !is_unknown {
            return None;
        }
        let model = log.provenance.model.as_ref().map_or("this model", ModelId::as_str);
        let reason = format!(
            "the cost of {model} is not known: add its price to `prices` of this backend in nexus.yaml, or remove the limit on \
             cost"
        );
        Some(Failure::new(ErrorKind::LimitReached(Limit::Cost), reason))
    }
}
