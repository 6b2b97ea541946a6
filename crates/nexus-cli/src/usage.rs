//! `nexus usage`: what the turns of a home spent.

use std::{collections::BTreeMap, process::ExitCode};

use nexus::{
    BuildContext,
    spending::{SpendingReport, UsageRow},
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    args::UsageArgs,
    command_error::CommandError,
    config::spending_book,
    output::{AnswerWriter, printable, say},
};

/// Width of the table, for a terminal of ordinary width.
const WIDTH: usize = 80;
/// Space between two columns.
const GAP: &str = "  ";
/// Columns of numbers, and how many of them a table with many columns of names shows.
const NUMBERS: [&str; 5] = ["turns", "input", "cached", "output", "cost"];
/// Most columns of names beside which all numbers are shown.
const FEW_NAMES: usize = 3;
/// Cell of a turn that lacks the property.
const NONE: &str = "-";

/// Spending of all turns with the same values in the requested columns.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SpentRow {
    /// Number of turns.
    turns: u64,
    /// Input tokens outside of the vendor's cache. Null if no turn reported them.
    input_tokens: Option<u64>,
    /// Input tokens read from the vendor's cache.
    cached_tokens: Option<u64>,
    /// Output tokens.
    output_tokens: Option<u64>,
    /// Sum of the known costs, in United States dollars. Null if no cost is known.
    usd: Option<f64>,
    /// Number of turns whose cost is unknown. The sum does not contain them.
    turns_without_cost: u64,
    /// Sum of the turns' durations, in milliseconds.
    duration_ms: u64,
    /// Values of the columns of `--by`, by their names. Null for turns without one.
    #[serde(flatten)]
    by: BTreeMap<String, Option<String>>,
}

pub(crate) fn usage(out: AnswerWriter, args: &UsageArgs) -> Result<ExitCode, CommandError> {
    let book = spending_book(&BuildContext::from_process());
    let lines = book.lines_since(args.since).map_err(|error| {
        CommandError::failed(format_args!("{}: {error}", book.folder().display()))
            .with_advice("correct the rights of the folder, or move it aside to begin a new record")
    })?;
    if lines.is_empty() {
        out.nothing("no turn of this home has ended since then; an earlier `--since` goes back further");
        return Ok(ExitCode::SUCCESS);
    }
    let report = SpendingReport::of(&lines, &args.by);
    if out.is_json() {
        for row in &report.rows {
            out.line(&SpentRow::of(row, &report), "");
        }
        return Ok(ExitCode::SUCCESS);
    }
    table(&report).iter().for_each(|line| say(printable(line)));
    Ok(ExitCode::SUCCESS)
}

impl SpentRow {
    fn of(row: &UsageRow, report: &SpendingReport) -> Self {
        let names = report.columns.iter().map(|column| column.as_str().to_owned());
        Self {
            turns: row.turns,
            input_tokens: row.input_tokens,
            cached_tokens: row.cached_tokens,
            output_tokens: row.output_tokens,
            usd: row.usd,
            turns_without_cost: row.turns_without_cost,
            duration_ms: row.duration_ms,
            by: names.zip(row.values.clone()).collect(),
        }
    }
}

/// Returns the lines of the table.
fn table(report: &SpendingReport) -> Vec<String> {
    let mut names: Vec<Vec<String>> =
        vec![report.columns.iter().map(|column| column.as_str().to_owned()).collect()];
    let mut numbers: Vec<Vec<String>> = vec![NUMBERS.map(ToOwned::to_owned).to_vec()];
    for row in &report.rows {
        names.push(row.values.iter().map(|value| value.clone().unwrap_or_else(|| NONE.to_owned())).collect());
        numbers.push(numbers_of(row));
    }
    let mut total = vec![String::new(); report.columns.len()];
    if let Some(first) = total.first_mut() {
        "total".clone_into(first);
    }
    names.push(total);
    numbers.push(numbers_of(&report.total));
    // Many columns of names leave room only for the turns and the cost.
    if report.columns.len() > FEW_NAMES {
        numbers.iter_mut().for_each(|row| drop(row.drain(1..4)));
    }
    let number_widths = widths(&numbers);
    let taken: usize = number_widths.iter().map(|width| width + GAP.len()).sum();
    let name_widths = fitted(widths(&names), WIDTH.saturating_sub(taken));
    let lines = names.iter().zip(&numbers).map(|(names, numbers)| {
        let names = names.iter().zip(&name_widths).map(|(cell, width)| {
            let cell = match cell.chars().count() > *width {
                true => nexus_files::shortened(cell, width.saturating_sub(1)),
                false => cell.clone(),
            };
            format!("{cell:<width$}")
        });
        let numbers = numbers.iter().zip(&number_widths).map(|(cell, width)| format!("{cell:>width$}"));
        names.chain(numbers).collect::<Vec<_>>().join(GAP)
    });
    let mut lines: Vec<String> = lines.collect();
    if report.total.turns_without_cost > 0 && report.total.usd.is_some() {
        lines.push(format!(
            "+?: the cost of {} is unknown and not in the sum",
            turns(report.total.turns_without_cost)
        ));
    }
    lines
}

