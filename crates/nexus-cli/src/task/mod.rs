//! `nexus task`: tasks, for a person at a terminal.

mod create;
mod queue;
mod show;
mod walk;
mod watch;

use std::{path::Path, process::ExitCode};

use nexus::{BuildContext, Router};
use nexus_tasks::{
    LandingOutcome, Task, TaskCancelRequest, TaskConfiguration, TaskLandRequest, TaskListRequest,
    TaskLogRequest, TaskRemoveRequest, TaskReopenRequest, TaskReport, TaskSnapshot, TaskStatusRequest, Tasks,
    TasksOptions, task_report,
};
use serde_json::json;

pub(crate) use self::{
    queue::DequeuedTask, show::TaskArtifactText, walk::TaskRunEvent, watch::TaskWatchEvent,
};
use crate::{
    EXIT_FAILED,
    args::{ConfigArgs, TaskCommand},
    command_error::CommandError,
    config,
    for_a_person::for_a_person,
    output::{AnswerWriter, say},
    works::{self, blocking, note},
};

pub(crate) async fn task(
    out: AnswerWriter,
    config: &ConfigArgs,
    command: TaskCommand,
) -> Result<ExitCode, CommandError> {
    match command {
        TaskCommand::New(args) => create::create(out, &configured(config)?, &args).await,
        TaskCommand::Run(args) => {
            let tasks = configured(config)?;
            let task = id(&tasks, &args.task).await?;
            match args.detach {
                true => queue::detach(out, config, &tasks, &task).await,
                false => walk::walk(out, &tasks, &task, &args).await,
            }
        }
        TaskCommand::Attach(args) => {
            let tasks = unconfigured()?;
            queue::attach(out, &tasks, &id(&tasks, &args.task).await?).await
        }
        TaskCommand::Queue(args) => queue::queue(out, &unconfigured()?, args).await,
        TaskCommand::Watch(args) => {
            let tasks = unconfigured()?;
            watch::watch(out, &tasks, &id(&tasks, &args.task).await?).await
        }
        // A reopened task needs reviewers of enough vendors, which only the configuration knows.
        TaskCommand::Reopen(_) => {
            let tasks = configured(config).or_else(|_| unconfigured())?;
            look(out, &tasks, command).await
        }
        other => look(out, &unconfigured()?, other).await,
    }
}

