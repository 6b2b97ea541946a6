//! `nexus project`: the plan, the tasks and the knowledge of a project, by hand.

mod conformance;
mod show;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf, absolute},
    process::ExitCode,
};

use nexus_project::{
    ProjectFolder,
    harness::Harness,
    role::Role,
    schemas,
    state::ProjectTaskStatus,
    tools::{
        PlanAction, PlanDecideRequest, PlanStartRequest, PlanUpdateRequest, TaskAddRequest, TaskCloseRequest,
        TaskUpdateRequest, TaskView,
    },
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::{
    EXIT_FAILED,
    args::{ProjectArgs, ProjectCommand},
    command_error::CommandError,
    output::{AnswerWriter, complain, printable_lines, say, say_bytes, say_json},
    schema::foreign::ObjectSchema,
    task,
};

pub(crate) use self::conformance::ConformanceOutcome;

/// Task of a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListedProjectTask {
    /// True if the task can be begun.
    is_ready: bool,
    #[serde(flatten)]
    task: TaskView,
}

/// Instructions of an agent for a task.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TaskPrompt {
    /// The number of the task.
    task: u32,
    /// The text.
    prompt: String,
}

/// JSON Schema of a file.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct FileSchema(#[schemars(with = "ObjectSchema")] Value);

