//! The loop of the native backends against servers that answer whatever a test wants: each body, status and
//! mistake has one outcome, within its time, and what was produced until then is in the error.

mod answers;
mod compaction;
mod decisions;
mod faults;
mod gemini;
mod lent;
mod mending;
mod own_login;
mod server;
mod stage;
mod summaries;
mod tools;
mod wires;
