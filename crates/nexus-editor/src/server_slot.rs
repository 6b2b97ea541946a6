//! One MCP server of a session, from its start to its end.

use std::{path::Path, time::Duration};

use agent_client_protocol_schema::v1::McpServerStdio;
use tokio::{
    task::JoinHandle,
    time::{Instant, timeout},
};

use crate::server_process::ServerProcess;

/// Longest start of a server that is repeated at each prompt. Source: our own bound on an unrequested wait.
const SHORT_START: Duration = Duration::from_secs(5);
/// Longest time for a server to end that is stopped during its start.
const GIVE_UP_WITHIN: Duration = Duration::from_secs(5);

/// State of one server of a session.
#[derive(Debug)]
pub(crate) enum ServerSlot {
    /// The server has not been started, or will be started again.
    Empty,
    /// The server is starting, even if no prompt waits for it.
    Starting(ServerStart),
    Running(ServerProcess),
    /// The start took long and failed. It is not repeated unless the user asks for it.
    SetAside {
        /// Reason of the failure, and how to try again.
        reason: String,
    },
}

/// A running start. Dropping it stops the start.
#[derive(Debug)]
pub(crate) struct ServerStart {
    task: JoinHandle<Result<ServerProcess, String>>,
    began: Instant,
}

impl ServerSlot {
    /// Starts the server if it does not run. A start that has begun continues if the future is dropped.
    ///
    /// # Errors
    ///
    /// Reason why the server does not run, for a person.
    pub(crate) async fn fill(&mut self, wanted: &McpServerStdio, folder: &Path) -> Result<(), String> {
        match self {
            Self::Running(server) if server.is_running() => return Ok(()),
            Self::SetAside { reason } => return Err(reason.clone()),
            Self::Starting(_) => {}
            Self::Empty | Self::Running(_) => {
                let (wanted, folder) = (wanted.clone(), folder.to_owned());
                let start = async move { ServerProcess::start(&wanted, &folder).await };
                *self = Self::Starting(ServerStart { task: tokio::spawn(start), began: Instant::now() });
            }
        }
        let Self::Starting(start) = self else { return Ok(()) };
        let started = (&mut start.task).await.unwrap_or_else(|_| Err("its start failed".to_owned()));
        let took = start.began.elapsed();
        match started {
            Ok(server) => {
                *self = Self::Running(server);
                Ok(())
            }
            Err(reason) if took < SHORT_START => {
                *self = Self::Empty;
                Err(reason)
            }
            Err(reason) => {
                let reason = format!(
                    "{reason}. Later prompts of this session do not wait for it; `/servers` restarts it"
                );
                *self = Self::SetAside { reason: reason.clone() };
                Err(reason)
            }
        }
    }

    /// Lets a suspended server start again.
    pub(crate) fn try_again(&mut self) {
        if let Self::SetAside { .. } = self {
            *self = Self::Empty;
        }
    }

    /// Returns the server, if it was started. It may have ended since.
    pub(crate) fn running(&self) -> Option<&ServerProcess> {
        match self {
            Self::Running(server) => Some(server),
            _ => None,
        }
    }

    /// Ends the server and all processes that it started.
    pub(crate) async fn stop(&mut self) {
        match self {
            Self::Running(server) => server.stop().await,
            Self::Starting(start) => {
                start.task.abort();
                // The aborted task ends the process when it is dropped, so wait for the task.
                let _ = timeout(GIVE_UP_WITHIN, &mut start.task).await;
            }
            Self::Empty | Self::SetAside { .. } => {}
        }
        *self = Self::Empty;
    }
}

impl Drop for ServerStart {
    fn drop(&mut self) {
        self.task.abort();
    }
}
