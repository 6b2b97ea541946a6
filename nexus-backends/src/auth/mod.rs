//! Credentials: where a backend asks for one, and the only code that opens a secret.

mod credential;
mod source;

pub use credential::Credential;
#[cfg(any(feature = "claude", feature = "codex", feature = "grok", feature = "native"))]
pub(crate) use source::TokenSetting;
pub use source::{CredentialError, CredentialSource, StaticToken};
