//! Source of a backend's credentials.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;

use crate::credential::Credential;

/// Lends credentials. An implementation owns the secrets that keep them fresh; a borrower never sees these.
///
/// Name a source of your own in
/// [`BuildContext::with_credential_source`](crate::BuildContext::with_credential_source), and any backend can
/// use it by that name: `credential: { source: NAME }`.
#[async_trait]
pub trait CredentialSource: fmt::Debug + Send + Sync + 'static {
    /// Describes the origin of the credential, for messages; never the credential itself.
    fn describe(&self) -> String;

    /// Says whether there is something to lend, without spending or asking anything: no refresh, no network.
    ///
    /// # Errors
    ///
    /// [`CredentialError::Missing`], [`CredentialError::Unreadable`], and [`CredentialError::Refused`] where it is
    /// known beforehand that nothing can be lent.
    async fn standing(&self) -> Result<Standing, CredentialError>;

    /// Lends a credential that lives at least `life` longer, if the source knows its life and the vendor grants
    /// as much.
    ///
    /// # Errors
    ///
    /// Any [`CredentialError`]. A failed refresh is not an error while the present token is valid.
    async fn credential(&self, life: Duration) -> Result<Credential, CredentialError>;

    /// Lends another credential in place of `refused`, which the vendor did not accept. `None`: no other
    /// credential exists.
    ///
    /// # Errors
    ///
    /// Those of [`CredentialSource::credential`].
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
}

impl Standing {
    /// Describes a present credential, with its expiry if it is known.
    pub fn new(expires_at: Option<SystemTime>, is_renewable: bool) -> Self {
        Self { expires_at, is_renewable }
    }
}

/// Why no credential could be lent.
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
    /// The issuer refused to refresh it: the login is over.
    #[error("the login in {place} has ended, {reason}: {remedy}")]
    Refused {
        /// Its location.
        place: String,
        /// The issuer's reason, in its own code.
        reason: String,
        /// The command that mends it.
        remedy: String,
    },
    /// The issuer could not be reached, and the token at hand is no longer alive.
    #[error("the login in {place} could not be renewed: {reason}")]
    Unreachable {
        /// Its location.
        place: String,
        /// The failure.
        reason: String,
    },
    /// The issuer sent what cannot be read, and the token at hand is no longer alive.
    #[error("the login in {place} could not be renewed, because the issuer's answer is invalid: {reason}")]
    Malformed {
        /// Its location.
        place: String,
        /// The fault of the answer, without any part that may be secret.
        reason: String,
    },
}
