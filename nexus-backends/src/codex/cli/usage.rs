//! Token usage of a turn, computed from the running totals of its conversations.

use std::collections::HashMap;

use nexus_core::Usage;

use super::wire::{ThreadUsage, Tokens};

/// Counter of a turn's tokens. The program reports totals of a whole conversation, including earlier turns.
#[derive(Debug, Default)]
pub(super) struct UsageTotals {
    threads: HashMap<String, TokenSpan>,
    model_calls: u32,
}

/// Total of a conversation before the turn's first model call, and its current total.
#[derive(Debug)]
struct TokenSpan {
    before: Tokens,
    now: Tokens,
}

impl UsageTotals {
    /// Adds the report after a model call of `thread`, and returns the usage of that call.
    pub(super) fn take(&mut self, thread: String, usage: &ThreadUsage) -> Option<Usage> {
        let before = usage.total.less(&usage.last);
        let span = self.threads.entry(thread).or_insert(TokenSpan { before, now: before });
        // After a rejected call, the program repeats the report of the previous one.
        if span.now == usage.total {
            return None;
        }
        self.model_calls = self.model_calls.saturating_add(1);
        span.now = usage.total;
        Some(usage.last.buckets())
    }

    /// Returns the number of reported model calls.
    pub(super) fn model_calls(&self) -> u32 {
        self.model_calls
    }

    /// Returns the usage since the turn began, including sub-agents.
    pub(super) fn usage(&self) -> Usage {
        let spans = self.threads.values().map(|span| span.now.less(&span.before).buckets());
        spans.fold(Usage::new(), |sum, usage| sum.plus(&usage))
    }
}

impl Tokens {
    fn less(&self, other: &Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_sub(other.input_tokens),
            cached_input_tokens: self.cached_input_tokens.saturating_sub(other.cached_input_tokens),
            cache_write_input_tokens: self
                .cache_write_input_tokens
                .saturating_sub(other.cache_write_input_tokens),
            output_tokens: self.output_tokens.saturating_sub(other.output_tokens),
            reasoning_output_tokens: self
                .reasoning_output_tokens
                .saturating_sub(other.reasoning_output_tokens),
        }
    }

    /// Converts the counts into categories that do not overlap.
    fn buckets(&self) -> Usage {
        let from_cache = self.cached_input_tokens.saturating_add(self.cache_write_input_tokens);
        let mut usage = Usage::new();
        usage.input_tokens = Some(self.input_tokens.saturating_sub(from_cache));
        usage.cache_read_tokens = Some(self.cached_input_tokens);
        usage.cache_write_tokens = Some(self.cache_write_input_tokens);
        usage.output_tokens = Some(self.output_tokens.saturating_sub(self.reasoning_output_tokens));
        usage.reasoning_tokens = Some(self.reasoning_output_tokens);
        usage
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tokens(input: u64, cached: u64, output: u64, reasoning: u64) -> Tokens {
        Tokens {
            input_tokens: input,
            cached_input_tokens: cached,
            output_tokens: output,
            reasoning_output_tokens: reasoning,
            ..Tokens::default()
        }
    }

    fn usage(total: Tokens) -> ThreadUsage {
        ThreadUsage { total, last: tokens(120, 40, 30, 10), model_context_window: None }
    }

    #[test]
    fn an_unreadable_window_costs_no_other_count() {
        for (window, expected) in [(json!(200.0), Some(200)), (json!(-1), None), (json!(0.5), None)] {
            let usage = json!({ "total": {}, "last": { "inputTokens": 7 }, "modelContextWindow": window });
            let read: ThreadUsage = serde_json::from_value(usage).unwrap();
            assert_eq!((read.last.input_tokens, read.model_context_window), (7, expected));
        }
    }

    #[test]
    fn a_resumed_conversation_counts_from_where_it_stood() {
        let mut totals = UsageTotals::default();
        totals.take("t".into(), &usage(tokens(240, 80, 60, 20)));
        totals.take("t".into(), &usage(tokens(360, 120, 90, 30)));
        let usage = totals.usage();
        assert_eq!(usage.input_tokens, Some(160));
        assert_eq!(usage.cache_read_tokens, Some(80));
        assert_eq!(usage.output_tokens, Some(40));
        assert_eq!(usage.reasoning_tokens, Some(20));
        assert_eq!(totals.model_calls(), 2);
    }
}
