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
    /// Account of the token, if the vendor requires its name with the token.
    pub account: Option<String>,
    /// Public part of a key pair, if the token signs requests. Such a token is in no request.
    pub signing: Option<SigningKey>,
}

/// Public part of a key pair whose secret part signs requests.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct SigningKey {
    /// Id of the key, which every request contains.
    pub id: String,
    /// Token of the session to which a temporary key belongs. Every request contains it.
    pub session: Option<Secret>,
}

impl SigningKey {
    /// Creates the public part of a key.
    pub fn new(id: impl Into<String>, session: Option<Secret>) -> Self {
        Self { id: id.into(), session }
    }
}

impl Credential {
    /// Creates a credential without a known expiry.
    pub fn new(token: Secret) -> Self {
        Self { token, expires_at: None, account: None, signing: None }
    }

    /// Sets the time of its expiry.
    #[must_use]
    pub fn with_expiry(mut self, expires_at: SystemTime) -> Self {
        self.expires_at = Some(expires_at);
        self
    }

    /// States that the token is the secret part of `key`, which signs requests.
    #[must_use]
    pub fn with_signing(mut self, key: SigningKey) -> Self {
        self.signing = Some(key);
        self
    }

    /// Sets the account.
    #[must_use]
    pub fn with_account(mut self, account: impl Into<String>) -> Self {
        self.account = Some(account.into());
        self
    }
}
