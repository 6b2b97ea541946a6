//! Settings and state that all sessions of an agent share.

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use agent_client_protocol_schema::v1::Error;
use nexus_conversations::{ConversationError, ConversationErrorKind, Conversations};
use nexus_core::ToolAccess;
use nexus_router::Router;

use crate::{outgoing::lock, record::SessionRecords};

/// Defaults and limits of sessions.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct AcpOptions {
    /// The type of a new session. `None`: the first type of the configuration that is not a panel.
    pub kind: Option<String>,
    /// The access level that a new session begins with, above which no client can set one. Default:
    /// [`ToolAccess::WorkspaceWrite`].
    pub access: ToolAccess,
    /// Longest wait for the person's answer to a permission request; after it the call is refused. Default: 5
    /// minutes.
    pub permission_within: Duration,
    /// Longest time without progress of a call of the client's MCP tools; after it the call fails. Default: 10
    /// minutes.
    pub tool_call_within: Duration,
    /// Time that cancelled turns have to stop at the end; after it their processes are killed. Default: 10
    /// seconds.
    pub stop_within: Duration,
}

impl Default for AcpOptions {
    fn default() -> Self {
        Self {
            kind: None,
            access: ToolAccess::WorkspaceWrite,
            permission_within: Duration::from_secs(300),
            tool_call_within: Duration::from_secs(600),
            stop_within: Duration::from_secs(10),
        }
    }
}

impl AcpOptions {
    /// Sets the type of a new session.
    #[must_use]
    pub fn with_kind(mut self, kind: Option<String>) -> Self {
        self.kind = kind;
        self
    }

    /// Sets the access level of a new session, which is also the maximum for clients.
    #[must_use]
    pub fn with_access(mut self, access: ToolAccess) -> Self {
        self.access = access;
        self
    }

    /// Sets the longest time of a call of a client's MCP tool without progress.
    #[must_use]
    pub fn with_tool_call_within(mut self, within: Duration) -> Self {
        self.tool_call_within = within;
        self
    }
}

pub(crate) type OpenRouter = dyn Fn() -> Result<Router, String> + Send + Sync;

/// Settings and state that all sessions of an agent share.
pub(crate) struct Setup {
    pub(crate) open: Box<OpenRouter>,
    pub(crate) router: Mutex<Option<Router>>,
    pub(crate) conversations: Conversations,
    pub(crate) records: SessionRecords,
    pub(crate) options: AcpOptions,
}

impl Setup {
    /// Returns the router with the current configuration file. Blocks.
    ///
    /// # Errors
    ///
    /// Problem of the configuration, with its place.
    pub(crate) fn router(&self) -> Result<Router, String> {
        // Locked while the router opens, so that it is opened only once.
        let mut router = lock(&self.router);
        match &*router {
            Some(router) => {
                router.reload().map_err(|error| error.to_string())?;
                Ok(router.snapshot())
            }
            None => {
                let opened = (self.open)()?;
                let snapshot = opened.snapshot();
                *router = Some(opened);
                Ok(snapshot)
            }
        }
    }
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Runs `work` on a blocking thread.
pub(crate) async fn blocking<T: Send + 'static>(
    setup: &Arc<Setup>,
    work: impl FnOnce(&Setup) -> T + Send + 'static,
) -> Result<T, Error> {
    let setup = Arc::clone(setup);
    tokio::task::spawn_blocking(move || work(&setup)).await.map_err(|_| Error::internal_error())
}

/// Returns true if the conversation does not exist.
pub(crate) fn is_unknown(error: &ConversationError) -> bool {
    matches!(error.kind, ConversationErrorKind::Unknown | ConversationErrorKind::InvalidName)
}
