//! Tokens that look like JWTs. Their signature is noise.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::state::base64url;

/// Writes `claims` as a token. Unsigned ones say `alg: none` and end with the second dot.
pub(super) fn write(claims: &Map<String, Value>, signed: bool) -> String {
    let header = match signed {
        true => json!({ "alg": "RS256", "typ": "JWT", "kid": "nobody" }),
        false => json!({ "alg": "none", "typ": "JWT" }),
    };
    let part = |value: String| base64url(value.as_bytes());
    let claims = Value::Object(claims.clone());
    let signature = match signed {
        true => base64url(&[Uuid::new_v4().into_bytes(), Uuid::new_v4().into_bytes()].concat()),
        false => String::new(),
    };
    format!("{}.{}.{signature}", part(header.to_string()), part(claims.to_string()))
}
