//! Connection to a running server.

use std::{any::Any, fmt, sync::Arc, time::Duration};

use nexus_core::redact::Redactor;
use nexus_process::spawn::{Polite, Process, StdinMode, Stop};
use rmcp::{RoleClient, ServiceExt as _, service::RunningService, transport::IntoTransport};
use tokio::time::timeout;

use super::{
    cut_text,
    http::HttpEndpoint,
    listed_tool::{ListedTool, listed_tools},
    process::ProcessTransport,
    source::{PreparedProcess, PreparedServer, ServerSource},
};

/// Longest time from the start of a server to its list of tools. Source: our own bound; some servers are downloaded first.
const START_WITHIN: Duration = Duration::from_secs(30);
/// Longest time for a server to end after its input was closed, or its session was ended.
const STOP_GRACE: Duration = Duration::from_secs(1);
/// Maximum length of a server's error output in a message, in bytes.
const COMPLAINT_BYTES: usize = 300;
/// Maximum length of the reason of a failed start, in bytes. A server over HTTP may answer with a page.
const REASON_BYTES: usize = 500;

/// A running server.
pub(super) struct ServerConnection {
    pub(super) service: RunningService<RoleClient, ()>,
    pub(super) tools: Vec<ListedTool>,
    /// Number of listed tools beyond the limits.
    pub(super) left_out: usize,
    /// Secrets that the server got.
    pub(super) redactor: Redactor,
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
        match source.prepare().await? {
            PreparedServer::Process(prepared) => Self::of_process(*prepared).await,
            PreparedServer::Http(endpoint) => Self::over_http(&endpoint).await,
        }
    }

    async fn of_process(prepared: PreparedProcess) -> Result<Self, String> {
        let PreparedProcess { invocation, redactor, guard } = prepared;
        let invocation = invocation.stdin(StdinMode::Open).end_with_host().redactor(redactor.clone());
        let process = Arc::new(invocation.spawn().map_err(|error| error.to_string())?);
        match connected(ProcessTransport { process: Arc::clone(&process) }, redactor).await {
            Ok(connection) => Ok(Self { process: Some(process), _guard: guard, ..connection }),
            Err(reason) => {
                // Stop the process first, because its last words may explain the failure.
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

    async fn over_http(endpoint: &HttpEndpoint) -> Result<Self, String> {
        let (transport, client) = endpoint.transport()?;
        // The library's error names neither the cause nor the credential.
        connected(transport, client.redactor().clone())
            .await
            .map_err(|reason| client.take_fault().unwrap_or(reason))
    }

    /// Returns true while the server runs.
    pub(super) fn is_running(&self) -> bool {
        !self.service.is_closed() && !self.service.is_transport_closed()
    }

    /// Ends the server and all processes that it started.
    pub(super) async fn stop(&mut self) {
        if let Some(process) = &self.process {
            process.stop(stopping()).await;
        }
        // Ignore the outcome: the tasks of the connection end with the process in any case.
        let _ = self.service.close_with_timeout(STOP_GRACE).await;
    }
}

/// Connects over a transport, and requests the list of tools.
async fn connected<E: std::error::Error + Send + Sync + 'static, A>(
    transport: impl IntoTransport<RoleClient, E, A>,
    redactor: Redactor,
) -> Result<ServerConnection, String> {
    let connecting = async {
        let service = ().serve(transport).await.map_err(|error| error.to_string())?;
        let (tools, left_out) = listed_tools(service.peer(), &redactor).await?;
        Ok((service, tools, left_out))
    };
    let outcome = timeout(START_WITHIN, connecting)
        .await
        .unwrap_or_else(|_| Err(format!("it listed no tools within {} s", START_WITHIN.as_secs())));
    match outcome {
        Ok((service, tools, left_out)) => {
            Ok(ServerConnection { service, tools, left_out, redactor, process: None, _guard: None })
        }
        Err(reason) => Err(cut_text(&redactor.redact_text(&reason), REASON_BYTES)),
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
