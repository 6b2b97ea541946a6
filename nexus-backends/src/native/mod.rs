//! Loop over a model's API: one request to the model per iteration, and the caller's tools answered in this process.
//! A wire translates between the loop and one protocol.
//!
//! | module | contents |
//! | --- | --- |
//! | `backend`, `kind`, `model_server` | [`ExecutionBackend`](nexus_core::ExecutionBackend) for any dialect, and its construction |
//! | `dialect` | differences between servers, as data and small functions; each vendor's folder has its own |
//! | `settings`, `own_settings` | settings in `nexus.yaml` |
//! | `turn_loop`, `setup`, `model_call`, `turn_context` | from request to reply to request, until the model stops or a limit is reached |
//! | [`wires`] | one protocol each: requests, streams and conversations |
//! | `wire_reader`, `transcript`, `reply` | the interface between the loop and a wire |
//! | [`sse`], [`frame_splitter`], `stream_splitter` | bytes to events, by the framing of the body |
//! | `lenient` | values that servers write in several forms |
//! | `json_cursor`, `plain_json` | fast readers for the plain JSON that servers write nearly always |
//! | `tools` | the caller's tools and the answer's schema, as servers accept them |
//! | `own_tools` | files and commands, as the access level allows |
//! | `compaction`, `context_room`, `context_fill` | older parts of a conversation that are dropped, so that the rest fits into the model's context |
//! | `summary`, `summarizer` | a summary of these parts, by the model that the settings name |
//! | `tool_calls` | the calls of one reply |
//! | `outcome`, `retry` | the meaning of an error, and the decision to repeat a request |
//! | `probe`, `model_list`, `model_name` | whether a turn would start, and the models that a server offers |
//! | `transport`, `call_route`, `models` | HTTP, the address of a call, a server's model list |
//! | `bearer`, `key_placement`, `signature` | the credential in requests |

pub(crate) mod arguments;
mod backend;
pub(crate) mod bearer;
pub(crate) mod call_route;
pub(crate) mod compaction;
mod context_fill;
mod context_room;
pub(crate) mod dialect;
pub mod frame_splitter;
mod item_transcript;
pub(crate) mod items;
mod json_cursor;
pub(crate) mod key_placement;
pub(crate) mod kind;
pub(crate) mod lenient;
mod model_call;
mod model_list;
pub(crate) mod model_name;
mod model_server;
pub(crate) mod models;
pub(crate) mod outcome;
pub(crate) mod own_settings;
mod own_tools;
mod plain_json;
mod probe;
pub(crate) mod reply;
mod retry;
pub(crate) mod settings;
mod setup;
pub(crate) mod signature;
pub mod sse;
pub(crate) mod stored;
pub(crate) mod stream_splitter;
mod summarizer;
mod summary;
mod tool_calls;
pub(crate) mod tools;
pub(crate) mod transcript;
pub(crate) mod transport;
mod turn_context;
pub(crate) mod turn_loop;
pub(crate) mod usage;
pub(crate) mod wire_reader;
pub mod wires;
