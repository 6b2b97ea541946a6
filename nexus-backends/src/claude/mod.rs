//! Anthropic: `claude-cli`. Its program keeps its own login, which no code here reads or writes.

pub mod cli;

pub use cli::ClaudeCli;
