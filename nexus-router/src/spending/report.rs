//! Sums of spending, by day and by the properties of turns.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use chrono::{Local, NaiveDate, TimeZone};
use serde::Serialize;

use super::{
    line::{PlannedTurn, SpendingLine},
    period::{beginning, date_at},
};

/// Property by which turns are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UsageColumn {
    /// Day of the turn's end, in the user's time zone.
    Day,
    /// Vendor.
    Vendor,
    /// Backend.
    Backend,
    /// Model.
    Model,
    /// Type of work.
    Type,
    /// Task.
    Task,
    /// Debate.
    Debate,
    /// Agent of the broker.
    Agent,
    /// Trigger.
    Trigger,
    /// Conversation.
    Conversation,
    /// Account of the credential.
    Account,
    /// Plan or metered.
    Billing,
}

impl UsageColumn {
    /// All columns.
    pub const ALL: [Self; 12] = [
        Self::Day,
        Self::Vendor,
        Self::Backend,
        Self::Model,
        Self::Type,
        Self::Task,
        Self::Debate,
        Self::Agent,
        Self::Trigger,
        Self::Conversation,
        Self::Account,
        Self::Billing,
    ];

    /// Returns the column's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Vendor => "vendor",
            Self::Backend => "backend",
            Self::Model => "model",
            Self::Type => "type",
            Self::Task => "task",
            Self::Debate => "debate",
            Self::Agent => "agent",
            Self::Trigger => "trigger",
            Self::Conversation => "conversation",
            Self::Account => "account",
            Self::Billing => "billing",
        }
    }

    /// Returns the value of a line in this column.
    fn of<Z: TimeZone>(self, line: &SpendingLine, zone: &Z) -> Option<String> {
        let PlannedTurn { backend, vendor, kind, model, account, billing, .. } = &line.turn;
        let PlannedTurn { task, debate, agent, trigger, conversation, .. } = &line.turn;
        let billing = || serde_json::to_value((*billing)?).ok()?.as_str().map(ToOwned::to_owned);
        match self {
            Self::Day => Some(date_at(line.time, zone).to_string()),
            Self::Vendor => vendor.as_ref().map(ToString::to_string),
            Self::Backend => Some(backend.to_string()),
            Self::Model => model.as_ref().map(ToString::to_string),
            Self::Type => Some(kind.clone()),
            Self::Task => task.clone(),
            Self::Debate => debate.clone(),
            Self::Agent => agent.clone(),
            Self::Trigger => trigger.clone(),
            Self::Conversation => conversation.clone(),
            Self::Account => account.clone(),
            Self::Billing => billing(),
        }
    }
}

/// Sums of all turns with the same values in the columns.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct UsageRow {
    /// Values in the order of the columns. `None` for turns without one.
    #[serde(skip)]
    pub values: Vec<Option<String>>,
    /// Number of turns.
    pub turns: u64,
    /// Input tokens outside of the vendor's cache. `None` if no turn reported them.
    pub input_tokens: Option<u64>,
    /// Input tokens read from the vendor's cache.
    pub cached_tokens: Option<u64>,
    /// Output tokens.
    pub output_tokens: Option<u64>,
    /// Sum of the known costs, in United States dollars. `None` if no cost is known.
    pub usd: Option<f64>,
    /// Number of turns whose cost is unknown. The sum does not contain them.
    pub turns_without_cost: u64,
    /// Sum of the turns' durations, in milliseconds.
    pub duration_ms: u64,
}

/// Spending by columns, in their order.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub struct SpendingReport {
    /// The columns.
    pub columns: Vec<UsageColumn>,
    /// The rows, sorted by their values.
    pub rows: Vec<UsageRow>,
    /// Sum of all rows.
    pub total: UsageRow,
}

impl SpendingReport {
    /// Sums lines by columns. Days are those of the user's time zone: that of the variable `TZ`, else that of the system.
    pub fn of(lines: &[SpendingLine], columns: &[UsageColumn]) -> Self {
        Self::in_zone(lines, columns, &Local)
    }

