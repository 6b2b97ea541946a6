//! Reads an issuer's error response, and decides what it means for a login.
//!
//! | response | meaning |
//! | --- | --- |
//! | a final code, with any status from 400 on that is not listed below | refused |
//! | 401 with a JSON object, where that is [final](PlainUnauthorized::Final) at this issuer | refused |
//! | 408, 425, 429, 5xx; a code of [`PASSING`] | unreachable: a later request may succeed |
//! | no connection, a timeout, or a lost connection | unreachable |
//! | success without a JSON object that has usable content, or with a body that is too large | malformed |
//! | a redirect, which is never followed | malformed |
//! | any other status from 400 on with a code or a message in a JSON object, such as 400 `invalid_request` or 403 for a country | declined, in the issuer's own words: the login stays |
//! | any other response, such as 401 with a page, 403 or 404 | malformed: the page of a firewall or a wrong endpoint has no meaning for the login, so it must not end it |
//!
//! The codes of [`FINAL`] and the codes that the [`Issuer`] adds are final, if they are in a JSON object.

use oauth2::http::StatusCode;
use serde_json::{Map, Value};

use super::{
    issuer::{Issuer, PlainUnauthorized},
    sanitize,
};
use crate::{RefreshError, SignInError};

/// Codes that end a login at every issuer. Source: RFC 6749 section 5.2.
const FINAL: [&str; 3] = ["invalid_grant", "invalid_client", "unauthorized_client"];
/// Codes of temporary errors. Source: RFC 6749 section 4.1.2.1, RFC 8628 section 3.5.
const PASSING: [&str; 3] = ["temporarily_unavailable", "server_error", "slow_down"];
/// Codes that answer a poll for a person's consent. Source: RFC 8628 section 3.5.
const OF_DEVICES: [&str; 3] = ["authorization_pending", "access_denied", "expired_token"];

/// Advice if a server, or a firewall in front of it, does not serve this machine.
const PROXY_HINT: &str = "; if it does not serve this network or country, use a proxy (HTTPS_PROXY and \
    `inherit_proxy`)";

/// The error in an issuer's response.
#[derive(Debug, Default)]
pub(super) struct IssuerError {
    /// Error code, such as `invalid_grant`.
    pub(super) code: Option<String>,
    /// Error message of the issuer, cleaned for display.
    words: Option<String>,
    /// True if the body is a JSON object.
    is_object: bool,
}

impl IssuerError {
    /// Reads the body of an error: in the standard's form, or with the code in a nested object. The result contains no
    /// value of `sent`, even if the issuer repeats what the request contained.
    pub(super) fn read(body: &[u8], issuer: &Issuer, sent: &[&str]) -> Self {
        let Ok(body) = serde_json::from_slice::<Map<String, Value>>(body) else { return Self::default() };
        let nested = body.get("error").and_then(Value::as_object);
        let said = [
            body.get("error"),
            nested.and_then(|error| error.get("code")),
            nested.and_then(|error| error.get("type")),
            body.get("code"),
        ];
        let said = || said.into_iter().flatten().filter_map(Value::as_str);
        // A known code is a constant of ours, so it cannot reveal anything that was sent.
        let known = said().find(|code| is_known(code, issuer)).map(str::to_owned);
        let code = known.or_else(|| said().find_map(|code| sanitize::code(code, sent)));
        let words = [
            body.get("error_description"),
            nested.and_then(|error| error.get("message")),
            body.get("message"),
            body.get("detail"),
            body.get("error"),
        ];
        let words = words.into_iter().flatten().filter_map(Value::as_str);
        // The message already contains the code.
        let mut words = words.filter(|words| Some(*words) != code.as_deref());
        let words = words.find_map(|words| sanitize::words(words, sent));
        Self { code, words, is_object: true }
    }

    /// Returns true if the error has this code.
    pub(super) fn is(&self, code: &str) -> bool {
        self.code.as_deref() == Some(code)
    }
}

fn is_final(code: &str, issuer: &Issuer) -> bool {
    FINAL.contains(&code) || issuer.final_codes.iter().any(|known| known == code)
}

fn is_known(code: &str, issuer: &Issuer) -> bool {
    is_final(code, issuer) || PASSING.contains(&code) || OF_DEVICES.contains(&code)
}

