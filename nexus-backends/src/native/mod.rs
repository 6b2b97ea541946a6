//! Backends that own the loop: one request to the model per iteration, over the OpenAI Responses API, and the
//! caller's tools answered in this process.
//!
//! | room | holds |
//! | --- | --- |
//! | `backend` | the seam over any dialect |
//! | `responses` | what every dialect shares: the request, the stream, the loop |
//! | `dialect` | where servers differ, as data and small functions |
//! | `codex`, `grok`, `generic` | the dialects |
//! | `kind`, `own_settings`, `bearer`, `catalog` | what the kinds share: how one is built, its own settings, its credential on the wire, its list of models |
//! | `transport`, `retry` | the HTTP seam; whether and when a request is repeated |
//! | `settings` | what `nexus.yaml` says |

mod backend;
mod bearer;
mod catalog;
mod codex;
mod dialect;
mod generic;
mod grok;
mod kind;
mod own_settings;
pub mod responses;
mod retry;
mod settings;
mod transport;

pub use codex::CodexSubToken;
pub use generic::Responses;
pub use grok::GrokSubToken;
