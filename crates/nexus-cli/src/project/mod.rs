//! `nexus project`: plans, tasks and what is known of a project, by hand.

mod conformance;
mod show;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf, absolute},
    process::ExitCode,
};

use nexus_project::{
    ProjectError, ProjectErrorKind, ProjectFolder,
    harness::Harness,
    role::{AgentType, Role},
    schemas,
    state::ProjectTaskStatus,
    tools::{
        PlanAction, PlanDecideRequest, PlanStartRequest, PlanUpdateRequest, TaskAddRequest, TaskCloseRequest,
        TaskUpdateRequest,
    },
};
use nexus_tasks::AgentRegisterRequest;
use serde::Serialize;

use crate::{
    EXIT_FAILED,
    args::{ProjectArgs, ProjectCommand},
    command_error::CommandError,
    output::{complain, printable_lines, say, say_bytes, say_json},
    task,
};

pub(crate) async fn project(args: ProjectArgs) -> Result<ExitCode, CommandError> {
    let ProjectArgs { project, json, command } = args;
    let out = Out { json };
    match command {
        ProjectCommand::Conformance { server, prefix, fixtures } => {
            return conformance::run(&server, prefix, &fixtures, json).await;
        }
        ProjectCommand::Roles { register: true, .. } => return register(&out).await,
        ProjectCommand::Roles { name, .. } => return roles(name.as_deref(), &out),
        ProjectCommand::Schema { file } => {
            let known = schemas();
            let Some((_, schema)) = known.iter().find(|(name, _)| *name == file) else {
                let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
                let message = format!("there is no schema of {file:?}, but of {}", names.join(", "));
                return Err(CommandError::usage(message));
            };
            say_json(schema);
            return Ok(ExitCode::SUCCESS);
        }
        _ => {}
    }
    let project = find(project.as_deref())?;
    run(&project, command, &out)?;
    Ok(ExitCode::SUCCESS)
}

/// The project that is named, or that the current folder belongs to. Never the folder in which Nexus keeps its own files.
pub(crate) fn find(named: Option<&Path>) -> Result<ProjectFolder, CommandError> {
    let folder = match named {
        Some(folder) if folder.is_dir() => absolute(folder),
        Some(folder) => {
            return Err(CommandError::usage(format_args!("there is no folder {}", folder.display())));
        }
        None => std::env::current_dir(),
    };
    let folder: PathBuf = folder
        .map_err(|error| CommandError::failed(format_args!("the current folder cannot be told: {error}")))?;
    let project = if named.is_some() { ProjectFolder::at(folder) } else { ProjectFolder::find(&folder) };
    if is_home(&project) {
        let message = format!(
            "{} is where Nexus keeps its own files: name a project by --project",
            project.root().join(".nexus").display()
        );
        return Err(CommandError::usage(message));
    }
    Ok(project)
}

/// Whether a project's `.nexus/` is the folder in which Nexus keeps its own files, whatever links lead to it.
pub(crate) fn is_home(project: &ProjectFolder) -> bool {
    let (folder, home) = (project.root().join(".nexus"), nexus::BuildContext::from_process().home);
    folder == home
        || matches!((folder.canonicalize(), home.canonicalize()), (Ok(folder), Ok(home)) if folder == home)
}

/// How answers are printed.
struct Out {
    json: bool,
}

impl Out {
    fn say<T: Serialize>(&self, answer: &T, print: impl FnOnce(&T)) {
        if self.json { say_json(answer) } else { print(answer) }
    }
}

fn failed(error: ProjectError) -> CommandError {
    match error.kind {
        ProjectErrorKind::InvalidArgument | ProjectErrorKind::Unknown => CommandError::usage(error),
        _ => CommandError::failed(error),
    }
}