pub(crate) async fn project(out: AnswerWriter, args: ProjectArgs) -> Result<ExitCode, CommandError> {
    let ProjectArgs { project, command } = args;
    match command {
        ProjectCommand::Conformance { server, prefix, fixtures } => {
            return conformance::run(out, &server, prefix, &fixtures).await;
        }
        ProjectCommand::Roles { register: true, .. } => return register(out).await,
        ProjectCommand::Roles { name, .. } => return roles(name.as_deref(), out),
        ProjectCommand::Schema { file } => {
            let known = schemas();
            let names = known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            let schema = known.into_iter().find(|(name, _)| *name == file);
            let schema = schema.ok_or_else(|| format!("{file:?} has no schema; write one of {names}"))?;
            say_json(&FileSchema(schema.1));
            return Ok(ExitCode::SUCCESS);
        }
        _ => {}
    }
    let project = find(project.as_deref())?;
    run(&project, command, out)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the named project, or the project that contains the current folder. Rejects the folder in which Nexus stores its own files.
pub(crate) fn find(named: Option<&Path>) -> Result<ProjectFolder, CommandError> {
    let folder = match named {
        Some(folder) if folder.is_dir() => absolute(folder),
        Some(folder) => {
            return Err(CommandError::usage(format_args!("the folder {} does not exist", folder.display())));
        }
        None => std::env::current_dir(),
    };
    let folder: PathBuf = folder.map_err(|error| {
        CommandError::failed(format_args!("the current folder cannot be determined: {error}"))
    })?;
    let project = if named.is_some() { ProjectFolder::at(folder) } else { ProjectFolder::find(&folder) };
    if is_home(&project) {
        let message = format!(
            "{} is the folder of Nexus's own files: name a project with --project",
            project.root().join(".nexus").display()
        );
        return Err(CommandError::usage(message));
    }
    Ok(project)
}

/// Returns true if a project's `.nexus/` is the folder in which Nexus stores its own files, even through links.
pub(crate) fn is_home(project: &ProjectFolder) -> bool {
    let (folder, home) = (project.root().join(".nexus"), nexus::BuildContext::from_process().home);
    // A folder that does not exist cannot be resolved, so compare the plain paths as well.
    folder == home
        || matches!((folder.canonicalize(), home.canonicalize()), (Ok(folder), Ok(home)) if folder == home)
}

fn run(project: &ProjectFolder, command: ProjectCommand, out: AnswerWriter) -> Result<(), CommandError> {
    match command {
        ProjectCommand::Init => {
            let report = project.init()?;
            out.show(&report, |report| show::init(project, report));
        }
        ProjectCommand::Status => {
            let context = project.context()?;
            out.show(&context, show::context);
        }
        ProjectCommand::Plan { topic, issue, research } => {
            let request = PlanStartRequest { topic, issues: issue, research_summary: research };
            let started = project.plan_start(request)?;
            out.show(&started, show::started);
        }
        ProjectCommand::Decide { issue, decision } => {
            let decided = project.plan_decide(PlanDecideRequest { issue, decision })?;
            out.show(&decided, show::decided);
        }
        ProjectCommand::Reopen { issue } => {
            let request = PlanUpdateRequest { action: PlanAction::Reopen, issue: Some(issue), title: None };
            let updated = project.plan_update(&request)?;
            out.show(&updated, show::reopened);
        }
        ProjectCommand::Add(add) => {
            let request = TaskAddRequest {
                title: add.title,
                context: add.context,
                approach: add.approach,
                acceptance: add.acceptance,
                owner: add.owner,
                dependencies: add.after.into_iter().collect(),
                files: add.file.into_iter().collect(),
                owner_reuse_policy: None,
            };
            let added = project.task_add(request)?;
            out.show(&added, show::added);
        }
        ProjectCommand::Tasks => {
            let view = project.all_tasks()?;
            if !out.is_json() {
                show::tasks(&view);
                return Ok(());
            }
            let ready = view.ready.unwrap_or_default();
            for task in view.tasks.into_iter().flatten() {
                say_json(&ListedProjectTask { is_ready: ready.contains(&task.id), task });
            }
        }
        ProjectCommand::Prompt { task } => {
            let tasks = project.tasks()?;
            let Some(task) = tasks.as_ref().and_then(|tasks| tasks.task(task)) else {
                return Err(CommandError::usage(format_args!("task {task} does not exist")));
            };
            let prompt = TaskPrompt { task: task.id, prompt: project.task_prompt(task)? };
            out.show(&prompt, |prompt| say_bytes(printable_lines(&prompt.prompt).as_bytes()));
        }
        ProjectCommand::Begin { task, agent } => {
            update(project, (task, ProjectTaskStatus::InProgress), agent, Vec::new(), out)?;
        }
        ProjectCommand::Done { task, file, agent } => {
            update(project, (task, ProjectTaskStatus::Completed), agent, file, out)?;
        }
        ProjectCommand::Back { task } => {
            update(project, (task, ProjectTaskStatus::Pending), None, Vec::new(), out)?;
        }
        ProjectCommand::Close { force } => {
            let closed = project.task_close(&TaskCloseRequest { force })?;
            out.show(&closed, show::closed);
        }
        ProjectCommand::History { words } => {
            let found = project.all_cycles(&words.join(" "))?;
            if found.cycles.is_empty() {
                out.nothing("no such cycle; `nexus project close` ends one");
            }
            found.cycles.iter().for_each(|cycle| out.show(cycle, show::cycle));
        }
        ProjectCommand::Install { harness, command } => {
            let harness = Harness::find(&harness)?;
            let report = harness.install(project, &command)?;
            out.show(&report, |report| show::installed(&harness, report));
            if !project.root().join(".nexus").is_dir() {
                complain(
                    ".nexus/ does not exist, and the hooks do nothing without it: run `nexus project init`",
                );
            }
        }
        ProjectCommand::Uninstall { harness } => {
            let harness = Harness::find(&harness)?;
            let report = harness.uninstall(project)?;
            out.show(&report, |report| show::uninstalled(&harness, report));
        }
        // These need no project.
        ProjectCommand::Roles { .. } | ProjectCommand::Schema { .. } | ProjectCommand::Conformance { .. } => {
        }
    }
    Ok(())
}

fn update(
    project: &ProjectFolder,
    (task, status): (u32, ProjectTaskStatus),
    agent: Option<String>,
    files: Vec<String>,
    out: AnswerWriter,
) -> Result<(), CommandError> {
    let files_touched: BTreeSet<_> = files.into_iter().collect();
    let request = TaskUpdateRequest { task, status, agent, files_touched };
    let updated = project.task_update(request)?;
    out.show(&updated, show::updated);
    Ok(())
}

fn roles(name: Option<&str>, out: AnswerWriter) -> Result<ExitCode, CommandError> {
    let Some(name) = name else {
        let width = Role::catalog().map(|role| role.name.len()).max().unwrap_or(0);
        for role in Role::catalog() {
            out.line(&role, format_args!("{:width$}  {}", role.name, role.description));
        }
        return Ok(ExitCode::SUCCESS);
    };
    let Some(role) = Role::find(name) else {
        let known: Vec<_> = Role::catalog().map(|role| role.name).collect();
        return Err(format!("unknown role {name:?}; write one of {}", known.join(", ")).into());
    };
    out.show(&role, |role| say(role.body.trim_end()));
    Ok(ExitCode::SUCCESS)
}

/// Registers the roles as types of agents of the home.
async fn register(out: AnswerWriter) -> Result<ExitCode, CommandError> {
    let tasks = task::unconfigured()?;
    for role in Role::custom_types() {
        let agent = tasks.agent_register(role.into()).await?;
        out.line(&agent, format_args!("{}: {} of {}", agent.name, agent.phase, agent.tier));
    }
    Ok(ExitCode::SUCCESS)
}

/// Exit code of a command that passes or fails.
fn judged(is_passed: bool) -> ExitCode {
    if is_passed { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILED) }
}
