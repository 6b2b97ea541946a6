//! Discovery document of an issuer (OpenID Connect Discovery 1.0), fetched when it is needed.

use oauth2::{
    HttpRequest,
    http::{Method, Request, header::ACCEPT},
};
use serde::{Deserialize, de::DeserializeOwned};

use super::{
    endpoint::{self, Endpoint},
    issuer::Issuer,
    issuer_client::IssuerClient,
};
use crate::RefreshError;

/// Used fields of the discovery document. Every endpoint in it must be at the issuer.
#[derive(Deserialize)]
pub(super) struct Discovered {
    /// Name of the issuer in its tokens.
    pub(super) issuer: String,
    jwks_uri: Option<String>,
    revocation_endpoint: Option<String>,
}

impl Discovered {
    /// Fetches the discovery document. Rejects the document of another issuer.
    pub(super) async fn fetch(issuer_client: &IssuerClient, issuer: &Issuer) -> Result<Self, RefreshError> {
        let unasked = |reason| RefreshError::Unasked { reason };
        let path = issuer.discovery_endpoint.as_deref();
        let path = path.ok_or_else(|| unasked("the address of its description is unknown".into()))?;
        let found: Self = get(issuer_client, issuer, &issuer.endpoint(path).map_err(unasked)?).await?;
        // Issuers differ in a slash at the end of their URL.
        match found.issuer.trim_end_matches('/') == issuer.url.trim_end_matches('/') {
            true => Ok(found),
            false => Err(malformed("its description belongs to another issuer")),
        }
    }

    /// Fetches the keys with which the issuer signs ID tokens.
    pub(super) async fn keys<Keys: DeserializeOwned>(
        &self,
        issuer_client: &IssuerClient,
        issuer: &Issuer,
    ) -> Result<Keys, RefreshError> {
        let endpoint = self.at_issuer(self.jwks_uri.as_deref(), issuer)?;
        get(
            issuer_client,
            issuer,
            &endpoint.ok_or_else(|| malformed("its description does not name its keys"))?,
        )
        .await
    }

    /// Returns the endpoint for revocations, if the issuer has one.
    pub(super) fn revocation_endpoint(&self, issuer: &Issuer) -> Result<Option<Endpoint>, RefreshError> {
        self.at_issuer(self.revocation_endpoint.as_deref(), issuer)
    }

    fn at_issuer(&self, named: Option<&str>, issuer: &Issuer) -> Result<Option<Endpoint>, RefreshError> {
        let Some(named) = named else { return Ok(None) };
        let root = issuer.endpoint("/").ok();
        // The document must not lead a token to another server.
        let at_issuer = endpoint::parse(named)
            .ok()
            .filter(|endpoint| root.is_some_and(|root| root.origin() == endpoint.origin()));
        match at_issuer {
            Some(endpoint) => Ok(Some(endpoint)),
            None => Err(malformed("its description leads to another server")),
        }
    }
}

async fn get<T: DeserializeOwned>(
    issuer_client: &IssuerClient,
    issuer: &Issuer,
    endpoint: &Endpoint,
) -> Result<T, RefreshError> {
    let request: HttpRequest = Request::builder()
        .method(Method::GET)
        .uri(endpoint.as_str())
        .header(ACCEPT, "application/json")
        .body(Vec::new())
        .map_err(|_| malformed("an address in its description is not valid"))?;
    let reply = issuer_client.send(request).await?;
    match reply.status.is_success() {
        // The error of serde would quote the unexpected input.
        true => serde_json::from_slice(&reply.into_object()?.body)
            .map_err(|_| malformed("its description cannot be read")),
        false => Err(reply.error(issuer, &[])),
    }
}

fn malformed(reason: &str) -> RefreshError {
    RefreshError::Malformed { reason: reason.to_owned() }
}
