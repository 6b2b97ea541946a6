//! One run of a program in a sandbox.

use std::time::Duration;

use super::command::SandboxCommand;
use super::error::SandboxError;
use super::launch::{Launch, STAGE_SAYS};
use super::limits::SandboxLimit;
use super::network::opener::OPENER_SAYS;
use super::network::relay::SandboxRelay;
use super::outcome::{SandboxEnd, SandboxOutcome};
use super::root::Sandbox;
use super::usage::{EVERY, Meter, Reached};
use crate::containment::signal_in_code;
use crate::spawn::{
    Bounds, EndWatch, EndedBy, Exit, ExitStatus, Invocation, KeptOutput, Process, StdinMode, Stop,
};
use nexus_core::harness::run_blocking;
use rustix::process::Signal;

/// Messages of `unshare` of util-linux when its child is killed, without a fault of the program. `unshare` writes in
/// pieces, and may be killed after any of them. Source: observed; glibc's `err`.
const UNSHARE_SAYS: [&[u8]; 4] = [
    b"unshare: sigprocmask unblock failed: Invalid argument\n",
    b"unshare: sigprocmask unblock failed: ",
    b"unshare: sigprocmask unblock failed",
    b"unshare: ",
];
/// Advice where AppArmor forbids namespaces to bubblewrap.
const PROFILE: &str = "AppArmor forbids them: give /usr/bin/bwrap a profile with `userns,`, or allow them with \
     `sysctl kernel.apparmor_restrict_unprivileged_userns=0`";
/// Advice where AppArmor forbids namespaces, or the rights in them, to `unshare`. A profile for bubblewrap does not cover it.
const NETWORK_PROFILE: &str = "AppArmor forbids them: give /usr/bin/unshare a profile with `userns,`, beside that of \
     /usr/bin/bwrap, or allow them with `sysctl kernel.apparmor_restrict_unprivileged_userns=0`";
/// Maximum length of bubblewrap's messages in an error, in characters.
const SAID_CHARACTERS: usize = 500;

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
        let (sandbox, command) = (self.clone(), command);
        let prepared = run_blocking(move || {
            let launch = Launch::new(&sandbox, &command);
            (sandbox, command, launch)
        });
        let (sandbox, command, launch) = match prepared.await {
            Ok((sandbox, command, launch)) => (sandbox, command, launch?),
            Err(_) => {
                let source = std::io::Error::other("the runtime is shutting down");
                return Err(SandboxError::Prepare { folder: std::env::temp_dir(), source });
            }
        };
        let running = RunningProgram::start(&sandbox, &command, launch)?;
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
        drop(self.running.relay.take());
        self.running.outcome(&self.command, exit, is_cancelled)
    }
}

/// Running program. Its process is dropped before its relay and its files.
#[derive(Debug)]
struct RunningProgram {
    process: Process,
    relay: Option<SandboxRelay>,
    reached: Reached,
    limited_by: super::LimitedBy,
    launch: Launch,
}

impl RunningProgram {
    fn start(sandbox: &Sandbox, command: &SandboxCommand, mut launch: Launch) -> Result<Self, SandboxError> {
        let unwatched = |source| SandboxError::Prepare { folder: launch.folder.path().to_owned(), source };
        let relay = launch.relay.take().map(|relay| relay.start()).transpose().map_err(unwatched)?;
        let limits = &sandbox.limits;
        let mut meter = Meter::new(limits.clone(), launch.cgroup.take(), launch.disk.take());
        let (reached, limited_by) = (meter.reached(), meter.limited_by());
        let watch =
            EndWatch::new(EVERY, move |hold| meter.look(hold)).output(limits.output_bytes, limits.kept_bytes);
        let bounds = Bounds { time_limit: Some(limits.time()), ..Bounds::default() };
        let mut invocation = Invocation::new(launch.shell.clone(), "/")
            .arguments(launch.arguments.drain(..))
            .stdin(StdinMode::Bytes(command.stdin.clone()))
            .bounds(bounds)
            .run(launch.run.clone())
            .end_with_host()
            .watch(watch);
        if let Some(entry) = &command.entry {
            invocation = invocation.entry(entry);
        }
        let process = invocation.spawn()?;
        Ok(Self { process, relay, reached, limited_by, launch })
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
        let end = match (exit.ended_by, self.reached.limit()) {
            (EndedBy::TimeLimit, _) => SandboxEnd::Limit(SandboxLimit::Wall),
            (EndedBy::OutputLimit, _) => SandboxEnd::Limit(SandboxLimit::Output),
            (EndedBy::Itself | EndedBy::Watch, Some(limit)) => SandboxEnd::Limit(limit),
            _ if is_cancelled && exit.ended_by == EndedBy::Stop => SandboxEnd::Cancelled,
            _ => SandboxEnd::Exited,
        };
        // Bubblewrap reports an exit code only for a program that was started.
        if end == SandboxEnd::Exited && !self.launch.status().contains("\"exit-code\"") {
            return Err(failure(command, &self.launch, &stderr.text()));
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
            limited_by: self.limited_by,
            survivors: exit.survivors,
        })
    }
}

