//! One MCP server of a client: its process and the connection to it.

use std::{borrow::Cow, io, path::Path, sync::Arc, time::Duration};

use agent_client_protocol_schema::v1::McpServerStdio;
use memchr::memmem;
use nexus_core::lenient_json;
use nexus_process::{
    environment::Environment,
    executable::Executable,
    spawn::{Invocation, Polite, Process, StdinMode, Stop},
};
use rmcp::{
    RoleClient, ServiceExt as _,
    model::Tool,
    service::{RunningService, RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use serde_json::json;
use tokio::time::timeout;

use crate::client_text::cut;

/// Longest time from the start of a server to its list of tools. Source: our own bound; some servers are downloaded first.
const START_WITHIN: Duration = Duration::from_secs(30);
/// Longest time for a server to end after its input was closed.
const STOP_GRACE: Duration = Duration::from_secs(1);
/// Maximum length of a server's error output in a message, in bytes.
const COMPLAINT_BYTES: usize = 300;
/// Variables of our environment that a server gets, in addition to `PATH` and the language: paths of the user's files.
const VARIABLES: [&str; 9] = [
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TMPDIR",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
];

/// A running server.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    pub(crate) service: RunningService<RoleClient, ()>,
    pub(crate) tools: Vec<Tool>,
    process: Arc<Process>,
}

impl ServerProcess {
    /// Starts a server in a folder, and requests its list of tools.
    ///
    /// # Errors
    ///
    /// Reason why it is not available, for a person.
    pub(crate) async fn start(server: &McpServerStdio, folder: &Path) -> Result<Self, String> {
        let process = Arc::new(spawn(server, folder)?);
        let connecting = async {
            let transport = ProcessTransport { process: Arc::clone(&process) };
            let service = ().serve(transport).await.map_err(|error| error.to_string())?;
            let tools = service.list_all_tools().await.map_err(|error| error.to_string())?;
            Ok((service, tools))
        };
        let outcome = timeout(START_WITHIN, connecting).await;
        match outcome
            .unwrap_or_else(|_| Err(format!("it listed no tools within {} s", START_WITHIN.as_secs())))
        {
            Ok((service, tools)) => Ok(Self { service, tools, process }),
            Err(reason) => {
                process.stop(stopping()).await;
                let complaint = process.stderr_tail();
                let complaint = complaint.lines().next_back().unwrap_or_default().trim();
                Err(match complaint.is_empty() {
                    true => reason,
                    false => format!("{reason} ({})", cut(complaint, COMPLAINT_BYTES)),
                })
            }
        }
    }

    /// Returns true while the server runs.
    pub(crate) fn is_running(&self) -> bool {
        !self.service.is_closed() && !self.service.is_transport_closed()
    }

    /// Ends the server and all processes that it started.
    pub(crate) async fn stop(&self) {
        self.process.stop(stopping()).await;
    }
}

fn stopping() -> Stop {
    Stop::new().politely(Polite::CloseStdin, STOP_GRACE)
}

fn spawn(server: &McpServerStdio, folder: &Path) -> Result<Process, String> {
    let host = std::env::vars_os();
    let mut environment =
        Environment::from_host(host).pass(VARIABLES).build().map_err(|error| error.to_string())?;
    for variable in &server.env {
        environment.set(&variable.name, &variable.value).map_err(|error| error.to_string())?;
    }
    let path = environment.value("PATH").map(ToOwned::to_owned);
    let executable = Executable::find(&server.command, path.as_deref()).map_err(|error| error.to_string())?;
    Invocation::new(executable, folder)
        .arguments(&server.args)
        .environment(environment)
        .stdin(StdinMode::Open)
        .end_with_host()
        .spawn()
        .map_err(|error| error.to_string())
}

/// Parses a line of a server. An unreadable answer becomes an error, so that its request does not wait for ever. Other
/// unreadable lines are skipped, because some servers write a greeting first.
fn message(line: &[u8]) -> Option<RxJsonRpcMessage<RoleClient>> {
    let error = match lenient_json::from_slice(line) {
        Ok((message, repairs)) => {
            if let Some(repairs) = repairs {
                tracing::debug!(%repairs, "a message of a server of the client was repaired");
            }
            return Some(message);
        }
        Err(error) => error,
    };
    tracing::debug!(%error, "a server of the client wrote a line that is not a message");
    let id = lenient_json::request_id(line).filter(|_| memmem::find(line, b"\"method\"").is_none())?;
    let problem = json!({ "code": -32603, "message": format!("its answer cannot be read: {error}") });
    serde_json::from_value(json!({ "jsonrpc": "2.0", "id": id, "error": problem })).ok()
}

/// Transport of JSON lines to a process and from it.
struct ProcessTransport {
    process: Arc<Process>,
}

impl Transport<RoleClient> for ProcessTransport {
    type Error = io::Error;

    fn name() -> Cow<'static, str> {
        "process".into()
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let stdin = self.process.stdin();
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            stdin.write(line).await.map_err(io::Error::other)
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let line = self.process.next_line().await?;
            if let Some(message) = message(&line.bytes) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.process.stdin().close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::ServerJsonRpcMessage;

    use super::*;

    #[test]
    fn an_answer_of_a_server_is_read_or_is_an_error_under_its_id() {
        let result = r#"{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"cut \ud83d"}],"_meta":{"cost":NaN}}}"#;
        let read = message(result.as_bytes());
        assert!(matches!(&read, Some(ServerJsonRpcMessage::Response(_))), "{read:?}");
        for broken in
            [r#"{"jsonrpc":"2.0","id":3,"result":{"content":}}"#, r#"{"jsonrpc":"2.0","id":3,"result":7,"#]
        {
            let read = message(broken.as_bytes());
            assert!(matches!(&read, Some(ServerJsonRpcMessage::Error(_))), "{broken}: {read:?}");
        }
        for other in ["Listening on stdio", "", r#"{"jsonrpc":"2.0","id":3,"method":"x","params":"#] {
            assert!(message(other.as_bytes()).is_none(), "{other}");
        }
    }
}
