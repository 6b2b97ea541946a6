//! The simulator as its clients see it, byte by byte, with a client that knows nothing of it.

mod anthropic;
mod chat;
mod client;
mod faults;
mod gallery;
mod gemini;
mod mangled;
mod recording;
mod responses;
mod script;
mod strict;
#[cfg(feature = "tls")]
mod tls;
mod xai;
