//! Output of `nexus project` for people.

use nexus_files::counted;
use nexus_project::{
    InitReport, ProjectFolder,
    harness::{Harness, InstallReport},
    state::{IssueStatus, ProjectTaskStatus},
    tools::{
        ContextView, CycleView, IssueView, PlanDecided, PlanStarted, PlanUpdated, TaskAdded, TaskUpdated,
        TasksClosed, TasksView,
    },
};

use crate::output::{complain, printable, say};

pub(super) fn init(project: &ProjectFolder, report: &InitReport) {
    let place = project.root().join(".nexus");
    if report.made.is_empty() {
        say(format_args!("{} is there already", place.display()));
    } else {
        say(format_args!("made {}", place.display()));
    }
    for removed in &report.removed {
        say(format_args!("removed {removed}, a leftover of an earlier version"));
    }
    if let Some(topic) = &report.plan_left {
        say(format_args!("a plan is still open: {}", printable(topic)));
    }
    if let Some(count) = report.tasks_left {
        let verb = if count == 1 { "is" } else { "are" };
        say(format_args!("{} {verb} still open; see `nexus project tasks`", counted(count, "task")));
    }
}

pub(super) fn context(context: &ContextView) {
    if let Some(branch) = &context.branch {
        say(format_args!("branch   {}", printable(branch)));
    }
    match &context.plan {
        Some(plan) if plan.pending > 0 => {
            say(format_args!("plan     {} ({} pending)", printable(&plan.topic), plan.pending));
        }
        Some(plan) => say(format_args!("plan     {} (decided)", printable(&plan.topic))),
        None => say("plan     none"),
    }
    match &context.tasks {
        Some(tasks) => {
            say(format_args!(
                "tasks    {} of {} done, {} in progress; ready: {}",
                tasks.completed,
                tasks.total,
                tasks.in_progress,
                numbers(&tasks.ready)
            ));
        }
        None => say("tasks    none"),
    }
    if let Some(skill) = &context.active_skill {
        say(format_args!("skill    {}", printable(skill)));
    }
    for decision in &context.decisions {
        say(format_args!("decided  {}: {}", printable(&decision.issue), printable(&decision.decision)));
    }
}

pub(super) fn started(started: &PlanStarted) {
    if let Some(archived) = &started.archived {
        say(format_args!("the earlier plan, {}, is in the history", printable(&archived.topic)));
    }
    say(format_args!("plan: {}", printable(&started.topic)));
    started.issues.iter().for_each(issue);
}

pub(super) fn decided(decided: &PlanDecided) {
    issue(&decided.issue);
    pending(&decided.pending);
}

pub(super) fn reopened(updated: &PlanUpdated) {
    issue(&updated.issue);
    pending(&updated.pending);
}

fn issue(issue: &IssueView) {
    let mark = if issue.status == IssueStatus::Decided { 'x' } else { ' ' };
    say(format_args!("[{mark}] {:>3}  {}", issue.id, printable(&issue.title)));
}

fn pending(pending: &[u32]) {
    if pending.is_empty() {
        say("all issues are decided");
    } else {
        say(format_args!("pending: {}", numbers(pending)));
    }
}

pub(super) fn added(added: &TaskAdded) {
    let state = if added.ready { "it can begin" } else { "it waits for the tasks before it" };
    say(format_args!("task {}: {state}", added.id));
}

pub(super) fn updated(updated: &TaskUpdated) {
    say(format_args!("task {} is {}", updated.id, updated.status.as_str()));
    if let Some(agent) = &updated.resume_agent {
        say(format_args!("the agent {} continues it", printable(agent)));
    }
    if updated.open == 0 {
        say("all tasks are done: close the cycle with `nexus project close`");
    } else {
        say(format_args!("ready: {}", numbers(&updated.ready)));
    }
}

pub(super) fn tasks(view: &TasksView) {
    if !view.exists {
        complain("no tasks yet; `nexus project add TITLE` adds one");
        return;
    }
    for task in view.tasks.iter().flatten() {
        let mark = match task.status {
            ProjectTaskStatus::Pending => ' ',
            ProjectTaskStatus::InProgress => '>',
            ProjectTaskStatus::Completed => 'x',
        };
        let mut line = format!("[{mark}] {:>3}  {}", task.id, printable(&task.title));
        if let Some(owner) = &task.owner {
            line = format!("{line} ({})", printable(owner));
        }
        if !task.dependencies.is_empty() && task.status == ProjectTaskStatus::Pending {
            let after: Vec<_> = task.dependencies.iter().copied().collect();
            line = format!("{line}, after {}", numbers(&after));
        }
        say(line);
    }
    say(format_args!("ready: {}", numbers(view.ready.as_deref().unwrap_or_default())));
}

pub(super) fn closed(closed: &TasksClosed) {
    say(format_args!(
        "closed as {}: {}, {}",
        closed.cycle,
        counted(closed.decisions, "decision"),
        counted(closed.tasks, "task")
    ));
    if !closed.open.is_empty() {
        say(format_args!("open were: {}", numbers(&closed.open)));
    }
}

pub(super) fn installed(harness: &Harness, report: &InstallReport) {
    match report.changed {
        true => say(format_args!("{} now has the hooks of {}", report.file, harness.name())),
        false => say(format_args!("{} already has the hooks of {}", report.file, harness.name())),
    }
}

pub(super) fn uninstalled(harness: &Harness, report: &InstallReport) {
    match report.changed {
        true => say(format_args!("the hooks of {} were removed from {}", harness.name(), report.file)),
        false => say(format_args!("{} has no hooks of Nexus for {}", report.file, harness.name())),
    }
}

pub(super) fn cycle(cycle: &CycleView) {
    let topic = cycle.topic.as_deref().unwrap_or("without a plan");
    say(format_args!("{}  {}", cycle.closed_at, printable(topic)));
    for decision in &cycle.decisions {
        say(format_args!("    decided  {}: {}", printable(&decision.issue), printable(&decision.decision)));
    }
    for task in &cycle.tasks {
        say(format_args!("    done     {}", printable(task)));
    }
}

fn numbers(ids: &[u32]) -> String {
    if ids.is_empty() {
        return "none".to_owned();
    }
    ids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}
