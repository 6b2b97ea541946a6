//! Claims of a token, if it is a readable JWT.
//!
//! Claims are decoded and not verified. They come from the issuer over TLS, are shown to a person and sent back to the
//! vendor, and no decision depends on them. A token that cannot be decoded has no claims. This is not an error, because
//! any token may be opaque.

use std::time::Duration;

use nexus_core::Secret;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Identity;

/// Longest claim value that is used, in bytes. Source: our own bound; an account id is at most as long as a UUID.
const MAX_VALUE_BYTES: usize = 320;
/// Longest plausible lifetime. A token with a longer lifetime is treated as one without an expiry. Source: our own
/// bound.
const MAX_LIFE: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

/// Names of the claims that identify a login's owner, each with alternatives in order.
///
/// The id token is searched first, then the access token.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityClaims {
    /// Claims for the account id that requests send with the token.
    #[serde(default)]
    pub account: Vec<ClaimPath>,
    /// Claims for the person's email address.
    #[serde(default)]
    pub email: Vec<ClaimPath>,
    /// Claims for the plan that requests are billed to.
    #[serde(default)]
    pub plan: Vec<ClaimPath>,
}

/// Path of a claim: the keys from the outermost object inwards.
pub type ClaimPath = Vec<String>;

impl IdentityClaims {
    /// Adds a claim that contains the account id.
    #[must_use]
    pub fn with_account(mut self, path: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.account.push(path.into_iter().map(Into::into).collect());
        self
    }

    /// Adds a claim that contains the person's email address.
    #[must_use]
    pub fn with_email(mut self, path: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.email.push(path.into_iter().map(Into::into).collect());
        self
    }

    /// Adds a claim that contains the plan.
    #[must_use]
    pub fn with_plan(mut self, path: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.plan.push(path.into_iter().map(Into::into).collect());
        self
    }

    /// Returns the owner of the tokens, from the claims that the tokens have.
    pub(super) fn read(&self, tokens: &[&Claims]) -> Identity {
        let find = |paths: &[ClaimPath], is_fit: fn(&str) -> bool| {
            tokens.iter().find_map(|claims| {
                paths.iter().filter_map(|path| claims.text(path)).find(|text| is_fit(text)).map(str::to_owned)
            })
        };
        Identity {
            // A request sends the account in a header, and a claim with a line break could add another header.
            account: find(&self.account, fits_a_header),
            email: find(&self.email, fits_a_line),
            plan: find(&self.plan, fits_a_line),
        }
    }
}

/// Claims of one token.
#[derive(Default)]
pub(super) struct Claims(Map<String, Value>);

impl Claims {
    /// Decodes the claims of a token. A token that is not a JWT has no claims. Neither the algorithm nor the signature
    /// is checked.
    pub(super) fn of(token: &Secret) -> Self {
        Self(jsonwebtoken::dangerous::insecure_decode_claims(token.expose()).unwrap_or_default())
    }

    /// Returns the text of a claim.
    pub(super) fn text(&self, path: &[String]) -> Option<&str> {
        let (last, objects) = path.split_last()?;
        let object = objects.iter().try_fold(&self.0, |object, name| object.get(name)?.as_object());
        object?.get(last)?.as_str()
    }

    /// Returns the lifetime of the token, counted from its issue. Both times are from the issuer's clock, so a
    /// difference to our clock does not matter.
    pub(super) fn lifetime(&self) -> Option<Duration> {
        let seconds = |name: &str| self.0.get(name)?.as_f64().filter(|seconds| seconds.is_finite());
        plausible_life(seconds("exp")? - seconds("iat").or_else(|| seconds("nbf"))?)
    }
}

/// Returns a lifetime in seconds if it is plausible. A lifetime below one second is unusable.
pub(super) fn plausible_life(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|life| *life >= Duration::from_secs(1) && *life <= MAX_LIFE)
}

