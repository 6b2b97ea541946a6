//! Revocation of a login at its issuer: RFC 7009, by a form or in JSON.
//!
//! The request is built here, because `oauth2` refuses to revoke at an issuer on a loopback address.

use std::time::Duration;

use oauth2::{
    HttpRequest,
    http::{
        Method, Request,
        header::{ACCEPT, CONTENT_TYPE},
    },
    url::form_urlencoded,
};

use super::{
    discovery::Discovered,
    issuer::{Issuer, RevocationStyle},
    issuer_client::IssuerClient,
};
use crate::{Login, RefreshError, Revocation};

/// Pauses before an unreachable issuer is contacted again. Revoking a token twice is harmless. Source: our own choice.
const WAITS: [Duration; 2] = [Duration::from_millis(300), Duration::from_secs(1)];

/// Revokes the refresh token of `login`, which also ends the tokens issued from it. Without a refresh token, revokes
/// the access token.
pub(super) async fn revoke(issuer_client: &IssuerClient, login: &Login) -> Result<Revocation, RefreshError> {
    let unusable = |reason| RefreshError::Unasked { reason };
    let issuer = Issuer::of(login).map_err(unusable)?;
    let (token, hint) = match &login.refresh_token {
        Some(token) => (token, "refresh_token"),
        None => (&login.access_token, "access_token"),
    };
    let fields = [("token", token.expose()), ("token_type_hint", hint), ("client_id", &issuer.client_id)];
    let form = || {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        ("application/x-www-form-urlencoded", body)
    };
    let (endpoint, (kind, body)) = match &issuer.revocation {
        RevocationStyle::NotOffered => return Ok(Revocation::NotOffered),
        RevocationStyle::Form { endpoint } => (issuer.endpoint(endpoint).map_err(unusable)?, form()),
        RevocationStyle::Discovered => {
            let described = Discovered::fetch(issuer_client, &issuer).await?;
            match described.revocation_endpoint(&issuer)? {
                Some(endpoint) => (endpoint, form()),
                None => return Ok(Revocation::NotOffered),
            }
        }
        RevocationStyle::Json { endpoint } => {
            let object =
                serde_json::Map::from_iter(fields.map(|(name, value)| (name.to_owned(), value.into())));
            let body = ("application/json", serde_json::Value::Object(object).to_string());
            (issuer.endpoint(endpoint).map_err(unusable)?, body)
        }
    };
    let request: HttpRequest = Request::builder()
        .method(Method::POST)
        .uri(endpoint.as_str())
        .header(CONTENT_TYPE, kind)
        .header(ACCEPT, "application/json")
        .body(body.into_bytes())
        .map_err(|_| unusable("the address of its revocation endpoint is not valid".into()))?;
    let mut waits = WAITS.into_iter();
    loop {
        let error = match issuer_client.send(request.clone()).await {
            Ok(reply) if reply.status.is_success() => return Ok(Revocation::Revoked),
            Ok(reply) => reply.error(&issuer, &[token.expose()]),
            Err(error) => error,
        };
        match (&error, waits.next()) {
            (RefreshError::Unreachable { .. }, Some(wait)) => tokio::time::sleep(wait).await,
            _ => return Err(error),
        }
    }
}
