//! The amount that a turn is expected to spend, from earlier turns of its type on its backend.

use nexus_core::Usd;

use super::line::{PlannedTurn, SpendingAmount, SpendingLine};

/// Most recent turns that an estimate uses.
const RECENT: usize = 20;

/// Returns the amount that four of five recent turns of this type on this backend did not exceed. Without such turns it is unknown. If
/// their cost was never known, the turn costs zero dollars: it counts in tokens alone.
pub(super) fn estimate(lines: &[SpendingLine], turn: &PlannedTurn) -> SpendingAmount {
    let is_alike = |line: &&SpendingLine| {
        // A turn that failed before it spent anything says nothing of what the next one needs.
        let has_usage = line.usd.is_some() || line.tokens().is_some();
        line.turn.backend == turn.backend && line.turn.kind == turn.kind && has_usage
    };
    let recent: Vec<_> = lines.iter().rev().filter(is_alike).take(RECENT).collect();
    if recent.is_empty() {
        return SpendingAmount::default();
    }
    let costs = most(recent.iter().filter_map(|line| line.usd).collect(), f64::total_cmp);
    let tokens = most(recent.iter().filter_map(|line| line.tokens()).collect(), u64::cmp);
    SpendingAmount { usd: Some(Usd(costs.unwrap_or_default())), tokens: Some(tokens.unwrap_or_default()) }
}

/// Returns the value that four of five do not exceed.
fn most<T: Copy>(mut values: Vec<T>, order: fn(&T, &T) -> std::cmp::Ordering) -> Option<T> {
    values.sort_by(order);
    // Round up, so that a single turn is its own estimate.
    let rank = (values.len() * 4).div_ceil(5);
    values.get(rank.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use nexus_core::{Cost, CostSource, Usage};

    use super::*;

    fn line(kind: &str, usd: Option<f64>, tokens: u64) -> SpendingLine {
        let turn = PlannedTurn::new("alpha".into(), kind);
        let cost = usd.map(|usd| Cost { usd: Usd(usd), source: CostSource::Reported });
        let mut usage = Usage::new();
        usage.output_tokens = Some(tokens);
        SpendingLine::new("1".into(), UNIX_EPOCH, turn, "ok", &usage, cost, Duration::ZERO)
    }

    #[test]
    fn an_estimate_is_what_four_of_five_turns_of_the_type_did_not_exceed() {
        let turn = PlannedTurn::new("alpha".into(), "writer");
        assert_eq!(estimate(&[], &turn), SpendingAmount::default());
        assert_eq!(estimate(&[line("reader", Some(9.0), 9)], &turn), SpendingAmount::default());
        let costs = [5.0, 1.0, 2.0, 4.0, 3.0];
        let lines: Vec<_> = costs.iter().map(|usd| line("writer", Some(*usd), 10)).collect();
        let expected = SpendingAmount { usd: Some(Usd(4.0)), tokens: Some(10) };
        assert_eq!(estimate(&lines, &turn), expected);
        // Failures without usage leave the estimate as it was.
        let failed = SpendingLine::new(
            "2".into(),
            UNIX_EPOCH,
            turn.clone(),
            "transport",
            &Usage::new(),
            None,
            Duration::ZERO,
        );
        let with_failures: Vec<_> = lines.iter().cloned().chain(vec![failed.clone(); 30]).collect();
        assert_eq!(estimate(&with_failures, &turn), expected);
        assert_eq!(estimate(&[failed], &turn), SpendingAmount::default());
        let unknown = SpendingAmount { usd: Some(Usd(0.0)), tokens: Some(7) };
        assert_eq!(estimate(&[line("writer", None, 7)], &turn), unknown);
    }
}
