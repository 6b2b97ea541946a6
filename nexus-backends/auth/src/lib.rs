//! Credentials: who lends them, and the only code that opens a secret. What a turn is lent is
//! [`nexus_core::Credential`], and where it asks for one [`nexus_core::CredentialSource`].
//!
//! | room | holds |
//! | --- | --- |
//! | `static_token` | a token that somebody else keeps fresh |
//! | `login`, `sign_in` | a login of our own, and the strategy that makes and refreshes it |
//! | `manager`, `lock` | its one owner: across tasks, threads and processes |
//! | `store` | where it rests: a file, or the keyring of the system |
//! | `oauth` | the strategies that come along: authorization code with PKCE, device code |
//! | `http` | the HTTP client of Nexus, for sign-in and for those who ask a model |
//! //! | `lease` | a credential lent to one child process, then taken back |

#[cfg(feature = "http")]
pub mod http;
mod lease;
mod lock;
mod login;
mod manager;
#[cfg(feature = "oauth")]
mod oauth;
mod sign_in;
mod static_token;
pub mod store;
mod token_text;

pub use nexus_core::{Clock, Credential, CredentialError, CredentialSource, Standing, SystemClock};

pub use lease::{Lease, LeaseTerms};
pub use login::{Identity, Login};
pub use manager::{CredentialManager, LogOut, LoginError, finish_refreshes};
#[cfg(feature = "oauth")]
pub use oauth::{
    ClaimPath, DeviceFlow, IdentityClaims, Issuer, OAuthSignIn, PlainUnauthorized, Redirect, RevocationStyle,
    SignInMethod,
};
pub use sign_in::{LoginScreen, LoginStep, RefreshError, Revocation, SignIn, SignInError};
pub use static_token::StaticToken;
