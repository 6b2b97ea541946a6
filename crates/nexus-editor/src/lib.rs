//! Nexus as an agent of the [Agent Client Protocol](https://agentclientprotocol.com), revision 1: a client,
//! such as an editor, drives a type of `nexus.yaml`, and the file decides which backend answers.
//!
//! | to | see |
//! | --- | --- |
//! | serve a client over a reader and a writer | [`AcpAgent::serve`], [`AcpEnd`] |
//! | set the defaults and limits of sessions | [`AcpOptions`] |
//!
//! A **session** of the protocol is a named conversation of [`nexus_conversations`], which is locked only while
//! a prompt of it runs. A small file beside the conversation stores the rest: the folder, the type, the access
//! level and a title. Both files exist after the first stored prompt, so that a session without a prompt leaves
//! nothing behind.
//!
//! **Modes** of the protocol are the types of the configuration that are one chain. Panels have no conversation
//! and are left out. The configuration is read again for each prompt.
//!
//! **Work of the backends**: they read and write files and run programs themselves, in their sandboxes. The
//! client's own methods for files and terminals are not used. The MCP servers over stdio that a client names
//! are started here, in addition to those of the configuration, and the turn gets their tools.
//!
//! ```no_run
//! use nexus_editor::{AcpAgent, AcpOptions};
//! # use nexus_router::Router;
//! # async fn example(router: Router) {
//!
//! let agent = AcpAgent::new(move || Ok(router.clone()), "/home/me/.nexus", AcpOptions::default());
//! let (client, server) = tokio::io::duplex(1 << 16);
//! let (input, output) = tokio::io::split(server);
//! let end = agent.serve(input, output, std::future::pending()).await;
//! # let _ = (client, end);
//! # }
//! ```

mod agent;
mod calls;
mod client_text;
mod connection;
mod diff;
mod failure;
mod incoming;
mod lines;
mod modes;
mod named_server;
mod outgoing;
mod permission;
mod prompt;
mod prompt_turn;
mod question;
mod record;
mod replay;
mod servers;
mod session;
mod session_client;
mod session_list;
mod setup;
mod tool_calls;
mod updates;

pub use agent::{AcpAgent, AcpEnd};
pub use setup::AcpOptions;
