//! Summary of a task: its outcome, who judged it, what it changed, and what it took.

use std::time::Duration;

use maud::{Markup, html};
use nexus_core::TurnRecord;
use nexus_files::counted;
use nexus_work::{
    LoggedTurn, WorkspaceEvent,
    report::{Block, Text, cost_in_words, spoken_duration, vendors_in_words},
};

use super::{attempt::decision, evidence::changed_files, time};
use crate::{
    step_record::StepRecord,
    store::{Task, TaskSnapshot, is_landing},
    task_state::TaskStatus,
};

pub(super) fn summary(
    task: &Task,
    snapshot: &TaskSnapshot,
    records: &[StepRecord],
    turns: &[TurnRecord],
    events: &[WorkspaceEvent],
) -> Markup {
    let status = &snapshot.state.status;
    let class = match status {
        TaskStatus::Complete { .. } => "good",
        TaskStatus::Escalated { .. } | TaskStatus::Blocked { .. } => "bad",
        _ => "warn",
    };
    let commits = &snapshot.data.commits;
    let logged: Vec<LoggedTurn> = LoggedTurn::ended(events).collect();
    let judged = records.iter().rev().find(|record| !record.votes.is_empty());
    html! {
        p { span class=(class) { (status.name()) } " \u{b7} task " code { (task.id()) } }
        table {
            tr { th { "reviewed by" } td { @match judged {
                None => { span.soft { "nobody yet" } }
                Some(record) => { @for (number, vote) in record.votes.iter().enumerate() {
                    @if number > 0 { ", " }
                    (Text(vote.vendor.as_str())) " (" (Text(&vote.seat)) "): " (decision(vote.verdict.decision()))
                } }
            } } }
            tr { th { "commit" } td { @match commits.last() {
                None => { span.soft { "nothing was committed" } }
                Some(last) => { code { (last.commit.as_str().get(..12).unwrap_or(last.commit.as_str())) }
                    @if commits.len() > 1 { ", the last of " (commits.len()) } }
            } } }
            tr { th { "change" } td { (change(task, !commits.is_empty())) } }
            tr { th { "landed" } td.long { (landed(task, !commits.is_empty(), events)) } }
            tr { th { "cost" } td { (cost_in_words(&logged)) } }
            tr { th { "time" } td { (worked(turns)) } }
            tr { th { "vendors" } td { (Text(&vendors_in_words(&logged))) } }
            tr { th { "project" } td.long { (Text(&snapshot.data.project.display().to_string())) } }
            tr { th { "created" } td { (time(snapshot.created_at)) } }
            tr { th { "last change" } td { (time(snapshot.updated_at)) } }
            @for (name, value) in &snapshot.labels { tr { th { (Text(name)) } td.long { (Text(value)) } } }
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

fn change(task: &Task, is_committed: bool) -> Markup {
    if !is_committed {
        return html! { span.soft { "none" } };
    }
    match task.patch(None) {
        Ok(patch) => {
            let files = changed_files(&patch.map(|patch| patch.text()).unwrap_or_default());
            let (added, removed) = files
                .iter()
                .fold((0, 0), |(added, removed), file| (added + file.added, removed + file.removed));
            html! { span.good { "+" (added) } " " span.bad { "\u{2212}" (removed) } " in " (counted(files.len(), "file")) }
        }
        Err(error) => html! { span.bad { "it cannot be shown: " (Text(&error.to_string())) } },
    }
}

fn landed(task: &Task, is_committed: bool, events: &[WorkspaceEvent]) -> Markup {
    let tried = events.iter().rev().filter(|event| event.kind == "landed");
    let landed = tried.clone().find(|event| is_landing(event));
    html! {
        @match (landed, tried.clone().next()) {
            (Some(event), _) => { span.good { "yes" } ", " (time(event.time)) }
            (None, _) if !is_committed => { span.soft { "there is nothing to land" } }
            (None, Some(event)) => { span.warn { "no" } @if let Some(why) = event.data.get("obstacle").and_then(|why| why.as_str()) { ": " (Text(why)) } }
            (None, None) => { span.warn { "no" } "; " code { "nexus task land " (task.id()) } " lands it" }
        }
    }
}

/// Returns the time from the first turn's start to the last turn's end.
fn worked(turns: &[TurnRecord]) -> Markup {
    let first = turns.iter().map(|turn| turn.began).min();
    let last = turns.iter().map(|turn| turn.began + turn.took.unwrap_or(Duration::ZERO)).max();
    match first.zip(last) {
        Some((first, last)) => {
            let span = last.duration_since(first).unwrap_or_default();
            html! { (spoken_duration(span)) " from the first turn to the end of the last" }
        }
        None => html! { span.soft { "no turn has started yet" } },
    }
}
