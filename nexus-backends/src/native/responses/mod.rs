//! The Responses API, as every dialect of it shares it.
//!
//! Bytes become [`sse`] events; [`reader`] makes turn events of them and, at the end, the reply; `request` holds
//! the conversation and writes it; `turn_loop` goes from reply to request until the model stops or a limit is
//! reached. `setup` says what a turn is run with, `model_call` makes one request and repeats it where that helps,
//! `tool_calls` answers what the model asks for in between, and `course` waits beside each of them. `outcome`
//! names what went wrong.

mod course;
mod model_call;
pub(crate) mod outcome;
pub mod reader;
mod repeats;
pub(crate) mod request;
mod setup;
pub mod sse;
mod tool_calls;
pub(crate) mod tools;
pub(crate) mod turn_loop;
mod wire;
