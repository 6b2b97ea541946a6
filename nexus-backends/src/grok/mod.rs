//! xAI's Grok on a SuperGrok plan: `grok-cli`, `grok-sub-token`, and the login that both are lent.

#[cfg(feature = "grok")]
pub mod cli;
pub mod login;
#[cfg(feature = "grok")]
pub mod native;

#[cfg(feature = "grok")]
pub use cli::GrokCli;
#[cfg(feature = "grok")]
pub use native::GrokSubToken;
