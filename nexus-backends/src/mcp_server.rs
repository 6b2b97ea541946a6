//! The caller's tools, served to another program of this machine.
//!
//! A vendor's CLI runs its own loop in its own process. It reaches the caller's tools through an MCP server over
//! streamable HTTP on 127.0.0.1. The system assigns the port, which is open for one turn. Every call passes
//! [`Session::authorize`](nexus_core::Session::authorize), like a call of Nexus's own loop, and is recorded in the same
//! way.
//!
//! The server spawns nothing. Listener, connections and calls live in the future of [`McpServer::serve`]. Dropping the
//! server closes the port and every connection, and drops running tools, at once.
//!
//! A request must contain the session's token, name the server's own address as its host, and not come from a web page.
//! Any other request is rejected before a byte of its body is read. The response reveals nothing about the server, and
//! the connection is closed. The vendor's folder decides how a program gets the address and the token.
//!
//! The same server can serve a program of the caller:
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

/// Server for the tools of one session, with MCP over streamable HTTP on loopback.
///
/// The port is open from [`McpServer::open`] on, so a program that starts afterwards finds it. Requests are answered
/// while [`McpServer::serve`] is polled. Dropping the server closes the port and ends every running call. After the
/// session is closed, every request is rejected, like one with a wrong token.
#[derive(Debug)]
pub struct McpServer(SessionServer);

impl McpServer {
    /// Opens a port on 127.0.0.1 for the tools of `session`.
    ///
    /// # Errors
    ///
    /// The error of the system, if it provides no port.
    pub async fn open(session: Arc<Session>) -> io::Result<Self> {
        let (key, characters) = MAX_RESULT_CHARACTERS;
        let meta = JsonObject::from_iter([(key.to_owned(), characters.into())]);
        SessionServer::open(session, meta).await.map(Self)
    }

    /// Returns the URL of the server, such as `http://127.0.0.1:40123/mcp`.
    pub fn url(&self) -> String {
        self.0.url()
    }

    /// Returns the session whose tools are served. Every request must contain its token: `Authorization: Bearer TOKEN`.
    pub fn session(&self) -> &Arc<Session> {
        self.0.session()
    }

    /// Returns the activity of the programs that call the tools.
    #[cfg(feature = "cli")]
    pub(crate) fn activity(&self) -> &Arc<nexus_mcp::CallActivity> {
        self.0.activity()
    }

    /// Answers requests while it is polled. It may be dropped and called again: connections and calls then continue.
    pub async fn serve(&mut self) -> Infallible {
        self.0.serve().await
    }
}