    fn in_zone<Z: TimeZone>(lines: &[SpendingLine], columns: &[UsageColumn], zone: &Z) -> Self {
        let mut rows: BTreeMap<Vec<Option<String>>, UsageRow> = BTreeMap::new();
        let mut total = UsageRow::default();
        for line in lines {
            let values: Vec<_> = columns.iter().map(|column| column.of(line, zone)).collect();
            rows.entry(values).or_default().add(line);
            total.add(line);
        }
        let rows = rows.into_iter().map(|(values, row)| UsageRow { values, ..row }).collect();
        Self { columns: columns.to_vec(), rows, total }
    }
}

impl UsageRow {
    fn add(&mut self, line: &SpendingLine) {
        let add = |sum: &mut Option<u64>, count: Option<u64>| {
            if let Some(count) = count {
                *sum = Some(sum.unwrap_or_default().saturating_add(count));
            }
        };
        self.turns += 1;
        add(&mut self.input_tokens, line.input_tokens);
        add(&mut self.cached_tokens, line.cached_tokens);
        add(&mut self.output_tokens, line.output_tokens);
        match line.usd {
            Some(usd) => self.usd = Some(self.usd.unwrap_or_default() + usd),
            None => self.turns_without_cost += 1,
        }
        self.duration_ms = self.duration_ms.saturating_add(line.duration_ms);
    }
}

/// Returns the first moment of a day in the user's time zone, from text such as `2026-11-30`. `None` for other text.
pub fn day_of(text: &str) -> Option<SystemTime> {
    let date: NaiveDate = text.parse().ok()?;
    beginning(date, &Local).filter(|time| *time >= SystemTime::UNIX_EPOCH + Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nexus_core::{Cost, CostSource, Usage, Usd};

    use super::*;

    fn line(time: &str, backend: &str, usd: Option<f64>) -> SpendingLine {
        let mut usage = Usage::new();
        (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) = (Some(100), Some(40), Some(10));
        let cost = usd.map(|usd| Cost { usd: Usd(usd), source: CostSource::Estimated });
        let turn = PlannedTurn::new(backend.into(), "writer");
        let time = nexus_files::rfc3339::parse(time).unwrap();
        SpendingLine::new("1".into(), time, turn, "ok", &usage, cost, Duration::from_secs(2))
    }

    #[test]
    fn days_follow_the_zone_and_an_unknown_cost_is_never_zero() {
        let lines = [
            line("2026-11-30T22:59:59Z", "alpha", Some(0.5)),
            line("2026-11-30T23:00:00Z", "alpha", None),
            line("2026-11-30T23:30:00Z", "beta", None),
            line("2026-12-01T10:00:00Z", "alpha", Some(0.25)),
        ];
        let columns = [UsageColumn::Day, UsageColumn::Backend];
        let berlin = SpendingReport::in_zone(&lines, &columns, &chrono_tz::Europe::Berlin);
        let summed = |report: &SpendingReport| {
            let shown = |row: &UsageRow| {
                (
                    row.values.iter().flatten().cloned().collect::<Vec<_>>().join(" "),
                    row.turns,
                    row.usd,
                    row.turns_without_cost,
                )
            };
            report.rows.iter().map(shown).collect::<Vec<_>>()
        };
        assert_eq!(
            summed(&berlin),
            [
                ("2026-11-30 alpha".to_owned(), 1, Some(0.5), 0),
                ("2026-12-01 alpha".to_owned(), 2, Some(0.25), 1),
                ("2026-12-01 beta".to_owned(), 1, None, 1),
            ]
        );
        let utc = SpendingReport::in_zone(&lines, &columns[..1], &chrono::Utc);
        assert_eq!(
            summed(&utc),
            [("2026-11-30".to_owned(), 3, Some(0.5), 2), ("2026-12-01".to_owned(), 1, Some(0.25), 0)]
        );
        assert_eq!((utc.total.input_tokens, utc.total.cached_tokens), (Some(400), Some(160)));
        assert_eq!((utc.total.turns, utc.total.duration_ms), (4, 8_000));
    }
}
