//! A shell that ends when the future that waits for it is dropped.

use std::{collections::BTreeMap, path::Path, process::Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Command;

/// Runs `command` in `directory`, with these variables and no others. Returns its output. If its status
/// is not zero, the error has the output and the status. Dropping the future kills the shell and everything in its
/// group.
pub(super) async fn run(
    command: &str,
    directory: &Path,
    environment: &BTreeMap<String, String>,
) -> Result<String, String> {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).current_dir(directory).env_clear().envs(environment);
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    shell.process_group(0).kill_on_drop(true);
    let child = shell.spawn().map_err(|error| error.to_string())?;
    let _group = Group::of(&child);
    let output = child.wait_with_output().await.map_err(|error| error.to_string())?;
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(text) } else { Err(format!("{text}\n{}", output.status)) }
}

/// A process group that ends with its owner.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &tokio::process::Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // Gone already is as good.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
