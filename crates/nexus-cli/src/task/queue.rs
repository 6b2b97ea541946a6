//! `nexus task queue`, `nexus task run --detach` and `nexus task attach`: tasks that a server runs.

use std::process::ExitCode;

use nexus::BuildContext;
use nexus_tasks::{QueueRow, TaskLogRequest, TaskQueueRequest, TaskStatusWord, Tasks};
use schemars::JsonSchema;
use serde::Serialize;

use super::{id, show, status, walk};
use crate::{
    EXIT_FAILED,
    args::{ConfigArgs, QueueTaskArgs},
    command_error::CommandError,
    interrupt,
    output::{AnswerWriter, printable, say},
    serve,
    spoken_time::age,
    task::TaskRunEvent,
    terminal::fitted,
    works::{self, WatchProgress, note},
};

/// Task that was taken off the queue.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DequeuedTask {
    /// The task.
    task_id: String,
    /// False if the task was not queued.
    was_queued: bool,
}

pub(super) async fn queue(
    out: AnswerWriter,
    tasks: &Tasks,
    args: QueueTaskArgs,
) -> Result<ExitCode, CommandError> {
    let Some(task) = &args.task else { return list(out, tasks).await };
    let task_id = id(tasks, task).await?;
    if args.remove {
        let was_queued = tasks.dequeue(&task_id).await?;
        let text = match was_queued {
            true => format!("{task_id} is off the queue"),
            false => format!("{task_id} was not queued"),
        };
        out.line(&DequeuedTask { task_id, was_queued }, text);
        return Ok(ExitCode::SUCCESS);
    }
    let queued = tasks.queue(TaskQueueRequest { task_id, priority: args.priority }).await?;
    out.line(&queued, row(&queued));
    note_server();
    Ok(ExitCode::SUCCESS)
}

async fn list(out: AnswerWriter, tasks: &Tasks) -> Result<ExitCode, CommandError> {
    let page = tasks.queued().await?;
    for queued in &page.tasks {
        out.show(queued, |queued| say(row(queued)));
    }
    page.unreadable.iter().for_each(|reason| note(&crate::for_a_person::for_a_person(reason)));
    match page.tasks.is_empty() {
        true => out.nothing("no queued tasks; `nexus task queue TASK` queues one"),
        false => note_server(),
    }
    Ok(crate::conversation::exit_code_of(&page.unreadable))
}

/// Tells a person that no server runs the queue.
fn note_server() {
    if !serve::is_running(&BuildContext::from_process().home) {
        note("no server runs the queue now; `nexus serve` does");
    }
}

fn row(queued: &QueueRow) -> String {
    fitted(&printable(&format!(
        "{}  {:>4}  {:<9}  {:>4}  {}",
        queued.task_id,
        queued.priority,
        queued.status.spoken(),
        age(&queued.since),
        queued.goal.lines().next().unwrap_or_default()
    )))
}

/// Queues a task, and starts a server if none runs.
pub(super) async fn detach(
    out: AnswerWriter,
    config: &ConfigArgs,
    tasks: &Tasks,
    task_id: &str,
) -> Result<ExitCode, CommandError> {
    let request = TaskQueueRequest { task_id: task_id.to_owned(), priority: None };
    let task = tasks.queue(request).await?;
    let is_server_started = serve::ensure_server(config).await?;
    let text = format!("{task_id} is queued; follow it with `nexus task attach {task_id}`");
    out.event(|| TaskRunEvent::Queued { task, is_server_started }, || say(text));
    Ok(ExitCode::SUCCESS)
}

/// Follows a task that another process runs. Ends with the task, or when it needs answers.
pub(super) async fn attach(
    out: AnswerWriter,
    tasks: &Tasks,
    task_id: &str,
) -> Result<ExitCode, CommandError> {
    let task = tasks.store().open(task_id)?;
    let mut seen = 0;
    let mut is_noted = false;
    let mut changes = task.watch();
    let mut end = None;
    let code = works::watch(
        async || changes.changed().await,
        interrupt::exit_code,
        async || {
            // Read the status first: whatever is logged before it is shown below.
            let report = status(tasks, task_id).await?;
            let mut offset = seen;
            loop {
                let page = tasks.log(TaskLogRequest { task_id: task_id.to_owned(), offset }).await?;
                seen = offset + page.events.len() as u64;
                for event in &page.events {
                    let text = show::logged(event);
                    out.event(|| TaskRunEvent::Progress { text: text.clone() }, || note(&text));
                }
                let Some(next) = page.next_offset else { break };
                offset = next;
            }
            if report.status.is_final() && !report.running {
                end = Some(report.status);
            } else if report.status == TaskStatusWord::ClarificationNeeded && !report.running {
                walk::ask(out, &report);
                end = Some(report.status);
            } else if !report.running && report.queued.is_none() {
                return Err(CommandError::failed(format_args!(
                    "no process runs {task_id}, and it is not queued"
                ))
                .with_advice(format_args!("run it with `nexus task run {task_id}`, or add --detach")));
            } else if !report.running && !std::mem::replace(&mut is_noted, true) {
                note_server();
            }
            Ok(WatchProgress::until(end.is_some()))
        },
    )
    .await?;
    match end {
        None => Ok(code),
        Some(TaskStatusWord::ClarificationNeeded) => Ok(ExitCode::from(EXIT_FAILED)),
        Some(status) => walk::show_result(out, tasks, task_id, status == TaskStatusWord::Complete).await,
    }
}
