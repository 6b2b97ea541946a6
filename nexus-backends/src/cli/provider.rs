//! Credential provider of a CLI: lends each process the configured credential, or else the login that Nexus owns.

use std::sync::Arc;

use nexus_core::{
    Availability, BuildContext, CredentialError, CredentialSource, ErrorKind, SettingsError, harness::Failure,
};

use super::contract::TurnPlan;
use super::settings::{Billing, Settings};
use crate::auth::Lease;
use crate::own_login::{OwnLogin, ServerAccess};
use crate::settings::credential_source;

/// Lends credentials to the processes of one backend.
#[derive(Debug)]
pub(crate) struct CredentialProvider {
    source: Option<Arc<dyn CredentialSource>>,
    /// Advice for a missing credential. `None` for a configured or shared source, whose own error has advice.
    remedy: Option<&'static str>,
}

impl CredentialProvider {
    /// Returns a provider for the source that `settings` name. Without one, a subscription uses Nexus's own login, if
    /// this build supports it.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] if the setting is invalid.
    pub(crate) fn of(
        settings: &Settings,
        own: OwnLogin,
        context: &BuildContext,
    ) -> Result<Self, SettingsError> {
        let network = &settings.network;
        let reach = ServerAccess {
            inherit_proxy: network.inherit_proxy,
            proxy: None,
            ca_file: network.ca_file.as_deref(),
            base_url: settings.base_url.as_deref(),
        };
        let billing = settings.billing.unwrap_or(Billing::Plan);
        let source = credential_source(settings.credential.as_ref(), billing, own, reach, context)?;
        let remedy = match (&settings.credential, billing) {
            (Some(_), _) => None,
            (None, Billing::Metered) => Some("name an API key as `credential`"),
            // A shared login can be fixed only on its owner's machine; the source's own error says so.
            (None, Billing::Plan) if context.shared_logins.contains_key(own.as_str()) => None,
            (None, Billing::Plan) => Some(own.remedy()),
        };
        Ok(Self { source, remedy })
    }

    /// Lends a credential for a process of the turn.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unauthenticated`] without a credential; else the [`Failure`] of a [`CredentialError`].
    pub(crate) async fn lend(&self, plan: &TurnPlan) -> Result<Lease, Failure> {
        let Some(source) = &self.source else {
            return Err(Failure::new(ErrorKind::Unauthenticated, self.remedy.unwrap_or_default()));
        };
        plan.borrow(source).await.map_err(|error| match (&error, self.remedy) {
            (CredentialError::Missing { place, .. }, Some(remedy)) => {
                let reason = format!("there is no login in {place}: {remedy}");
                Failure::new(ErrorKind::Unauthenticated, reason).with_source(error)
            }
            _ => error.into(),
        })
    }

    /// Returns the reason why no credential could be lent now, as far as it is known without a request.
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