/// Returns the meaning of an unsuccessful response for the login.
pub(super) fn meaning(status: StatusCode, reply: &IssuerError, issuer: &Issuer) -> RefreshError {
    let code = reply.code.as_deref();
    let reason = match code {
        Some(code) => format!("{code} (HTTP {})", status.as_u16()),
        None => format!("HTTP {}", status.as_u16()),
    };
    let has_said = code.is_some() || reply.words.is_some();
    let told = || {
        let words = reply.words.as_ref().map(|words| format!(": {words}")).unwrap_or_default();
        let hint = if matches!(status.as_u16(), 403 | 451) { PROXY_HINT } else { "" };
        format!("{reason}{words}{hint}")
    };
    let is_final_unauthorized = reply.is_object && issuer.plain_unauthorized == PlainUnauthorized::Final;
    match status.as_u16() {
        // An overloaded server may send any code, so the status decides.
        408 | 425 | 429 | 500.. => RefreshError::Unreachable { reason },
        300..400 => RefreshError::Malformed {
            reason: format!(
                "{reason}: it redirects elsewhere, and redirects are \
                not followed"
            ),
        },
        400.. if code.is_some_and(|code| is_final(code, issuer)) => RefreshError::Refused { reason },
        400.. if code.is_some_and(|code| PASSING.contains(&code)) => RefreshError::Unreachable { reason },
        401 if is_final_unauthorized => RefreshError::Refused { reason },
        400.. if has_said => RefreshError::Declined { reason: told() },
        // Without a word of the issuer, a proxy or a firewall may have sent the status.
        _ => RefreshError::Malformed { reason: told() },
    }
}

/// Returns true if an error response says that the issuer does not serve this machine's country. Source: public threads
/// about the code `unsupported_country_region_territory`.
pub(super) fn refuses_place(body: &[u8]) -> bool {
    let reply = serde_json::from_slice::<Map<String, Value>>(body);
    // Servers put this code in different fields, so search the whole object.
    reply.is_ok_and(|reply| Value::Object(reply).to_string().contains("unsupported_country"))
}

