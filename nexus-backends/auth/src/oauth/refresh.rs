//! Refresh of a login with its refresh token: RFC 6749 section 6, by a form, sent once.

use std::{sync::OnceLock, time::SystemTime};

use oauth2::{ClientId, RefreshToken, RequestTokenError, TokenUrl};
use zeroize::Zeroizing;

use super::{
    claims::Claims,
    exchange,
    issuer::Issuer,
    issuer_client::{IssuerClient, SuccessOnly},
    tokens::{self, OAuthClient, Refreshed, TokenAnswer},
};
use crate::{Login, RefreshError};

/// Spends the refresh token of `login` at its issuer. `remedy` is the command for signing in again.
pub(super) async fn refresh(
    issuer_client: &IssuerClient,
    login: &Login,
    now: SystemTime,
    remedy: &str,
) -> Result<Login, RefreshError> {
    let Some(token) = &login.refresh_token else {
        return Err(RefreshError::Refused { reason: "it does not contain a refresh token".into() });
    };
    // Send no token to an unknown or unsafe address. The login stays as it is, but only a new sign-in fixes it.
    let unusable = |reason: String| RefreshError::Malformed {
        reason: format!("nothing was sent, because {reason}: log in again ({remedy})"),
    };
    let issuer = Issuer::of(login).map_err(unusable)?;
    let endpoint = issuer.endpoint(&issuer.token_endpoint).map_err(unusable)?;

    let client =
        OAuthClient::new(ClientId::new(issuer.client_id.clone())).set_token_uri(TokenUrl::from_url(endpoint));
    let spent = RefreshToken::new(token.expose().to_owned());
    let claims = Claims::of(&login.access_token);
    let mut request = client.exchange_refresh_token(&spent);
    if let Some(resource) = &issuer.resource {
        request = request.add_extra_param("resource", resource.clone());
    }
    for name in &issuer.refresh_claims {
        if let Some(value) = claims.text(std::slice::from_ref(name)) {
            request = request.add_extra_param(name.clone(), value.to_owned());
        }
    }
    let sent = [token.expose()];
    let broken = OnceLock::new();
    let endpoint = SuccessOnly { issuer_client, issuer: &issuer, sent: &sent, broken: Some(&broken) };
    let refreshed = match request.request_async(&endpoint).await {
        Ok(answer) => answer.refreshed(),
        // The refresh token is spent, so use all that can be read of the response.
        Err(RequestTokenError::Parse(_, body)) => TokenAnswer::salvaged(&Zeroizing::new(body)),
        Err(error) => Err(tokens::failure(error)),
    };
    // If an incomplete response contains nothing usable, report that it is incomplete.
    let refreshed = refreshed.map_err(|error| broken.into_inner().unwrap_or(error))?;
    Ok(match refreshed {
        Refreshed::Tokens(granted) => {
            // Turns must not continue silently under the account of another person.
            if is_of_another(&claims, &Claims::of(&granted.access_token)) {
                return Err(RefreshError::of_another());
            }
            let refreshed = exchange::login(granted, &issuer, now);
            let identity = refreshed.identity.clone().or(&login.identity);
            // An issuer without rotation sends no new refresh token, so retain the old one.
            let refresh_token = refreshed.refresh_token.clone().or_else(|| login.refresh_token.clone());
            refreshed.with_refresh_token(refresh_token).with_identity(identity)
        }
        Refreshed::RefreshTokenAlone { refresh_token, id_token, reason } => {
            tracing::warn!(%reason, "a refresh returned only a refresh token; the old access token remains \
                in use");
            let id = id_token.as_ref().map(Claims::of).unwrap_or_default();
            let identity = issuer.identity.read(&[&id]).or(&login.identity);
            login.clone().with_refresh_token(Some(refresh_token)).with_identity(identity)
        }
    })
}

/// Returns true if the two access tokens belong to different persons. A token that cannot be decoded counts as the same
/// person's.
fn is_of_another(old: &Claims, new: &Claims) -> bool {
    let subject = ["sub".to_owned()];
    old.text(&subject).zip(new.text(&subject)).is_some_and(|(old, new)| old != new)
}
