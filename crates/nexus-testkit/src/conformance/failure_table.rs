//! The table of failures: the failures of a model call, as data, and the end of a turn of each backend that meets them.
//!
//! A row is tried on a [`Subject`] and results in a [`Cell`]. One kind and one retry time are correct for every backend. If a
//! backend differs, or if the failure cannot happen to it, the row gives the reason. The rows are in `failures.json`.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures::{StreamExt as _, stream};
use nexus_core::{ErrorKind, IdleLimits, Limits, Retry};
use serde::Deserialize;

use super::{finding::Finding, subject::Subject, trial::Trial};
use crate::model_call::Line;
use crate::sim::{Reply, Scenario};

const ROWS: &str = include_str!("failures.json");

/// Stands for a moment an hour from now, in Unix seconds.
const IN_AN_HOUR: &str = "\"@in-an-hour\"";

/// Rows tried at once: most of them wait.
const AT_ONCE: usize = 6;

/// One thing that can go wrong.
#[non_exhaustive]
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailureRow {
    /// Its name.
    pub name: String,
    /// Description of the failure.
    pub happens: String,
    /// Replies of the model, in order; the last repeats.
    replies: Vec<Reply>,
    /// True if the connection is refused.
    #[serde(default)]
    refused: bool,
    /// The limit on silence of the model, before the first byte and later, in seconds.
    idle_seconds: Option<u64>,
    kind: String,
    retry: String,
    #[serde(default)]
    columns: BTreeMap<String, Column>,
}

/// Deviations of single backends.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Column {
    kind: Option<String>,
    retry: Option<String>,
    /// Alternative end, of another version of a program.
    also: Option<String>,
    because: Option<String>,
    absent: Option<String>,
}

/// End of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    kind: String,
    retry: String,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.retry.as_str() {
            "" => f.write_str(&self.kind),
            retry => write!(f, "`{}`, {retry}", self.kind),
        }
    }
}

impl FailureRow {
    /// Every row.
    ///
    /// # Panics
    ///
    /// When the data of this crate is broken.
    pub fn all() -> Vec<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // The moment depends on the time of the test, so the file has a placeholder.
        let rows = ROWS.replace(IN_AN_HOUR, &(now.as_secs() + 3_600).to_string());
        serde_json::from_str(&rows).unwrap_or_else(|error| panic!("failures.json: {error}"))
    }

    /// Replies of the model.
    pub fn scenario(&self) -> Scenario {
        Scenario::new(self.replies.clone())
    }

    /// Why `column` cannot meet with it.
    pub fn absent(&self, column: &str) -> Option<&str> {
        self.columns.get(column)?.absent.as_deref()
    }

    /// Returns the reason why `column` ends differently from the others.
    pub fn because(&self, column: &str) -> Option<&str> {
        self.columns.get(column)?.because.as_deref()
    }

    /// Returns the end that a turn of `column` must have.
    pub fn expected(&self, column: &str) -> Cell {
        let own = self.columns.get(column);
        let kind = own.and_then(|own| own.kind.as_deref()).unwrap_or(&self.kind);
        let retry = own.and_then(|own| own.retry.as_deref()).unwrap_or(&self.retry);
        Cell { kind: kind_name(kind), retry: retry.to_owned() }
    }

    fn is_right(&self, column: &str, cell: &Cell) -> bool {
        let also = self.columns.get(column).and_then(|own| own.also.as_deref());
        *cell == self.expected(column) || also == Some(cell.to_string().as_str())
    }

    /// Runs a turn that meets with it, and holds it against what is true of every turn.
    ///
    /// # Errors
    ///
    /// Findings apart from the end of the turn.
    pub async fn observe(&self, subject: &dyn Subject) -> Result<Cell, Finding> {
        let trial = Trial::new(subject, "failure_table")?;
        let mut setting = trial.setting(self.scenario());
        if self.refused {
            setting.line = Line::Refused;
        }
        let staged = trial.stage_setting(setting).await?;
        let mut request = staged.request("Hello.");
        if let Some(seconds) = self.idle_seconds {
            let mut idle = IdleLimits::none();
            idle.first_byte = Some(Duration::from_secs(seconds));
            idle.model = idle.first_byte;
            request = request.with_limits(Limits::new().with_idle(idle));
        }
        let turn = staged.run(request).await?;
        Ok(match &turn.outcome {
            Ok(_) => Cell { kind: "ok".into(), retry: String::new() },
            Err(error) => Cell { kind: format!("{:?}", error.kind()), retry: retry_words(error.retry()) },
        })
    }
}

