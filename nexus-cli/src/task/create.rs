//! `nexus task new`.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, IsTerminal as _, Read as _},
    process::ExitCode,
};

use nexus_spawn::{TaskCreateRequest, Tasks};

use super::{absolute, note};
use crate::{
    args::NewTaskArgs,
    command_error::CommandError,
    output::{say, say_json},
};

/// Longest goal or context that is read, in bytes. More is refused by the task itself.
const MOST_BYTES: u64 = 1 << 20;

pub(super) async fn create(tasks: &Tasks, args: &NewTaskArgs) -> Result<ExitCode, CommandError> {
    let project = absolute(&args.project)?;
    let context = match &args.context {
        Some(path) => {
            let mut context = String::new();
            let read = File::open(path).and_then(|file| file.take(MOST_BYTES).read_to_string(&mut context));
            read.map_err(|error| format!("--context {}: {error}", path.display()))?;
            Some(context)
        }
        None => None,
    };
    let request = TaskCreateRequest {
        goal: goal(args)?,
        project: project.clone(),
        context,
        include_uncommitted: args.include_uncommitted,
        test_command: args.test.as_deref().map(words),
        keep: (!args.keep.is_empty()).then(|| args.keep.clone()),
        setup: (!args.setup.is_empty()).then(|| args.setup.iter().map(|line| words(line)).collect()),
        max_review_retries: args.retries,
        min_vendors: args.min_vendors,
        budget: args.budget.named(),
        labels: args.label.iter().map(|label| named(label)).collect::<Result<BTreeMap<_, _>, _>>()?,
        ..TaskCreateRequest::default()
    };
    // Whoever names a folder at a terminal means it.
    let created = tasks.create_below(request, &[project]).await?;
    for warning in &created.warnings {
        note(&format!("warning: {warning}"));
    }
    if args.json {
        say_json(&created);
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(baseline) = &created.baseline {
        note(&format!("the project's tests: {}", baseline.outcome.replace('_', " ")));
    }
    note(&format!("go on by `nexus task run {}`", created.task_id));
    say(&created.task_id);
    Ok(ExitCode::SUCCESS)
}

fn goal(args: &NewTaskArgs) -> Result<String, CommandError> {
    if let Some(goal) = &args.goal {
        return Ok(goal.clone());
    }
    if io::stdin().is_terminal() {
        note("type the goal, and end it with Ctrl-D");
    }
    let mut goal = String::new();
    let read = io::stdin().take(MOST_BYTES).read_to_string(&mut goal);
    read.map_err(|error| format!("the goal cannot be read from standard input: {error}"))?;
    Ok(goal.trim().to_owned())
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn named(label: &str) -> Result<(String, String), CommandError> {
    let (name, value) = label.split_once('=').ok_or_else(|| format!("--label {label}: write NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}
