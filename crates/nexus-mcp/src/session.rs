//! The tools of a session, served within the future of its turn.

use std::{
    convert::Infallible,
    fmt, io,
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use nexus_core::{CallId, Session, ToolResult};
use nexus_http::BoundedServer;
use rmcp::model::{CallToolResult, Tool};
use serde_json::Value;

use super::{
    activity::CallActivity,
    endpoint::Endpoint,
    http::{HttpHandler, PATH, TokenCheck, server},
    service::{JsonObject, ServiceInfo},
    wire,
};

/// Serves the tools of one session over streamable HTTP, at a port of 127.0.0.1 that the system picks.
///
/// Nothing is spawned: listener, connections and calls live in the future of [`SessionServer::serve`]. Dropping the server closes the
/// port and every connection, and drops the tools that run, at once. Requests bear the session's token, and the session decides on
/// every call. Once it is closed every request is rejected, like one with a wrong token.
pub struct SessionServer {
    server: BoundedServer<HttpHandler>,
    tools: Arc<SessionTools>,
}

impl SessionServer {
    /// Opens a port for the tools of `session`. Each tool is listed with `tool_meta` as its `_meta`.
    ///
    /// # Errors
    ///
    /// The system gives no port.
    pub async fn open(session: Arc<Session>, tool_meta: JsonObject) -> io::Result<Self> {
        let token = TokenCheck::Session(Arc::clone(&session));
        let tools =
            Arc::new(SessionTools { session, tool_meta, activity: Arc::default(), calls: AtomicU64::new(1) });
        let endpoint = Endpoint::of_session(Arc::clone(&tools));
        let server = server((Ipv4Addr::LOCALHOST, 0).into(), endpoint, token, Vec::new())?;
        Ok(Self { server, tools })
    }

    /// The URL of the server, such as `http://127.0.0.1:40123/mcp`.
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.server.handler().address())
    }

    /// The session whose tools are served.
    pub fn session(&self) -> &Arc<Session> {
        &self.tools.session
    }

    /// The activity of the programs that call the tools.
    pub fn activity(&self) -> &Arc<CallActivity> {
        &self.tools.activity
    }

    /// Answers requests for as long as it is polled. Dropped, it may be called again: connections and calls resume.
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

/// The tools of a session, and the activity of those who call them.
#[derive(Debug)]
pub(crate) struct SessionTools {
    session: Arc<Session>,
    tool_meta: JsonObject,
    activity: Arc<CallActivity>,
    calls: AtomicU64,
}

impl SessionTools {
    pub(crate) fn info(&self) -> ServiceInfo {
        ServiceInfo::new("nexus", env!("CARGO_PKG_VERSION"), "")
    }

    pub(crate) fn listed(&self) -> Vec<Tool> {
        self.session.definitions().iter().map(|tool| wire::session_tool(tool, &self.tool_meta)).collect()
    }

    pub(crate) fn activity(&self) -> &CallActivity {
        &self.activity
    }

    /// Has the session decide on a call and answer it. Dropping the future drops the tool that runs.
    pub(crate) async fn call(
        self: Arc<Self>,
        tool: String,
        arguments: Value,
        flaw: Option<String>,
    ) -> CallToolResult {
        let call = CallId::new(format!("mcp-{}", self.calls.fetch_add(1, Ordering::Relaxed)));
        let _order = self.session.in_order(&tool).await;
        let token = self.session.token();
        let decided = match flaw {
            Some(flaw) => Err(self.session.deny_flawed(token, &tool, &arguments, &flaw)),
            None => self.session.authorize(token, &tool, &arguments),
        };
        // The tool has its own.
        drop(arguments);
        self.activity.decided();
        let answer = match decided {
            Ok(permit) => {
                let _running = self.activity.running();
                self.session.answer(call, permit).await
            }
            Err(denial) => Err(denial),
        };
        wire::answered(answer.unwrap_or_else(|denial| ToolResult::error(denial.to_string())))
    }
}
