//! `nexus hook`: what a program starts when something happens in it.

use std::{
    env,
    io::{self, Read as _},
    path::Path,
    process::ExitCode,
};

use nexus_project::{
    ProjectFolder,
    harness::Harness,
    hook::{HookEvent, HookInput, HookReply},
};
use serde_json::Value;

use crate::{
    EXIT_FAILED,
    args::HookArgs,
    output::{complain, say_json},
    project,
};

/// Largest input that is read, in bytes. Source: our own bound; a tool's arguments are part of it.
const MOST_INPUT: u64 = 64 << 20;

/// Answers one event. Whatever goes wrong is told on standard error and ends with 1, which no program takes for a refusal: 2 is one to
/// some of them.
pub(crate) fn hook(args: &HookArgs) -> ExitCode {
    match answer(args) {
        Ok(Some(answer)) => {
            say_json(&answer);
            ExitCode::SUCCESS
        }
        Ok(None) => ExitCode::SUCCESS,
        Err(problem) => {
            complain(problem);
            ExitCode::from(EXIT_FAILED)
        }
    }
}

fn answer(args: &HookArgs) -> Result<Option<Value>, String> {
    let harness = Harness::find(&args.harness).map_err(|error| error.to_string())?;
    let event = HookEvent::ALL.into_iter().find(|event| event.as_str() == args.event).ok_or_else(|| {
        let known: Vec<_> = HookEvent::ALL.iter().map(|event| event.as_str()).collect();
        format!("there is no event {:?}, but {}", args.event, known.join(", "))
    })?;
    let mut text = Vec::new();
    io::stdin()
        .lock()
        .take(MOST_INPUT + 1)
        .read_to_end(&mut text)
        .map_err(|error| format!("standard input cannot be read: {error}"))?;
    if text.len() as u64 > MOST_INPUT {
        return Err(format!("standard input has more than {MOST_INPUT} bytes"));
    }
    let input: Value =
        serde_json::from_slice(&text).map_err(|error| format!("standard input is no JSON: {error}"))?;
    let mut input = harness.read(&input);
    // A program that does not tell its folder works in that of its hooks.
    if let Ok(here) = env::current_dir() {
        input.working_directory = here.join(&input.working_directory);
    }
    let Some(project) = project_of(args.project.as_deref(), &input)? else { return Ok(None) };
    let reply = project.on_hook(&harness, event, &input).unwrap_or_else(|error| {
        complain(&error);
        // The model is told, for it can do what is to be done.
        HookReply {
            context: Some(format!("The state of this project cannot be used: {error}.")),
            refusal: None,
        }
    });
    Ok(harness.answer(event, &reply))
}

/// The project that the program works on. `None`: it is none, and no hook makes it one.
fn project_of(named: Option<&Path>, input: &HookInput) -> Result<Option<ProjectFolder>, String> {
    let project = match named {
        Some(_) => project::find(named).map_err(|error| error.to_string())?,
        None => ProjectFolder::find(&input.working_directory),
    };
    if project::is_home(&project) {
        return Ok(None);
    }
    Ok(project.root().join(".nexus").is_dir().then_some(project))
}
