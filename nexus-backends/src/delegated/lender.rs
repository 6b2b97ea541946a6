//! Who lends a turn its credential: the source that the settings name, else the login of our own.

use std::sync::Arc;

use nexus_core::{Availability, BuildContext, CredentialError, CredentialSource, ErrorKind, SettingsError};

use super::settings::{Billing, Settings};
use crate::{
    auth::{Lease, Term},
    turn::Failure,
};

/// The login of our own that a vendor's program can be lent from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnLogin {
    /// `nexus login codex`.
    #[cfg(feature = "codex")]
    Codex,
    /// `nexus login grok`.
    #[cfg(feature = "grok")]
    Grok,
}

/// Lends credentials to the processes of one backend.
#[derive(Debug)]
pub(crate) struct Lender {
    source: Option<Arc<dyn CredentialSource>>,
    /// What to do where there is nothing to lend; of a source that was named, its own error tells.
    remedy: Option<&'static str>,
}

impl Lender {
    /// The source that `settings` name; else, for a subscription, the login of our own, if this build has any.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] if the setting cannot be meant.
    pub(crate) fn of(
        settings: &Settings,
        own: OwnLogin,
        context: &BuildContext,
    ) -> Result<Self, SettingsError> {
        if let Some(source) = settings.credential_source(context)? {
            return Ok(Self { source: Some(source), remedy: None });
        }
        match settings.billing.unwrap_or(Billing::Plan) {
            Billing::Metered => Ok(Self { source: None, remedy: Some("name an API key as `credential`") }),
            Billing::Plan => own.lender(settings, context),
        }
    }

    /// Lends a credential for `term`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unauthenticated`] if there is none; else as [`CredentialError`] becomes a [`Failure`].
    pub(crate) async fn lend(&self, term: Term) -> Result<Lease, Failure> {
        let Some(source) = &self.source else {
            return Err(Failure::new(ErrorKind::Unauthenticated, self.remedy.unwrap_or_default()));
        };
        Lease::borrow(source, term).await.map_err(|error| match (&error, self.remedy) {
            (CredentialError::Missing { place, .. }, Some(remedy)) => {
                let reason = format!("there is no login in {place}: {remedy}");
                Failure::new(ErrorKind::Unauthenticated, reason).with_source(error)
            }
            _ => error.into(),
        })
    }

    /// Why nothing could be lent now, as far as can be told without spending or asking anything.
    pub(crate) async fn refusal(&self) -> Option<Availability> {
        let remedy = match (&self.source, self.remedy) {
            (None, remedy) => remedy.unwrap_or_default().to_owned(),
            (Some(source), remedy) => match (source.standing().await.err()?, remedy) {
                (CredentialError::Missing { .. }, Some(remedy)) => remedy.to_owned(),
                (error, _) => error.to_string(),
            },
        };
        Some(Availability::Unauthenticated { remedy })
    }
}

#[cfg(feature = "login")]
impl OwnLogin {
    fn lender(self, settings: &Settings, context: &BuildContext) -> Result<Lender, SettingsError> {
        use crate::{
            auth::logins::{self, LoginName},
            http::Network,
        };

        let (name, remedy) = match self {
            #[cfg(feature = "codex")]
            Self::Codex => {
                (LoginName::Codex, "run `nexus login codex`, or name a token and its account as `credential`")
            }
            #[cfg(feature = "grok")]
            Self::Grok => (LoginName::Grok, "run `nexus login grok`, or name a token as `credential`"),
        };
        let network = Network::default().with_inherited_proxy(settings.network.inherit_proxy);
        let network = match &settings.network.ca_file {
            Some(file) => network.with_ca_file(file),
            None => network,
        };
        let keeper = logins::keeper(name, context, &network)?;
        Ok(Lender { source: Some(Arc::new(keeper)), remedy: Some(remedy) })
    }
}

#[cfg(not(feature = "login"))]
impl OwnLogin {
    #[allow(clippy::unnecessary_wraps, reason = "builds with logins of our own can fail here")]
    fn lender(self, _settings: &Settings, _context: &BuildContext) -> Result<Lender, SettingsError> {
        let remedy = match self {
            #[cfg(feature = "codex")]
            Self::Codex => "name a token and its account as `credential`",
            #[cfg(feature = "grok")]
            Self::Grok => "name a token as `credential`",
        };
        Ok(Lender { source: None, remedy: Some(remedy) })
    }
}
