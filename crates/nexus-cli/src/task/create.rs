//! `nexus task new`.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufRead as _, IsTerminal as _, Read as _},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

use nexus::CancelToken;
use nexus_files::read_text;
use nexus_tasks::{CreationProgress, TaskCreateRequest, TaskCreated, TaskCreation, TaskErrorKind, Tasks};

use super::absolute;
use crate::{
    activity::{self, Activity},
    args::NewTaskArgs,
    command_error::CommandError,
    input,
    interrupt::Interrupts,
    output::{AnswerWriter, printable_lines, say},
    works::note,
};

/// Maximum size of a goal or context that is read, in bytes. The task itself rejects longer ones.
const MOST_BYTES: u64 = 1 << 20;

pub(super) async fn create(
    out: AnswerWriter,
    tasks: &Tasks,
    args: &NewTaskArgs,
) -> Result<ExitCode, CommandError> {
    let project = absolute(&args.project)?;
    let context = match &args.context {
        Some(path) => {
            let read = File::open(path).and_then(|file| read_text(file, MOST_BYTES));
            Some(read.map_err(|error| format!("--context {}: {error}", path.display()))?)
        }
        None => None,
    };
    let request = TaskCreateRequest {
        goal: goal(args)?,
        project: project.clone(),
        context,
        include_uncommitted: args.include_uncommitted,
        allow_large: args.allow_large,
        test_command: args.test.as_deref().map(words),
        keep: (!args.keep.is_empty()).then(|| args.keep.clone()),
        setup: (!args.setup.is_empty()).then(|| args.setup.iter().map(|line| words(line)).collect()),
        max_review_retries: args.retries,
        min_vendors: args.min_vendors,
        max_wait_seconds: args.max_wait.map(|wait| wait.as_secs()),
        budget: args.budget.named(),
        labels: args.label.iter().map(|label| named(label)).collect::<Result<BTreeMap<_, _>, _>>()?,
        ..TaskCreateRequest::default()
    };
    let created = made(tasks, request, project).await?;
    for warning in &created.warnings {
        note(&format!("warning: {warning}"));
    }
    out.show(&created, |created| {
        if let Some(baseline) = &created.baseline {
            note(&format!("the project's tests: {}", baseline.outcome.spoken()));
        }
        note(&format!("continue with `nexus task run {}`", created.task_id));
        say(&created.task_id);
    });
    Ok(ExitCode::SUCCESS)
}

/// Creates the task. A signal cancels the creation.
async fn made(
    tasks: &Tasks,
    mut request: TaskCreateRequest,
    project: PathBuf,
) -> Result<TaskCreated, CommandError> {
    let mut interrupts = Interrupts::listen().map_err(CommandError::failed)?;
    let shown = project.clone();
    let on_progress: Arc<dyn Fn(CreationProgress) + Send + Sync> = Arc::new(move |progress| {
        let text = match progress {
            CreationProgress::Reading(reading) => format!("reading {reading} in {}", shown.display()),
            CreationProgress::Testing(command) => {
                format!("running the project's tests: {}", command.join(" "))
            }
            _ => return,
        };
        note(&text);
        activity::set(&text);
    });
    loop {
        let activity = Activity::start(&format!("reading the files in {}", project.display()));
        let creation =
            TaskCreation { cancel: CancelToken::new(), on_progress: Some(Arc::clone(&on_progress)) };
        let cancel = creation.cancel.clone();
        // A folder that a person names at a terminal counts as allowed.
        let roots = [project.clone()];
        let mut creating = std::pin::pin!(tasks.create_with(request.clone(), &roots, creation));
        let created = tokio::select! {
            created = &mut creating => created,
            _ = interrupts.next() => {
                cancel.cancel();
                let undone = creating.await;
                tasks.shutdown().await;
                match undone {
                    // The signal came too late.
                    Ok(created) => note(&format!("{} is created", created.task_id)),
                    Err(_) => note("the task is removed again"),
                }
                return Err(CommandError::cancelled());
            }
        };
        // Remove the line of the activity before a question is printed.
        drop(activity);
        match created {
            Err(error) if error.kind == TaskErrorKind::NeedsConsent => {
                if !may_ask() {
                    return Err(CommandError::failed(printable_lines(&error.message)).with_advice(
                        "ignore large files, name a smaller folder, or allow it with --allow-large",
                    ));
                }
                if !asked(&error.message)? {
                    return Err(CommandError::failed("nothing was created"));
                }
                // The creation has left no task, so it starts again with the consent.
                request.allow_large = true;
            }
            created => return Ok(created?),
        }
    }
}

/// Returns true if a person can answer a question at the terminal.
fn may_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks for consent to read a large project.
fn asked(what: &str) -> Result<bool, CommandError> {
    note(what);
    note("read it all? Type y and Enter; anything else creates nothing");
    let mut answer = String::new();
    let read = io::stdin().lock().take(1 << 10).read_line(&mut answer);
    read.map_err(|error| format!("the answer cannot be read from standard input: {error}"))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn goal(args: &NewTaskArgs) -> Result<String, CommandError> {
    if let Some(goal) = &args.goal {
        return Ok(goal.clone());
    }
    input::ask_for_input("the goal");
    let read = read_text(io::stdin(), MOST_BYTES);
    let goal = read.map_err(|error| format!("the goal cannot be read from standard input: {error}"))?;
    Ok(goal.trim().to_owned())
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn named(label: &str) -> Result<(String, String), CommandError> {
    let (name, value) = label.split_once('=').ok_or_else(|| format!("--label {label}: write NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}
