//! Vendors and cost of turns, as one line each.

use std::collections::BTreeSet;

use nexus_files::counted;

use crate::LoggedTurn;

/// Lists the vendors of the turns.
pub fn vendors_in_words(turns: &[LoggedTurn]) -> String {
    let names: BTreeSet<&str> = turns.iter().map(LoggedTurn::vendor_name).collect();
    match names.is_empty() {
        true => "none yet".to_owned(),
        false => names.into_iter().collect::<Vec<_>>().join(", "),
    }
}

/// Formats the cost that backends reported, the number of turns without a reported cost, and the output tokens.
pub fn cost_in_words(turns: &[LoggedTurn]) -> String {
    let reported: Vec<f64> = turns.iter().filter_map(|turn| Some(turn.cost?.usd.0)).collect();
    let sum: f64 = reported.iter().sum();
    let dollars = match (reported.is_empty(), turns.len() - reported.len()) {
        (true, _) => "no cost was reported".to_owned(),
        (false, 0) => format!("${sum:.4}"),
        (false, without) => format!("${sum:.4}, without {} that reported none", counted(without, "turn")),
    };
    let tokens: u64 = turns.iter().filter_map(|turn| turn.output_tokens).sum();
    format!("{dollars}, {tokens} tokens out in {}", counted(turns.len(), "turn"))
}
