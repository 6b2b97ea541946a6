//! Credentials: sign-in, refresh, stores and locks. This crate is the only code that opens a secret. A turn borrows a
//! [`nexus_core::Credential`] from a [`nexus_core::CredentialSource`].
//!
//! | module | contents |
//! | --- | --- |
//! | `static_token` | a token from a variable, a file or the keyring, which its owner replaces |
//! | `command_token`, `printing_program` | a token that a program prints |
//! | `aws` | keys of Amazon Web Services from variables or a profile, and signatures with them |
//! | `login`, `sign_in` | an owned login, and the strategy that creates, refreshes and revokes it |
//! | `manager`, `lock` | the credential manager of a login, and its refresh lock: across tasks, threads and processes |
//! | `store` | storage of a login: a file, or the keyring of the system |
//! | `oauth` | the built-in strategies: authorization code with PKCE, device code |
//! | `http` | the HTTP client of Nexus, for sign-in and for the native backends |
//! | `lease` | a credential lent to one child process, and erased when the lease is dropped |
//!
//! | feature | adds |
//! | --- | --- |
//! | `oauth`, on by default | the strategies of `oauth`, with the HTTP client |
//! | `http` | the HTTP client alone |
//! | `command` | tokens that a program prints |
//! | `keyring` | the keyring of the system, as a store of logins and for API keys |
//! | `aws` | keys of Amazon Web Services, and signatures with them |

#[cfg(feature = "aws")]
pub mod aws;
#[cfg(feature = "command")]
mod command_token;
#[cfg(feature = "http")]
pub mod http;
mod lease;
mod lock;
mod login;
mod manager;
#[cfg(feature = "oauth")]
mod oauth;
#[cfg(feature = "command")]
mod printing_program;
mod sign_in;
mod static_token;
pub mod store;
mod token_text;

pub use nexus_core::{Clock, Credential, CredentialError, CredentialSource, Standing, SystemClock};

#[cfg(feature = "command")]
pub use command_token::CommandToken;
pub use lease::Lease;
pub use login::{Identity, Login};
pub use manager::{CredentialManager, LogOut, LoginError, finish_refreshes};
#[cfg(feature = "oauth")]
pub use oauth::{
    ClaimPath, DeviceFlow, IdentityClaims, Issuer, OAuthSignIn, PlainUnauthorized, Redirect, RevocationStyle,
    SignInMethod, SignInRegistration,
};
pub use sign_in::{LoginScreen, LoginStep, RefreshError, Revocation, SignIn, SignInError};
pub use static_token::StaticToken;
