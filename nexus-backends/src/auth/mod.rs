//! Credentials: who lends them, and the only code that opens a secret. What a turn is lent is
//! [`nexus_core::Credential`], and where it asks for one [`nexus_core::CredentialSource`].
//!
//! | room | holds |
//! | --- | --- |
//! | `static_token` | a token that somebody else keeps fresh |
//! | `login`, `sign_in` | a login of our own, and the strategy that makes and refreshes it |
//! | `keeper`, `lock` | its one owner: across tasks, threads and processes |
//! | `store` | where it rests: a file, or the keyring of the system |
//! | `oauth` | the strategies that come along: authorization code with PKCE, device code |
//! | `logins`, `codex`, `grok` | the logins that come along, and each vendor's issuer as data |
//! | `projection` | a credential lent to one child process, then taken back |

#[cfg(feature = "login")]
mod codex;
#[cfg(feature = "login")]
mod grok;
mod keeper;
mod lock;
mod login;
#[cfg(feature = "login")]
pub mod logins;
#[cfg(feature = "login")]
mod oauth;
#[cfg(feature = "cli")]
#[cfg_attr(not(feature = "grok"), allow(dead_code, reason = "one vendor is lent a file, and a fresh one"))]
mod projection;
mod sign_in;
mod static_token;
pub mod store;

pub use nexus_core::{Clock, Credential, CredentialError, CredentialSource, Standing, SystemClock};

#[cfg(feature = "login")]
pub use codex::openai_codex;
#[cfg(feature = "login")]
pub use grok::xai_grok;
pub use keeper::{LogOut, LoginError, LoginKeeper, finish_renewals};
pub use login::{Identity, Login};
#[cfg(feature = "login")]
pub use oauth::{
    ClaimPath, DeviceFlow, IdentityClaims, Issuer, OAuthSignIn, PlainUnauthorized, Redirect, RevocationStyle,
    SignInMethod,
};
#[cfg(feature = "cli")]
pub(crate) use projection::{Lease, Term};
pub use sign_in::{LoginScreen, LoginStep, RefreshError, Revocation, SignIn, SignInError};
pub use static_token::StaticToken;
