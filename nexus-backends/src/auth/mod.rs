//! Credentials: where a backend asks for one, and the only code that opens a secret.
//!
//! | room | holds |
//! | --- | --- |
//! | `credential`, `source` | what a turn is lent, and who lends it |
//! | `static_token` | a token that somebody else keeps fresh |
//! | `login`, `sign_in` | a login of our own, and the strategy that makes and refreshes it |
//! | `keeper`, `lock` | its one owner: across tasks, threads and processes |
//! | `store` | where it rests: a file, or the keyring of the system |
//! | `oauth` | the strategies that come along: authorization code with PKCE, device code |
//! | `projection` | a credential lent to one child process, then taken back |

mod credential;
mod login;
mod sign_in;
mod source;
mod static_token;
pub mod store;

pub use credential::Credential;
pub use login::{Identity, Login};
pub use sign_in::{LoginScreen, LoginStep, RefreshError, Revocation, SignIn, SignInError};
pub use source::{CredentialError, CredentialSource, Standing};
pub use static_token::StaticToken;
#[cfg(any(feature = "claude", feature = "codex", feature = "grok", feature = "native"))]
pub(crate) use static_token::TokenSetting;
