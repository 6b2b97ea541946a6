//! Lenient parsing of numbers in a CLI's output: `7.0` and `"7"` are seven. An unreadable number costs only its field,
//! not the line.

use serde::{Deserialize as _, Deserializer};
use serde_json::Value;

/// Deserialises a count; `None` for any other value.
pub(crate) fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::Number(number) => number.as_u64().or_else(|| number.as_f64().and_then(whole)),
        Value::String(text) => text.trim().parse().ok().or_else(|| text.trim().parse().ok().and_then(whole)),
        _ => None,
    })
}

/// Deserialises an amount; `None` for any other value. A negative amount is rejected because it would increase a
/// budget.
pub(crate) fn amount<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let amount = match Value::deserialize(deserializer)? {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    Ok(amount.filter(|amount: &f64| amount.is_finite() && *amount >= 0.0))
}

/// Converts a float without a fraction into a count.
fn whole(number: f64) -> Option<u64> {
    // Above this bound a float cannot represent every whole number.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (number.fract() == 0.0 && (0.0..=EXACT).contains(&number)).then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Deserialize)]
    struct Counted(#[serde(deserialize_with = "count")] Option<u64>);

    #[derive(Deserialize)]
    struct Priced(#[serde(deserialize_with = "amount")] Option<f64>);

    #[test]
    fn a_number_is_read_however_it_is_written() {
        let counted = |value| serde_json::from_value::<Counted>(value).unwrap().0;
        for value in [json!(7), json!(7.0), json!("7"), json!(" 7.0 ")] {
            assert_eq!(counted(value.clone()), Some(7), "{value}");
        }
        for value in [json!(7.5), json!(-7), json!("seven"), json!(null), json!([7]), json!(1e300)] {
            assert_eq!(counted(value.clone()), None, "{value}");
        }
        let priced = |value| serde_json::from_value::<Priced>(value).unwrap().0;
        assert_eq!((priced(json!("0.25")), priced(json!(1))), (Some(0.25), Some(1.0)));
        assert_eq!([json!("NaN"), json!(-0.25), json!("-inf")].map(priced), [None; 3]);
    }
}
