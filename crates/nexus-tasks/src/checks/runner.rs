//! Runs one program over a copy of a tree: in a sandbox, or without one if the task's settings disable it.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use nexus_core::{CancelToken, harness::run_blocking};
use nexus_process::{
    disk_watch::DiskWatch,
    environment::Environment,
    executable::Executable,
    run_registry::RunEntry,
    sandbox::{
        Sandbox, SandboxCommand, SandboxEnd, SandboxError, SandboxLimit, SandboxLimits, SandboxOutcome,
        ToolChains,
    },
    scarcity,
    spawn::{Bounds, EndedBy, ExitStatus, Invocation, KeptOutput, SpawnError, StdinMode, Stop},
};
use tokio::sync::Semaphore;

use super::{
    error::CheckError,
    keep::ShownPath,
    output::{CheckOutput, KeptText, ProgramExit},
};
use crate::settings::{SandboxKind, SandboxSettings};

/// Number of programs of one task that run at once. Two, so that a band of units or a panel of reviewers does not occupy the whole
/// machine.
const AT_ONCE: usize = 2;
/// Largest size of each folder in memory, in bytes. Source: the default of [`SandboxLimits`].
const SCRATCH_BYTES: u64 = 1 << 30;
/// Runs programs over copies of trees. Clones share the limit on concurrent programs.
#[derive(Clone, Debug)]
pub(super) struct Runner {
    pub(super) project: PathBuf,
    settings: SandboxSettings,
    permits: Arc<Semaphore>,
    host: Vec<(OsString, OsString)>,
    nexus_home: Option<PathBuf>,
}

/// Program to run, with its limits.
#[derive(Clone, Debug)]
pub(super) struct Program<'a> {
    pub(super) argv: &'a [String],
    pub(super) stdin: &'a [u8],
    pub(super) wall: Duration,
    /// Maximum number of bytes of both outputs together; a program that writes more is stopped.
    pub(super) output_bytes: u64,
    /// Retained part of each output, in bytes.
    pub(super) kept_bytes: usize,
}

/// End of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProgramEnd {
    Exited(ProgramExit),
    TimedOut,
    Limit(String),
    /// The program did not begin; the text names the missing part.
    NotStarted(String),
}

/// One run of a program.
#[derive(Clone, Debug)]
pub(super) struct Ran {
    pub(super) ended: ProgramEnd,
    pub(super) stdout: KeptOutput,
    pub(super) stderr: KeptOutput,
    pub(super) elapsed: Duration,
}

impl Ran {
    /// Returns at most `most` bytes of each output.
    pub(super) fn output(&self, most: usize) -> CheckOutput {
        CheckOutput { stdout: KeptText::of(&self.stdout, most), stderr: KeptText::of(&self.stderr, most) }
    }
}

impl Runner {
    pub(super) fn new(project: PathBuf, settings: &SandboxSettings, host: Vec<(OsString, OsString)>) -> Self {
        Self {
            project,
            settings: settings.clone(),
            permits: Arc::new(Semaphore::new(AT_ONCE)),
            host,
            nexus_home: None,
        }
    }

    /// Records every run in the run registry of this home.
    pub(super) fn in_home(mut self, nexus_home: PathBuf) -> Self {
        self.nexus_home = Some(nexus_home);
        self
    }

    /// Replaces the environment variables of this machine.
    pub(super) fn with_host(mut self, host: Vec<(OsString, OsString)>) -> Self {
        self.host = host;
        self
    }

    pub(super) fn settings(&self) -> &SandboxSettings {
        &self.settings
    }

