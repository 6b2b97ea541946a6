//! One run of a program in a sandbox.

use std::time::Duration;

use super::command::SandboxCommand;
use super::error::SandboxError;
use super::launch::Launch;
use super::launch_failure::launch_failure;
use super::limits::SandboxLimit;
use super::outcome::{SandboxEnd, SandboxOutcome};
use super::prepared::SandboxSupport;
use super::root::Sandbox;
use super::usage::EVERY;
use crate::containment::signal_in_code;
use crate::spawn::{Bounds, EndedBy, Exit, ExitStatus, KeptOutput, Process, StdinMode, Stop};
use rustix::process::Signal;

/// Messages of `unshare` of util-linux when its child is killed, without a fault of the program. `unshare` writes in
/// pieces, and may be killed after any of them. Source: observed; glibc's `err`.
const UNSHARE_SAYS: [&[u8]; 4] = [
    b"unshare: sigprocmask unblock failed: Invalid argument\n",
    b"unshare: sigprocmask unblock failed: ",
    b"unshare: sigprocmask unblock failed",
    b"unshare: ",
];
impl Sandbox {
    /// Runs a program, and waits until it and all its descendants have ended. Dropping the future ends all of them
    /// before the drop returns, which takes some milliseconds.
    ///
    /// Must be called within a Tokio runtime.
    ///
    /// # Errors
    ///
    /// A [`SandboxError`], in which case no part of the program was executed. A program that ran and failed is an
    /// outcome, not an error.
    pub async fn run(&self, command: SandboxCommand) -> Result<SandboxOutcome, SandboxError> {
        self.start(command).await?.wait().await
    }

    /// Starts a program, whose output can be read while it runs. Dropping the [`SandboxRun`] ends the program and all its
    /// descendants.
    ///
    /// Must be called within a Tokio runtime.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run). Some errors appear only in [`SandboxRun::wait`].
    pub async fn start(&self, command: SandboxCommand) -> Result<SandboxRun, SandboxError> {
        let (command, launch) = Launch::prepare(self, command).await?;
        let running = RunningProgram::start(self, &command, launch)?;
        Ok(SandboxRun { command, running })
    }

    /// Checks that this machine can run programs in this sandbox, by running a trivial program.
    ///
    /// # Errors
    ///
    /// The same as [`run`](Self::run).
    pub async fn check(&self) -> Result<(), SandboxError> {
        self.run(SandboxCommand::new(["/bin/sh", "-c", ":"])).await.map(drop)
    }
}

/// Program that runs in a sandbox.
#[derive(Debug)]
pub struct SandboxRun {
    command: SandboxCommand,
    running: RunningProgram,
}

impl SandboxRun {
    /// Returns standard output and standard error so far.
    #[must_use]
    pub fn output(&self) -> [KeptOutput; 2] {
        self.running.process.kept()
    }

    /// Waits until the program and all its descendants have ended. The future may be dropped and the wait repeated. The outcome has
    /// the output, so it is available once.
    ///
    /// # Errors
    ///
    /// As [`Sandbox::run`].
    pub async fn wait(&mut self) -> Result<SandboxOutcome, SandboxError> {
        let mut is_cancelled = false;
        let exit = tokio::select! {
            exit = self.running.process.wait() => exit,
            () = self.command.cancel.cancelled() => {
                is_cancelled = true;
                self.running.process.stop(Stop::new().terminate_grace(Duration::ZERO)).await
            }
        };
        self.running.support.close_network();
        self.running.outcome(&self.command, exit, is_cancelled)
    }
}

/// Running program. Its process is dropped before its relay and its files.
#[derive(Debug)]
struct RunningProgram {
    process: Process,
    support: SandboxSupport,
}

impl RunningProgram {
    fn start(sandbox: &Sandbox, command: &SandboxCommand, launch: Launch) -> Result<Self, SandboxError> {
        let limits = &sandbox.limits;
        let bounds = Bounds { time_limit: Some(limits.time()), ..Bounds::default() };
        let (invocation, support) = SandboxSupport::begin(sandbox, command, launch, EVERY, |watch| {
            watch.output(limits.output_bytes, limits.kept_bytes)
        })?;
        let invocation = invocation.stdin(StdinMode::Bytes(command.stdin.clone())).bounds(bounds);
        Ok(Self { process: invocation.spawn()?, support })
    }

    fn outcome(
        &mut self,
        command: &SandboxCommand,
        exit: Exit,
        is_cancelled: bool,
    ) -> Result<SandboxOutcome, SandboxError> {
        let [stdout, mut stderr] = self.process.take_kept();
        for said in UNSHARE_SAYS {
            if stderr.remove_end(said) {
                break;
            }
        }
        let end = match (exit.ended_by, self.support.reached()) {
            (EndedBy::TimeLimit, _) => SandboxEnd::Limit(SandboxLimit::Wall),
            (EndedBy::OutputLimit, _) => SandboxEnd::Limit(SandboxLimit::Output),
            (EndedBy::Itself | EndedBy::Watch, Some(limit)) => SandboxEnd::Limit(limit),
            _ if is_cancelled && exit.ended_by == EndedBy::Stop => SandboxEnd::Cancelled,
            _ => SandboxEnd::Exited,
        };
        // Bubblewrap reports an exit code only for a program that was started.
        if end == SandboxEnd::Exited && !self.support.launch.status().contains("\"exit-code\"") {
            return Err(launch_failure(command, &self.support.launch, &stderr.text()));
        }
        let status = match end {
            SandboxEnd::Exited => signal_in_code(exit.status),
            // The started process is a launcher, whose status does not describe the program.
            _ => ExitStatus::Signal(Signal::KILL.as_raw()),
        };
        let died_of = |signal: Signal| status == ExitStatus::Signal(signal.as_raw());
        let end = match end {
            SandboxEnd::Exited if died_of(Signal::XFSZ) => SandboxEnd::Limit(SandboxLimit::FileSize),
            SandboxEnd::Exited if died_of(Signal::XCPU) => SandboxEnd::Limit(SandboxLimit::Cpu),
            end => end,
        };
        Ok(SandboxOutcome {
            end,
            status,
            stdout,
            stderr,
            elapsed: exit.elapsed,
            containment: self.process.containment(),
            limited_by: self.support.limited_by,
            survivors: exit.survivors,
        })
    }
}
