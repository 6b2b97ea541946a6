//! The loop over the Responses API: one request to the model per iteration, and the caller's tools answered in
//! this process.
//!
//! | module | holds |
//! | --- | --- |
//! | `backend`, `kind`, `model_server` | [`ExecutionBackend`](nexus_core::ExecutionBackend) over any dialect, and how one is built |
//! | `dialect` | where servers differ, as data and small functions; each vendor's folder has its own |
//! | `settings`, `own_settings` | what `nexus.yaml` says |
//! | `turn_loop`, `setup`, `model_call`, `turn_context` | from request to reply to request, until the model stops or a limit is reached |
//! | `request`, `tools` | the conversation and the caller's tools, as they are sent |
//! | [`sse`], [`reader`], `wire` | bytes to events, events to turn events and a reply |
//! | `tool_calls` | the calls of one reply |
//! | `outcome`, `retry` | what an error means; whether and when a request is repeated |
//! | `transport`, `bearer`, `models` | HTTP, the credential on the wire, a server's list of models |

mod backend;
pub(crate) mod bearer;
pub(crate) mod dialect;
pub(crate) mod kind;
mod model_call;
mod model_server;
pub(crate) mod models;
pub(crate) mod outcome;
pub(crate) mod own_settings;
pub mod reader;
pub(crate) mod request;
mod retry;
pub(crate) mod settings;
mod setup;
pub mod sse;
mod tool_calls;
pub(crate) mod tools;
pub(crate) mod transport;
mod turn_context;
pub(crate) mod turn_loop;
mod wire;
