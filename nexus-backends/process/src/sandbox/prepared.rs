//! Program in a sandbox whose standard input and output stay open while it runs.

use std::time::Duration;

use super::command::SandboxCommand;
use super::error::SandboxError;
use super::launch::Launch;
use super::launch_failure::launch_failure;
use super::limits::{LimitedBy, SandboxLimit};
use super::network::relay::SandboxRelay;
use super::root::Sandbox;
use super::usage::{Meter, Reached};
use crate::spawn::{EndWatch, EndedBy, Exit, Invocation, StdinMode};

/// Pause between two checks of the limits of such a program. It is trusted with more than a command, and runs longer.
const EVERY: Duration = Duration::from_millis(500);
impl Sandbox {
    /// Prepares a program that exchanges lines with the caller while it runs. The caller starts the returned invocation, which
    /// has an open standard input, and keeps the [`SandboxSupport`] until the process has ended.
    ///
    /// The input and the cancel token of the command are not used, and [`SandboxLimits::wall`], `output_bytes` and `kept_bytes` do not
    /// apply: the caller ends the process.
    ///
    /// Must be called within a Tokio runtime.
    ///
    /// [`SandboxLimits::wall`]: field@super::SandboxLimits::wall
    ///
    /// # Errors
    ///
    /// Each [`SandboxError`] that can be detected before a process is started. After a failed start,
    /// [`SandboxSupport::start_failure`] returns the others.
    pub async fn prepare(
        &self,
        command: SandboxCommand,
    ) -> Result<(Invocation, SandboxSupport), SandboxError> {
        let (command, launch) = Launch::prepare(self, command).await?;
        let (invocation, support) = SandboxSupport::begin(self, &command, launch, EVERY, |watch| watch)?;
        Ok((invocation.stdin(StdinMode::Open), support))
    }
}

/// Files, limits and network of one program in a sandbox. Dropping it removes the files and ends the connections, so drop it
/// after the process.
#[derive(Debug)]
pub struct SandboxSupport {
    relay: Option<SandboxRelay>,
    reached: Reached,
    pub(super) limited_by: LimitedBy,
    pub(super) launch: Launch,
    command: SandboxCommand,
}

impl SandboxSupport {
    /// Starts the relay, and returns the invocation of the launcher. `with_output` sets the limits of the output.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Prepare`].
    pub(super) fn begin(
        sandbox: &Sandbox,
        command: &SandboxCommand,
        mut launch: Launch,
        every: Duration,
        with_output: impl FnOnce(EndWatch) -> EndWatch,
    ) -> Result<(Invocation, Self), SandboxError> {
        let unwatched = |source| SandboxError::Prepare { folder: launch.folder.path().to_owned(), source };
        let relay = launch.relay.take().map(|relay| relay.start()).transpose().map_err(unwatched)?;
        let mut meter = Meter::new(sandbox.limits.clone(), launch.cgroup.take(), launch.disk.take());
        let (reached, limited_by) = (meter.reached(), meter.limited_by());
        let watch = with_output(EndWatch::new(every, move |hold| meter.look(hold)));
        let mut invocation = Invocation::new(launch.shell.clone(), "/")
            .arguments(launch.arguments.drain(..))
            .run(launch.run.clone())
            .end_with_host()
            .watch(watch);
        if let Some(entry) = &command.entry {
            invocation = invocation.entry(entry);
        }
        Ok((invocation, Self { relay, reached, limited_by, launch, command: command.clone() }))
    }

    /// Returns the reason why the program inside was not started. `None` if it was, whatever happened to it afterwards. `exit` and
    /// `stderr` are the end and the error output of the process.
    #[must_use]
    pub fn start_failure(&self, exit: &Exit, stderr: &str) -> Option<SandboxError> {
        // Bubblewrap reports the exit code of every program that it started, but not if it is killed together with the program.
        let has_failed = exit.ended_by == EndedBy::Itself && !self.launch.status().contains("\"exit-code\"");
        has_failed.then(|| launch_failure(&self.command, &self.launch, stderr))
    }

    /// Returns the limit that the program reached and was ended for.
    #[must_use]
    pub fn reached(&self) -> Option<SandboxLimit> {
        self.reached.limit()
    }

    /// Ends all connections.
    pub(super) fn close_network(&mut self) {
        drop(self.relay.take());
    }
}
