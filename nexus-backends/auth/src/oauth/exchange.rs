//! Exchange of a code for tokens, and conversion of tokens into a login.

use std::{borrow::Cow, time::SystemTime};

use nexus_core::Secret;
use oauth2::{AuthorizationCode, ClientId, PkceCodeVerifier, RedirectUrl, TokenUrl};

use super::{
    claims::Claims,
    issuer::Issuer,
    issuer_client::{IssuerClient, SuccessOnly},
    tokens::{self, Granted, OAuthClient},
};
use crate::{Login, RefreshError};

/// Exchanges an authorization code, once. `redirect_uri` must equal the one in the authorization request.
pub(super) async fn code(
    issuer_client: &IssuerClient,
    issuer: &Issuer,
    code: &Secret,
    verifier: &Secret,
    redirect_uri: &str,
) -> Result<Granted, RefreshError> {
    let unusable = |reason| RefreshError::Unasked { reason };
    let endpoint = issuer.endpoint(&issuer.token_endpoint).map_err(unusable)?;
    let redirect_url =
        RedirectUrl::new(redirect_uri.to_owned()).map_err(|error| unusable(error.to_string()))?;
    let client =
        OAuthClient::new(ClientId::new(issuer.client_id.clone())).set_token_uri(TokenUrl::from_url(endpoint));
    // Issuers may repeat a request in their errors, so these values are removed from them.
    let sent = [code.expose(), verifier.expose()];
    let endpoint = SuccessOnly { issuer_client, issuer, sent: &sent, broken: None };
    let mut request = client
        .exchange_code(AuthorizationCode::new(code.expose().to_owned()))
        .set_pkce_verifier(PkceCodeVerifier::new(verifier.expose().to_owned()))
        .set_redirect_uri(Cow::Owned(redirect_url));
    if let Some(resource) = &issuer.resource {
        request = request.add_extra_param("resource", resource);
    }
    let answer = request.request_async(&endpoint).await;
    answer.map_err(tokens::failure)?.granted()
}

/// Converts tokens into a login. `asked_at` is the time of the request by our clock. The lifetime is counted from it,
/// which can only underestimate the remaining lifetime, with any clock of the issuer.
pub(super) fn login(granted: Granted, issuer: &Issuer, asked_at: SystemTime) -> Login {
    let access = Claims::of(&granted.access_token);
    let id = granted.id_token.as_ref().map(Claims::of).unwrap_or_default();
    let lifetime = granted.lifetime.or_else(|| access.lifetime());
    Login::new(granted.access_token, asked_at)
        .with_refresh_token(granted.refresh_token)
        .with_lifetime(lifetime)
        .with_identity(issuer.identity.read(&[&id, &access]))
        .with_origin(issuer.to_origin())
}
