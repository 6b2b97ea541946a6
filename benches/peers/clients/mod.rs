//! The clients that other people wrote, each used as its own documentation shows.

mod async_openai;
mod genai;
mod rig;

use crate::native::contender::Entry;

/// All of them.
pub(crate) const PEERS: [Entry; 3] = [async_openai::ASYNC_OPENAI, rig::RIG, genai::GENAI];

/// Sent by clients that insist on a key. The loopback server looks at none.
const KEY: &str = "none";
