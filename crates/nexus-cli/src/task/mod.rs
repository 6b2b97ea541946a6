//! `nexus task`: tasks, for a person at a terminal.

mod create;
mod find;
mod show;
mod walk;
mod watch;

use std::{fs, path::Path, process::ExitCode};

use nexus::{BuildContext, Router};
use nexus_tasks::{
    LandingOutcome, TaskCancelRequest, TaskConfiguration, TaskError, TaskErrorKind, TaskLandRequest,
    TaskListRequest, TaskRemoveRequest, TaskReopenRequest, TaskStatusRequest, Tasks, TasksOptions,
    task_report,
};
use serde_json::json;

use crate::{
    EXIT_FAILED,
    args::{ConfigArgs, TaskCommand},
    command_error::CommandError,
    config,
    output::{complain, printable_lines, say, say_json},
};

pub(crate) async fn task(config: &ConfigArgs, command: &TaskCommand) -> Result<ExitCode, CommandError> {
    match command {
        TaskCommand::New(args) => create::create(&configured(config)?, args).await,
        TaskCommand::Run(args) => {
            let tasks = configured(config)?;
            walk::walk(&tasks, &find::id(&tasks, &args.task).await?, args).await
        }
        TaskCommand::Watch { task } => {
            let tasks = unconfigured()?;
            watch::watch(&tasks, &find::id(&tasks, task).await?).await
        }
        other => look(&unconfigured()?, other).await,
    }
}

/// What neither runs an agent nor asks for a configuration.
async fn look(tasks: &Tasks, command: &TaskCommand) -> Result<ExitCode, CommandError> {
    let mut code = ExitCode::SUCCESS;
    match command {
        TaskCommand::Status(args) => {
            let task_id = find::id(tasks, &args.task).await?;
            let report = tasks.status(TaskStatusRequest { task_id, wait_s: Some(0) }).await?;
            match args.json {
                true => say_json(&report),
                false => say(show::report(&report)),
            }
        }
        TaskCommand::Log(args) => show::log(tasks, &find::id(tasks, &args.task).await?, args.json).await?,
        TaskCommand::Show { task, artifact } => {
            show::artifact(tasks, &find::id(tasks, task).await?, artifact).await?;
        }
        TaskCommand::Cancel(args) => {
            let task_id = find::id(tasks, &args.task).await?;
            let report = tasks.cancel(TaskCancelRequest { task_id }).await?;
            match args.json {
                true => say_json(&report),
                false => say(format_args!("{} is {}", report.task_id, report.status)),
            }
        }
        TaskCommand::Reopen(args) => {
            let from_entry = match args.from {
                Some(0) => return Err("--from counts from 1".to_owned().into()),
                from => from.map(|entry| entry - 1),
            };
            let task_id = find::id(tasks, &args.task).await?;
            let request = TaskReopenRequest {
                task_id,
                note: args.note.clone(),
                from_entry,
                budget: args.budget.named(),
            };
            let report = tasks.reopen(request).await?;
            for warning in &report.warnings {
                note(&show::for_a_person(&format!("warning: {warning}")));
            }
            match args.json {
                true => say_json(&report),
                false => say(format_args!(
                    "{0} is {1}; go on by `nexus task run {0}`",
                    report.task_id, report.status
                )),
            }
        }
        TaskCommand::Remove(args) => {
            let task_id = find::id(tasks, &args.task).await?;
            let removed = tasks.remove(TaskRemoveRequest { task_id }).await?;
            match args.json {
                true => say_json(&removed),
                false => say(format_args!("{} is removed", removed.task_id)),
            }
        }
        TaskCommand::List { status, project, json } => {
            let project = project.as_deref().map(absolute).transpose()?;
            let request = TaskListRequest { status: status.clone(), project, ..TaskListRequest::default() };
            show::list(tasks, request, *json).await?;
        }
        TaskCommand::Land(args) => {
            let task_id = find::id(tasks, &args.task).await?;
            let landing = tasks.land(TaskLandRequest { task_id }).await?;
            if landing.outcome == LandingOutcome::Patch {
                code = ExitCode::from(EXIT_FAILED);
            }
            match args.json {
                true => say_json(&landing),
                false => say(show::landing(&landing)),
            }
        }
        TaskCommand::Report { task, output } => {
            let task = tasks.store().open(&find::id(tasks, task).await?)?;
            let page = tokio::task::spawn_blocking(move || task_report(&task)).await;
            let page = page.map_err(CommandError::failed)??;
            match output {
                None => say(page.trim_end()),
                Some(path) => fs::write(path, page)
                    .map_err(|error| CommandError::failed(format_args!("{}: {error}", path.display())))?,
            }
        }
        TaskCommand::New(_) | TaskCommand::Run(_) | TaskCommand::Watch { .. } => {}
    }
    Ok(code)
}

/// The tasks of the home, with who runs their turns.
fn configured(config: &ConfigArgs) -> Result<Tasks, CommandError> {
    let router = config::load_for_tasks(config)?;
    let configuration = TaskConfiguration::of(&router).map_err(CommandError::failed)?;
    let context = BuildContext::from_process();
    let mut options = TasksOptions::in_home(context.home);
    options.roots = configuration.roots;
    options.settings = configuration.defaults;
    Ok(Tasks::new(router, options))
}

/// The tasks of the home, for what asks nobody: they can be looked at whatever the configuration says.
pub(crate) fn unconfigured() -> Result<Tasks, CommandError> {
    let context = BuildContext::from_process();
    let options = TasksOptions::in_home(context.home.clone());
    let router = Router::from_value(json!({}), nexus::Registry::new(), context)?;
    Ok(Tasks::new(router, options))
}

fn absolute(path: &Path) -> Result<std::path::PathBuf, CommandError> {
    path.canonicalize().map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Says something beside the answer.
fn note(text: &str) {
    complain(printable_lines(text));
}

impl From<TaskError> for CommandError {
    fn from(error: TaskError) -> Self {
        use TaskErrorKind::{InvalidArgument, NotConfigured, OutsideRoots, UnknownTask};
        let words = show::for_a_person(&error.to_string());
        match error.kind {
            UnknownTask | InvalidArgument | OutsideRoots | NotConfigured => words.into(),
            _ => Self::failed(words),
        }
    }
}
