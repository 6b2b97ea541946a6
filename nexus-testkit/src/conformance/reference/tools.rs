//! Tools that really run: a shell, and files.

use std::{collections::BTreeMap, path::Path, process::Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Command;

use super::access::Fence;
use crate::sim::ToolCall;

/// What a tool answered: its text, or why it failed.
pub(super) type Answer = Result<String, String>;

/// Runs a tool of the harness. Dropping the future kills what it started.
pub(super) async fn run(call: &ToolCall, fence: &Fence, environment: &BTreeMap<String, String>) -> Answer {
    match call {
        ToolCall::Shell { command } => shell(command, &fence.directory, environment).await,
        ToolCall::WriteFile { path, text } => {
            let path = fence.resolve(Path::new(path));
            tokio::fs::write(&path, text).await.map_err(|error| error.to_string())?;
            Ok(format!("wrote {} bytes", text.len()))
        }
        ToolCall::ReadFile { path } => {
            let path = fence.resolve(Path::new(path));
            tokio::fs::read_to_string(&path).await.map_err(|error| error.to_string())
        }
        _ => Err("there is no such tool".into()),
    }
}

async fn shell(command: &str, directory: &Path, environment: &BTreeMap<String, String>) -> Answer {
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
