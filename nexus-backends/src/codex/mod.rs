//! OpenAI's Codex on a ChatGPT plan: `codex-cli`, `codex-sub-token`, and the login that both are lent.

#[cfg(feature = "codex")]
pub mod cli;
pub mod login;
#[cfg(feature = "codex")]
pub mod native;

#[cfg(feature = "codex")]
pub use cli::CodexCli;
#[cfg(feature = "codex")]
pub use native::CodexSubToken;
