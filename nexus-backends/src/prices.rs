//! Prices of models, from the settings, and the cost that they give for tokens.

use std::collections::BTreeMap;

use nexus_core::{
    ErrorKind, ModelId, SettingsError, Usage,
    harness::Failure,
    turn::{Cost, CostSource, Usd},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// Key of the setting.
const KEY: &str = "prices";
/// Number of tokens that a price is for.
const TOKENS: f64 = 1e6;
/// Highest accepted price. A larger number is a mistake of the unit, and no sum of such prices is a useful cost.
const HIGHEST: f64 = 1e6;

/// Prices of models, by the name that requests send.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Prices(BTreeMap<String, ModelPrices>);

/// Prices of one model, in US dollars for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelPrices {
    /// Input tokens that were neither read from a cache nor written to one.
    #[schemars(range(min = 0))]
    input: f64,
    /// Output tokens, reasoning included.
    #[schemars(range(min = 0))]
    output: f64,
    /// Input tokens read from the server's cache. Default: the price of input.
    #[serde(default)]
    #[schemars(range(min = 0))]
    cached: Option<f64>,
    /// Input tokens written to the server's cache. Default: the price of input.
    #[serde(default)]
    #[schemars(range(min = 0))]
    cache_write: Option<f64>,
}

impl Prices {
    /// Checks the setting. The error names the model and the member.
    pub(crate) fn check(value: &Value) -> Result<(), SettingsError> {
        let below = |mut path: Vec<String>, reason: String| {
            path.insert(0, KEY.to_owned());
            SettingsError { path, reason }
        };
        let read: Self = SettingsError::reading(value).map_err(|error| below(error.path, error.reason))?;
        for (model, prices) in &read.0 {
            let members = [
                ("input", Some(prices.input)),
                ("output", Some(prices.output)),
                ("cached", prices.cached),
                ("cache_write", prices.cache_write),
            ];
            // Also rejects NaN, which no range contains.
            let is_wrong = |price: f64| !(0.0..=HIGHEST).contains(&price);
            if let Some((member, _)) = members.iter().find(|(_, price)| price.is_some_and(is_wrong)) {
                let reason = "must be a number of US dollars for a million tokens, from 0 to 1000000";
                return Err(below(vec![model.clone(), (*member).to_owned()], reason.to_owned()));
            }
        }
        Ok(())
    }

    /// Returns true if no model has a price.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if the model has a price.
    pub(crate) fn has(&self, model: &ModelId) -> bool {
        self.0.contains_key(model.as_str())
    }

    /// Returns the failure of a turn with a limit on cost, if the model has no price.
    pub(crate) fn missing(model: &ModelId) -> Failure {
        let reason = format!(
            "a limit on cost needs a price of the model {model}: add `{model}` to `prices` of this backend in nexus.yaml, \
             or remove the limit"
        );
        Failure::new(ErrorKind::Unsupported, reason)
    }

    /// Returns the cost of a reply or a turn. `requested` is the model's name in the request, and `answered` the name in the answer.
    /// `None` without a price of either name, or without the numbers of input and output tokens.
    pub(crate) fn cost(
        &self,
        requested: &ModelId,
        answered: Option<&ModelId>,
        usage: &Usage,
    ) -> Option<Cost> {
        let price = |name: &ModelId| self.0.get(name.as_str());
        let usd = price(requested).or_else(|| price(answered?))?.usd(usage)?;
        Some(Cost { usd, source: CostSource::Estimated })
    }
}

impl ModelPrices {
    /// Returns the cost of these tokens. The counts of a [`Usage`] share no token, so each is counted once.
    fn usd(&self, usage: &Usage) -> Option<Usd> {
        // Without a number of input tokens, the sum would be too low.
        usage.all_input_tokens()?;
        let output = usage.all_output_tokens()?;
        let part = |tokens: Option<u64>, price: f64| tokens.unwrap_or(0) as f64 * price / TOKENS;
        Some(Usd(part(usage.input_tokens, self.input)
            + part(usage.cache_read_tokens, self.cached.unwrap_or(self.input))
            + part(usage.cache_write_tokens, self.cache_write.unwrap_or(self.input))
            + part(Some(output), self.output)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn prices(value: Value) -> Prices {
        Prices::check(&value).unwrap();
        serde_json::from_value(value).unwrap()
    }

    fn usage() -> Usage {
        let mut usage = Usage::new();
        usage.input_tokens = Some(1_000_000);
        usage.cache_read_tokens = Some(2_000_000);
        usage.cache_write_tokens = Some(3_000_000);
        usage.output_tokens = Some(4_000_000);
        usage.reasoning_tokens = Some(5_000_000);
        usage
    }

    #[test]
    fn each_token_is_counted_once_and_reasoning_is_output() {
        let all = prices(json!({ "a": { "input": 1, "output": 10, "cached": 0.1, "cache_write": 2 } }));
        let cost = all.cost(&"a".into(), None, &usage()).unwrap();
        assert!((cost.usd.0 - (1.0 + 0.2 + 6.0 + 90.0)).abs() < 1e-9, "{cost:?}");
        assert_eq!(cost.source, CostSource::Estimated);
        let two = prices(json!({ "a": { "input": 1, "output": 10 } }));
        let cost = two.cost(&"a".into(), None, &usage()).unwrap();
        assert!((cost.usd.0 - (6.0 + 90.0)).abs() < 1e-9, "{cost:?}");
    }

    #[test]
    fn a_cost_needs_a_price_and_both_counts() {
        let some = prices(json!({ "a": { "input": 1, "output": 1 } }));
        assert_eq!(some.cost(&"b".into(), None, &usage()), None);
        assert!(some.cost(&"b".into(), Some(&"a".into()), &usage()).is_some());
        let mut half = Usage::new();
        half.input_tokens = Some(1);
        assert_eq!(some.cost(&"a".into(), None, &half), None);
        half.reasoning_tokens = Some(0);
        assert!(some.cost(&"a".into(), None, &half).is_some());
    }

    #[test]
    fn a_bad_price_is_named() {
        for (value, path) in [
            (json!({ "a": { "input": -1, "output": 1 } }), vec!["prices", "a", "input"]),
            (json!({ "a": { "input": 1, "output": 1, "cached": 2e6 } }), vec!["prices", "a", "cached"]),
            (json!({ "a": { "input": 1, "output": null } }), vec!["prices", "a", "output"]),
            (json!({ "a": { "input": "1", "output": 1 } }), vec!["prices", "a", "input"]),
            (json!({ "a": { "input": 1, "output": 1, "reasoning": 1 } }), vec!["prices", "a", "reasoning"]),
            (json!({ "a": { "input": 1 } }), vec!["prices", "a"]),
            (json!([]), vec!["prices"]),
        ] {
            assert_eq!(Prices::check(&value).unwrap_err().path, path, "{value}");
        }
        let nan = Prices(BTreeMap::from([(
            "a".to_owned(),
            ModelPrices { input: f64::NAN, output: 1.0, cached: None, cache_write: None },
        )]));
        assert!(!(0.0..=HIGHEST).contains(&nan.0["a"].input));
    }
}
