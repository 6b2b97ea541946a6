//! The answer of a token endpoint.
//!
//! What keeps a login alive is insisted on, and nothing else: by the time an answer is read, a refresh token was spent
//! for it, so an odd field beside the tokens must not throw them away.

use std::time::Duration;

use nexus_core::Secret;
use oauth2::{
    AccessToken, ErrorResponse, RefreshToken, RequestTokenError, Scope, TokenResponse,
    basic::{
        BasicErrorResponse, BasicRevocationErrorResponse, BasicTokenIntrospectionResponse, BasicTokenType,
    },
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::Error as _};
use serde_json::Value;
use zeroize::Zeroizing;

use super::claims::plausible_life;
use crate::auth::RefreshError;

/// The `oauth2` client of an issuer, with an answer of our own.
pub(super) type OAuthClient = oauth2::Client<
    BasicErrorResponse,
    TokenAnswer,
    BasicTokenIntrospectionResponse,
    oauth2::StandardRevocableToken,
    BasicRevocationErrorResponse,
>;

/// What the endpoint gave.
pub(super) struct Granted {
    pub(super) access_token: Secret,
    pub(super) refresh_token: Option<Secret>,
    pub(super) id_token: Option<Secret>,
    pub(super) lifetime: Option<Duration>,
}

/// The answer as `oauth2` reads it. Nothing prints it, and nothing writes it.
#[derive(Debug, Deserialize)]
pub(super) struct TokenAnswer {
    #[serde(default, deserialize_with = "lenient")]
    access_token: Field<AccessToken>,
    #[serde(default, deserialize_with = "lenient")]
    refresh_token: Field<RefreshToken>,
    #[serde(default, deserialize_with = "lenient")]
    id_token: Field<AccessToken>,
    #[serde(default, deserialize_with = "lenient")]
    token_type: Field<String>,
    #[serde(default, deserialize_with = "seconds")]
    expires_in: Option<Duration>,
    #[serde(skip, default = "nothing")]
    no_token: AccessToken,
}

/// A field that should be text.
#[derive(Debug, Default)]
enum Field<T> {
    #[default]
    Absent,
    Text(T),
    Wrong,
}

/// A field that is made from text.
trait FromText {
    fn from_text(text: String) -> Self;
}

impl FromText for AccessToken {
    fn from_text(text: String) -> Self {
        Self::new(text)
    }
}

impl FromText for RefreshToken {
    fn from_text(text: String) -> Self {
        Self::new(text)
    }
}

impl FromText for String {
    fn from_text(text: String) -> Self {
        text
    }
}

fn lenient<'de, D: Deserializer<'de>, T: FromText>(deserializer: D) -> Result<Field<T>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::Null => Field::Absent,
        Value::String(text) if text.is_empty() => Field::Absent,
        Value::String(text) => Field::Text(T::from_text(text)),
        _ => Field::Wrong,
    })
}

/// A life in seconds, also where it is written as text. What is none, or none that is left, is not known.
fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let seconds = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
    Ok(seconds.and_then(plausible_life))
}

fn nothing() -> AccessToken {
    AccessToken::new(String::new())
}

impl TokenAnswer {
    /// The tokens, if they can be used.
    pub(super) fn granted(self) -> Result<Granted, RefreshError> {
        let malformed = |reason: &str| Err(RefreshError::Malformed { reason: reason.into() });
        let access_token = match self.access_token {
            Field::Text(token) => token.into_secret(),
            Field::Absent => return malformed("it has no `access_token`"),
            Field::Wrong => return malformed("its `access_token` is no text"),
        };
        if !is_token(&access_token) {
            return malformed("its `access_token` holds what no header could carry");
        }
        let refresh_token = match self.refresh_token {
            Field::Text(token) => Some(Secret::new(token.into_secret())),
            Field::Absent => None,
            Field::Wrong => return malformed("its `refresh_token` is no text"),
        };
        match self.token_type {
            Field::Text(kind) if !kind.eq_ignore_ascii_case("bearer") => {
                return malformed("its `token_type` is not `Bearer`");
            }
            // The answers that codex reads need not have one.
            _ => {}
        }
        let id_token = match self.id_token {
            Field::Text(token) => Some(Secret::new(token.into_secret())),
            _ => None,
        };
        let access_token = Secret::new(access_token);
        Ok(Granted { access_token, refresh_token, id_token, lifetime: self.expires_in })
    }
}

