//! Anthropic: `claude-cli`. The program stores its own login, which no code here reads or writes.

#[cfg(feature = "acp")]
mod acp;
pub mod cli;
mod detect;

pub use cli::ClaudeCli;

use crate::vendor::{Vendor, kind};

/// Backends, logins and configuration sections of this vendor.
pub(crate) const VENDOR: Vendor = {
    let vendor = Vendor::new("claude", &[kind::<ClaudeCli>])
        .with_program_login("claude auth")
        .with_detector(detect::detect);
    #[cfg(feature = "acp")]
    let vendor = vendor.with_agents(&[acp::AGENT]);
    vendor
};
