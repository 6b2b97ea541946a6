//! Runs commands of this program as children, as a person would type them.

use std::{
    env,
    io::{self, BufRead as _, BufReader},
    net::SocketAddr,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Output, Stdio},
};

use nexus_files::shell_word;

use super::server::announced;
use crate::{
    args::DEMO_ADDRESS,
    child::output_of,
    command_error::CommandError,
    interrupt::Interrupts,
    output::{is_broken, say},
};

/// Width of a printed command line.
const WIDTH: usize = 78;

/// Runs this program's commands with the demo's home, and prints their command lines.
pub(crate) struct DemoShell {
    program: PathBuf,
    home: PathBuf,
    interrupts: Interrupts,
}

/// The running server of the simulated vendors. It ends when no process reads its output, so it ends with this process in any case.
pub(crate) struct DemoServer {
    child: Child,
    output: Option<BufReader<ChildStdout>>,
    address: SocketAddr,
}

impl DemoShell {
    /// Creates the shell. From now on, a signal ends the commands and then this process.
    pub(crate) fn new(home: &Path) -> Result<Self, CommandError> {
        let program = env::current_exe().map_err(|error| {
            CommandError::failed(format_args!("the program of this command cannot be found: {error}"))
        })?;
        let interrupts = Interrupts::listen().map_err(|error| CommandError::deaf(&error))?;
        Ok(Self { program, home: home.to_owned(), interrupts })
    }

    /// Starts the server, at its usual address if that is free.
    pub(crate) fn serve(&self) -> Result<DemoServer, CommandError> {
        let mut last = None;
        // The usual address may be in use. Only the second failure is reported.
        for (address, stderr) in [(DEMO_ADDRESS, Stdio::null()), ("127.0.0.1:0", Stdio::inherit())] {
            match self.serve_at(address, stderr) {
                Ok(server) => return Ok(server),
                Err(error) => last = Some(error),
            }
        }
        let reason = last.map(|error| format!(": {error}")).unwrap_or_default();
        Err(CommandError::failed(format_args!("the server of the simulated vendors did not start{reason}")))
    }

    /// Starts the server at a free port.
    pub(crate) fn serve_at_any_port(&self) -> io::Result<DemoServer> {
        self.serve_at("127.0.0.1:0", Stdio::null())
    }

    fn serve_at(&self, address: &str, stderr: Stdio) -> io::Result<DemoServer> {
        let mut command = self.command(&["demo", "server", "--listen", address]);
        // Ctrl-C must reach the running command, which still needs the server, and not the server.
        command.process_group(0).stdout(Stdio::piped()).stderr(stderr);
        let mut child = command.spawn()?;
        let mut output = child.stdout.take().map(BufReader::new);
        let mut line = String::new();
        if let Some(output) = &mut output {
            output.read_line(&mut line)?;
        }
        match announced(&line) {
            // Nothing reads further lines. The server prints few, and they fit into the buffer of the pipe.
            Some(address) => Ok(DemoServer { child, output, address }),
            None => {
                let status = child.wait()?;
                Err(io::Error::other(format!("it ended with {status}")))
            }
        }
    }

    /// Prints a command line and runs it. Returns true if it succeeded.
    pub(super) async fn run(&mut self, arguments: &[&str]) -> Result<bool, CommandError> {
        say(format_args!("\n{}", command_line(arguments)));
        Ok(self.child(arguments, false).await?.status.success())
    }

    /// Runs a command without a word, and returns its output.
    pub(super) async fn answer(&mut self, arguments: &[&str]) -> Result<String, CommandError> {
        let output = self.child(arguments, true).await?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    async fn child(&mut self, arguments: &[&str], is_captured: bool) -> Result<Output, CommandError> {
        let mut command = self.command(arguments);
        if is_captured {
            command.stdout(Stdio::piped()).stderr(Stdio::null());
        }
        self.finish(command).await
    }

    /// Runs a command with further variables, and returns both of its outputs.
    pub(crate) async fn outputs(
        &mut self,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<Output, CommandError> {
        let mut command = self.command(arguments);
        command.envs(variables.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.finish(command).await
    }

    async fn finish(&mut self, mut command: Command) -> Result<Output, CommandError> {
        let started = command.spawn();
        let child = started
            .map_err(|error| CommandError::failed(format_args!("{}: {error}", self.program.display())))?;
        let output = output_of(child, &mut self.interrupts).await?;
        match output.status.signal() {
            Some(signal) => Err(CommandError::failed(format_args!("signal {signal} ended the command"))),
            // The reader of the output is gone, which the exit code reports.
            None if is_broken() => Err(CommandError::cancelled()),
            None => Ok(output),
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        // Use only the configuration in the demo's home: the current folder and `NEXUS_CONFIG` may lead to the user's
        // own.
        command
            .args(arguments)
            .env("NEXUS_HOME", &self.home)
            .env_remove("NEXUS_CONFIG")
            .current_dir(&self.home)
            .stdin(Stdio::null());
        command
    }
}

impl DemoServer {
    /// Returns the address of the server.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for DemoServer {
    fn drop(&mut self) {
        drop(self.output.take());
        // The server notices the closed pipe, and ends after at most its time limit for last answers.
        let _ = self.child.wait();
    }
}

/// Formats a command line for a shell, with a prompt and at most [`WIDTH`] columns where its words allow it.
fn command_line(arguments: &[&str]) -> String {
    let mut text = "$ nexus".to_owned();
    let mut column = text.len();
    for word in arguments.iter().map(shell_word) {
        let width = word.chars().count() + 1;
        if column + width > WIDTH {
            text.push_str(" \\\n   ");
            column = 3;
        }
        text.push(' ');
        text.push_str(&word);
        column += width;
    }
    text
}
