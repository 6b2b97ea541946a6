//! OpenAI's models on a ChatGPT plan, in two ways, each with its own login.
//!
//! `codex-cli` and `codex-sub-token` borrow the login of the Codex program, and use its endpoint. `chatgpt-sub-token`
//! borrows "Sign in with ChatGPT", which lets open-source programs use a plan at OpenAI's public API; `codex-cli` can
//! borrow that login as well.

#[cfg(feature = "acp")]
mod acp;
pub mod chatgpt;
pub mod cli;
mod detect;
pub mod login;
mod model_list;
pub mod native;

pub use chatgpt::ChatgptSubToken;
pub use cli::CodexCli;
pub use native::CodexSubToken;

use crate::vendor::{Vendor, kind};

/// Backends, logins and configuration sections of this vendor.
pub(crate) const VENDOR: Vendor = {
    let vendor = Vendor::new("codex", &[kind::<CodexCli>, kind::<CodexSubToken>, kind::<ChatgptSubToken>])
        .with_logins(&[login::LOGIN, chatgpt::login::LOGIN])
        .with_detector(detect::detect);
    #[cfg(feature = "acp")]
    let vendor = vendor.with_agents(&[acp::AGENT]);
    vendor
};
