//! The integration tests of sign-in and credentials.

#[cfg(feature = "http")]
mod http_attacks;
#[cfg(feature = "keyring")]
mod keyring_real;
#[cfg(feature = "oauth")]
mod login_attacks;
#[cfg(feature = "oauth")]
mod login_kills;
#[cfg(unix)]
mod login_owner;
#[cfg(feature = "oauth")]
mod login_real;
// The tests of the CLI have it as well.
#[cfg(feature = "oauth")]
#[path = "../login_real/provider.rs"]
mod provider;
