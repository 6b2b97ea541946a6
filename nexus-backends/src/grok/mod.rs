//! xAI's Grok on a SuperGrok plan: `grok-cli`, `grok-sub-token`, and the login that both are lent.

pub mod cli;
pub mod login;
pub mod native;

pub use cli::GrokCli;
pub use native::GrokSubToken;

use crate::vendor::{Vendor, kind};

/// What this vendor has.
pub(crate) const VENDOR: Vendor =
    Vendor::new("grok", &[kind::<GrokCli>, kind::<GrokSubToken>]).with_logins(&[login::LOGIN]);