/// Whether a header can carry it.
fn is_token(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// What `oauth2` makes of a request that did not give tokens. The answer that it could not read is overwritten.
pub(super) fn failure<E: ErrorResponse>(error: RequestTokenError<RefreshError, E>) -> RefreshError {
    let reason = match error {
        RequestTokenError::Request(error) => return error,
        RequestTokenError::Parse(_, body) => {
            drop(Zeroizing::new(body));
            "it is no JSON object"
        }
        // Neither gets here: errors are judged before, and what is empty as well.
        RequestTokenError::ServerResponse(_) | RequestTokenError::Other(_) => "it cannot be read",
    };
    RefreshError::Malformed { reason: reason.into() }
}

impl Serialize for TokenAnswer {
    /// `oauth2` wants it to be there; there is no use for it.
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(S::Error::custom("tokens are not written"))
    }
}

impl TokenResponse for TokenAnswer {
    type TokenType = BasicTokenType;

    fn access_token(&self) -> &AccessToken {
        match &self.access_token {
            Field::Text(token) => token,
            _ => &self.no_token,
        }
    }

    fn token_type(&self) -> &Self::TokenType {
        &BasicTokenType::Bearer
    }

    fn expires_in(&self) -> Option<Duration> {
        self.expires_in
    }

    fn refresh_token(&self) -> Option<&RefreshToken> {
        match &self.refresh_token {
            Field::Text(token) => Some(token),
            _ => None,
        }
    }

    fn scopes(&self) -> Option<&Vec<Scope>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn granted(answer: Value) -> Result<Granted, RefreshError> {
        serde_json::from_value::<TokenAnswer>(answer).unwrap().granted()
    }

    #[test]
    fn what_stands_beside_the_tokens_does_not_throw_them_away() {
        for odd in [
            json!({}),
            json!({ "expires_in": "soon", "scope": 5, "id_token": [] }),
            json!({ "expires_in": -5, "token_type": null, "refresh_token": null }),
            json!({ "expires_in": 0, "token_type": "bearer" }),
            json!({ "expires_in": 1e300, "token_type": "BEARER", "id_token": "not a jwt" }),
        ] {
            let mut answer = json!({ "access_token": "access" });
            answer.as_object_mut().unwrap().extend(odd.as_object().unwrap().clone());
            let granted = granted(answer).unwrap_or_else(|error| panic!("{odd}: {error}"));
            assert_eq!((granted.access_token.expose(), granted.lifetime), ("access", None), "{odd}");
            assert!(granted.refresh_token.is_none());
        }
        for life in [json!(60), json!(60.0), json!("60")] {
            let granted = granted(json!({ "access_token": "access", "expires_in": life })).unwrap();
            assert_eq!(granted.lifetime, Some(Duration::from_secs(60)));
        }
    }

    #[test]
    fn what_is_no_token_is_not_taken_for_one() {
        for answer in [
            json!({}),
            json!({ "access_token": null }),
            json!({ "access_token": "" }),
            json!({ "access_token": 5 }),
            json!({ "access_token": { "canary": 1 } }),
            json!({ "access_token": "canary\n" }),
            json!({ "access_token": "canary", "refresh_token": 7 }),
            json!({ "access_token": "canary", "token_type": "DPoP" }),
        ] {
            let Err(error) = granted(answer.clone()) else { panic!("{answer}") };
            assert!(matches!(error, RefreshError::Malformed { .. }), "{error}");
            assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
        }
    }

    #[test]
    fn nothing_prints_or_writes_an_answer() {
        let answer = json!({ "access_token": "canary", "refresh_token": "canary", "id_token": "canary" });
        let answer: TokenAnswer = serde_json::from_value(answer).unwrap();
        assert!(!format!("{answer:?}").contains("canary"));
        assert!(serde_json::to_string(&answer).is_err());
    }
}
