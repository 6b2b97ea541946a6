//! A secret and its expiry.

use std::time::SystemTime;

use crate::secret::Secret;

/// Credential that a backend borrows for one turn: an access token or a key, never a secret that can create new
/// ones.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Credential {
    /// The token.
    pub token: Secret,
    /// Time of its expiry, if it is known.
    pub expires_at: Option<SystemTime>,
    /// Account of the token, if the vendor requires its name beside the token.
    pub account: Option<String>,
}

impl Credential {
    /// Creates a credential without a known expiry.
    pub fn new(token: Secret) -> Self {
        Self { token, expires_at: None, account: None }
    }

    /// Sets the time of its expiry.
    #[must_use]
    pub fn with_expiry(mut self, expires_at: SystemTime) -> Self {
        self.expires_at = Some(expires_at);
        self
    }

    /// Sets the account.
    #[must_use]
    pub fn with_account(mut self, account: impl Into<String>) -> Self {
        self.account = Some(account.into());
        self
    }
}
