//! The client of other people's servers: it starts them, lists their tools and calls them.
//!
//! | to | see |
//! | --- | --- |
//! | describe a server, and prepare its start | [`ClientServer`], [`ServerSource`], [`PreparedProcess`], [`HttpEndpoint`] |
//! | start servers, and offer their tools to turns | [`ClientServers`], [`ToolOffer`] |
//!
//! A server may do anything that its process can. So its texts, its names and its lists are bounded, and each call needs an
//! approval unless the owner of the server says otherwise.

mod call;
mod client_server;
mod connection;
mod http;
mod listed_tool;
mod offer;
mod process;
mod servers;
mod slot;
mod source;
mod text;

pub use client_server::ClientServer;
pub use http::{HeaderContent, HttpEndpoint};
pub use offer::ToolOffer;
pub use servers::{ClientServers, ServerFault};
pub use source::{PreparedProcess, PreparedServer, ServerSource, USER_VARIABLES};
pub use text::cut_text;
