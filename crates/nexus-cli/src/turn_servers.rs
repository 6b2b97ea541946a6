//! The servers of `mcp_servers` in the turns of a command.

use std::sync::Arc;

use nexus::{
    CancelToken, MCP_SERVERS, McpServers, OpenServers, Router, ServerWorkspace, TurnHost, TurnRequest,
};
use nexus_core::ToolRouter as _;

use crate::command_error::CommandError;

/// Servers of the configuration, for one turn or for the turns of a chat.
#[derive(Debug)]
pub(crate) struct TurnServers {
    open: OpenServers,
}

impl TurnServers {
    /// Creates the servers of one turn.
    pub(crate) fn of_turn() -> Self {
        Self { open: OpenServers::new("The next run starts it again") }
    }

    /// Creates the servers of the turns of a chat.
    pub(crate) fn of_chat() -> Self {
        let advice = "Later turns of this chat do not wait for it; a new chat starts it again";
        Self { open: OpenServers::new(advice) }
    }

    /// Starts the servers for a turn. Returns the host with their tools, and the warnings about the missing ones. `None` if the
    /// turn is cancelled meanwhile.
    ///
    /// # Errors
    ///
    /// The section cannot be used, or a required server does not run.
    pub(crate) async fn offer(
        &self,
        router: &Router,
        request: &TurnRequest,
        host: TurnHost,
    ) -> Result<Option<(TurnHost, Vec<String>)>, CommandError> {
        let servers = of(router)?;
        if servers.is_empty() {
            return Ok(Some((host, Vec::new())));
        }
        let workspace = ServerWorkspace::of(request);
        let cancel: CancelToken = host.cancel.clone();
        // A server may take long to start, so a cancellation ends the wait.
        let (tools, warnings) = tokio::select! {
            offered = self.open.tools(&servers, &workspace) => {
                offered.map_err(|error| {
                    CommandError::failed(error).with_advice("fix it, or write `required: false` in its entry")
                })?
            }
            () = cancel.cancelled() => return Ok(None),
        };
        let host = if tools.definitions().is_empty() { host } else { host.with_tools(Arc::new(tools)) };
        Ok(Some((host, warnings)))
    }

    /// Ends the servers.
    pub(crate) async fn stop(&self) {
        self.open.stop().await;
    }
}

/// Returns the servers of a configuration.
///
/// # Errors
///
/// The section cannot be used.
pub(crate) fn of(router: &Router) -> Result<McpServers, CommandError> {
    McpServers::read(router.section(MCP_SERVERS).as_ref(), router.context())
        .map_err(|error| CommandError::failed(format_args!("{MCP_SERVERS}: {error}")))
}
