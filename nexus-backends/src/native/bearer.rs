//! The credential in a request's headers, and the billing that it implies.

use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use nexus_core::{ErrorKind, harness::Failure};

use crate::auth::Credential;
use crate::settings::Billing;

/// Name of the client in requests.
pub(crate) const OUR_NAME: &str = "nexus";

/// Prefix of an access token of a subscription, which is a JWT.
const ACCESS_TOKEN_PREFIX: &str = "eyJ";

/// Returns the headers of every request: authorization and user agent.
pub(crate) fn headers(credential: Option<&Credential>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let agent = concat!("nexus/", env!("CARGO_PKG_VERSION"));
    headers.insert(USER_AGENT, HeaderValue::from_static(agent));
    if let Some(value) = credential.and_then(authorization) {
        headers.insert(AUTHORIZATION, value);
    }
    headers
}

/// Returns the token that a request contains. The secret part of a key that signs requests is never in one.
pub(crate) fn token(credential: &Credential) -> Option<&str> {
    Some(credential.token.expose()).filter(|_| credential.signing.is_none())
}

/// Returns the token as a header value; `None` for a token that no header can contain, which [`check`] rejects earlier.
fn authorization(credential: &Credential) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", token(credential)?)).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Adds a header. A value that no header can contain is omitted.
pub(crate) fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

/// Rejects a credential that cannot be sent, so that no request goes out without it, and a token that would be billed
/// otherwise than configured. A token whose form does not show its billing is accepted.
pub(crate) fn check(
    billing: Option<Billing>,
    key_prefix: &str,
    credential: &Credential,
) -> Result<(), Failure> {
    let is_account_sendable =
        credential.account.as_deref().is_none_or(|account| HeaderValue::from_str(account).is_ok());
    let is_sendable = credential.signing.is_some() || authorization(credential).is_some();
    if !is_sendable || !is_account_sendable {
        let reason = "the credential contains characters that are not allowed in a header: check its source";
        return Err(Failure::new(ErrorKind::Unauthenticated, reason));
    }
    let token = credential.token.expose();
    let (billing, found) = match billing {
        Some(billing @ Billing::Plan) if token.starts_with(key_prefix) => {
            (billing, "an API key, which is metered")
        }
        Some(billing @ Billing::Metered) if token.starts_with(ACCESS_TOKEN_PREFIX) => {
            (billing, "a subscription's token")
        }
        _ => return Ok(()),
    };
    let reason = format!("billing is {:?}, but the credential is {found}", billing.as_str());
    Err(Failure::new(ErrorKind::BillingMismatch, reason))
}

#[cfg(test)]
mod tests {
    use nexus_core::Secret;

    use super::*;

    fn credential(token: &str) -> Credential {
        Credential::new(Secret::new(token))
    }

    #[test]
    fn a_token_is_marked_so_that_nothing_prints_it() {
        let headers = headers(Some(&credential("canary")));
        assert_eq!(headers[AUTHORIZATION], "Bearer canary");
        assert!(!format!("{headers:?}").contains("canary"));
    }

    #[test]
    fn without_a_credential_there_is_no_authorization() {
        assert!(!headers(None).contains_key(AUTHORIZATION));
    }

    #[test]
    fn a_credential_that_no_header_can_hold_is_refused() {
        let broken = credential("canary\ntwo");
        let account = credential("canary").with_account("one\ntwo");
        for credential in [broken, account] {
            let failure = check(None, "sk-", &credential).unwrap_err();
            assert_eq!(failure.kind, ErrorKind::Unauthenticated);
            assert!(!format!("{failure:?}").contains("canary"));
        }
    }

    #[test]
    fn a_token_of_the_other_sort_is_a_mismatch() {
        let check = |billing, token| self::check(billing, "sk-", &credential(token));
        let mismatch = check(Some(Billing::Plan), "sk-1").unwrap_err();
        assert_eq!(mismatch.kind, ErrorKind::BillingMismatch);
        assert!(!format!("{mismatch:?}").contains("sk-1"));
        assert!(check(Some(Billing::Metered), "eyJ0").is_err());
        assert!(check(Some(Billing::Plan), "eyJ0").is_ok());
        assert!(check(Some(Billing::Metered), "sk-1").is_ok());
        assert!(check(None, "sk-1").is_ok());
    }
}
