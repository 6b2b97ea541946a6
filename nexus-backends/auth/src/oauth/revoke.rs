//! Telling an issuer that a login is over: RFC 7009, by a form or in JSON.
//!
//! The request is put together here, since `oauth2` makes none to an issuer on a loopback address.

use oauth2::{
    HttpRequest,
    http::{
        Method, Request,
        header::{ACCEPT, CONTENT_TYPE},
    },
    url::form_urlencoded,
};

use super::{
    issuer::{Issuer, RevocationStyle},
    issuer_client::IssuerClient,
};
use crate::{Login, RefreshError, Revocation};

/// Revokes the refresh token of `login`, and with it what was made from it; where it has none, the access token.
pub(super) async fn revoke(issuer_client: &IssuerClient, login: &Login) -> Result<Revocation, RefreshError> {
    let unusable = |reason| RefreshError::Unasked { reason };
    let issuer = Issuer::of(login).map_err(unusable)?;
    let (token, hint) = match &login.refresh_token {
        Some(token) => (token, "refresh_token"),
        None => (&login.access_token, "access_token"),
    };
    let fields = [("token", token.expose()), ("token_type_hint", hint), ("client_id", &issuer.client_id)];
    let (endpoint, kind, body) = match &issuer.revocation {
        RevocationStyle::NotOffered => return Ok(Revocation::NotOffered),
        RevocationStyle::Form { endpoint } => {
            let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
            (endpoint, "application/x-www-form-urlencoded", body)
        }
        RevocationStyle::Json { endpoint } => {
            let object =
                serde_json::Map::from_iter(fields.map(|(name, value)| (name.to_owned(), value.into())));
            (endpoint, "application/json", serde_json::Value::Object(object).to_string())
        }
    };
    let endpoint = issuer.endpoint(endpoint).map_err(unusable)?;
    let request: HttpRequest = Request::builder()
        .method(Method::POST)
        .uri(endpoint.as_str())
        .header(CONTENT_TYPE, kind)
        .header(ACCEPT, "application/json")
        .body(body.into_bytes())
        .map_err(|_| unusable("its endpoint for this cannot be asked".into()))?;
    let reply = issuer_client.send(request).await?;
    match reply.status.is_success() {
        true => Ok(Revocation::Revoked),
        false => Err(reply.error(&issuer, &[token.expose()])),
    }
}
