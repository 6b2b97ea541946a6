//! The report of a task: one self-contained HTML page.

mod attempt;
mod evidence;
mod plan;
mod summary;
mod turns;

use std::collections::BTreeSet;

use maud::{Markup, html};
use nexus_work::{
    LoggedTurn,
    report::{Block, Page, Text, configuration},
};

use self::evidence::AttemptEvidence;
use crate::{
    store::{Task, TaskSnapshot},
    task_error::TaskError,
};

/// Maximum number of log events to show; the oldest are left out.
const MOST_EVENTS: usize = 500;

/// Renders the report of a task as it is now: summary, plan, turns on a time line, claims beside the diff, verdicts, and cost by phase.
/// Each piece of evidence is a link to its test, probe or changed file. Probes are shown with their command and outputs. The report is an HTML file in UTF-8, without script, that loads no resources.
///
/// It names vendors: it is for the caller, never for an agent. It reads files and runs git, so async code must call it by the runtime's
/// `spawn_blocking`.
///
/// # Errors
///
/// As [`Task::snapshot`] and [`Task::step_records`]. For other unreadable parts, such as a diff whose commit is gone, the page contains
/// the error in their place.
pub fn task_report(task: &Task) -> Result<String, TaskError> {
    let snapshot = task.snapshot()?;
    let brief = task.brief(&snapshot.data)?;
    let records = task.step_records(&snapshot.state)?;
    let turns = task.turn_log().map(|log| log.turns).unwrap_or_default();
    let events = task.events()?.events;

    let attempts: Vec<AttemptEvidence<'_>> = records
        .iter()
        .map(|record| {
            let of_attempt = LoggedTurn::ended(&events).filter(|turn| turn.attempt == Some(record.attempt));
            let ids: BTreeSet<String> = of_attempt.filter_map(|turn| turn.turn).collect();
            AttemptEvidence::of(task, record, turns.iter().filter(|turn| ids.contains(&turn.id)))
        })
        .collect();
    let test_command = snapshot.data.settings.test_command.as_deref();

    let head = summary::summary(task, &snapshot, &records, &turns, &events);
    let mut page = Page::new(title(&snapshot)).head(head).section("Goal", goal(&snapshot));
    if let Some(brief) = &brief {
        page = page.section("Plan", plan::plan(brief, &snapshot, &attempts));
    }
    page = page.section("Time", turns::time_line(&turns)).section("Cost by phase", turns::cost(&events));
    if let Some(configuration) = configuration(&events) {
        page = page.section("Configuration at the beginning", configuration);
    }
    for evidence in &attempts {
        let record = evidence.record;
        let heading = format!("Attempt {} at entry {}", record.attempt, record.entry + 1);
        page = page.section(heading, attempt::attempt(task, brief.as_ref(), evidence, test_command));
    }
    Ok(page.section("Log", log(&events)).render())
}

fn title(snapshot: &TaskSnapshot) -> String {
    let goal = snapshot.data.goal.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("A task");
    match goal.char_indices().nth(120) {
        Some((end, _)) => format!("{}\u{2026}", &goal[..end]),
        None => goal.to_owned(),
    }
}

fn goal(snapshot: &TaskSnapshot) -> Markup {
    let data = &snapshot.data;
    let list = |heading: &str, lines: &[String]| {
        html! { @if !lines.is_empty() { h3 { (heading) } ul { @for line in lines { li { (Text(line)) } } } } }
    };
    html! {
        (Block(&data.goal))
        @if let Some(context) = &data.context { details { summary { "What the caller knew" } (Block(context)) } }
        @if !data.answers.is_empty() {
            h3 { "Questions and answers" }
            @for (question, answer) in &data.answers { p { (Text(question)) } blockquote { (Text(answer)) } }
        }
        (list("Notes at reopening", &data.notes))
        (list("Warnings", &data.warnings))
        (list("About the project's files", &data.remarks))
    }
}

fn log(events: &[nexus_work::WorkspaceEvent]) -> Markup {
    let left_out = events.len().saturating_sub(MOST_EVENTS);
    html! {
        @if left_out > 0 { p.soft { (left_out) " earlier events are left out." } }
        table {
            tr { th { "when" } th { "event" } th { "details" } }
            @for event in &events[left_out..] {
                tr {
                    td.soft.whole { (time(event.time)) }
                    td.whole { (Text(&event.kind.replace('_', " "))) }
                    td.long { (details(&event.data)) }
                }
            }
        }
    }
}

/// Lists the fields of an event that have a value.
fn details(data: &serde_json::Value) -> Markup {
    let fields = data.as_object().into_iter().flatten();
    let fields = fields.filter_map(|(name, value)| {
        let shown = match value {
            serde_json::Value::Null => return None,
            serde_json::Value::String(text) => text.clone(),
            serde_json::Value::Array(items) if items.is_empty() => return None,
            other => other.to_string(),
        };
        Some((name.replace('_', " "), shown))
    });
    html! {
        @for (number, (name, value)) in fields.enumerate() {
            @if number > 0 { " \u{b7} " }
            span.soft { (Text(&name)) } " " (Text(&value))
        }
    }
}

/// Formats a time in UTC, to the second.
fn time(time: std::time::SystemTime) -> String {
    nexus_files::rfc3339::seconds(time)
}