    /// Runs a program over the copy, which shows the kept paths of the project. `home` is an empty folder for a run without a sandbox.
    /// Waits while two other programs run.
    pub(super) async fn run(
        &self,
        copy: &Path,
        home: &Path,
        kept: &[ShownPath],
        program: Program<'_>,
        cancel: &CancelToken,
    ) -> Result<Ran, CheckError> {
        let permit = tokio::select! {
            permit = Arc::clone(&self.permits).acquire_owned() => permit,
            () = cancel.cancelled() => return Err(CheckError::Cancelled),
        };
        // The semaphore is never closed.
        let _permit = permit.map_err(|_| CheckError::Cancelled)?;
        // If the permit and the cancellation arrive together, `select!` may choose the permit.
        if cancel.is_cancelled() {
            return Err(CheckError::Cancelled);
        }
        // Register the run before it starts, so that a sweep finds the program even if this host is killed at once.
        let entry = self.entry().await?;
        match self.settings.kind {
            SandboxKind::Bubblewrap => self.in_sandbox(copy, kept, program, entry, cancel).await,
            SandboxKind::None => self.outside(copy, home, program, entry, cancel).await,
        }
    }

    async fn entry(&self) -> Result<Option<RunEntry>, CheckError> {
        let Some(home) = self.nexus_home.clone() else { return Ok(None) };
        let path = home.clone();
        let begun = run_blocking(move || RunEntry::begin(&home)).await.map_err(|_| CheckError::Cancelled)?;
        begun.map(Some).map_err(|error| CheckError::from_io(path, error))
    }

    async fn in_sandbox(
        &self,
        copy: &Path,
        kept: &[ShownPath],
        program: Program<'_>,
        entry: Option<RunEntry>,
        cancel: &CancelToken,
    ) -> Result<Ran, CheckError> {
        let mut sandbox = Sandbox::new().limits(self.limits(&program)).writable(copy, &self.project);
        let tool_chains = self.tool_chains();
        if let Some(home) = tool_chains.home(&self.project) {
            sandbox = sandbox.home(home);
        }
        for folder in tool_chains.folders() {
            sandbox = sandbox.tool_chain(folder);
        }
        for kept in kept {
            sandbox = sandbox.read_only(&kept.outside, self.project.join(&kept.place));
        }
        let mut command = SandboxCommand::new(program.argv)
            .folder(&self.project)
            .environment(self.environment_inside(&tool_chains, kept))
            .stdin(program.stdin.to_vec())
            .cancel(cancel.clone());
        if let Some(entry) = &entry {
            command = command.entry(entry);
        }
        match sandbox.run(command).await {
            Ok(outcome) => of_sandbox(outcome).map(|ran| within(ran, &program)),
            Err(error) => refused(error),
        }
    }

    fn limits(&self, program: &Program<'_>) -> SandboxLimits {
        let memory = self.settings.memory_mib.max(1).saturating_mul(1 << 20);
        let mut limits = SandboxLimits::default();
        limits.wall = program.wall;
        // The programs may use every processor all the time, so the limit on processor time grows with their number.
        let processors = std::thread::available_parallelism()
            .map_or(1, |count| count.get().try_into().unwrap_or(u32::MAX));
        limits.cpu = program.wall.saturating_mul(processors.max(2));
        limits.memory_bytes = memory;
        limits.disk_bytes = self.disk_bytes();
        limits.scratch_bytes = memory.min(SCRATCH_BYTES);
        limits.output_bytes = program.output_bytes;
        limits.kept_bytes = program.kept_bytes;
        limits
    }

    /// Maximum number of bytes that one program may add to its copy.
    fn disk_bytes(&self) -> u64 {
        self.settings.disk_mib.max(1).saturating_mul(1 << 20)
    }

    /// Returns the tool chains of the settings.
    fn tool_chains(&self) -> ToolChains {
        ToolChains::new(self.host.clone(), &self.settings.tool_chains)
    }

    /// Builds the environment inside a sandbox, with the programs of the kept paths.
    fn environment_inside(&self, tool_chains: &ToolChains, kept: &[ShownPath]) -> Environment {
        let shown: Vec<PathBuf> = kept.iter().map(|kept| self.project.join(&kept.place)).collect();
        tool_chains.environment(&shown).build().unwrap_or_default()
    }