fn turns(count: u64) -> String {
    nexus_files::counted(count, "turn")
}

/// Returns the numbers of a row, in the order of [`NUMBERS`].
fn numbers_of(row: &UsageRow) -> Vec<String> {
    let cost = match (row.usd, row.turns_without_cost) {
        (None, _) => "unknown".to_owned(),
        (Some(usd), 0) => format!("${usd:.2}"),
        (Some(usd), _) => format!("${usd:.2}+?"),
    };
    let tokens = [row.input_tokens, row.cached_tokens, row.output_tokens].map(short);
    [row.turns.to_string()].into_iter().chain(tokens).chain([cost]).collect()
}

/// Returns a number of tokens in few digits. An unknown one is a question mark.
fn short(tokens: Option<u64>) -> String {
    let Some(tokens) = tokens else { return "?".to_owned() };
    // Thousands begin at 10,000, so that smaller numbers stay exact.
    let units = [(1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k")];
    for (least, unit) in units {
        if tokens >= least {
            let unit_size = if unit == "k" { 1_000 } else { least };
            // Cut and do not round, so that a number never appears larger than it is.
            let tenths = tokens / (unit_size / 10);
            return format!("{}.{}{unit}", tenths / 10, tenths % 10);
        }
    }
    tokens.to_string()
}

/// Returns the width of each column.
fn widths(rows: &[Vec<String>]) -> Vec<usize> {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    (0..columns).map(width).collect()
}

/// Narrows the widest columns until all of them fit, with their gaps.
fn fitted(mut widths: Vec<usize>, space: usize) -> Vec<usize> {
    let space = space.saturating_sub(widths.len().saturating_sub(1) * GAP.len());
    // Shorten the widest column first, so that short names stay whole.
    while widths.iter().sum::<usize>() > space
        && let Some(widest) = widths.iter_mut().max()
        && *widest > 1
    {
        *widest -= 1;
    }
    widths
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use nexus::{
        Cost, CostSource, Usage, Usd,
        spending::{PlannedTurn, SpendingLine, UsageColumn},
    };

    use super::*;

    fn line(model: &str, usd: Option<f64>, tokens: u64) -> SpendingLine {
        let mut usage = Usage::new();
        usage.input_tokens = Some(tokens);
        let cost = usd.map(|usd| Cost { usd: Usd(usd), source: CostSource::Reported });
        let mut turn = PlannedTurn::new("codex-cli".into(), "executor");
        turn.model = Some(model.into());
        SpendingLine::new("1".into(), UNIX_EPOCH, turn, "ok", &usage, cost, Duration::ZERO)
    }

    #[test]
    fn a_table_has_80_columns_at_most_and_shows_an_unknown_cost_as_unknown() {
        let long = "a-model-with-a-name-that-no-table-has-space-for-if-it-is-to-fit-a-terminal".repeat(2);
        let lines = [line("small", Some(1.5), 12_345), line("small", None, 1), line(&long, None, 2_500_000)];
        let report = SpendingReport::of(&lines, &[UsageColumn::Backend, UsageColumn::Model]);
        let table = table(&report);
        assert!(table.iter().all(|line| line.chars().count() <= WIDTH), "{table:#?}");
        let cells = |line: &String| line.split_whitespace().map(ToOwned::to_owned).collect::<Vec<_>>();
        assert_eq!(cells(&table[0]), ["backend", "model", "turns", "input", "cached", "output", "cost"]);
        assert_eq!(cells(&table[1])[2..], ["1", "2.5M", "?", "?", "unknown"]);
        assert_eq!(cells(&table[2]), ["codex-cli", "small", "2", "12.3k", "?", "?", "$1.50+?"]);
        assert_eq!(cells(&table[3]), ["total", "3", "2.5M", "?", "?", "$1.50+?"]);
        assert_eq!(table[4], "+?: the cost of 2 turns is unknown and not in the sum");
        let every = SpendingReport::of(&lines, &UsageColumn::ALL);
        let widest = super::table(&every).iter().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= WIDTH, "{widest}");
    }
}
