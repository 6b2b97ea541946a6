//! Connection to a running server.

use std::{any::Any, fmt, sync::Arc, time::Duration};

use nexus_process::spawn::{Polite, Process, StdinMode, Stop};
use rmcp::{RoleClient, ServiceExt as _, model::Tool, service::RunningService};
use tokio::time::timeout;

use super::{
    cut_text,
    process::ProcessTransport,
    source::{PreparedServer, ServerSource},
};

/// Longest time from the start of a server to its list of tools. Source: our own bound; some servers are downloaded first.
const START_WITHIN: Duration = Duration::from_secs(30);
/// Longest time for a server to end after its input was closed.
const STOP_GRACE: Duration = Duration::from_secs(1);
/// Maximum length of a server's error output in a message, in bytes.
const COMPLAINT_BYTES: usize = 300;

/// A running server.
pub(super) struct ServerConnection {
    pub(super) service: RunningService<RoleClient, ()>,
    pub(super) tools: Vec<Tool>,
    process: Option<Arc<Process>>,
    /// Declared last: it must live longer than the process.
    _guard: Option<Box<dyn Any + Send + Sync>>,
}

impl ServerConnection {
    /// Starts a server, and requests its list of tools.
    ///
    /// # Errors
    ///
    /// Reason why it is not available, for a person.
    pub(super) async fn start(source: &dyn ServerSource) -> Result<Self, String> {
        let PreparedServer::Process { invocation, guard } = source.prepare().await?;
        let process = invocation.stdin(StdinMode::Open).end_with_host().spawn();
        let process = Arc::new(process.map_err(|error| error.to_string())?);
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
            Ok((service, tools)) => Ok(Self { service, tools, process: Some(process), _guard: guard }),
            Err(reason) => {
                process.stop(stopping()).await;
                let complaint = process.stderr_tail();
                let complaint = complaint.lines().next_back().unwrap_or_default().trim();
                Err(match complaint.is_empty() {
                    true => reason,
                    false => format!("{reason} ({})", cut_text(complaint, COMPLAINT_BYTES)),
                })
            }
        }
    }

    /// Returns true while the server runs.
    pub(super) fn is_running(&self) -> bool {
        !self.service.is_closed() && !self.service.is_transport_closed()
    }

    /// Ends the server and all processes that it started.
    pub(super) async fn stop(&self) {
        if let Some(process) = &self.process {
            process.stop(stopping()).await;
        }
    }
}

impl fmt::Debug for ServerConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConnection").field("tools", &self.tools.len()).finish_non_exhaustive()
    }
}

fn stopping() -> Stop {
    Stop::new().politely(Polite::CloseStdin, STOP_GRACE)
}