/// Runs the commands that need neither an agent nor a configuration.
async fn look(out: AnswerWriter, tasks: &Tasks, command: TaskCommand) -> Result<ExitCode, CommandError> {
    match command {
        TaskCommand::Status(args) => {
            let report = status(tasks, &id(tasks, &args.task).await?).await?;
            out.show(&report, |report| say(show::report(report)));
        }
        TaskCommand::Log(args) => {
            let task = id(tasks, &args.task).await?;
            let page = async |offset| {
                let page = tasks.log(TaskLogRequest { task_id: task.clone(), offset }).await?;
                Ok((page.events, Vec::new(), page.next_offset))
            };
            works::list(out, page, show::logged, "nothing happened to the task yet").await?;
        }
        TaskCommand::Show { task, artifact } => {
            show::artifact(out, tasks, &id(tasks, &task).await?, &artifact).await?;
        }
        TaskCommand::Cancel(args) => {
            let task_id = id(tasks, &args.task).await?;
            let report = tasks.cancel(TaskCancelRequest { task_id }).await?;
            out.line(&report, format_args!("{} is {}", report.task_id, report.status));
        }
        TaskCommand::Reopen(args) => {
            let from_entry = match args.from {
                Some(0) => return Err("--from counts the entries of the plan from 1".into()),
                from => from.map(|entry| entry - 1),
            };
            let task_id = id(tasks, &args.task).await?;
            let budget = args.budget.named();
            let (note_text, min_vendors) = (args.note, args.min_vendors);
            let max_wait_seconds = args.max_wait.map(|wait| wait.as_secs());
            let request = TaskReopenRequest {
                task_id,
                note: note_text,
                from_entry,
                budget,
                min_vendors,
                max_wait_seconds,
            };
            let report = tasks.reopen(request).await?;
            for warning in &report.warnings {
                note(&for_a_person(&format!("warning: {warning}")));
            }
            out.line(
                &report,
                format_args!("{0} is {1}; continue with `nexus task run {0}`", report.task_id, report.status),
            );
        }
        TaskCommand::Remove(args) => {
            let task_id = id(tasks, &args.task).await?;
            let removed = tasks.remove(TaskRemoveRequest { task_id }).await?;
            out.line(&removed, format_args!("{} is removed", removed.task_id));
        }
        TaskCommand::List { status, project } => {
            let project = project.as_deref().map(absolute).transpose()?;
            let request = TaskListRequest { status, project, ..TaskListRequest::default() };
            let page = async |offset| {
                let page = tasks.list(TaskListRequest { offset, ..request.clone() }).await?;
                Ok((page.tasks, page.unreadable, page.next_offset))
            };
            let nothing = match (&request.status, &request.project) {
                (None, None) => "no tasks yet; `nexus task new GOAL` creates one",
                _ => "no such task; `nexus task list` lists all",
            };
            works::list(out, page, show::row, nothing).await?;
        }
        TaskCommand::Land(args) => {
            let task_id = id(tasks, &args.task).await?;
            let is_new_branch = args.branch.is_some();
            let (merge, rebase, branch) = (args.merge, args.rebase, args.branch);
            let landing = tasks.land(TaskLandRequest { task_id, merge, rebase, branch }).await?;
            out.show(&landing, |landing| say(show::landing(landing, is_new_branch)));
            if landing.outcome == LandingOutcome::Patch {
                return Ok(ExitCode::from(EXIT_FAILED));
            }
        }
        TaskCommand::Report { task, output } => {
            let task = tasks.store().open(&id(tasks, &task).await?)?;
            works::report(out, blocking(move || task_report(&task)).await?, output)?;
        }
        TaskCommand::New(_)
        | TaskCommand::Run(_)
        | TaskCommand::Watch(_)
        | TaskCommand::Attach(_)
        | TaskCommand::Queue(_) => {}
    }
    Ok(ExitCode::SUCCESS)
}

async fn status(tasks: &Tasks, task: &str) -> Result<TaskReport, CommandError> {
    Ok(tasks.status(TaskStatusRequest { task_id: task.to_owned(), wait_s: Some(0) }).await?)
}

/// Resolves `text` to the id of a task.
async fn id(tasks: &Tasks, text: &str) -> Result<String, CommandError> {
    let store = tasks.store().clone();
    let listed = blocking(move || store.list()).await?.entries;
    let ids: Vec<String> = listed.iter().map(|(task, _)| task.id().to_string()).collect();
    // `last` skips tasks whose creation still runs or was interrupted, and tasks without a base.
    let is_made =
        |(task, snapshot): &(Task, TaskSnapshot)| snapshot.data.head.is_some() && !task.is_unfinished();
    let last = listed.iter().rposition(is_made).map(|last| &ids[last]);
    works::pick("task", &ids, last, text)
}

/// Opens the tasks of the home with the backends for their turns.
fn configured(config: &ConfigArgs) -> Result<Tasks, CommandError> {
    with_router(config::load_for_tasks(config)?, BuildContext::from_process())
}

/// The tasks of the home, as a configuration has them.
pub(crate) fn with_router(router: Router, context: BuildContext) -> Result<Tasks, CommandError> {
    let configuration = TaskConfiguration::of(&router).map_err(CommandError::failed)?;
    let mut options = TasksOptions::in_home(context.home);
    options.roots = configuration.roots;
    options.settings = configuration.defaults;
    Ok(Tasks::new(router, options))
}

/// Opens the tasks of the home for commands that start no agent. They work with any configuration, even an invalid one.
pub(crate) fn unconfigured() -> Result<Tasks, CommandError> {
    let context = BuildContext::from_process();
    let options = TasksOptions::in_home(context.home.clone());
    let router = Router::from_value(json!({}), nexus::Registry::new(), context)?;
    Ok(Tasks::new(router, options))
}

fn absolute(path: &Path) -> Result<std::path::PathBuf, CommandError> {
    path.canonicalize().map_err(|error| format!("{}: {error}", path.display()).into())
}
