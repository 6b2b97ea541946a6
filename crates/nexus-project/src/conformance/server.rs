//! The server under test: a program that speaks MCP over its standard input and output.

use std::{fmt, path::Path, process::Stdio, time::Duration};

use rmcp::{
    RoleClient, ServiceExt as _,
    model::{CallToolRequestParams, CallToolResult},
    service::RunningService,
};
use serde_json::Value;
use tokio::process::{Child, Command};

use super::fixture::Call;

/// Longest wait for one answer of the server.
const PATIENCE: Duration = Duration::from_secs(60);

/// Command that starts a server in the folder of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerCommand {
    /// The program.
    pub program: String,
    /// Arguments of the program.
    pub arguments: Vec<String>,
    /// Prefix of the names of its tools.
    pub prefix: String,
}

/// The server could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    message: String,
    /// True if the server did not answer in time.
    pub is_timeout: bool,
}

impl ServerError {
    pub(super) fn new(message: String) -> Self {
        Self { message, is_timeout: false }
    }

    fn timeout(message: String) -> Self {
        Self { message, is_timeout: true }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ServerError {}

/// Reply to a call.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CallReply {
    Result(Value),
    Error(String),
}

/// Server under test. It is killed on drop.
pub(super) struct TestedServer {
    client: RunningService<RoleClient, ()>,
    child: Child,
    prefix: String,
}

impl TestedServer {
    pub(super) async fn start(command: &ServerCommand, folder: &Path) -> Result<Self, ServerError> {
        let mut child = Command::new(&command.program)
            .args(&command.arguments)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // A fixture that fails between two steps must leave no server behind.
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| ServerError::new(format!("{:?} cannot be started: {error}", command.program)))?;
        let (Some(output), Some(input)) = (child.stdout.take(), child.stdin.take()) else {
            return Err(ServerError::new("its input and output cannot be opened".to_owned()));
        };
        let client = tokio::time::timeout(PATIENCE, ().serve((output, input)))
            .await
            .map_err(|_elapsed| {
                ServerError::timeout(format!("it did not start within {} s", PATIENCE.as_secs()))
            })?
            .map_err(|error| {
                ServerError::new(format!("its first answer is not that of an MCP server: {error}"))
            })?;
        Ok(Self { client, child, prefix: command.prefix.clone() })
    }

    pub(super) async fn call(&self, call: &Call) -> Result<CallReply, ServerError> {
        let name = format!("{}{}", self.prefix, call.tool);
        let request = CallToolRequestParams::new(name).with_arguments(call.arguments.clone());
        let answer =
            tokio::time::timeout(PATIENCE, self.client.call_tool(request)).await.map_err(|_elapsed| {
                ServerError::timeout(format!(
                    "{} was not answered within {} s",
                    call.tool,
                    PATIENCE.as_secs()
                ))
            })?;
        match answer {
            Ok(result) => Ok(answered(result)),
            // An implementation may reject arguments with an error of the protocol.
            Err(rmcp::ServiceError::McpError(error)) => Ok(CallReply::Error(error.message.into_owned())),
            Err(error) => Err(ServerError::new(format!("{} was not answered: {error}", call.tool))),
        }
    }

    /// Kills the server at once.
    pub(super) async fn kill(mut self) {
        // An error means that the server has already ended, which is the goal.
        let _ = self.child.kill().await;
    }

    /// Ends the server as a client does: closes its input, and waits a while.
    pub(super) async fn end(mut self) {
        let _ = self.client.cancel().await;
        if tokio::time::timeout(Duration::from_secs(10), self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }
}

fn answered(result: CallToolResult) -> CallReply {
    let text: String =
        result.content.iter().filter_map(|content| Some(content.as_text()?.text.as_str())).collect();
    // MCP reports failures of a tool as results, so the model can read them.
    if result.is_error == Some(true) {
        return CallReply::Error(text);
    }
    CallReply::Result(
        result
            .structured_content
            .unwrap_or_else(|| serde_json::from_str(&text).unwrap_or(Value::String(text))),
    )
}
