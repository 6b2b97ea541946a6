//! The MCP servers that a client names for a session.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use agent_client_protocol_schema::v1::McpServerStdio;
use async_trait::async_trait;
use nexus_core::Toolbox;
use nexus_mcp::client::{
    ClientServer, ClientServers, PreparedProcess, PreparedServer, ServerSource, ToolOffer,
};
use nexus_process::{environment::Environment, executable::Executable, spawn::Invocation};
use serde_json::Value;

use crate::{named_server::NamedServer, outgoing::lock};

/// Maximum number of servers of a session. Source: our own bound.
const MAX_SERVERS: usize = 32;
/// Advice after a long start that failed.
const RETRY_ADVICE: &str = "Later prompts of this session do not wait for it; `/servers` restarts it";
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

/// Servers of a session. They start with its first prompt, and run until the session is closed.
#[derive(Debug)]
pub(crate) struct Servers {
    servers: ClientServers,
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
        Self { servers: ClientServers::new(wanted, RETRY_ADVICE), refused, told: Mutex::default() }
    }

    /// Starts the servers that do not run, and returns their tools, with the problems that were not reported yet. If the
    /// future is dropped, the next call continues the starts.
    pub(crate) async fn tools(&self) -> (Toolbox, Vec<String>) {
        let mut offer = ToolOffer::new();
        let found = self.servers.offer(&mut offer).await;
        let mut faults = self.refused.clone();
        {
            let mut told = lock(&self.told);
            faults.retain(|fault| told.insert(fault.clone()));
        }
        faults.extend(found.iter().map(ToString::to_string));
        (offer.into_tools(), faults)
    }

    /// Lets the next list of tools start suspended servers again, and report their problems again.
    pub(crate) async fn try_again(&self) {
        lock(&self.told).clear();
        self.servers.try_again().await;
    }

    /// Returns the number of wanted servers, and the number of running ones.
    pub(crate) async fn count(&self) -> (usize, usize) {
        let (wanted, running) = self.servers.count().await;
        (wanted + self.refused.len(), running)
    }

    /// Ends the servers and all processes that they started.
    pub(crate) async fn stop(&self) {
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
        let host = std::env::vars_os();
        let mut environment =
            Environment::from_host(host).pass(VARIABLES).build().map_err(|error| error.to_string())?;
        for variable in &server.env {
            environment.set(&variable.name, &variable.value).map_err(|error| error.to_string())?;
        }
        let path = environment.value("PATH").map(ToOwned::to_owned);
        let executable =
            Executable::find(&server.command, path.as_deref()).map_err(|error| error.to_string())?;
        let invocation = Invocation::new(executable, &self.folder).arguments(&server.args);
        Ok(PreparedProcess::new(invocation.environment(environment)).into())
    }
}
