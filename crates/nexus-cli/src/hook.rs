//! `nexus hook`: the command that a program starts on its events.
//!
//! A refusal is an answer on standard output with exit code 0. Some programs treat exit code 2 of a hook as a refusal of every
//! tool, so this command never exits with 2.

use std::{
    env,
    ffi::{OsStr, OsString},
    io::{self, Read as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use nexus_project::{
    ProjectFolder,
    hook::{HookCall, HookEvent},
};

use crate::{
    EXIT_FAILED,
    args::HookArgs,
    input,
    output::{complain, say_json},
    project,
};

/// Largest input that is read, in bytes. Source: our own bound; a tool's arguments are part of it.
const MOST_INPUT: u64 = 64 << 20;

/// The readable part of a command line.
#[derive(Debug, Default)]
struct HookLine {
    event: Option<HookEvent>,
    harness: Option<String>,
    project: Option<PathBuf>,
}

/// Answers one event.
pub(crate) fn hook(args: &HookArgs) -> ExitCode {
    let line = HookLine {
        event: event(args.event.as_ref()),
        harness: Some(args.harness.clone()),
        project: args.project.clone(),
    };
    line.answer()
}

/// Answers an event whose command line the parser rejects, for example a line that another version wrote. Returns `None` if the line is not
/// a call of `nexus hook`.
pub(crate) fn unparsed(words: impl IntoIterator<Item = OsString>, problem: &clap::Error) -> Option<ExitCode> {
    // Help and version are answers, which the caller prints.
    if !problem.use_stderr() {
        return None;
    }
    let line = HookLine::read(words.into_iter().skip(1))?;
    complain(format_args!(
        "{}; `nexus project install` writes the hooks of this version",
        problem.render().to_string().lines().next().unwrap_or_default().trim_start_matches("error: ")
    ));
    Some(line.answer())
}

fn event(word: &OsStr) -> Option<HookEvent> {
    HookEvent::ALL.into_iter().find(|event| word == event.as_str())
}

impl HookLine {
    /// Reads the known parts of a line, and ignores the rest.
    fn read(words: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut words = words.peekable();
        // Global options may come before the name of the command.
        while words.next_if(|word| word.as_encoded_bytes().starts_with(b"-")).is_some_and(|word| {
            if word == "--config" {
                words.next();
            }
            true
        }) {}
        if words.next()? != "hook" {
            return None;
        }
        let mut line = Self::default();
        while let Some(word) = words.next() {
            let text = word.to_string_lossy();
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(OsString::from(value))),
                None => (&*text, None),
            };
            match name {
                "--harness" => {
                    let value = value.or_else(|| words.next());
                    line.harness = value.map(|value| value.to_string_lossy().into_owned());
                }
                "--project" => line.project = value.or_else(|| words.next()).map(PathBuf::from),
                _ => line.event = line.event.or(event(&word)),
            }
        }
        Some(line)
    }

    fn answer(&self) -> ExitCode {
        let Some(event) = self.event else {
            let known: Vec<_> = HookEvent::ALL.iter().map(|event| event.as_str()).collect();
            complain(format_args!("the event of the hook is unknown: write one of {}", known.join(", ")));
            // Never exit code 2, which some programs take for a refusal of every tool.
            return ExitCode::from(EXIT_FAILED);
        };
        let here = env::current_dir().unwrap_or_default();
        let text = input();
        let call = HookCall {
            harness: self.harness.as_deref(),
            event,
            input: text.as_deref().map_err(Clone::clone),
            working_directory: &here,
        };
        let output = call.answer(|folder| project_of(self.project.as_deref(), folder));
        output.complaints.iter().for_each(complain);
        if let Some(answer) = output.answer {
            say_json(&answer);
        }
        ExitCode::SUCCESS
    }
}

fn input() -> Result<Vec<u8>, String> {
    let mut text = Vec::new();
    input::ask_for_input("the event, in the JSON of the program");
    io::stdin()
        .lock()
        // One byte more than allowed shows that the input is too long.
        .take(MOST_INPUT + 1)
        .read_to_end(&mut text)
        .map_err(|error| format!("standard input cannot be read: {error}"))?;
    if text.len() as u64 > MOST_INPUT {
        return Err(format!("standard input has more than {MOST_INPUT} bytes"));
    }
    Ok(text)
}

/// Returns the project that the program works on. `None` if the folder is not a project: a hook never creates one.
fn project_of(named: Option<&Path>, folder: &Path) -> Result<Option<ProjectFolder>, String> {
    let project = match named {
        Some(named) if named.is_dir() => {
            ProjectFolder::at(std::path::absolute(named).map_err(|error| error.to_string())?)
        }
        Some(named) => return Err(format!("the folder {} does not exist", named.display())),
        None => ProjectFolder::find(folder),
    };
    // The home of Nexus is a folder `.nexus` as well, and no project.
    if project::is_home(&project) {
        return Ok(None);
    }
    // In a damaged project, `.nexus` may be something other than a folder. That still counts as a project.
    Ok(project.root().join(".nexus").symlink_metadata().is_ok().then_some(project))
}
