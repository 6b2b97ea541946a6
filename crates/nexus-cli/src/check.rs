//! `nexus check`: what the configuration says, and whether the backends could start.

use std::process::ExitCode;

use nexus::{Availability, Position};
use serde_json::json;

use crate::{
    EXIT_FAILED,
    args::ConfigArgs,
    availability::words,
    command_error::CommandError,
    config,
    output::{printable, say},
    versions::{self, ProgramNote},
};

/// A configuration with every key in it.
const EXAMPLE: &str = include_str!("../nexus.yaml.example");

/// Prints the example, as it is.
pub(crate) fn example() -> ExitCode {
    say(EXAMPLE.trim_end());
    ExitCode::SUCCESS
}

pub(crate) async fn check(args: &ConfigArgs, probe: bool, as_json: bool) -> Result<ExitCode, CommandError> {
    let router = config::load(args)?;
    let kinds = router.kinds();
    let mut backends = Vec::new();
    for (id, backend) in router.backends() {
        let availability = if probe { Some(backend.probe().await) } else { None };
        backends.push((id, availability));
    }
    // A probe says them beside what it found.
    let notes = if probe { Vec::new() } else { versions::notes(&router).await };
    let warnings = router.warnings();
    let shared = if probe { router.shared_addresses().await } else { Vec::new() };
    if as_json {
        let warnings = warnings.iter().map(|warning| {
            let Position { line, column } = warning.position;
            json!({ "line": line, "column": column, "message": warning.message })
        });
        let backends =
            backends.iter().map(|(id, availability)| json!({ "id": id, "availability": availability }));
        let report = json!({
            "kinds": kinds,
            "backends": backends.collect::<Vec<_>>(),
            "notes": notes,
            "shared_addresses": shared.iter().map(|shared| json!({
                "panel": shared.panel, "message": shared.to_string(), "refused": shared.is_refused,
            })).collect::<Vec<_>>(),
            "warnings": warnings.collect::<Vec<_>>(),
        });
        say(format_args!("{report:#}"));
    } else {
        say(format_args!("work-kinds  {}", kinds.join(", ")));
        for (id, availability) in &backends {
            let found = availability.as_ref().map(|found| format!("  {}", words(found, "            ")));
            say(format_args!("backend     {id}{}", found.unwrap_or_default()));
        }
        for warning in &warnings {
            let Position { line, column } = warning.position;
            say(format_args!("warning     line {line}, column {column}: {}", printable(&warning.message)));
        }
        for shared in &shared {
            let what = if shared.is_refused { "refused" } else { "warning" };
            let text = format!("{what:<12}panel {}: {shared}: {}", shared.panel, shared.advice());
            say(printable(&text));
        }
        for ProgramNote { backend, note } in &notes {
            say(format_args!("note        {backend}: {}", printable(note)));
        }
    }
    let is_stuck =
        probe && !backends.iter().any(|(_, found)| found.as_ref().is_some_and(Availability::is_ready));
    let is_refused = shared.iter().any(|shared| shared.is_refused);
    Ok(if is_stuck || is_refused { ExitCode::from(EXIT_FAILED) } else { ExitCode::SUCCESS })
}
