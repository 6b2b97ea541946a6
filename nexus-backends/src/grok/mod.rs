//! xAI's Grok on a SuperGrok plan: `grok-cli`, `grok-sub-token`, and the login that both are lent.

pub mod cli;
pub mod native;

pub use cli::GrokCli;
pub use native::GrokSubToken;
