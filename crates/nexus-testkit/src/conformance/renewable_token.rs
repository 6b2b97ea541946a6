//! A credential that can be renewed once, as a login that a vendor has ended early.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use nexus_core::{Credential, CredentialError, CredentialSource, Secret, Standing};

/// Lends one token, and replaces it with another at each request for a renewal.
#[derive(Debug)]
pub struct RenewableToken {
    first: Secret,
    second: Secret,
    renewals: AtomicUsize,
}

impl RenewableToken {
    /// Lends `first` until it was refused, and then `second`.
    pub fn new(first: impl Into<String>, second: impl Into<String>) -> Self {
        let [first, second] = [first.into(), second.into()].map(Secret::new);
        Self { first, second, renewals: AtomicUsize::new(0) }
    }

    /// Number of renewals.
    pub fn renewals(&self) -> usize {
        self.renewals.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl CredentialSource for RenewableToken {
    fn describe(&self) -> String {
        "the suite".to_owned()
    }

    async fn standing(&self) -> Result<Standing, CredentialError> {
        Ok(Standing::new(None, true))
    }

    async fn credential(&self, _life: Duration) -> Result<Credential, CredentialError> {
        let token = if self.renewals() == 0 { &self.first } else { &self.second };
        Ok(Credential::new(token.clone()).with_account("suite"))
    }

    async fn renewed(
        &self,
        _refused: &Credential,
        life: Duration,
    ) -> Result<Option<Credential>, CredentialError> {
        self.renewals.fetch_add(1, Ordering::SeqCst);
        self.credential(life).await.map(Some)
    }
}
