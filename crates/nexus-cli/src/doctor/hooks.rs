//! Checks the hooks that are installed for the project of the current folder. Each line is started once.

use std::{
    env, fs, io,
    io::{Read as _, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nexus_project::{ProjectFolder, harness::Harness, hook::HookEvent};
use serde_json::Value;

use crate::checks::Check;
use crate::output::printable;

/// Time limit of a hook command. Source: our own bound; a program waits a minute or more, but a person does not.
const PATIENCE: Duration = Duration::from_secs(20);
/// Pause between two checks if a hook command has ended.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Maximum size of an answer, in bytes.
const MOST_ANSWER: u64 = 1 << 20;

/// Runs every hook command in the settings of this project's programs, with an example call in a temporary project. The real
/// project does not change.
pub(super) fn hooks() -> Vec<Check> {
    let Ok(here) = env::current_dir() else { return Vec::new() };
    let project = ProjectFolder::find(&here);
    let harnesses = match Harness::all() {
        Ok(harnesses) => harnesses,
        Err(error) => return vec![Check::problem("hooks", error.to_string(), "report this")],
    };
    harnesses.iter().filter_map(|harness| of(harness, &project)).collect()
}

fn of(harness: &Harness, project: &ProjectFolder) -> Option<Check> {
    let subject = format!("hooks {}", harness.name());
    let lines = match harness.installed_lines(project) {
        Ok(lines) if lines.is_empty() => return None,
        Ok(lines) => lines,
        Err(error) => {
            return Some(Check::problem(subject, printable(&error.message), printable(&error.advice)));
        }
    };
    let install = format!("run `nexus project install {}` in {}", harness.name(), project.root().display());
    let example = match Example::make() {
        Ok(example) => example,
        Err(error) => {
            return Some(Check::note(subject, format!("no project for a trial can be created: {error}")));
        }
    };
    let wrong: Vec<_> = lines
        .iter()
        .filter_map(|(event, line)| {
            let problem = example.trial(harness, *event, line, project.root()).err()?;
            Some(format!("`{}` {problem}", printable(line)))
        })
        .collect();
    Some(match (wrong.is_empty(), lines.len()) {
        (true, 1) => Check::ok(subject, "1 line, and its command answers"),
        (true, count) => Check::ok(subject, format!("{count} lines, and all their commands answer")),
        (false, _) => Check::problem(subject, wrong.join("; "), printable(&install)),
    })
}

/// A temporary project without tasks.
struct Example(tempfile::TempDir);

impl Example {
    fn make() -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        // A project without a task, in which the hook has to deny the edit of the trial.
        fs::create_dir_all(folder.path().join(".nexus/state"))?;
        Ok(Self(folder))
    }

    /// Runs a hook command as its program does, in the folder of the real project. The input names the temporary project.
    fn trial(&self, harness: &Harness, event: HookEvent, line: &str, folder: &Path) -> Result<(), String> {
        let input = harness.example_of_an_edit(self.0.path()).to_string();
        let (code, answer) = run(line, folder, &input)?;
        if code != 0 {
            return Err(format!("ends with {code}"));
        }
        let answer = answer.trim_ascii();
        let answer: Value = match answer.is_empty() {
            true => Value::Null,
            false => serde_json::from_slice(answer).map_err(|_| "its answer is not valid JSON".to_owned())?,
        };
        let decision = &answer["hookSpecificOutput"]["permissionDecision"];
        match event == HookEvent::PreToolUse && decision != "deny" {
            true => Err("allows an edit without a task".to_owned()),
            false => Ok(()),
        }
    }
}

/// Runs a shell command line to its end.
fn run(line: &str, folder: &Path, input: &str) -> Result<(i32, Vec<u8>), String> {
    let mut command = shell(line);
    command.current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("cannot be started: {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // An error means that the line does not read its input. Its answer decides, so the error is ignored. The input fits into a pipe.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.stdout.take();
    // A full pipe would block the line, so read its output while this thread waits for its end.
    let reader = thread::spawn(move || {
        let mut answer = Vec::new();
        if let Some(output) = output {
            let _ = output.take(MOST_ANSWER).read_to_end(&mut answer);
        }
        answer
    });
    let began = Instant::now();
    let has_ended = loop {
        match has_ended(&mut child) {
            Ok(true) => break true,
            Ok(false) if began.elapsed() < PATIENCE => thread::sleep(LOOK_EVERY),
            Ok(false) => break false,
            Err(error) => {
                end(&mut child);
                return Err(format!("its exit status cannot be read: {error}"));
            }
        }
    };
    // A process that the line left behind may keep its output open.
    end_group(&child);
    if !has_ended {
        end(&mut child);
        return Err(format!("does not end within {} s", PATIENCE.as_secs()));
    }
    let status = child.wait().map_err(|error| format!("its exit status cannot be read: {error}"))?;
    let answer = reader.join().unwrap_or_default();
    status.code().map(|code| (code, answer)).ok_or_else(|| format!("ends by {status}"))
}

/// Returns true if a child has ended. On Unix it stays a zombie, so that no other process can get its id before its group is
/// killed.
fn has_ended(child: &mut Child) -> io::Result<bool> {
    #[cfg(unix)]
    if let Some(id) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
        use rustix::process::{WaitId, WaitIdOptions, waitid};

        // Do not reap the child yet: its process id names the group to end, and must not be given to another process
        // before.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        return Ok(waitid(WaitId::Pid(id), options)?.is_some());
    }
    child.try_wait().map(|status| status.is_some())
}

#[cfg(unix)]
fn shell(line: &str) -> Command {
    use std::os::unix::process::CommandExt as _;

    let mut command = Command::new("sh");
    // A group of its own, so that all processes of the line can be ended with it.
    command.args(["-c", line]).process_group(0);
    command
}

#[cfg(not(unix))]
fn shell(line: &str) -> Command {
    let mut command = Command::new("cmd");
    command.args(["/C", line]);
    command
}

/// Kills the processes in the group of a line's shell. The shell must not be reaped yet: its id could belong to another
/// process afterwards.
fn end_group(child: &Child) {
    #[cfg(unix)]
    if let Some(group) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    #[cfg(not(unix))]
    let _ = child;
}

/// Ends the shell of a line, with all processes in its process group.
fn end(child: &mut Child) {
    end_group(child);
    let _ = child.kill();
    let _ = child.wait();
}
