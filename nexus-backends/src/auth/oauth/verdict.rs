//! What an issuer's answer means for a login.
//!
//! | answer | means |
//! | --- | --- |
//! | a code of [`REFUSALS`], with any status from 400 on that is not listed below | refused |
//! | 401 with any other code or none | refused |
//! | 408, 425, 429, 5xx; a code of [`PASSING`] | unreachable: later it may go well |
//! | no connection, none in time, one that breaks off | unreachable |
//! | success that is no JSON object with an access token, or is too large | malformed |
//! | a redirect, which is never followed | malformed |
//! | any other status, such as 400 `invalid_request`, 403 or 404 | malformed: a page of a firewall, a wrong endpoint or a request that is not understood says nothing of the login, and what says nothing must not end it |
//!
//! Source: RFC 6749 section 5.2 for the codes without a prefix; those that begin with `refresh_token_` and the plain 401
//! are what codex 0.169.0 takes for final.

use oauth2::http::StatusCode;
use serde_json::{Map, Value};

use super::words;
use crate::auth::{RefreshError, SignInError};

/// Codes that end a login.
const REFUSALS: [&str; 6] = [
    "invalid_grant",
    "invalid_client",
    "unauthorized_client",
    "refresh_token_expired",
    "refresh_token_reused",
    "refresh_token_invalidated",
];
/// Codes that say that it may go well later.
const PASSING: [&str; 3] = ["temporarily_unavailable", "server_error", "slow_down"];

/// What an issuer says when it does not give what was asked for.
#[derive(Debug, Default)]
pub(super) struct ErrorReply {
    /// Its code, such as `invalid_grant`.
    pub(super) code: Option<String>,
}

impl ErrorReply {
    /// Reads the body of an error, in the standard's form or in the nested one of OpenAI. None of `sent` gets out,
    /// should the issuer repeat what it was sent.
    pub(super) fn read(body: &[u8], sent: &[&str]) -> Self {
        let body: Map<String, Value> = serde_json::from_slice(body).unwrap_or_default();
        let nested = body.get("error").and_then(Value::as_object);
        let code = [
            body.get("error"),
            nested.and_then(|error| error.get("code")),
            nested.and_then(|error| error.get("type")),
            body.get("code"),
        ];
        let code = code.into_iter().flatten().filter_map(Value::as_str);
        Self { code: code.filter_map(|code| words::code(code, sent)).next() }
    }

    /// Whether the code is this one.
    pub(super) fn is(&self, code: &str) -> bool {
        self.code.as_deref() == Some(code)
    }
}

/// What an answer that is no success means.
pub(super) fn of_error(status: StatusCode, reply: &ErrorReply) -> RefreshError {
    let code = reply.code.as_deref();
    let reason = match code {
        Some(code) => format!("{code} (HTTP {})", status.as_u16()),
        None => format!("HTTP {}", status.as_u16()),
    };
    let is_one_of = |codes: &[&str]| code.is_some_and(|code| codes.contains(&code));
    match status.as_u16() {
        408 | 425 | 429 | 500.. => RefreshError::Unreachable { reason },
        300..400 => {
            RefreshError::Malformed { reason: format!("{reason}: it leads elsewhere, and is not followed") }
        }
        400.. if is_one_of(&REFUSALS) => RefreshError::Refused { reason },
        400.. if is_one_of(&PASSING) => RefreshError::Unreachable { reason },
        401 => RefreshError::Refused { reason },
        _ => RefreshError::Malformed { reason },
    }
}

/// In a sign-in there is nothing yet that could be refused for good but the sign-in itself.
impl From<RefreshError> for SignInError {
    fn from(error: RefreshError) -> Self {
        match error {
            RefreshError::Refused { reason } => Self::Declined { reason },
            RefreshError::Unreachable { reason } => Self::Unreachable { reason },
            RefreshError::Malformed { reason } => Self::Malformed { reason },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(status: u16, body: &str) -> RefreshError {
        of_error(StatusCode::from_u16(status).unwrap(), &ErrorReply::read(body.as_bytes(), &["canary-token"]))
    }

    #[test]
    fn a_login_ends_only_by_what_says_so() {
        for code in REFUSALS {
            for status in [400, 401, 403, 404] {
                let error = verdict(status, &format!(r#"{{"error":"{code}"}}"#));
                assert!(matches!(error, RefreshError::Refused { .. }), "{status} {code}: {error}");
                assert!(error.to_string().contains(code), "{error}");
            }
        }
        for body in ["", "<html>", "{}", r#"{"error":{"code":"refresh_token_reused","message":"x"}}"#, "[1]"]
        {
            assert!(matches!(verdict(401, body), RefreshError::Refused { .. }), "{body}");
        }
        let nested = verdict(
            400,
            r#"{"error":{"message":"x","type":"invalid_request_error","code":"refresh_token_expired"}}"#,
        );
        assert!(matches!(nested, RefreshError::Refused { .. }), "{nested}");
        assert!(matches!(verdict(400, r#"{"code":"invalid_grant"}"#), RefreshError::Refused { .. }));
    }

    #[test]
    fn what_passes_does_not_end_it() {
        for status in [408, 425, 429, 500, 502, 503, 504, 520, 599] {
            for body in ["", "<html>", r#"{"error":"invalid_grant"}"#] {
                let error = verdict(status, body);
                assert!(matches!(error, RefreshError::Unreachable { .. }), "{status} {body}: {error}");
            }
        }
        for code in PASSING {
            let error = verdict(400, &format!(r#"{{"error":"{code}"}}"#));
            assert!(matches!(error, RefreshError::Unreachable { .. }), "{error}");
        }
    }

    #[test]
    fn what_says_nothing_of_the_login_does_not_end_it() {
        for (status, body) in [
            (400, r#"{"error":"invalid_request"}"#),
            (400, "<html>bad</html>"),
            (403, "<html>blocked</html>"),
            (403, r#"{"error":"access_denied"}"#),
            (404, ""),
            (302, ""),
            (307, r#"{"error":"invalid_grant"}"#),
        ] {
            let error = verdict(status, body);
            assert!(matches!(error, RefreshError::Malformed { .. }), "{status} {body}: {error}");
        }
    }

    #[test]
    fn nothing_that_was_sent_comes_back_out() {
        for body in [r#"{"error":"canary-token"}"#, r#"{"error":{"code":"canary-token"}}"#] {
            for status in [400, 401, 500, 302] {
                assert!(!verdict(status, body).to_string().contains("canary"), "{status} {body}");
            }
        }
    }
}
