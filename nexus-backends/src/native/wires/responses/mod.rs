//! The Responses API as a wire.
//!
//! | module | contents |
//! | --- | --- |
//! | `shape` | differences between the requests of servers, as data |
//! | `request` | the conversation, as it is sent |
//! | [`reader`], `wire` | events of the stream to turn events and a reply |

pub mod reader;
pub(crate) mod request;
pub(crate) mod shape;
pub(super) mod wire;
