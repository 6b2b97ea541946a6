//! Tools that run command lines: `run_command`, `read_command` and `stop_command`.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use nexus_core::{Effects, MAX_ANSWER_BYTES, Tool, ToolAccess, harness::run_blocking};
use nexus_process::executable::Executable;
use nexus_process::sandbox::{SandboxCommand, SandboxEnd, SandboxLimits, SandboxRun};
use nexus_process::spawn::{Bounds, EndedBy, ExitStatus, Invocation, KeptOutput, Process, StdinMode};
use schemars::JsonSchema;
use serde::Deserialize;

use super::surroundings::CommandRunner;

/// Default time limit of a command, in seconds.
const DEFAULT_SECONDS: u64 = 120;
/// Longest time limit of a command, in seconds. Source: our own bound.
const MAX_SECONDS: u64 = 3_600;
/// Longest wait of `read_command`, in seconds. Source: our own bound.
const MAX_WAIT_SECONDS: u64 = 120;
/// Longest command line, in bytes. Source: the kernel accepts 128 KiB in one argument.
const MAX_COMMAND_BYTES: usize = 100 << 10;
/// Number of commands that may run at once in one turn. Source: our own bound.
const MAX_RUNNING: usize = 8;
/// Stored output of one command, in bytes: its beginning and its end. The rest of the answer's bound is for the exit status.
const KEPT_BYTES: usize = MAX_ANSWER_BYTES - 500;
/// Maximum output of one command, in bytes. A command that writes more is stopped.
const OUTPUT_BYTES: u64 = 256 << 20;

/// Commands of one turn. Dropping the last clone ends those that still run.
#[derive(Clone, Debug)]
pub(super) struct Commands(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    runner: CommandRunner,
    access: ToolAccess,
    running: Mutex<BTreeMap<u32, Arc<tokio::sync::Mutex<RunningCommand>>>>,
}

/// Arguments of `run_command`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RunArguments {
    /// Command line for the shell.
    command: String,
    /// Folder in which it runs, relative to the working folder. Default: the working folder.
    #[serde(default)]
    folder: Option<String>,
    /// Time limit in seconds, at most 3600. Default 120.
    #[serde(default)]
    seconds: Option<u64>,
    /// True to return at once and let the command run. `read_command` reads its output, and the command ends with the turn.
    #[serde(default)]
    background: bool,
}

/// Arguments of `read_command`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadArguments {
    /// Number of the command, from the answer of `run_command`.
    id: u32,
    /// Seconds to wait for its end, at most 120. Default 0.
    #[serde(default)]
    wait_seconds: u64,
}

/// Arguments of `stop_command`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StopArguments {
    /// Number of the command, from the answer of `run_command`.
    id: u32,
}

impl Commands {
    pub(super) fn new(runner: CommandRunner, access: ToolAccess) -> Self {
        Self(Arc::new(Shared { runner, access, running: Mutex::default() }))
    }

    /// Returns the three tools.
    pub(super) fn tools(&self) -> [Tool; 3] {
        let shell = self.0.runner.shell;
        let network = self.0.runner.network.as_ref().map(|network| format!(" {}", network.description()));
        let without = if network.is_some() { "" } else { " without a network" };
        let surroundings = match self.0.access {
            ToolAccess::Unrestricted => "It runs as this user.".to_owned(),
            ToolAccess::ReadOnly => {
                format!("It runs in a sandbox{without}, which shows the working folder read-only.")
            }
            _ => {
                format!("It runs in a sandbox{without}. It can write in the working folder, except in .git.")
            }
        };
        let surroundings = surroundings + &network.unwrap_or_default();
        let description = format!(
            "Runs a command line with {shell}, and returns its exit code and its output. {surroundings} Of long output, the \
             beginning and the end are returned."
        );
        let (run, read, stop) = (self.clone(), self.clone(), self.clone());
        let effects = match self.0.access {
            ToolAccess::ReadOnly => Effects::Read,
            _ => Effects::Wrote,
        };
        [
            Tool::new("run_command", description, move |arguments: RunArguments| {
                let commands = run.clone();
                async move { commands.run(arguments).await }
            })
            .with_effects(effects),
            Tool::new(
                "read_command",
                "Returns the output of a command in the background so far, and its exit code if it has ended.",
                move |arguments: ReadArguments| {
                    let commands = read.clone();
                    async move { commands.read(&arguments).await }
                },
            )
            .read_only(),
            Tool::new(
                "stop_command",
                "Stops a command in the background, and returns its output.",
                move |arguments: StopArguments| {
                    let commands = stop.clone();
                    async move { commands.stop(arguments.id).await }
                },
            )
            .with_effects(effects),
        ]
    }

    async fn run(&self, arguments: RunArguments) -> Result<String, String> {
        let ended = self.run_to_end(arguments).await;
        self.with_notice(ended)
    }

