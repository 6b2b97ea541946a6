//! Where a backend asks for a credential.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;

use crate::credential::Credential;

/// Lends credentials. Implementations own whatever it takes to keep them fresh; a borrower sees none of it.
///
/// A source of your own is named in [`BuildContext::with_credential_source`](crate::BuildContext::with_credential_source),
/// and any backend takes it by that name: `credential: { source: NAME }`.
#[async_trait]
pub trait CredentialSource: fmt::Debug + Send + Sync + 'static {
    /// Where the credential comes from, for messages: never the credential.
    fn describe(&self) -> String;

    /// Says whether there is something to lend, without spending or asking anything: no refresh, no network.
    ///
    /// # Errors
    ///
    /// [`CredentialError::Missing`], [`CredentialError::Unreadable`], and [`CredentialError::Refused`] where it is
    /// known beforehand that nothing can be lent.
    async fn standing(&self) -> Result<Standing, CredentialError>;

    /// Lends a credential that lives at least `life` longer, if the source can tell and the vendor grants as much.
    ///
    /// # Errors
    ///
    /// Any [`CredentialError`]. A refresh that fails is none as long as the token at hand is alive.
    async fn credential(&self, life: Duration) -> Result<Credential, CredentialError>;

    /// Lends another credential in place of `refused`, which the vendor did not accept. `None`: there is no other.
    ///
    /// # Errors
    ///
    /// As [`CredentialSource::credential`].
    async fn renewed(
        &self,
        refused: &Credential,
        life: Duration,
    ) -> Result<Option<Credential>, CredentialError>;
}

/// What a source can say of its credential without opening it to anyone.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// When the token at hand stops being accepted, where that is known.
    pub expires_at: Option<SystemTime>,
    /// Whether a new one can be had without a person.
    pub is_renewable: bool,
}

impl Standing {
    /// There is one, with this end, if it has one that is known.
    pub fn new(expires_at: Option<SystemTime>, is_renewable: bool) -> Self {
        Self { expires_at, is_renewable }
    }
}

/// Why no credential could be lent.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// There is none.
    #[error("there is no credential in {place}: {remedy}")]
    Missing {
        /// Where it was looked for.
        place: String,
        /// What to do about it.
        remedy: String,
    },
    /// There is one that cannot be read, or a new one could not be kept. Nothing was changed.
    #[error("the credential in {place} cannot be used: {reason}")]
    Unreadable {
        /// Where it is.
        place: String,
        /// Why not, and the way out.
        reason: String,
    },
    /// The issuer refused to refresh it: the login is over.
    #[error("the login in {place} is over, {reason}: {remedy}")]
    Refused {
        /// Where it is.
        place: String,
        /// The issuer's reason, in its own code.
        reason: String,
        /// The command that mends it.
        remedy: String,
    },
    /// The issuer could not be reached, and the token at hand is no longer alive.
    #[error("the login in {place} could not be renewed: {reason}")]
    Unreachable {
        /// Where it is.
        place: String,
        /// What failed.
        reason: String,
    },
    /// The issuer sent what cannot be read, and the token at hand is no longer alive.
    #[error("the login in {place} could not be renewed, as the issuer's answer makes no sense: {reason}")]
    Malformed {
        /// Where it is.
        place: String,
        /// What is wrong with the answer, without any of it that may be secret.
        reason: String,
    },
}