/// Converts the last messages of the launcher or of bubblewrap into an error.
fn failure(command: &SandboxCommand, launch: &Launch, said: &str) -> SandboxError {
    // The launcher has an empty environment, so these are the texts of the C locale.
    const WANTS: [&str; 4] = [
        "Resource temporarily unavailable",
        "Cannot allocate memory",
        "Too many open files",
        "No more processes",
    ];
    const FORBIDDEN: [&str; 8] = [
        "unshare: unshare failed",
        "unshare: write failed",
        "No permissions to create new namespace",
        "Creating new namespace failed",
        "setting up uid map",
        "loopback: ",
        "Can't mount proc",
        "Failed to make / slave",
    ];
    let said = said.trim();
    let line = said.lines().rev().find(|line| line.contains(": ")).unwrap_or(said);
    let line: String = line.strip_prefix("bwrap: ").unwrap_or(line).chars().take(SAID_CHARACTERS).collect();
    let has = |phrases: &[&str]| phrases.iter().any(|phrase| said.contains(phrase));
    let opener = said.lines().find_map(|line| line.strip_prefix(OPENER_SAYS));
    let opener: Option<String> = opener.map(|said| said.chars().take(SAID_CHARACTERS).collect());
    if has(&WANTS) {
        return SandboxError::Unusable { said: opener.unwrap_or(line), is_scarcity: true };
    }
    if let Some(said) = opener {
        // A security module can allow a namespace, and then deny its owner the rights in it.
        let is_denied =
            ["Operation not permitted", "Permission denied"].iter().any(|denied| said.contains(denied));
        return match is_denied {
            true => SandboxError::NetworkForbidden { way_out: what_forbids(NETWORK_PROFILE), said },
            false => SandboxError::NetworkNotOpened { said },
        };
    }
    if line.starts_with(STAGE_SAYS)
        || said.lines().any(|line| line.contains("not found")) && !said.contains("bwrap: ")
    {
        return SandboxError::ShellMissing { said: line };
    }
    if line.starts_with("execvp ") {
        let program = command.arguments.first().cloned().unwrap_or_default();
        return SandboxError::DidNotStart { program, said: line };
    }
    if line.starts_with("Can't chdir to ") {
        return SandboxError::FolderMissing { folder: command.folder.clone(), said: line };
    }
    if line.starts_with("Unknown option ") || line.contains("not permitted in setuid mode") {
        return SandboxError::BubblewrapTooOld { program: launch.bubblewrap.clone(), said: line };
    }
    if launch.has_network && line.starts_with("unshare: ") && has(&FORBIDDEN) {
        return SandboxError::NetworkForbidden { way_out: what_forbids(NETWORK_PROFILE), said: line };
    }
    if has(&FORBIDDEN) {
        return SandboxError::NamespacesForbidden { way_out: what_forbids(PROFILE), said: line };
    }
    SandboxError::Unusable { said: line, is_scarcity: false }
}

/// Returns the setting that forbids namespaces to this user, as far as the system shows it. `profile` is the advice if AppArmor does.
fn what_forbids(profile: &'static str) -> &'static str {
    let is = |setting: &str, value: &str| {
        std::fs::read_to_string(format!("/proc/sys/{setting}")).is_ok_and(|found| found.trim() == value)
    };
    if is("user/max_user_namespaces", "0") {
        "allow them with `sysctl user.max_user_namespaces=15000`"
    } else if is("kernel/unprivileged_userns_clone", "0") {
        "allow them with `sysctl kernel.unprivileged_userns_clone=1`"
    } else if is("kernel/apparmor_restrict_unprivileged_userns", "1") {
        profile
    } else {
        "a container's filter of system calls or a security module forbids them; with Docker, \
         `--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined` allows them"
    }
}
