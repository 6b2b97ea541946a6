//! A child process that a signal to this process ends too.

use std::process::{Child, Output};

use nexus::harness::run_blocking;
use rustix::process::{Pid, Signal, kill_process};

use crate::{command_error::CommandError, interrupt::Interrupts};

/// Waits for the end of a child. After a signal, waits for the end too, and then returns the error of a cancelled command.
pub(crate) async fn output_of(child: Child, interrupts: &mut Interrupts) -> Result<Output, CommandError> {
    let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let mut ended = std::pin::pin!(run_blocking(move || child.wait_with_output()));
    let mut is_cancelled = false;
    let output = loop {
        tokio::select! {
            output = &mut ended => break output,
            came = interrupts.next() => {
                came.map_err(|error| CommandError::deaf(&error))?;
                is_cancelled = true;
                // Ctrl-C reached the child already, but a signal to this process alone did not. An error means that it ended.
                if let Some(process) = process {
                    let _ = kill_process(process, Signal::TERM);
                }
            }
        }
    };
    if is_cancelled {
        return Err(CommandError::cancelled());
    }
    let output = output.map_err(|_| CommandError::failed("the wait for a command ended early"))?;
    output.map_err(|error| CommandError::failed(format_args!("a command was lost: {error}")))
}
