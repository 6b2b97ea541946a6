//! Serves a session's tools within the future of its turn.

use std::{convert::Infallible, fmt, io, net::Ipv4Addr, sync::Arc};

use nexus_core::Session;
use nexus_http::BoundedServer;

use super::{
    activity::CallActivity,
    endpoint::Endpoint,
    http::{HttpHandler, PATH, TokenCheck, server},
    service::JsonObject,
    session_tools::SessionTools,
};

/// Serves the tools of one session over streamable HTTP, at a port of 127.0.0.1 that the system chooses.
///
/// It spawns no task: listener, connections and calls live in the future of [`SessionServer::serve`]. Dropping the server immediately
/// closes the port and every connection, and drops running tools. Requests must have the session's token, and the session decides on
/// every call. A closed session rejects every request, like one with a wrong token.
pub struct SessionServer {
    server: BoundedServer<HttpHandler>,
    tools: Arc<SessionTools>,
}

impl SessionServer {
    /// Opens a port for the tools of `session`. Each tool is listed with `tool_meta` as its `_meta`.
    ///
    /// # Errors
    ///
    /// The system cannot open a port.
    pub async fn open(session: Arc<Session>, tool_meta: JsonObject) -> io::Result<Self> {
        let token = TokenCheck::Session(Arc::clone(&session));
        let tools = Arc::new(SessionTools::new(session, tool_meta));
        let endpoint = Endpoint::of_session(Arc::clone(&tools));
        let server = server((Ipv4Addr::LOCALHOST, 0).into(), endpoint, token, Vec::new())?;
        Ok(Self { server, tools })
    }

    /// Returns the URL of the server, such as `http://127.0.0.1:40123/mcp`.
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.server.handler().address())
    }

    /// Returns the session whose tools are served.
    pub fn session(&self) -> &Arc<Session> {
        self.tools.session()
    }

    /// Returns the activity of the programs that call the tools.
    pub fn activity(&self) -> &Arc<CallActivity> {
        self.tools.activity()
    }

    /// Answers requests while it is polled. After a drop of this future it may be called again: connections and calls resume.
    pub async fn serve(&mut self) -> Infallible {
        self.server.serve().await
    }
}

impl fmt::Debug for SessionServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionServer")
            .field("url", &self.url())
            .field("session", self.session())
            .finish_non_exhaustive()
    }
}