/// Observations of one backend, row by row; `None` if the failure cannot happen to it.
pub type Observed = Vec<Option<Result<Cell, Finding>>>;

/// Tries every row on `subject`, for `column` of the table.
pub async fn observe(subject: &dyn Subject, column: &str) -> Observed {
    let rows = FailureRow::all();
    let tries = rows.iter().map(|row| async move {
        match row.absent(column) {
            Some(_) => None,
            None => Some(row.observe(subject).await),
        }
    });
    // In the order of the rows, because the results are paired with them.
    stream::iter(tries).buffered(AT_ONCE).collect().await
}

/// Returns the differences between `observed` and `column` of the table.
pub fn complaints(column: &str, observed: &Observed) -> Vec<String> {
    let rows = FailureRow::all();
    let complaint = |(row, cell): (&FailureRow, &Option<Result<Cell, Finding>>)| match cell {
        None => None,
        Some(Ok(cell)) if row.is_right(column, cell) => None,
        Some(Ok(cell)) => {
            Some(format!("{column}, {}: wanted {}, saw {cell}", row.name, row.expected(column)))
        }
        Some(Err(finding)) => Some(format!("{column}, {}: {finding}", row.name)),
    };
    rows.iter().zip(observed).filter_map(complaint).collect()
}

/// The table as a page: a row per failure, a column per backend, and the reasons below.
pub fn page(columns: &[(&str, Observed)]) -> String {
    let mut page = String::from(HEAD);
    let mut notes: Vec<String> = Vec::new();
    let names: Vec<_> = columns.iter().map(|(column, _)| format!("`{column}`")).collect();
    // Writing to a string cannot fail.
    let _ = writeln!(page, "| failure | {} |", names.join(" | "));
    let _ = writeln!(page, "| --- |{}", " --- |".repeat(columns.len()));
    for (index, row) in FailureRow::all().iter().enumerate() {
        let _ = write!(page, "| {} |", row.happens);
        for (column, observed) in columns {
            let mut note = |reason: &str| match notes.iter().position(|known| known == reason) {
                Some(at) => at + 1,
                None => {
                    notes.push(reason.to_owned());
                    notes.len()
                }
            };
            let text = match (observed.get(index), row.absent(column), row.because(column)) {
                (_, Some(reason), _) => format!("n/a ({})", note(reason)),
                (Some(Some(Ok(cell))), _, Some(reason)) => format!("{cell} ({})", note(reason)),
                (Some(Some(Ok(cell))), ..) => cell.to_string(),
                _ => "not tried".to_owned(),
            };
            let _ = write!(page, " {text} |");
        }
        page.push('\n');
    }
    page.push('\n');
    for (index, note) in notes.iter().enumerate() {
        let _ = writeln!(page, "{}. {note}", index + 1);
    }
    page
}

const HEAD: &str = "\
# Failures

This table lists failures of a model call. Each cell shows the error kind and the time to retry with which a backend ends the turn. A time
comes from the vendor, or is marked as guessed. A test writes the table from its results (`NEXUS_WRITE_FAILURES=1`). The rows are
data of the testkit (`crates/nexus-testkit/src/conformance/failures.json`).

The column `acp` is `kind: acp` with a fake of the agent `codex-acp`. [ACP agents](agents.md) shows the differences between agents.

";

/// Returns the Rust name of a kind in the data.
fn kind_name(kind: &str) -> String {
    let read = serde_json::from_value::<ErrorKind>(kind.into());
    read.map_or_else(|_| kind.to_owned(), |kind| format!("{kind:?}"))
}

fn retry_words(retry: Retry) -> String {
    // A second or two have already passed, so the time is rounded.
    let seconds = |delay: Duration| match delay.as_secs_f64().ceil() as u64 {
        long @ 60.. => (long + 5) / 10 * 10,
        short => short,
    };
    match retry {
        Retry::Never => "never".into(),
        Retry::Now => "now".into(),
        Retry::After(delay) => format!("after {} s", seconds(delay)),
        Retry::At(_) => "at the named time".into(),
        Retry::Guessed(delay) => format!("guessed {} s", seconds(delay)),
        other => format!("{other:?}"),
    }
}
