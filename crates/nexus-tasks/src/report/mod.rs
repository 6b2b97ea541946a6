//! The report of a task: one self-contained HTML page.

mod attempt;
mod plan;
mod turns;

use maud::{Markup, html};
use nexus_work::report::{Block, Page, Text};

use crate::{
    store::{Task, TaskSnapshot},
    task_error::TaskError,
    task_state::TaskStatus,
};

/// Most log events to show; the oldest are left out.
const MOST_EVENTS: usize = 500;

/// Renders the report of a task as it is now: plan, turns on a time line, claims beside the diff, verdicts with their probes, and the
/// cost by phase. The report is an HTML file in UTF-8, without script, that loads no resources.
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

    let mut page = Page::new(title(&snapshot)).head(head(task, &snapshot));
    page = page.section("Goal", goal(&snapshot));
    if let Some(brief) = &brief {
        page = page.section("Plan", plan::plan(brief, &snapshot, &records));
    }
    page = page.section("Time", turns::time_line(&turns)).section("Cost by phase", turns::cost(&events));
    for record in &records {
        let heading = format!("Attempt {} at entry {}", record.attempt, record.entry + 1);
        page = page.section(heading, attempt::attempt(task, brief.as_ref(), record));
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

fn head(task: &Task, snapshot: &TaskSnapshot) -> Markup {
    let status = &snapshot.state.status;
    let class = match status {
        TaskStatus::Complete { .. } => "good",
        TaskStatus::Escalated { .. } | TaskStatus::Blocked { .. } => "bad",
        _ => "warn",
    };
    html! {
        p { span class=(class) { (status.name()) } " \u{b7} task " code { (task.id()) } }
        table {
            tr { th { "project" } td { (Text(&snapshot.data.project.display().to_string())) } }
            tr { th { "created" } td { (time(snapshot.created_at)) } }
            tr { th { "last change" } td { (time(snapshot.updated_at)) } }
            @if let Some(head) = &snapshot.data.head { tr { th { "last commit" } td { code { (head) } } } }
            @for (name, value) in &snapshot.labels { tr { th { (Text(name)) } td { (Text(value)) } } }
        }
        @match status {
            TaskStatus::Escalated { reason, error, .. } => {
                p { "Escalated: " (Text(reason)) }
                @if let Some(error) = error { (Block(error)) }
            }
            TaskStatus::Blocked { reasons, .. } => { p { "Blocked:" } ul { @for reason in reasons { li { (Text(reason)) } } } }
            TaskStatus::ClarificationNeeded { questions } => {
                p { "Asked:" } ul { @for question in questions { li { (Text(question)) } } }
            }
            _ => {}
        }
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
            tr { th { "when" } th { "what" } th { "more" } }
            @for event in &events[left_out..] {
                tr {
                    td.soft { (time(event.time)) }
                    td { (Text(&event.kind)) }
                    td { @if !event.data.is_null() { code { (Text(&event.data.to_string())) } } }
                }
            }
        }
    }
}

/// Formats a time in UTC, to the second.
fn time(time: std::time::SystemTime) -> String {
    nexus_files::rfc3339::seconds(time)
}
