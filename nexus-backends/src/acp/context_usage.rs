//! Fill of an agent's context, and cost of its session: `usage_update`.

use nexus_core::turn::ContextUsage;
use serde_json::Value;

/// Largest whole number that a floating-point number represents exactly.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// Largest cost of a session, in US dollars. A larger amount is a mistake. Source: our own bound.
const MAX_USD: f64 = 1e6;

/// Parses the fill of the context. The turn is billed for other tokens. Source: the protocol,
/// `UsageUpdate`.
pub(super) fn context_usage(update: &Value) -> Option<ContextUsage> {
    let used = tokens(update.get("used")?)?;
    Some(ContextUsage::new(used, update.get("size").and_then(tokens)))
}

/// Parses the cost of the session so far, in US dollars.
pub(super) fn session_cost(update: &Value) -> Option<f64> {
    let cost = update.get("cost")?;
    let amount =
        cost.get("amount").and_then(Value::as_f64).filter(|amount| (0.0..=MAX_USD).contains(amount))?;
    (cost.get("currency").and_then(Value::as_str) == Some("USD")).then_some(amount)
}

/// Parses a number of tokens. Some programs write a whole number with a fraction.
fn tokens(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        let number = value.as_f64().filter(|number| (0.0..=MAX_EXACT).contains(number))?;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is within the bounds")]
        Some(number.floor() as u64)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_number_of_tokens_is_read_and_no_other_number() {
        for (update, expected) in [
            (json!({ "used": 10, "size": 200 }), Some((10, Some(200)))),
            (json!({ "used": 0, "size": 0 }), Some((0, None))),
            (json!({ "used": 10.7, "size": 2e5 }), Some((10, Some(200_000)))),
            (json!({ "used": 10, "size": -1 }), Some((10, None))),
            (json!({ "used": 10 }), Some((10, None))),
            (json!({ "used": 300, "size": 200 }), Some((300, Some(200)))),
            (json!({ "used": -1, "size": 200 }), None),
            (json!({ "used": "10", "size": 200 }), None),
            (json!({ "used": 1e300, "size": 200 }), None),
            (json!({ "size": 200 }), None),
            (json!(null), None),
        ] {
            let found = context_usage(&update).map(|usage| (usage.used_tokens, usage.window_tokens));
            assert_eq!(found, expected, "{update}");
        }
    }

    #[test]
    fn a_cost_in_another_currency_or_out_of_bounds_is_none() {
        let of = |amount: Value, currency: &str| {
            session_cost(&json!({ "cost": { "amount": amount, "currency": currency } }))
        };
        assert_eq!(of(json!(0.5), "USD"), Some(0.5));
        assert_eq!(of(json!(0.5), "EUR"), None);
        assert_eq!(of(json!("0.5"), "USD"), None);
        assert_eq!(of(json!(-0.5), "USD"), None);
        assert_eq!(of(json!(1e300), "USD"), None);
        assert_eq!(session_cost(&json!({ "cost": null })), None);
    }
}
