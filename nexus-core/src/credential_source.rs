//! Source of a backend's credentials.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;

use crate::credential::Credential;

/// Lends credentials. An implementation owns the secrets that renew them; a borrower never sees those secrets.
///
/// Register a source of your own with
/// [`BuildContext::with_credential_source`](crate::BuildContext::with_credential_source). Any backend can then use
/// it by its name: `credential: { source: NAME }`.
#[async_trait]
pub trait CredentialSource: fmt::Debug + Send + Sync + 'static {
    /// Describes the origin of the credential, for messages; never the credential itself.
    fn describe(&self) -> String;

    /// Reports the state of the credential without a refresh and without network access.
    ///
    /// # Errors
    ///
    /// [`CredentialError::Missing`], [`CredentialError::Unreadable`], and [`CredentialError::Refused`] if it is
    /// already known that no credential can be lent.
    async fn standing(&self) -> Result<Standing, CredentialError>;

    /// Lends a credential that stays valid for at least `life`. This holds only if the source knows the lifetime
    /// and the vendor grants as much.
    ///
    /// # Errors
    ///
    /// Any [`CredentialError`]. A failed refresh is not an error while the present token is valid.
    async fn credential(&self, life: Duration) -> Result<Credential, CredentialError>;

    /// Lends another credential in place of `refused`, which the vendor did not accept. Returns `None` if no other
    /// credential exists.
    ///
    /// # Errors
    ///
    /// Errors of [`CredentialSource::credential`].
    async fn renewed(
        &self,
        refused: &Credential,
        life: Duration,
    ) -> Result<Option<Credential>, CredentialError>;
}

/// Properties of a credential that a source can report without revealing it.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Time of the present token's expiry, if it is known.
    pub expires_at: Option<SystemTime>,
    /// True if a new credential can be obtained without a person.
    pub is_renewable: bool,
    /// True if the next loan starts a program, which may ask a person for a password. A probe then borrows nothing.
    pub needs_program: bool,
}

impl Standing {
    /// Describes a present credential, with its expiry if it is known.
    pub fn new(expires_at: Option<SystemTime>, is_renewable: bool) -> Self {
        Self { expires_at, is_renewable, needs_program: false }
    }

    /// Sets if the next loan starts a program.
    #[must_use]
    pub fn with_program(mut self, needs_program: bool) -> Self {
        self.needs_program = needs_program;
        self
    }
}

/// Reason why no credential could be lent.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// The credential is missing.
    #[error("there is no credential in {place}: {remedy}")]
    Missing {
        /// Location that was searched.
        place: String,
        /// Advice.
        remedy: String,
    },
    /// The credential cannot be read, or a new one could not be stored. Nothing was changed.
    #[error("the credential in {place} cannot be used: {reason}")]
    Unreadable {
        /// Its location.
        place: String,
        /// The reason, with advice.
        reason: String,
    },
    /// The issuer refused to refresh the credential, so the login has ended.
    #[error("the login in {place} has ended, {reason}: {remedy}")]
    Refused {
        /// Its location.
        place: String,
        /// The issuer's reason, in its own code.
        reason: String,
        /// Command that fixes it.
        remedy: String,
    },
    /// The issuer could not be reached, and the present token has expired.
    #[error("the login in {place} could not be renewed: {reason}")]
    Unreachable {
        /// Its location.
        place: String,
        /// The failure.
        reason: String,
    },
    /// The issuer's answer could not be read, and the present token has expired.
    #[error("the login in {place} could not be renewed, because the issuer's answer is invalid: {reason}")]
    Malformed {
        /// Its location.
        place: String,
        /// The fault of the answer, without any part that may be secret.
        reason: String,
    },
}