    /// Moves repositories aside that a command created. Adds that, and refused hosts, to the answer.
    fn with_notice(&self, ended: Result<String, String>) -> Result<String, String> {
        let refused = self.0.runner.network.as_ref().and_then(|network| network.notice());
        let planted = self.0.runner.without_git.set_aside();
        let notices = planted.iter().map(ToString::to_string).chain(refused);
        notices.fold(ended, |ended, notice| match ended {
            Ok(text) => Ok(format!("{text}\n{notice}")),
            Err(text) => Err(format!("{text}\n{notice}")),
        })
    }

    async fn run_to_end(&self, arguments: RunArguments) -> Result<String, String> {
        if arguments.command.trim().is_empty() {
            return Err("the command is empty".to_owned());
        }
        if arguments.command.len() > MAX_COMMAND_BYTES {
            return Err(format!(
                "the command is longer than {MAX_COMMAND_BYTES} bytes: write a script to a file, and run that"
            ));
        }
        if arguments.command.contains('\0') {
            return Err("the command contains a NUL byte".to_owned());
        }
        let seconds = arguments.seconds.unwrap_or(DEFAULT_SECONDS).clamp(1, MAX_SECONDS);
        if !arguments.background {
            let mut running = self.start(&arguments, seconds).await?;
            return running.end().await;
        }
        // Reserve the number before the start, so that concurrent calls cannot exceed the bound.
        let id = {
            let mut all = self.running();
            // A command counts until its end was seen, so look for ends first.
            let is_active = |one: &Arc<tokio::sync::Mutex<RunningCommand>>| match one.try_lock() {
                Ok(mut one) => {
                    one.ended.is_none() && (one.program.is_none() || one.end().now_or_never().is_none())
                }
                Err(_) => true,
            };
            let active = all.values().filter(|one| is_active(one)).count();
            if active >= MAX_RUNNING {
                return Err(format!("{active} commands run already: stop one with stop_command"));
            }
            let id = all.keys().next_back().map_or(1, |last| last + 1);
            all.insert(id, Arc::new(tokio::sync::Mutex::new(RunningCommand::starting())));
            id
        };
        let started = self.start(&arguments, seconds).await;
        match started {
            Ok(running) => {
                let slot = self.slot(id)?;
                let mut slot = slot.lock().await;
                // Another call of the same reply may have stopped it meanwhile.
                if slot.ended.is_some() {
                    return Err("the command was stopped before it began".to_owned());
                }
                *slot = running;
                Ok(format!("the command runs as number {id}; read_command returns its output"))
            }
            Err(error) => {
                self.running().remove(&id);
                Err(error)
            }
        }
    }

    async fn read(&self, arguments: &ReadArguments) -> Result<String, String> {
        let slot = self.slot(arguments.id)?;
        let mut running = slot.lock().await;
        let wait = Duration::from_secs(arguments.wait_seconds.min(MAX_WAIT_SECONDS));
        match tokio::time::timeout(wait, running.end()).await {
            Ok(ended) => self.with_notice(ended),
            Err(_) => Ok(format!("it is still running\n{}", running.output())),
        }
    }

    async fn stop(&self, id: u32) -> Result<String, String> {
        let slot = self.slot(id)?;
        let mut running = slot.lock().await;
        if running.ended.is_none() {
            let output = running.output();
            // Dropping the program ends it and all its descendants.
            *running = RunningCommand { program: None, ended: Some(Ok(format!("it was stopped\n{output}"))) };
        }
        let ended = running.end().await;
        self.with_notice(ended)
    }

    fn slot(&self, id: u32) -> Result<Arc<tokio::sync::Mutex<RunningCommand>>, String> {
        let known = self.running().get(&id).cloned();
        known.ok_or_else(|| {
            format!("no command has the number {id}: run_command with `background` returns one")
        })
    }

