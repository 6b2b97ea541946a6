//! The Responses API as a wire.
//!
//! | module | contents |
//! | --- | --- |
//! | `shape` | differences between the requests of servers, as data |
//! | `request`, `convert` | the conversation, as it is sent, and its conversion to and from items of the loop |
//! | [`reader`], `wire` | events of the stream to turn events and a reply |

/// Name of the wire, which is part of an [`Origin`](crate::native::items::Origin).
pub(crate) const WIRE: &str = "responses";

pub(crate) mod convert;
mod parts;
pub mod reader;
pub(crate) mod request;
pub(crate) mod shape;
pub(super) mod wire;
