//! The caller's tools, served to another program of this machine.
//!
//! A vendor's CLI runs its own loop, in a process of its own, and reaches the caller's tools through an MCP server over
//! streamable HTTP on 127.0.0.1, at a port that the system picks, open for one turn. A call that comes in here passes
//! [`Session::authorize`](nexus_core::Session::authorize) like a call of our own loop, and is recorded alike.
//!
//! Nothing is spawned. Listener, connections and calls live in the future of [`McpServer::serve`]; dropped with the
//! server, it closes the port and every connection and drops the tools that run, at once.
//!
//! A request must carry the session's token, name the server's own address as its host, and not come from a web page.
//! Any other is refused before a byte of its body is read, with an answer that says nothing of the server, and its
//! connection is closed. How a program is told of address and token is left to the vendor's folder.
//!
//! The same server serves a program of one's own:
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use nexus_backends::mcp_server::McpServer;
//! use nexus_core::{ParticipantScope, Session, Tool, Toolbox};
//!
//! # async fn example() -> std::io::Result<()> {
//! let tools = Toolbox::new().with(Tool::without_arguments("noon", "Says when.", || async { "12:00" }));
//! let session = Session::mint("clerk", ParticipantScope::unrestricted(), Arc::new(tools));
//! let mut server = McpServer::open(Arc::clone(&session)).await?;
//! let mut program = tokio::process::Command::new("my-agent")
//!     .env("TOOLS_URL", server.url())
//!     .env("TOOLS_TOKEN", session.token().expose())
//!     .spawn()?;
//! tokio::select! {
//!     never = server.serve() => match never {},
//!     status = program.wait() => println!("it ended: {}", status?),
//! }
//! // What it called, and what was decided.
//! println!("{:#?}", session.decisions());
//! # Ok(())
//! # }
//! ```

use std::{convert::Infallible, io, sync::Arc};

use nexus_core::Session;
use nexus_mcp::{JsonObject, SessionServer};

use crate::wire_names::MAX_RESULT_CHARACTERS;

/// Serves the tools of one session, by MCP over streamable HTTP on loopback.
///
/// The port is open from [`McpServer::open`] on, so that a program that is started then finds it; answers come while
/// [`McpServer::serve`] is polled. When the server is dropped the port is closed and every call under way with it.
/// When the session is closed every request is refused, like one with a wrong token.
#[derive(Debug)]
pub struct McpServer(SessionServer);

impl McpServer {
    /// Opens a port on 127.0.0.1 for the tools of `session`.
    ///
    /// # Errors
    ///
    /// The system's own, if it gives no port.
    pub async fn open(session: Arc<Session>) -> io::Result<Self> {
        let (key, characters) = MAX_RESULT_CHARACTERS;
        let meta = JsonObject::from_iter([(key.to_owned(), characters.into())]);
        SessionServer::open(session, meta).await.map(Self)
    }

    /// Address of the server, such as `http://127.0.0.1:40123/mcp`.
    pub fn url(&self) -> String {
        self.0.url()
    }

    /// The session whose tools are served. Its token is what every request must bear:
    /// `Authorization: Bearer TOKEN`.
    pub fn session(&self) -> &Arc<Session> {
        self.0.session()
    }

    /// The activity of the programs that call the tools.
    #[cfg(feature = "cli")]
    pub(crate) fn activity(&self) -> &Arc<nexus_mcp::CallActivity> {
        self.0.activity()
    }

    /// Answers requests for as long as it is polled. Dropped, it may be called again: connections and calls go on
    /// where they were.
    pub async fn serve(&mut self) -> Infallible {
        self.0.serve().await
    }
}
