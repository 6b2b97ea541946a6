//! OpenAI's Codex on a ChatGPT plan: `codex-cli`, `codex-sub-token`, and the login that both are lent.

pub mod cli;
pub mod login;
mod model_list;
pub mod native;

pub use cli::CodexCli;
pub use native::CodexSubToken;

use crate::vendor::{Vendor, kind};

/// What this vendor has.
pub(crate) const VENDOR: Vendor =
    Vendor::new("codex", &[kind::<CodexCli>, kind::<CodexSubToken>]).with_login(login::LOGIN);
