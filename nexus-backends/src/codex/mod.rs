//! OpenAI's Codex on a ChatGPT plan: `codex-cli`, `codex-sub-token`, and the login that both are lent.

pub mod cli;
pub mod native;

pub use cli::CodexCli;
pub use native::CodexSubToken;