/// During a sign-in no login exists yet, so a refusal only declines the sign-in.
impl From<RefreshError> for SignInError {
    fn from(error: RefreshError) -> Self {
        match error {
            RefreshError::Refused { reason } | RefreshError::Declined { reason } => Self::Declined { reason },
            RefreshError::Unreachable { reason } => Self::Unreachable { reason },
            RefreshError::Malformed { reason } => Self::Malformed { reason },
            RefreshError::Unasked { reason } => Self::Unsupported { reason },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issuer() -> Issuer {
        Issuer::new("https://issuer.test", "us")
    }

    fn strict() -> Issuer {
        issuer().with_final_codes(["token_spent"]).with_plain_unauthorized(PlainUnauthorized::Final)
    }

    fn error_of(issuer: &Issuer, status: u16, body: &str) -> RefreshError {
        let reply = IssuerError::read(body.as_bytes(), issuer, &["canary-token"]);
        meaning(StatusCode::from_u16(status).unwrap(), &reply, issuer)
    }

    fn error(status: u16, body: &str) -> RefreshError {
        error_of(&strict(), status, body)
    }

    #[test]
    fn a_login_ends_only_by_what_says_so() {
        for code in FINAL.into_iter().chain(["token_spent"]) {
            for status in [400, 401, 403, 404] {
                for body in [
                    format!(r#"{{"error":"{code}"}}"#),
                    format!(r#"{{"code":"{code}"}}"#),
                    format!(r#"{{"error":"some_word","code":"{code}"}}"#),
                    format!(
                        r#"{{"error":{{"message":"x","type":"invalid_request_error","code":"{code}"}}}}"#
                    ),
                ] {
                    let error = error(status, &body);
                    assert!(matches!(error, RefreshError::Refused { .. }), "{status} {body}: {error}");
                    assert!(error.to_string().contains(code), "{error}");
                }
                // In anything but an object it is a word among others.
                for body in [code.to_owned(), format!("[\"{code}\"]"), format!("<p>{code}</p>")] {
                    let error = error(status, &body);
                    assert!(matches!(error, RefreshError::Malformed { .. }), "{status} {body}: {error}");
                }
            }
        }
        let elsewhere = error_of(&issuer(), 400, r#"{"error":"token_spent"}"#);
        assert!(matches!(elsewhere, RefreshError::Declined { .. }), "not a code of that one: {elsewhere}");
    }

    #[test]
    fn a_plain_401_ends_a_login_only_as_an_object_and_where_the_issuer_means_it() {
        for body in ["{}", r#"{"error":"canary-token"}"#, r#"{"detail":"x"}"#, r#"{"error":{"code":"odd"}}"#]
        {
            let (meant, not_meant) = (error(401, body), error_of(&issuer(), 401, body));
            assert!(matches!(meant, RefreshError::Refused { .. }), "{body}: {meant}");
            let stays = matches!(not_meant, RefreshError::Malformed { .. } | RefreshError::Declined { .. });
            assert!(stays, "{body}: {not_meant}");
        }
        for body in ["", "<html>sign in to this network</html>", "[1]", "null", "\"x\"", "{\"error\":"] {
            let error = error(401, body);
            assert!(matches!(error, RefreshError::Malformed { .. }), "{body}: {error}");
        }
        let later = error(401, r#"{"error":"temporarily_unavailable"}"#);
        assert!(matches!(later, RefreshError::Unreachable { .. }), "{later}");
    }

    #[test]
    fn a_code_that_is_known_is_told_whatever_was_sent() {
        let sent = ["token_spent_1", "invalid_grant_2"];
        for code in ["token_spent", "invalid_grant"] {
            let body = format!(r#"{{"error":"{code}"}}"#);
            assert!(IssuerError::read(body.as_bytes(), &strict(), &sent).is(code));
        }
    }

    #[test]
    fn what_passes_does_not_end_it() {
        for status in [408, 425, 429, 500, 502, 503, 504, 520, 599] {
            for body in ["", "<html>", r#"{"error":"invalid_grant"}"#] {
                let error = error(status, body);
                assert!(matches!(error, RefreshError::Unreachable { .. }), "{status} {body}: {error}");
            }
        }
        for code in PASSING {
            let error = error(400, &format!(r#"{{"error":"{code}"}}"#));
            assert!(matches!(error, RefreshError::Unreachable { .. }), "{error}");
        }
    }

    #[test]
    fn what_says_nothing_of_the_login_does_not_end_it() {
        for (status, body) in [
            (400, "<html>bad</html>"),
            (400, "{}"),
            (403, "<html>blocked</html>"),
            (404, ""),
            (302, ""),
            (307, r#"{"error":"invalid_grant"}"#),
        ] {
            let error = error(status, body);
            assert!(matches!(error, RefreshError::Malformed { .. }), "{status} {body}: {error}");
        }
    }

    /// Source: public threads about sign-ins from countries that a vendor does not serve.
    #[test]
    fn an_issuer_that_declines_is_quoted() {
        let region = r#"{"error":{"code":"unsupported_country_region_territory","message":"Country, region, or territory not supported","param":null,"type":"request_forbidden"}}"#;
        for (status, body, words) in [
            (403, region, "Country, region, or territory not supported"),
            (
                403,
                r#"{"error":"access_denied","error_description":"The account is locked."}"#,
                "The account is locked.",
            ),
            (403, r#"{"detail":"Blocked by policy"}"#, "Blocked by policy"),
            (451, r#"{"message":"Not here"}"#, "Not here"),
            (
                400,
                r#"{"error":"invalid_request","error_description":"redirect_uri is unknown"}"#,
                "redirect_uri is unknown",
            ),
            (403, r#"{"error":"No entry from here."}"#, "No entry from here."),
        ] {
            let error = error(status, body);
            assert!(error.to_string().contains(words), "{error}");
            let has_hint = error.to_string().contains("proxy");
            assert_eq!(has_hint, matches!(status, 403 | 451), "{error}");
            assert!(matches!(SignInError::from(error), SignInError::Declined { .. }));
        }
        // A page is nobody's word.
        let page = error(403, "<html>blocked</html>");
        assert!(matches!(page, RefreshError::Malformed { .. }), "{page}");
        assert!(page.to_string().contains("proxy"), "{page}");
    }

    proptest::proptest! {
        #[test]
        fn whatever_a_token_endpoint_answers_shows_nothing_of_what_was_sent(
            status in 300_u16..600,
            field in 0_usize..5,
            before in "[ -~é\\n]{0,20}",
            after in "[ -~é\\n]{0,20}",
        ) {
            let field = ["error", "message", "error_description", "detail", "code"][field];
            let body = serde_json::json!({ field: format!("{before}canary-token{after}") }).to_string();
            let error = error(status, &body).to_string();
            proptest::prop_assert!(!error.contains("canary"), "{}", error);
            proptest::prop_assert!(!error.contains('\n'), "{}", error);
        }
    }

    #[test]
    fn nothing_that_was_sent_comes_back_out() {
        for body in [
            r#"{"error":"canary-token"}"#,
            r#"{"error":{"code":"canary-token"}}"#,
            r#"{"error":"x","error_description":"the canary-token was used"}"#,
            r#"{"error":{"message":"anary-to was used"}}"#,
        ] {
            for status in [400, 401, 500, 302] {
                assert!(!error(status, body).to_string().contains("anary"), "{status} {body}");
            }
        }
    }
}
