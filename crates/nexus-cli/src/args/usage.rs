//! The command line of `nexus usage`.

use std::time::{Duration, SystemTime};

use clap::Args as ClapArgs;
use nexus::spending::{UsageColumn, day_of};

/// Time that `--since` goes back without a value of its own.
const DEFAULT_SINCE: &str = "30d";

pub(super) const USAGE_HELP: &str = "\
Every turn that `nexus run`, `chat`, tasks, debates, the broker, triggers, editors and real arms of the testbed run \
leaves a line in spending/log.jsonl of $NEXUS_HOME (~/.nexus). A turn of a pool is in the home of its caller.

Days follow the time zone of the variable TZ, else that of the system. A cost is known if the vendor or a list of prices \
names it; on a plan it is what the tokens would have cost. An unknown cost is never counted as 0.";

#[derive(Debug, ClapArgs)]
pub(crate) struct UsageArgs {
    /// First day, as 2026-11-30, or a time back from now, as 7d or 12h
    #[arg(long, value_name = "DATE|TIME", default_value = DEFAULT_SINCE, value_parser = since)]
    pub(crate) since: SystemTime,
    /// Columns that separate the rows, in order: day, vendor, backend, model, type, task, debate, agent, trigger, conversation,
    /// account, billing
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', default_value = "day", value_parser = column)]
    pub(crate) by: Vec<UsageColumn>,
}

/// Parses a day, or a time back from now.
fn since(text: &str) -> Result<SystemTime, String> {
    let invalid = || "write a day such as 2026-11-30, or a time such as 7d or 12h".to_owned();
    if let Some(day) = day_of(text) {
        return Ok(day);
    }
    let back: Duration = humantime::parse_duration(text).map_err(|_| invalid())?;
    Ok(SystemTime::now()
        .checked_sub(back)
        .filter(|time| *time > SystemTime::UNIX_EPOCH)
        .unwrap_or(SystemTime::UNIX_EPOCH))
}

fn column(text: &str) -> Result<UsageColumn, String> {
    let found = UsageColumn::ALL.into_iter().find(|column| column.as_str() == text);
    found.ok_or_else(|| {
        let names: Vec<_> = UsageColumn::ALL.iter().map(|column| column.as_str()).collect();
        format!("valid: {}", names.join(", "))
    })
}
