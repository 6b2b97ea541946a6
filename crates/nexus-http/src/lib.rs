//! A bounded HTTP/1.1 server that runs inside the future of its owner.
//!
//! [`BoundedServer`] spawns no task: the listener, all connections and all requests are polled by the owner's future.
//! Dropping the server closes the port and every connection at once.
//!
//! The other items are checks that every server of Nexus needs: [`ServerNames`] for the host and the origin of a request,
//! [`head`] for single headers, [`read_body`] and [`BodyMemory`] for limits on bodies.

mod body;
mod connection;
mod connections;
mod handler;
pub mod head;
mod memory;
mod names;
pub mod response;
mod server;

pub use body::{BodyError, read_body};
pub use connection::HttpConnection;
pub use connections::ServerLimits;
pub use handler::RequestHandler;
pub use memory::{BodyMemory, BodyTooLarge, MemoryPermit};
pub use names::{ForeignRequest, ServerNames};
pub use server::{BoundedServer, listen};
