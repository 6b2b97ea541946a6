//! `nexus show`: prints a file of records for people.

use std::{io::IsTerminal as _, path::Path, process::ExitCode};

use nexus::{
    CostSource, RecordLog, RecordedOutcome, ToolCallRecord, ToolCallStatus, TurnEvent, TurnRecord,
    record::Cut,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use nexus_files::{counted, rfc3339};

use crate::{
    command_error::CommandError,
    output::{AnswerWriter, complain, printable_lines, say},
    printer::usage_parts,
    schema::foreign::RecordSchema,
    works::push_row,
};

/// File of records.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ShownRecords {
    /// The turns, the oldest first.
    #[schemars(with = "Vec<RecordSchema>")]
    turns: Vec<TurnRecord>,
    /// Lines that cannot be read.
    unread: Vec<UnreadRecord>,
}

/// Line of a file of records that cannot be read.
#[derive(Debug, Serialize, JsonSchema)]
struct UnreadRecord {
    /// The line, from 1.
    line: u64,
    /// Reason.
    reason: String,
}

pub(crate) fn show(out: AnswerWriter, file: &Path) -> Result<ExitCode, CommandError> {
    let place = file.display();
    let log = RecordLog::read(file).map_err(|error| {
        CommandError::usage(format_args!("{place}: {error}"))
            .with_advice("name a file that `nexus run --keep FILE` wrote")
    })?;
    // A file without any record is of another kind. A file with some damaged lines is still shown.
    if log.turns.is_empty() && !log.unread.is_empty() {
        let message = format!("{place} has no record of a turn; its first line: {}", log.unread[0].fault);
        return Err(CommandError::failed(message).with_advice("`nexus run --keep FILE` writes such a file"));
    }
    for unread in &log.unread {
        complain(printable_lines(&format!("{place}: line {} is left out: {}", unread.line, unread.fault)));
    }
    let unread = log.unread.iter();
    let unread = unread.map(|unread| UnreadRecord { line: unread.line, reason: unread.fault.to_string() });
    out.show(&ShownRecords { turns: log.turns, unread: unread.collect() }, |shown_records| {
        shown_records.turns.iter().for_each(|turn| say(shown(&described(turn))));
    });
    Ok(ExitCode::SUCCESS)
}

/// Removes control characters if standard output is a terminal, which would obey them. A file gets the text unchanged.
pub(crate) fn shown(text: &str) -> String {
    match std::io::stdout().is_terminal() {
        true => printable_lines(text),
        false => text.to_owned(),
    }
}

/// Formats a turn for a person.
pub(crate) fn described(turn: &TurnRecord) -> String {
    let end = match &turn.outcome {
        Some(RecordedOutcome::Result(result)) => format!("ended well: {}", result.finish),
        Some(RecordedOutcome::Error(error)) => format!("failed: {}", word(error.kind)),
        Some(_) => "ended in a way that this version cannot read".to_owned(),
        None => "has no end: it was interrupted, or is running".to_owned(),
    };
    let mut text = format!("## {} · {end}\n\n", turn.name);
    let mut row = |name: &str, value: &str| push_row(&mut text, name, value);
    row("turn", &turn.id);
    let took = turn.took.map(|took| format!(", {:.1} s", took.as_secs_f64())).unwrap_or_default();
    row("began", &format!("{}{took}", rfc3339::seconds(turn.began)));
    row("ran on", &ran_on(turn));
    row("skipped", &skipped(turn));
    row("used", &used(turn));
    if turn.outcome.is_some() {
        row("effects", &word(turn.effects()));
    }
    row("tools", &turn.request.tools.join(", "));
    row("calls", &calls(turn));
    row("warned", &warnings(turn));
    match (turn.resume(), turn.is_forgotten) {
        (_, true) => row("goes on", "no, because its conversation was forgotten"),
        (Some(handle), false) => row("goes on", handle.backend().as_str()),
        (None, false) => {}
    }
    row("cut", &cuts(&turn.cuts));
    if turn.lost_lines > 0 {
        row("lost", &format!("{} could not be written", counted(turn.lost_lines, "line")));
    }
    let mut part = |name: &str, body: &str| {
        if !body.is_empty() {
            text.push_str(&format!("\n### {name}\n\n{}\n", body.trim_end_matches('\n')));
        }
    };
    part("System", turn.request.system.as_deref().unwrap_or_default());
    part("Prompt", &turn.request.prompt_text());
    match &turn.outcome {
        Some(RecordedOutcome::Result(result)) => {
            let output = result.output.as_ref().map(Value::to_string);
            part("Answer", output.as_deref().unwrap_or(&result.text));
        }
        Some(RecordedOutcome::Error(error)) => {
            part("Partial answer", &error.partial.text);
            let causes = error.causes.iter().map(String::as_str);
            part("Error", &error.message.as_deref().into_iter().chain(causes).collect::<Vec<_>>().join("\n"));
        }
        _ => {}
    }
    text
}

