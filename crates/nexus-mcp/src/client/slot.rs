//! One server of a client, from its start to its end.

use std::{sync::Arc, time::Duration};

use tokio::{
    task::JoinHandle,
    time::{Instant, timeout},
};

use super::{connection::ServerConnection, source::ServerSource};

/// Longest start of a server that is repeated for each turn. Source: our own bound on an unrequested wait.
const SHORT_START: Duration = Duration::from_secs(5);
/// Longest time for a server to end that is stopped during its start.
const GIVE_UP_WITHIN: Duration = Duration::from_secs(5);

/// State of one server.
#[derive(Debug)]
pub(super) enum ServerSlot {
    /// The server has not been started, or will be started again.
    Empty,
    /// The server is starting, even if no turn waits for it.
    Starting(ServerStart),
    Running(ServerConnection),
    /// The start took long and failed. It is not repeated unless the user asks for it.
    SetAside {
        /// Reason of the failure, and how to try again.
        reason: String,
    },
}

/// A running start. Dropping it stops the start.
#[derive(Debug)]
pub(super) struct ServerStart {
    task: JoinHandle<Result<ServerConnection, String>>,
    began: Instant,
}

impl ServerSlot {
    /// Starts the server if it does not run. A start that has begun continues if the future is dropped.
    ///
    /// # Errors
    ///
    /// Reason why the server does not run, for a person.
    pub(super) async fn fill(
        &mut self,
        source: &Arc<dyn ServerSource>,
        retry_advice: &str,
    ) -> Result<(), String> {
        match self {
            Self::Running(server) if server.is_running() => return Ok(()),
            Self::SetAside { reason } => return Err(reason.clone()),
            Self::Starting(_) => {}
            Self::Empty | Self::Running(_) => {
                let source = Arc::clone(source);
                let start = async move { ServerConnection::start(&*source).await };
                *self = Self::Starting(ServerStart { task: tokio::spawn(start), began: Instant::now() });
            }
        }
        let Self::Starting(start) = self else { return Ok(()) };
        // By reference, so that the start continues if this future is dropped.
        let started = (&mut start.task).await.unwrap_or_else(|_| Err("its start failed".to_owned()));
        let took = start.began.elapsed();
        match started {
            Ok(server) => {
                *self = Self::Running(server);
                Ok(())
            }
            // A quick failure costs a turn little, so the next turn tries again.
            Err(reason) if took < SHORT_START => {
                *self = Self::Empty;
                Err(reason)
            }
            Err(reason) => {
                let reason = format!("{reason}. {retry_advice}");
                *self = Self::SetAside { reason: reason.clone() };
                Err(reason)
            }
        }
    }

    /// Lets a suspended server start again.
    pub(super) fn try_again(&mut self) {
        if let Self::SetAside { .. } = self {
            *self = Self::Empty;
        }
    }

    /// Returns the server, if it was started. It may have ended since.
    pub(super) fn running(&self) -> Option<&ServerConnection> {
        match self {
            Self::Running(server) => Some(server),
            _ => None,
        }
    }

    /// Ends the server and all processes that it started.
    pub(super) async fn stop(&mut self) {
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
