//! xAI's Grok on a SuperGrok plan: `grok-cli`, `grok-sub-token`, and the login that both borrow.

#[cfg(feature = "acp")]
mod acp;
pub mod cli;
mod detect;
pub mod login;
pub mod native;
mod small_pictures;

pub use cli::GrokCli;
pub use native::GrokSubToken;

use crate::vendor::{Vendor, kind};

/// Backends, logins and configuration sections of this vendor.
pub(crate) const VENDOR: Vendor = {
    let vendor = Vendor::new("grok", &[kind::<GrokCli>, kind::<GrokSubToken>])
        .with_logins(&[login::LOGIN])
        .with_detector(detect::detect);
    #[cfg(feature = "acp")]
    let vendor = vendor.with_agents(&[acp::AGENT]);
    vendor
};