/// Converts a word of the wire format to text for people.
pub(crate) fn word(of: impl Serialize) -> String {
    let text = match serde_json::to_value(of) {
        Ok(Value::String(word)) => word,
        Ok(Value::Object(words)) => {
            let words = words.iter().map(|(word, of)| format!("{word}: {}", of.as_str().unwrap_or_default()));
            words.collect::<Vec<_>>().join(", ")
        }
        _ => String::new(),
    };
    text.replace('_', " ")
}

fn ran_on(turn: &TurnRecord) -> String {
    let Some(ran) = turn.provenance() else {
        // A turn without an end has no provenance: use the backend of its start event.
        let started = turn.events.iter().rev().find_map(|envelope| match &envelope.event {
            TurnEvent::Started(started) => Some(started.backend.to_string()),
            _ => None,
        });
        return started.unwrap_or_default();
    };
    let mut parts = vec![ran.backend.to_string()];
    parts.extend(ran.version.clone());
    parts.extend(ran.model.as_ref().map(|model| format!("model {model}")));
    parts.extend(ran.effort.map(|effort| format!("effort {}", effort.applied)));
    if ran.attempts > 1 {
        parts.push(counted(ran.attempts, "attempt"));
    }
    parts.join(", ")
}

fn skipped(turn: &TurnRecord) -> String {
    let of_provenance = turn.provenance().map(|ran| ran.skipped.as_slice()).unwrap_or_default();
    let of_error = turn.error().map(|error| error.skipped.as_slice()).unwrap_or_default();
    // The error of a failed turn lists the skipped backends, and the provenance of a result does.
    let all = if of_error.is_empty() { of_provenance } else { of_error };
    let lines = all.iter().map(|skipped| format!("{}: {}", skipped.backend, skipped.reason));
    lines.collect::<Vec<_>>().join("\n")
}

fn used(turn: &TurnRecord) -> String {
    let mut parts = turn.usage().map(|usage| usage_parts(&usage)).unwrap_or_default();
    parts.extend(turn.cost().map(|cost| {
        let source = match cost.source {
            CostSource::Reported => "reported",
            CostSource::Estimated => "estimated",
        };
        format!("{} ({source})", cost.usd)
    }));
    parts.join(", ")
}

fn calls(turn: &TurnRecord) -> String {
    let failed = turn.error().map(|error| error.partial.tool_calls.as_slice());
    let calls = turn.result().map(|result| result.tool_calls.as_slice()).or(failed).unwrap_or_default();
    let line = |call: &ToolCallRecord| {
        let undone = if call.is_undone { ", put back" } else { "" };
        let status = match call.status {
            ToolCallStatus::Succeeded => String::new(),
            other => format!(" ({})", word(other)),
        };
        format!("{}{status}{undone}", call.name)
    };
    calls.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn warnings(turn: &TurnRecord) -> String {
    let warnings = turn.events.iter().filter_map(|envelope| match &envelope.event {
        TurnEvent::Warning(warning) => Some(warning.text.as_str()),
        _ => None,
    });
    warnings.collect::<Vec<_>>().join("\n")
}

fn cuts(cuts: &[Cut]) -> String {
    cuts.iter()
        .map(|cut| format!("{}, {}", cut.place, counted(cut.bytes, "byte")))
        .collect::<Vec<_>>()
        .join("\n")
}