    fn running(&self) -> std::sync::MutexGuard<'_, BTreeMap<u32, Arc<tokio::sync::Mutex<RunningCommand>>>> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn start(&self, arguments: &RunArguments, seconds: u64) -> Result<RunningCommand, String> {
        let runner = &self.0.runner;
        let folder = match &arguments.folder {
            Some(folder) => below(&runner.folder, folder, self.0.access)?,
            None => runner.folder.clone(),
        };
        // Both outputs go to one pipe, so that their order stays.
        let script = format!("exec 2>&1\n{}", arguments.command);
        let limit = Duration::from_secs(seconds);
        let program = match &runner.sandbox {
            Some(sandbox) => {
                let mut limits = SandboxLimits::default();
                limits.wall = limit;
                limits.cpu = limit.saturating_mul(4);
                limits.output_bytes = OUTPUT_BYTES;
                limits.kept_bytes = KEPT_BYTES;
                let command = SandboxCommand::new([runner.shell, "-c", &script])
                    .folder(folder)
                    .environment(runner.environment.clone());
                let run = sandbox.clone().limits(limits).start(command).await;
                CommandProgram::Sandboxed(Box::new(run.map_err(|error| error.to_string())?))
            }
            None => {
                let mut bounds = Bounds::default();
                bounds.time_limit = Some(limit);
                let shell = Executable::at(runner.shell).map_err(|error| error.to_string())?;
                let invocation = Invocation::new(shell, folder)
                    .arguments(["-c", &script])
                    .environment(runner.environment.clone())
                    .stdin(StdinMode::Empty)
                    .bounds(bounds)
                    .end_with_host()
                    .keep_output(OUTPUT_BYTES, KEPT_BYTES);
                let spawned = run_blocking(move || invocation.spawn()).await;
                let process = spawned.map_err(|_| "the runtime is shutting down".to_owned())?;
                CommandProgram::AsUser(Box::new(process.map_err(|error| error.to_string())?))
            }
        };
        Ok(RunningCommand { program: Some(program), ended: None })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Ends the commands first.
        self.running.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
        self.runner.without_git.set_aside_and_log();
    }
}

/// Returns the folder `given` below the working folder. The sandbox limits what a command reaches; this only finds mistakes early.
fn below(folder: &Path, given: &str, access: ToolAccess) -> Result<PathBuf, String> {
    let path = folder.join(given);
    let leaves = Path::new(given).components().any(|part| part == Component::ParentDir);
    match access == ToolAccess::Unrestricted || (!leaves && !given.contains('\0')) {
        true => Ok(path),
        false => Err(format!("{given:?} leads out of the working folder")),
    }
}

/// Command that was started.
#[derive(Debug)]
struct RunningCommand {
    /// The program; `None` before its start and after its end.
    program: Option<CommandProgram>,
    /// The answer, once the command has ended.
    ended: Option<Result<String, String>>,
}

/// Program of a command.
#[derive(Debug)]
enum CommandProgram {
    Sandboxed(Box<SandboxRun>),
    AsUser(Box<Process>),
}

impl RunningCommand {
    fn starting() -> Self {
        Self { program: None, ended: None }
    }

    /// Returns the output so far.
    fn output(&self) -> String {
        match &self.program {
            Some(CommandProgram::Sandboxed(run)) => run.output()[0].text(),
            Some(CommandProgram::AsUser(process)) => process.kept()[0].text(),
            None => String::new(),
        }
    }

    /// Waits for the end, and returns the answer. The future may be dropped and the wait repeated.
    async fn end(&mut self) -> Result<String, String> {
        if let Some(ended) = &self.ended {
            return ended.clone();
        }
        let answer = match &mut self.program {
            Some(CommandProgram::Sandboxed(run)) => match run.wait().await {
                Ok(outcome) => match outcome.end {
                    SandboxEnd::Limit(limit) => {
                        Err(answer(&format!("stopped: it reached the limit on {limit}"), &outcome.stdout))
                    }
                    _ => finished(outcome.status, &outcome.stdout),
                },
                Err(error) => Err(error.to_string()),
            },
            Some(CommandProgram::AsUser(process)) => {
                let exit = process.wait().await;
                let [stdout, _] = process.take_kept();
                match exit.ended_by {
                    EndedBy::TimeLimit => Err(answer("stopped: it reached the limit on time", &stdout)),
                    EndedBy::OutputLimit => Err(answer("stopped: it reached the limit on output", &stdout)),
                    _ => finished(exit.status, &stdout),
                }
            }
            None => Err("the command is being started: try again".to_owned()),
        };
        if self.program.take().is_some() {
            self.ended = Some(answer.clone());
        }
        answer
    }
}

fn finished(status: ExitStatus, output: &KeptOutput) -> Result<String, String> {
    match status {
        ExitStatus::Code(0) => Ok(answer("exit code 0", output)),
        ExitStatus::Code(code) => Err(answer(&format!("exit code {code}"), output)),
        ExitStatus::Signal(signal) => Err(answer(&format!("ended by signal {signal}"), output)),
        ExitStatus::Unknown => Err(answer("ended; its exit status is unknown", output)),
    }
}

fn answer(head: &str, output: &KeptOutput) -> String {
    // Bytes that are not UTF-8 grow to three each, so the text is cut once more.
    let mut text = output.text();
    if text.len() > KEPT_BYTES {
        let (start, end) = (text.floor_char_boundary(KEPT_BYTES / 2), text.len() - KEPT_BYTES / 2);
        let end = text.ceil_char_boundary(end);
        text.replace_range(start..end, "\n[some output is left out]\n");
    }
    format!("{head}\n{text}")
}
