//! Token counts and cost that a server reports, in categories that share no token.

use nexus_core::{
    Usage,
    turn::{Cost, CostSource, Usd},
};

use serde::Deserialize;

use super::lenient::{Amount, Count, Object};
use super::plain_json::plain_object;

/// Token counts and cost, as servers report them. Input includes cached tokens, output includes reasoning.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct UsageReport {
    pub(crate) input_tokens: Count,
    pub(crate) output_tokens: Count,
    /// Name in the chat API, which servers that began with that API still use.
    pub(crate) prompt_tokens: Count,
    /// Name in the chat API.
    pub(crate) completion_tokens: Count,
    pub(crate) input_tokens_details: Object<InputDetails>,
    pub(crate) output_tokens_details: Object<OutputDetails>,
    pub(crate) prompt_tokens_details: Object<InputDetails>,
    pub(crate) completion_tokens_details: Object<OutputDetails>,
    /// Cached input in a member outside of the details, as DeepSeek reports it.
    pub(crate) prompt_cache_hit_tokens: Count,
    /// Cached input in a member outside of the details, as Moonshot reports it.
    pub(crate) cached_tokens: Count,
    /// Cost in ticks, of which 10^10 are one US dollar. Source: observed.
    pub(crate) cost_in_usd_ticks: Amount,
    /// Cost in US dollars, as OpenRouter reports it.
    pub(crate) cost: Amount,
}

/// Numbers of input tokens that came from a cache or were written to one.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct InputDetails {
    pub(crate) cached_tokens: Count,
    pub(crate) cache_write_tokens: Count,
}

/// Number of output tokens used for reasoning.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct OutputDetails {
    pub(crate) reasoning_tokens: Count,
}

plain_object!(UsageReport {
    "input_tokens" => input_tokens,
    "output_tokens" => output_tokens,
    "prompt_tokens" => prompt_tokens,
    "completion_tokens" => completion_tokens,
    "input_tokens_details" => input_tokens_details,
    "output_tokens_details" => output_tokens_details,
    "prompt_tokens_details" => prompt_tokens_details,
    "completion_tokens_details" => completion_tokens_details,
    "prompt_cache_hit_tokens" => prompt_cache_hit_tokens,
    "cached_tokens" => cached_tokens,
    "cost_in_usd_ticks" => cost_in_usd_ticks,
    "cost" => cost,
});
plain_object!(InputDetails { "cached_tokens" => cached_tokens, "cache_write_tokens" => cache_write_tokens });
plain_object!(OutputDetails { "reasoning_tokens" => reasoning_tokens });

/// Ticks to one United States dollar. Source: observed.
const TICKS_PER_USD: f64 = 1e10;

/// Converts the report into token counts. The report includes cached tokens in the input, and reasoning in the output.
pub(crate) fn usage(report: &UsageReport) -> Usage {
    let chat_input = report.prompt_tokens_details.0.as_ref();
    let input = report.input_tokens_details.0.as_ref().or(chat_input);
    let chat_output = report.completion_tokens_details.0.as_ref();
    let output = report.output_tokens_details.0.as_ref().or(chat_output);

    let mut usage = Usage::new();
    usage.cache_read_tokens = input
        .and_then(|details| details.cached_tokens.0)
        .or(report.prompt_cache_hit_tokens.0)
        .or(report.cached_tokens.0);
    usage.cache_write_tokens = input.and_then(|details| details.cache_write_tokens.0);
    usage.reasoning_tokens = output.and_then(|details| details.reasoning_tokens.0);
    usage.input_tokens = report.input_tokens.0.or(report.prompt_tokens.0).map(|all| {
        all.saturating_sub(usage.cache_read_tokens.unwrap_or(0))
            .saturating_sub(usage.cache_write_tokens.unwrap_or(0))
    });
    usage.output_tokens = report
        .output_tokens
        .0
        .or(report.completion_tokens.0)
        .map(|all| all.saturating_sub(usage.reasoning_tokens.unwrap_or(0)));
    usage
}

/// Returns the cost, if the server reports one.
pub(crate) fn cost(report: &UsageReport) -> Option<Cost> {
    let usd = report.cost_in_usd_ticks.0.map(|ticks| ticks / TICKS_PER_USD).or(report.cost.0)?;
    Some(Cost { usd: Usd(usd), source: CostSource::Reported })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(json: &str) -> UsageReport {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn no_token_is_in_two_buckets() {
        let report = report(
            r#"{"input_tokens":120,"input_tokens_details":{"cached_tokens":40,"cache_write_tokens":30},
                "output_tokens":30,"output_tokens_details":{"reasoning_tokens":10},"total_tokens":150}"#,
        );
        let usage = usage(&report);
        assert_eq!(usage.input_tokens, Some(50));
        assert_eq!((usage.cache_read_tokens, usage.cache_write_tokens), (Some(40), Some(30)));
        assert_eq!((usage.output_tokens, usage.reasoning_tokens), (Some(20), Some(10)));
        assert_eq!(usage.total_tokens(), Some(150));
        assert_eq!(cost(&report), None);
    }

    #[test]
    fn what_is_not_reported_is_not_zero() {
        let usage = usage(&report(
            r#"{"input_tokens":"7","input_tokens_details":null,"output_tokens":null,"output_tokens_details":3}"#,
        ));
        assert_eq!(usage.input_tokens, Some(7));
        assert_eq!(usage.cache_read_tokens, None);
        assert_eq!((usage.output_tokens, usage.reasoning_tokens), (None, None));
    }

    #[test]
    fn a_server_that_counts_cached_tokens_apart_gives_no_negative_input() {
        let report = report(r#"{"input_tokens":5,"input_tokens_details":{"cached_tokens":9}}"#);
        assert_eq!(usage(&report).input_tokens, Some(0));
    }

    #[test]
    fn the_words_of_the_chat_api_are_understood() {
        let usage = usage(&report(
            r#"{"prompt_tokens":10,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":2},
                "completion_tokens_details":{"reasoning_tokens":1}}"#,
        ));
        assert_eq!((usage.input_tokens, usage.output_tokens), (Some(8), Some(3)));
    }

    #[test]
    fn cached_tokens_beside_the_details_are_counted_once() {
        for cached in [r#""prompt_cache_hit_tokens":6,"prompt_cache_miss_tokens":4"#, r#""cached_tokens":6"#]
        {
            let usage = usage(&report(&format!(r#"{{"prompt_tokens":10,"completion_tokens":4,{cached}}}"#)));
            assert_eq!((usage.input_tokens, usage.cache_read_tokens), (Some(4), Some(6)), "{cached}");
        }
    }

    #[test]
    fn the_price_is_the_servers() {
        let ticks = cost(&report(r#"{"cost_in_usd_ticks":12345678}"#)).unwrap();
        assert!((ticks.usd.0 - 0.001_234_567_8).abs() < 1e-15);
        assert_eq!(ticks.source, CostSource::Reported);
        assert_eq!(cost(&report(r#"{"cost":0.25}"#)).map(|cost| cost.usd), Some(Usd(0.25)));
        assert_eq!(cost(&report(r#"{"cost":-1,"cost_in_usd_ticks":null}"#)), None);
    }
}
