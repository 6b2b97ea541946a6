//! Tools that really run, each in its own session, as in the real harnesses.

use std::{
    io::Read,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    thread::JoinHandle,
};

use rustix::process::{Pid, Signal, kill_process_group};

use super::{
    misbehaviour::complain,
    servers::{Answer, ServerCall},
};
use crate::sim::ToolCall;

/// Called by this name, the program starts a session and executes its arguments.
pub(super) const LEADER: &str = "nexus-fake-leader";

/// Variables that the vendors' programs hide from their models' commands, by default or by their configuration.
const HIDDEN: [&str; 3] = ["CLAUDE_CODE_OAUTH_TOKEN", "NEXUS_CODEX_TOKEN", "NEXUS_TOOLS_TOKEN"];

/// A tool that runs, or has run.
#[derive(Debug)]
pub(super) enum Tool {
    /// A command.
    Running { child: Child, output: JoinHandle<String> },
    /// A server's.
    Asked(ServerCall),
    /// The tool ended at once.
    Done(Answer),
}

impl Tool {
    /// Starts a shell, or performs a file operation. `None` for any other tool.
    pub(super) fn start(call: &ToolCall) -> Option<Self> {
        match call {
            ToolCall::Shell { command } => {
                Some(shell(command).unwrap_or_else(|error| Self::done(Err(error.to_string()))))
            }
            ToolCall::WriteFile { path, text } => {
                let written = Path::new(path).parent().map_or(Ok(()), std::fs::create_dir_all);
                let written = written.and_then(|()| std::fs::write(path, text));
                Some(Self::done(written.map(|()| format!("wrote {path}")).map_err(|error| error.to_string())))
            }
            ToolCall::ReadFile { path } => {
                Some(Self::done(std::fs::read_to_string(path).map_err(|error| error.to_string())))
            }
            _ => None,
        }
    }

    /// A tool that has answered.
    pub(super) fn done(outcome: Result<String, String>) -> Self {
        Self::Done(Answer::from(outcome))
    }

    /// Returns the answer, if there is an answer yet.
    pub(super) fn answer(&mut self) -> Option<Answer> {
        let (child, output) = match self {
            Self::Done(answer) => return Some(answer.clone()),
            Self::Asked(call) => return call.answer(),
            Self::Running { child, output } => (child, output),
        };
        // A child of the command may hold its output open longer than the command lives.
        if !output.is_finished() {
            return None;
        }
        let status = match child.try_wait() {
            Ok(Some(status)) => status,
            Ok(None) => return None,
            Err(error) => return Some(Err(error.to_string()).into()),
        };
        // Joining consumes the handle, so put another one in its place.
        let placeholder = std::thread::spawn(String::new);
        let text = std::mem::replace(output, placeholder).join().unwrap_or_default();
        let answer = if status.success() { Ok(text) } else { Err(format!("{text}\n{status}")) };
        *self = Self::done(answer.clone());
        Some(answer.into())
    }

    /// Ends it with its children. A call of a server's tool is taken back when this is dropped.
    pub(super) fn end(&mut self) {
        let Self::Running { child, .. } = self else { return };
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        if let Some(group) = group {
            // Gone already is as good.
            let _ = kill_process_group(group, Signal::KILL);
        }
        // The child was killed, so this wait is short.
        let _ = child.wait();
    }
}

fn shell(command: &str) -> std::io::Result<Tool> {
    let mut leader = Command::new(std::env::current_exe()?);
    // The vendors' programs run commands in a session of their own, so killing the program's group does not reach them.
    leader.arg0(LEADER).args(["/bin/sh", "-c"]).arg(format!("exec 2>&1; {command}"));
    for name in HIDDEN {
        leader.env_remove(name);
    }
    let mut child = leader.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let stdout = child.stdout.take();
    let output = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stdout) = stdout {
            // If the pipe breaks, the bytes before the break are the output.
            let _ = stdout.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    });
    Ok(Tool::Running { child, output })
}

/// Executes the arguments in a new session. Never returns.
pub(super) fn lead_a_session() -> ! {
    let mut arguments = std::env::args_os().skip(1);
    if let Err(error) = rustix::process::setsid() {
        complain(&format!("no session of its own: {error}"));
    }
    if let Some(program) = arguments.next() {
        let error = Command::new(program).args(arguments).exec();
        complain(&error.to_string());
    }
    std::process::exit(127)
}