/// Returns true if the text fits into an HTTP header.
fn fits_a_header(text: &str) -> bool {
    (1..=MAX_VALUE_BYTES).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Returns true if the text can be shown on one line.
fn fits_a_line(text: &str) -> bool {
    (1..=MAX_VALUE_BYTES).contains(&text.len()) && super::sanitize::shown(text, &[]) == text
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    use serde_json::json;

    use super::*;

    fn jwt(header: &Value, claims: &Value) -> Secret {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        Secret::new(format!("{}.{}.c2ln", part(header), part(claims)))
    }

    fn claims(claims: &Value) -> Claims {
        Claims::of(&jwt(&json!({ "alg": "RS256" }), claims))
    }

    #[test]
    fn what_cannot_be_read_has_no_claims() {
        for token in
            ["", "opaque", "a.b", "a.b.c", "..", "....", "e30.!!.e30", "e30.W10.e30", "e30.bnVsbA.e30"]
        {
            assert!(Claims::of(&Secret::new(token)).0.is_empty(), "{token}");
        }
        let deep = format!("e30.{}.e30", URL_SAFE_NO_PAD.encode("{\"a\":".repeat(5_000)));
        assert!(Claims::of(&Secret::new(deep)).0.is_empty());
    }

    #[test]
    fn neither_algorithm_nor_size_nor_age_matters() {
        let none = Claims::of(&jwt(&json!({ "alg": "none" }), &json!({ "email": "a@b.test" })));
        assert_eq!(none.text(&["email".into()]), Some("a@b.test"));
        let mut huge = Map::from_iter((0..20_000).map(|number| (format!("claim-{number}"), json!(number))));
        huge.insert("email".into(), json!("a@b.test"));
        huge.insert("exp".into(), json!(1));
        huge.insert("iat".into(), json!(0));
        let huge = claims(&Value::Object(huge));
        assert_eq!(huge.text(&["email".into()]), Some("a@b.test"));
        assert_eq!(huge.lifetime(), Some(Duration::from_secs(1)));
    }

    #[test]
    fn a_life_is_told_by_the_clock_of_the_issuer_alone() {
        for (exp, iat, life) in [
            (json!(4_600), json!(1_000), Some(3_600)),
            (json!(4_600.5), json!(1_000.5), Some(3_600)),
            (json!(1_000), json!(4_600), None),
            (json!(1_000), json!(1_000), None),
            (json!("4600"), json!(1_000), None),
            (json!(4_600), Value::Null, None),
            (json!(1e300), json!(-1e300), None),
            (json!(u64::MAX), json!(0), None),
            (json!({}), json!([]), None),
        ] {
            let life = life.map(Duration::from_secs);
            assert_eq!(claims(&json!({ "exp": exp, "iat": iat })).lifetime(), life, "{exp} {iat}");
        }
        assert_eq!(
            claims(&json!({ "exp": 60, "nbf": 0 })).lifetime(),
            Some(Duration::from_secs(60)),
            "not before stands in for issued at"
        );
    }

    #[test]
    fn whose_it_is_takes_no_value_that_does_not_fit() {
        let wanted = IdentityClaims::default()
            .with_account(["https://issuer.test/auth", "account"])
            .with_account(["sub"])
            .with_email(["email"])
            .with_plan(["plan"]);
        let id = claims(&json!({
            "https://issuer.test/auth": { "account": "line\nbreak" },
            "sub": "user-1",
            "email": { "address": "a@b.test" },
            "plan": "pro\u{1b}[31m",
        }));
        let access = claims(&json!({ "sub": "user-2", "email": "a@b.test", "plan": "x".repeat(4_000) }));
        let identity = wanted.read(&[&id, &access]);
        assert_eq!(identity.account.as_deref(), Some("user-1"));
        assert_eq!(identity.email.as_deref(), Some("a@b.test"));
        assert_eq!(identity.plan, None);
    }
}
