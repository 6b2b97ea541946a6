//! Adds a process's counts to the turn's record. Each process of a turn counts from zero.

use std::sync::Arc;

use nexus_core::{
    ErrorKind, Limit, Limits, ModelId, Usage,
    harness::{Failure, TurnLog},
    turn::Cost,
};

use super::translator::Step;
use crate::prices::Prices;

/// Counts of the earlier processes, and the cost of the current one.
#[derive(Debug, Default)]
pub(crate) struct ProcessStats {
    /// Number of model calls of the earlier processes.
    model_calls: u32,
    /// Usage of the earlier processes.
    usage: Usage,
    /// Cost of the earlier processes.
    cost: Option<Cost>,
    prices: Arc<Prices>,
    /// Model of the request, if it names one.
    requested: Option<ModelId>,
    /// True if the program never reports a cost, so that prices give the cost during the turn.
    is_cost_computed: bool,
    /// True once the process has reported a cost, which replaces a computed one.
    has_reported_cost: bool,
    /// Usage of the process for which its cost was computed last.
    priced: Option<Usage>,
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
    pub(crate) fn begin_process(&mut self, log: &mut TurnLog) {
        // The last tokens of the earlier process may have no cost yet.
        self.compute_cost(log);
        self.model_calls = log.model_calls;
        self.usage = log.recorder.usage();
        self.cost = log.recorder.cost;
        self.has_reported_cost = false;
        self.priced = None;
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
            log.recorder.set_usage(self.usage.plus(&usage));
        }
        if let Some(cost) = step.cost.take() {
            log.recorder.cost = Some(self.plus_earlier(cost));
            // Programs report 0 for a model whose price they do not know, so a configured price replaces it.
            self.has_reported_cost = cost.usd.0 > 0.0 || self.prices.is_empty();
            self.priced = None;
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

    /// Computes the cost of the tokens of the current process, unless the process has reported one.
    pub(crate) fn compute_cost(&mut self, log: &mut TurnLog) {
        let usage = self.usage_of_process(log);
        let has_tokens = usage.total_tokens().is_some_and(|tokens| tokens > 0);
        if self.prices.is_empty() || self.has_reported_cost || !has_tokens || self.priced == Some(usage) {
            return;
        }
        let answered = log.provenance.model.as_ref();
        // Prices are listed under the names that requests send.
        let Some(model) = self.requested.as_ref().or(answered) else { return };
        if let Some(cost) = self.prices.cost(model, answered, &usage) {
            log.recorder.cost = Some(self.plus_earlier(cost));
            self.priced = Some(usage);
        }
    }

    /// Returns the cost of the turn, if `cost` is the one of the current process.
    fn plus_earlier(&self, cost: Cost) -> Cost {
        self.cost.map_or(cost, |earlier| earlier.plus(&cost))
    }

    fn usage_of_process(&self, log: &TurnLog) -> Usage {
        difference(&log.recorder.usage(), &self.usage)
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
            && !self.has_reported_cost
            && self.priced.is_none()
            && self.usage_of_process(log).total_tokens().is_some_and(|tokens| tokens > 0);
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

/// Returns the counts of `total` without those of `before`.
pub(crate) fn difference(total: &Usage, before: &Usage) -> Usage {
    let rest = |total: Option<u64>, before: Option<u64>| {
        total.map(|total| total.saturating_sub(before.unwrap_or(0)))
    };
    let mut usage = Usage::new();
    usage.input_tokens = rest(total.input_tokens, before.input_tokens);
    usage.cache_read_tokens = rest(total.cache_read_tokens, before.cache_read_tokens);
    usage.cache_write_tokens = rest(total.cache_write_tokens, before.cache_write_tokens);
    usage.output_tokens = rest(total.output_tokens, before.output_tokens);
    usage.reasoning_tokens = rest(total.reasoning_tokens, before.reasoning_tokens);
    usage
}

#[cfg(test)]
mod tests {
    use nexus_core::turn::{CostSource, Usd};
    use serde_json::json;

    use super::*;

    fn usage(input: u64, output: u64) -> Usage {
        let mut usage = Usage::new();
        (usage.input_tokens, usage.output_tokens) = (Some(input), Some(output));
        usage
    }

    /// Counts of a program with a price of a dollar for each token of the model `m`.
    fn stats(never_reports_cost: bool) -> (ProcessStats, TurnLog) {
        let price = json!({ "m": { "input": 1_000_000, "output": 1_000_000 } });
        let prices: Prices = serde_json::from_value(price).unwrap();
        let stats = ProcessStats::default().with_prices(prices.into(), Some("m".into()), never_reports_cost);
        (stats, TurnLog::new("b".into(), Some("m".into()), None))
    }

    fn reports(usage: Option<Usage>, usd: Option<f64>) -> Step {
        let cost = usd.map(|usd| Cost { usd: Usd(usd), source: CostSource::Reported });
        Step { usage, cost, ..Step::default() }
    }

    #[test]
    fn each_process_has_its_own_price() {
        let costs = |first: Option<f64>, second: Option<f64>| {
            let (mut stats, mut log) = stats(false);
            stats.begin_process(&mut log);
            stats.absorb(&mut reports(Some(usage(10, 5)), first), &mut log);
            stats.begin_process(&mut log);
            stats.absorb(&mut reports(Some(usage(2, 1)), second), &mut log);
            stats.compute_cost(&mut log);
            assert_eq!(log.recorder.usage(), usage(12, 6), "no process loses its tokens");
            let cost = log.recorder.cost.unwrap();
            (cost.usd.0, cost.source)
        };
        assert_eq!(costs(None, Some(0.5)), (15.5, CostSource::Estimated));
        assert_eq!(costs(Some(0.5), None), (3.5, CostSource::Estimated));
        assert_eq!(costs(None, None), (18.0, CostSource::Estimated));
        assert_eq!(costs(Some(0.5), Some(0.25)), (0.75, CostSource::Reported));
    }

    #[test]
    fn a_reported_cost_of_zero_is_no_cost_if_the_tokens_have_a_price() {
        let (mut stats, mut log) = stats(false);
        stats.absorb(&mut reports(Some(usage(2, 1)), Some(0.0)), &mut log);
        stats.compute_cost(&mut log);
        assert_eq!(log.recorder.cost.unwrap().usd, Usd(3.0));

        // Without tokens, or a price of the model, it is the only report.
        for (counts, model) in [(usage(0, 0), "m"), (usage(2, 1), "other")] {
            let (mut stats, mut log) = self::stats(false);
            stats.requested = Some(model.into());
            log.provenance.model = Some(model.into());
            stats.absorb(&mut reports(Some(counts), Some(0.0)), &mut log);
            stats.compute_cost(&mut log);
            let cost = log.recorder.cost.unwrap();
            assert_eq!((cost.usd, cost.source), (Usd(0.0), CostSource::Reported), "{model}");
        }
    }

    #[test]
    fn the_cost_of_a_later_process_can_be_unknown() {
        let (mut stats, mut log) = stats(true);
        let limits = Limits::new().with_cost(Usd(100.0));
        stats.absorb(&mut reports(Some(usage(2, 1)), None), &mut log);
        assert!(stats.unknown_cost(&log, &limits).is_none());
        stats.begin_process(&mut log);
        assert!(stats.unknown_cost(&log, &limits).is_none());
        stats.requested = None;
        log.provenance.model = Some("other".into());
        stats.absorb(&mut reports(Some(usage(2, 1)), None), &mut log);
        assert!(stats.unknown_cost(&log, &limits).is_some());
    }
}