    /// Runs a program in the copy without a sandbox, with all permissions of this user.
    async fn outside(
        &self,
        copy: &Path,
        home: &Path,
        program: Program<'_>,
        entry: Option<RunEntry>,
        cancel: &CancelToken,
    ) -> Result<Ran, CheckError> {
        let environment = Environment::from_host(self.host.iter().cloned())
            .pass(ToolChains::VARIABLES)
            .with("HOME", home)
            .with("TMPDIR", home)
            .build()
            .unwrap_or_default();
        // Tool chains without a variable lie in the person's own home, which `HOME` no longer names.
        let environment = self.tool_chains().with_default_homes(environment);
        let Some(name) = program.argv.first() else {
            return Ok(not_started("the command is empty".to_owned()));
        };
        let path = environment.value("PATH").map(OsStr::to_owned);
        // A name with a slash is relative to the copy. `join` leaves an absolute path as it is.
        let found = match name.contains('/') {
            true => Executable::at(copy.join(name)),
            false => Executable::find(name, path.as_deref()),
        };
        let executable = match found {
            Ok(executable) => executable,
            Err(error) => return Ok(not_started(error.to_string())),
        };
        let mut bounds = Bounds::default();
        bounds.time_limit = Some(program.wall);
        let mut invocation = Invocation::new(executable, copy)
            .arguments(&program.argv[1..])
            .environment(environment)
            .stdin(StdinMode::Bytes(program.stdin.to_vec().into()))
            .bounds(bounds)
            .end_with_host()
            .keep_output(program.output_bytes, program.kept_bytes);
        if let Some(entry) = &entry {
            invocation = invocation.entry(entry);
        }
        let (folders, most) = ([copy.to_owned(), home.to_owned()], self.disk_bytes());
        let watch =
            run_blocking(move || DiskWatch::start(folders, most)).await.map_err(|_| CheckError::Cancelled)?;
        let watch =
            watch.map_err(|error| CheckError::Runner { reason: error.to_string(), is_scarcity: true })?;
        let process =
            match run_blocking(move || invocation.spawn()).await.map_err(|_| CheckError::Cancelled)? {
                Ok(process) => process,
                // These are faults of the command, so they count as a program that did not start.
                Err(
                    error @ (SpawnError::Executable(_)
                    | SpawnError::WrongFormat { .. }
                    | SpawnError::Argument { .. }),
                ) => return Ok(not_started(error.to_string())),
                Err(error) => {
                    return Err(CheckError::Runner {
                        reason: error.to_string(),
                        is_scarcity: error.is_scarcity(),
                    });
                }
            };
        let mut is_over = false;
        let exit = tokio::select! {
                exit = process.wait() => exit,
            () = watch.over() => {
                // Stop without a grace period, in which the program could fill the disk.
                is_over = true;
                process.stop(Stop::new().terminate_grace(Duration::ZERO)).await
            }
            () = cancel.cancelled() => {
                process.stop(Stop::new().terminate_grace(Duration::ZERO)).await;
                return Err(CheckError::Cancelled);
            }
        };
        // A program may fill the disk and exit between two looks of the watch, so look once more.
        let is_over = is_over || run_blocking(move || watch.look_again()).await.unwrap_or_default();
        let [stdout, stderr] = process.take_kept();
        let ended = match exit.ended_by {
            _ if is_over => ProgramEnd::Limit(SandboxLimit::Disk.to_string()),
            EndedBy::TimeLimit => ProgramEnd::TimedOut,
            EndedBy::OutputLimit => ProgramEnd::Limit(SandboxLimit::Output.to_string()),
            _ => exited(exit.status)?,
        };
        Ok(within(Ran { ended, stdout, stderr, elapsed: exit.elapsed }, &program))
    }
}

/// Turns an exit with too much output into the output limit. A program may end before the limit is noticed; the same program must always
/// end the same way.
fn within(mut ran: Ran, program: &Program<'_>) -> Ran {
    let written = ran.stdout.total_bytes() + ran.stderr.total_bytes();
    if matches!(ran.ended, ProgramEnd::Exited(_)) && written > program.output_bytes {
        ran.ended = ProgramEnd::Limit(SandboxLimit::Output.to_string());
    }
    ran
}

