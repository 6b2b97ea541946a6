//! The MCP servers of a session: those that its client names, and those of the configuration.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use agent_client_protocol_schema::v1::McpServerStdio;
use async_trait::async_trait;
use nexus_backends::mcp_servers::{MCP_SERVERS, McpServers, OpenServers, ServerWorkspace};
use nexus_core::Toolbox;
use nexus_mcp::client::{
    ClientServer, ClientServers, PreparedProcess, PreparedServer, ServerSource, ToolOffer, USER_VARIABLES,
};
use nexus_process::{environment::Environment, executable::Executable, spawn::Invocation};
use nexus_router::Router;
use serde_json::Value;

use crate::{named_server::NamedServer, outgoing::lock};

/// Maximum number of servers of a session. Source: our own bound.
const MAX_SERVERS: usize = 32;
/// Advice after a long start that failed.
const RETRY_ADVICE: &str = "Later prompts of this session do not wait for it; `/servers` restarts it";

/// Tools of the servers of a session, for one turn.
#[derive(Debug)]
pub(crate) struct SessionTools {
    pub(crate) tools: Toolbox,
    /// Problems of the client's servers that were not reported yet.
    pub(crate) faults: Vec<String>,
    /// Problems of the configuration's servers that were not reported yet.
    pub(crate) warnings: Vec<String>,
}

/// Servers of a session. They start with its first prompt, and run until the session is closed.
#[derive(Debug)]
pub(crate) struct Servers {
    servers: ClientServers,
    /// Servers of the configuration's `mcp_servers`.
    configured: OpenServers,
    /// Names of the servers that cannot be started, with the reasons.
    refused: Vec<String>,
    /// Refused servers that were already reported.
    told: Mutex<HashSet<String>>,
}

impl Servers {
    /// Creates the servers from the `mcpServers` of a client, in the folder of the session.
    pub(crate) fn new(named: Value, folder: &Path, call_within: Duration) -> Self {
        let (mut wanted, mut refused) = (Vec::new(), Vec::new());
        for server in NamedServer::read_all(named) {
            match server {
                NamedServer::Stdio(server) if wanted.len() < MAX_SERVERS => {
                    let (name, folder) = (server.name.clone(), folder.to_owned());
                    let source = Arc::new(ClientProgram { server, folder });
                    wanted.push(ClientServer::new(name, source).with_call_within(call_within));
                }
                NamedServer::Stdio(server) => {
                    refused.push(format!("{}: a session has at most {MAX_SERVERS}", server.name));
                }
                NamedServer::Refused(reason) => refused.push(reason),
            }
        }
        Self {
            servers: ClientServers::new(wanted, RETRY_ADVICE),
            configured: OpenServers::new(RETRY_ADVICE),
            refused,
            told: Mutex::default(),
        }
    }

    /// Starts the servers that do not run, and returns their tools, with the problems that were not reported yet. If the
    /// future is dropped, the next call continues the starts. `workspace` is that of the turn: the client's servers run as the user
    /// in any case, but those of the configuration run in the sandbox of the turn's level.
    ///
    /// # Errors
    ///
    /// The configuration requires a server that does not run, for a person.
    pub(crate) async fn tools(
        &self,
        router: &Router,
        workspace: &ServerWorkspace,
    ) -> Result<SessionTools, String> {
        let mut offer = ToolOffer::new();
        let named = McpServers::read(router.section(MCP_SERVERS).as_ref(), router.context());
        let named = named.map_err(|error| format!("{MCP_SERVERS}: {error}"))?;
        // One after the other, so that tools of the configuration have the same names in each turn.
        let configured = self.configured.offer(&named, workspace, &mut offer).await;
        let warnings = configured.map_err(|error| error.to_string())?;
        let found = self.servers.offer(&mut offer).await;
        let mut faults = self.refused.clone();
        {
            let mut told = lock(&self.told);
            faults.retain(|fault| told.insert(fault.clone()));
        }
        faults.extend(found.iter().map(ToString::to_string));
        Ok(SessionTools { tools: offer.into_tools(), faults, warnings })
    }

    /// Lets the next list of tools start suspended servers again, and report their problems again.
    pub(crate) async fn try_again(&self) {
        lock(&self.told).clear();
        self.configured.try_again().await;
        self.servers.try_again().await;
    }

    /// Returns the number of wanted servers, and the number of running ones.
    pub(crate) async fn count(&self) -> (usize, usize) {
        let (wanted, running) = self.servers.count().await;
        let (configured, running_too) = self.configured.count().await;
        (wanted + configured + self.refused.len(), running + running_too)
    }

    /// Ends the servers and all processes that they started.
    pub(crate) async fn stop(&self) {
        self.configured.stop().await;
        self.servers.stop().await;
    }
}

/// A program that the client names. It runs as the user, as the client itself would start it.
#[derive(Debug)]
struct ClientProgram {
    server: McpServerStdio,
    folder: PathBuf,
}

#[async_trait]
impl ServerSource for ClientProgram {
    async fn prepare(&self) -> Result<PreparedServer, String> {
        let server = &self.server;
        // The program inherits only the variables of a user session, so no vendor key reaches it.
        let host = std::env::vars_os();
        let mut environment =
            Environment::from_host(host).pass(USER_VARIABLES).build().map_err(|error| error.to_string())?;
        for variable in &server.env {
            environment.set(&variable.name, &variable.value).map_err(|error| error.to_string())?;
        }
        // Search in the program's own PATH, which the client may have set.
        let path = environment.value("PATH").map(ToOwned::to_owned);
        let executable =
            Executable::find(&server.command, path.as_deref()).map_err(|error| error.to_string())?;
        let invocation = Invocation::new(executable, &self.folder).arguments(&server.args);
        Ok(PreparedProcess::new(invocation.environment(environment)).into())
    }
}
