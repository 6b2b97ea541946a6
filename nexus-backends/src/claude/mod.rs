//! Anthropic: `claude-cli`. Its program keeps its own login, which no code here reads or writes.

pub mod cli;

pub use cli::ClaudeCli;

use crate::vendor::{Vendor, kind};

/// What this vendor has.
pub(crate) const VENDOR: Vendor =
    Vendor::new("claude", &[kind::<ClaudeCli>]).with_program_login("claude auth");