fn of_sandbox(outcome: SandboxOutcome) -> Result<Ran, CheckError> {
    let ended = match outcome.end {
        SandboxEnd::Cancelled => return Err(CheckError::Cancelled),
        SandboxEnd::Limit(SandboxLimit::Wall) => ProgramEnd::TimedOut,
        SandboxEnd::Limit(limit) => ProgramEnd::Limit(limit.to_string()),
        // `SandboxEnd` may grow; the status describes every other end.
        _ => exited(outcome.status)?,
    };
    Ok(Ran { ended, stdout: outcome.stdout, stderr: outcome.stderr, elapsed: outcome.elapsed })
}

fn exited(status: ExitStatus) -> Result<ProgramEnd, CheckError> {
    match status {
        ExitStatus::Code(code) => Ok(ProgramEnd::Exited(ProgramExit::Code(code))),
        ExitStatus::Signal(signal) => Ok(ProgramEnd::Exited(ProgramExit::Signal(signal))),
        ExitStatus::Unknown => Err(CheckError::Runner {
            reason: "the exit status of a program is unknown: the parent of this process ignores SIGCHLD"
                .to_owned(),
            is_scarcity: false,
        }),
    }
}

fn not_started(missing: String) -> Ran {
    Ran {
        ended: ProgramEnd::NotStarted(missing),
        stdout: KeptOutput::default(),
        stderr: KeptOutput::default(),
        elapsed: Duration::ZERO,
    }
}

/// Maps an error of the sandbox: to an error if the machine is at fault, otherwise to a run that did not start.
fn refused(error: SandboxError) -> Result<Ran, CheckError> {
    match error {
        SandboxError::BubblewrapMissing
        | SandboxError::BubblewrapTooOld { .. }
        | SandboxError::ShellMissing { .. }
        | SandboxError::NamespacesForbidden { .. }
        | SandboxError::NetworkForbidden { .. } => Err(CheckError::NoSandbox { reason: error.to_string() }),
        SandboxError::DidNotStart { program, .. } => {
            let program = program.to_string_lossy().into_owned();
            Ok(not_started(format!(
                "{program:?}: check that the program and the interpreter in its first line exist and are \
                executable"
            )))
        }
        SandboxError::NoCommand => Ok(not_started("the command is empty".to_owned())),
        // The tree or the settings cause these errors, so they count as a program that did not start.
        SandboxError::PathRefused { .. }
        | SandboxError::Path { .. }
        | SandboxError::NoMountPoint { .. }
        | SandboxError::FolderMissing { .. }
            if !error.is_scarcity() =>
        {
            Ok(not_started(error.to_string()))
        }
        SandboxError::Prepare { folder, source } if !scarcity::is_scarcity(&source) => {
            Err(CheckError::from_io(folder, source))
        }
        error => Err(CheckError::Runner { reason: error.to_string(), is_scarcity: error.is_scarcity() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task_error::TaskErrorKind;

    #[test]
    fn a_machine_without_a_sandbox_is_told_the_command_that_installs_one() {
        let Err(error @ CheckError::NoSandbox { .. }) = refused(SandboxError::BubblewrapMissing) else {
            panic!("it is no failure of the program's");
        };
        let text = error.to_string();
        assert!(
            text.contains("apt-get install bubblewrap") && text.contains("sandbox: { kind: none }"),
            "{text}"
        );
    }

    #[test]
    fn a_failure_of_the_machine_s_is_no_answer_of_the_program_s() {
        let want =
            SandboxError::Unusable { said: "Resource temporarily unavailable".to_owned(), is_scarcity: true };
        assert!(matches!(refused(want), Err(CheckError::Runner { is_scarcity: true, .. })));
        let full = std::io::Error::from_raw_os_error(28);
        let full = SandboxError::Prepare { folder: "/tmp".into(), source: full };
        assert!(
            matches!(refused(full), Err(CheckError::File(error)) if error.kind == TaskErrorKind::NoSpace)
        );
        let missing = SandboxError::DidNotStart { program: "tool".into(), said: "execvp tool".to_owned() };
        assert!(
            matches!(refused(missing).unwrap().ended, ProgramEnd::NotStarted(missing) if missing.contains("tool"))
        );
    }
}