fn run(project: &ProjectFolder, command: ProjectCommand, out: &Out) -> Result<(), CommandError> {
    match command {
        ProjectCommand::Init => {
            let report = project.init().map_err(failed)?;
            out.say(&report, |report| show::init(project, report));
        }
        ProjectCommand::Status => {
            let context = project.context().map_err(failed)?;
            out.say(&context, show::context);
        }
        ProjectCommand::Plan { topic, issue, research } => {
            let request = PlanStartRequest { topic, issues: issue, research_summary: research };
            let started = project.plan_start(request).map_err(failed)?;
            out.say(&started, show::started);
        }
        ProjectCommand::Decide { issue, decision } => {
            let decided = project.plan_decide(PlanDecideRequest { issue, decision }).map_err(failed)?;
            out.say(&decided, show::decided);
        }
        ProjectCommand::Reopen { issue } => {
            let request = PlanUpdateRequest { action: PlanAction::Reopen, issue: Some(issue), title: None };
            let updated = project.plan_update(&request).map_err(failed)?;
            out.say(&updated, show::reopened);
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
            let added = project.task_add(request).map_err(failed)?;
            out.say(&added, show::added);
        }
        ProjectCommand::Tasks => {
            let view = project.all_tasks().map_err(failed)?;
            out.say(&view, show::tasks);
        }
        ProjectCommand::Prompt { task } => {
            let tasks = project.tasks().map_err(failed)?;
            let Some(task) = tasks.as_ref().and_then(|tasks| tasks.task(task)) else {
                return Err(CommandError::usage(format_args!("there is no task {task}")));
            };
            let prompt = project.task_prompt(task).map_err(failed)?;
            out.say(&prompt, |prompt| say_bytes(printable_lines(prompt).as_bytes()));
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
            let closed = project.task_close(&TaskCloseRequest { force }).map_err(failed)?;
            out.say(&closed, show::closed);
        }
        ProjectCommand::History { words } => {
            let found = project.all_cycles(&words.join(" ")).map_err(failed)?;
            out.say(&found, show::history);
        }
        ProjectCommand::Install { harness, command } => {
            let harness = Harness::find(&harness).map_err(failed)?;
            let report = harness.install(project, &command).map_err(failed)?;
            out.say(&report, |report| show::installed(&harness, report));
            if !project.root().join(".nexus").is_dir() {
                complain(
                    "there is no .nexus/ yet, and without it the hooks do nothing: call `nexus project init`",
                );
            }
        }
        ProjectCommand::Uninstall { harness } => {
            let harness = Harness::find(&harness).map_err(failed)?;
            let report = harness.uninstall(project).map_err(failed)?;
            out.say(&report, |report| show::uninstalled(&harness, report));
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
    out: &Out,
) -> Result<(), CommandError> {
    let files_touched: BTreeSet<_> = files.into_iter().collect();
    let request = TaskUpdateRequest { task, status, agent, files_touched };
    let updated = project.task_update(request).map_err(failed)?;
    out.say(&updated, show::updated);
    Ok(())
}

fn roles(name: Option<&str>, out: &Out) -> Result<ExitCode, CommandError> {
    match name {
        None => out.say(&Role::catalog().collect::<Vec<_>>(), |roles| show::roles(roles)),
        Some(name) => {
            let Some(role) = Role::find(name) else {
                let known: Vec<_> = Role::catalog().map(|role| role.name).collect();
                let message = format!("there is no role {name:?}, but {}", known.join(", "));
                return Err(CommandError::usage(message));
            };
            out.say(&role, |role| say(role.body.trim_end()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes the roles types of agents of the home. `reviewer` is built in.
async fn register(out: &Out) -> Result<ExitCode, CommandError> {
    let tasks = task::unconfigured()?;
    let mut registered = Vec::new();
    for role in Role::catalog().filter(|role| role.name != "reviewer") {
        let AgentType { name, tier, phase, description, prompt, surface, .. } = role.agent_type();
        let surface =
            serde_json::to_value(surface).and_then(serde_json::from_value).map_err(CommandError::failed)?;
        let request =
            AgentRegisterRequest { name, tier, phase, description, topics: Vec::new(), prompt, surface };
        registered.push(tasks.agent_register(request).await?);
    }
    out.say(&registered, |registered| {
        for agent in registered {
            say(format_args!("{}: {} of {}", agent.name, agent.phase, agent.tier));
        }
    });
    Ok(ExitCode::SUCCESS)
}

/// How a command ends that judged something.
fn judged(is_passed: bool) -> ExitCode {
    if is_passed { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILED) }
}
