//! Servers of a configuration for one turn after another.

use nexus_core::Toolbox;
use nexus_mcp::client::{ClientServers, ServerFault, ToolOffer};
use thiserror::Error;
use tokio::sync::Mutex;

use super::{MCP_SERVERS, McpServers, ServerWorkspace};

/// Servers of a configuration for one turn after another, such as those of a chat. They start with the first turn. Servers of another
/// access level, other folders or a changed section replace them.
#[derive(Debug)]
pub struct OpenServers {
    retry_advice: &'static str,
    open: Mutex<Option<OpenedServers>>,
}

/// Servers that were opened, and what they were opened for.
#[derive(Debug)]
struct OpenedServers {
    servers: McpServers,
    workspace: ServerWorkspace,
    client: ClientServers,
}

/// A server that does not run, and without which no turn may run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{MCP_SERVERS}.{name}: {reason}")]
pub struct RequiredServerError {
    /// Name of the server.
    pub name: String,
    /// The reason, for a person.
    pub reason: String,
}

impl OpenServers {
    /// Creates the servers. `retry_advice` says when a server starts again whose start took long and failed.
    pub fn new(retry_advice: &'static str) -> Self {
        Self { retry_advice, open: Mutex::default() }
    }

    /// Returns the tools of the servers, with the warnings that were not returned yet: see [`offer`](Self::offer).
    ///
    /// # Errors
    ///
    /// [`RequiredServerError`].
    pub async fn tools(
        &self,
        servers: &McpServers,
        workspace: &ServerWorkspace,
    ) -> Result<(Toolbox, Vec<String>), RequiredServerError> {
        let mut offer = ToolOffer::new();
        let warnings = self.offer(servers, workspace, &mut offer).await?;
        Ok((offer.into_tools(), warnings))
    }

    /// Starts the servers that do not run, adds their tools to an offer, and returns warnings that were not returned yet. If the
    /// future is dropped, the next call continues the starts.
    ///
    /// # Errors
    ///
    /// [`RequiredServerError`].
    pub async fn offer(
        &self,
        servers: &McpServers,
        workspace: &ServerWorkspace,
        offer: &mut ToolOffer,
    ) -> Result<Vec<String>, RequiredServerError> {
        // Locked during the starts, so that two turns at once do not start the servers twice.
        let mut open = self.open.lock().await;
        if let Some(other) =
            open.take_if(|open| open.workspace != *workspace || !open.servers.has_same_section(servers))
        {
            other.client.stop().await;
        }
        let opened = open.get_or_insert_with(|| OpenedServers {
            client: servers.open(workspace, self.retry_advice),
            servers: servers.clone(),
            workspace: workspace.clone(),
        });
        let faults = opened.client.offer(offer).await;
        if let Some(fault) = faults.iter().find(|fault| fault.is_required && fault.is_missing) {
            return Err(RequiredServerError { name: fault.server.clone(), reason: fault.reason.clone() });
        }
        Ok(faults.iter().map(warning).collect())
    }

    /// Lets the next offer start suspended servers again, and report their problems again.
    pub async fn try_again(&self) {
        if let Some(open) = &*self.open.lock().await {
            open.client.try_again().await;
        }
    }

    /// Returns the number of servers, and the number of running ones.
    pub async fn count(&self) -> (usize, usize) {
        match &*self.open.lock().await {
            Some(open) => open.client.count().await,
            None => (0, 0),
        }
    }

    /// Ends the servers and all processes that they started.
    pub async fn stop(&self) {
        if let Some(open) = self.open.lock().await.take() {
            open.client.stop().await;
        }
    }
}

fn warning(fault: &ServerFault) -> String {
    let ServerFault { server, reason, .. } = fault;
    match fault.is_missing {
        true => format!("{MCP_SERVERS}.{server}: its tools are missing: {reason}"),
        false => format!("{MCP_SERVERS}.{server}: {reason}"),
    }
}
