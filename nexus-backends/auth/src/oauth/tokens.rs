//! Response of a token endpoint.
//!
//! Only the parts that keep a login alive are required. A refresh token was spent for this response, so a malformed
//! field beside the tokens must not discard them.

use std::{fmt, time::Duration};

use nexus_core::Secret;
use oauth2::{
    AccessToken, ErrorResponse, RefreshToken, RequestTokenError, Scope, TokenResponse,
    basic::{
        BasicErrorResponse, BasicRevocationErrorResponse, BasicTokenIntrospectionResponse, BasicTokenType,
    },
};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{IgnoredAny, MapAccess, Visitor},
    ser::Error as _,
};
use serde_json::{Value, value::RawValue};
use zeroize::Zeroizing;

use super::claims::plausible_life;
use crate::RefreshError;

const NO_OBJECT: &str = "it is not a JSON object, as required";

/// The `oauth2` client of an issuer, with [`TokenAnswer`] as its token response.
pub(super) type OAuthClient = oauth2::Client<
    BasicErrorResponse,
    TokenAnswer,
    BasicTokenIntrospectionResponse,
    oauth2::StandardRevocableToken,
    BasicRevocationErrorResponse,
>;

/// Tokens from the endpoint.
pub(super) struct Granted {
    pub(super) access_token: Secret,
    pub(super) refresh_token: Option<Secret>,
    pub(super) id_token: Option<Secret>,
    pub(super) lifetime: Option<Duration>,
    /// Granted scopes; `None` if the response does not list them.
    pub(super) scope: Option<String>,
}

/// Response of the token endpoint to a refresh token.
pub(super) enum Refreshed {
    /// The new access token, with the rest of the response.
    Tokens(Granted),
    /// A new refresh token without a usable access token. The previous refresh token is spent.
    RefreshTokenAlone {
        refresh_token: Secret,
        id_token: Option<Secret>,
        /// Reason why the access token is unusable.
        reason: RefreshError,
    },
}

/// Token response as `oauth2` deserialises it. It is neither printed nor serialised.
#[derive(Debug)]
pub(super) struct TokenAnswer {
    access_token: TextField<AccessToken>,
    refresh_token: TextField<RefreshToken>,
    id_token: TextField<AccessToken>,
    token_type: TextField<String>,
    scope: TextField<String>,
    expires_in: Option<Duration>,
    no_token: AccessToken,
}

/// Field that should be text.
#[derive(Debug, Default)]
enum TextField<T> {
    #[default]
    Absent,
    Text(T),
    Wrong,
}

impl<T> TextField<T> {
    /// Parses one value by itself: a value of the wrong type does not affect the others.
    fn read(value: &RawValue, from_text: impl FnOnce(String) -> T) -> Self {
        match serde_json::from_str(value.get()) {
            Ok(Value::Null) => Self::Absent,
            Ok(Value::String(text)) if text.is_empty() => Self::Absent,
            Ok(Value::String(text)) => Self::Text(from_text(text)),
            _ => Self::Wrong,
        }
    }
}

/// Returns a lifetime in seconds, which may also be written as text. An invalid or expired lifetime counts as unknown.
fn seconds(value: &RawValue) -> Option<Duration> {
    let value: Value = serde_json::from_str(value.get()).ok()?;
    let seconds = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
    seconds.and_then(plausible_life)
}

impl<'de> Deserialize<'de> for TokenAnswer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut answer = Self::empty();
        deserializer.deserialize_map(TokenAnswerVisitor(&mut answer))?;
        Ok(answer)
    }
}

/// Visitor that fills an answer field by field. If a name occurs twice, the last value counts, as in most JSON parsers.
struct TokenAnswerVisitor<'a>(&'a mut TokenAnswer);

impl<'de> Visitor<'de> for TokenAnswerVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut fields: M) -> Result<(), M::Error> {
        let answer = self.0;
        while let Some(name) = fields.next_key::<String>()? {
            match name.as_str() {
                "access_token" => {
                    answer.access_token = TextField::read(fields.next_value()?, AccessToken::new);
                }
                "refresh_token" => {
                    answer.refresh_token = TextField::read(fields.next_value()?, RefreshToken::new);
                }
                "id_token" => answer.id_token = TextField::read(fields.next_value()?, AccessToken::new),
                "token_type" => answer.token_type = TextField::read(fields.next_value()?, |kind| kind),
                "scope" => answer.scope = TextField::read(fields.next_value()?, |scope| scope),
                "expires_in" => answer.expires_in = seconds(fields.next_value()?),
                _ => {
                    fields.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

impl TokenAnswer {
    fn empty() -> Self {
        Self {
            access_token: TextField::Absent,
            refresh_token: TextField::Absent,
            id_token: TextField::Absent,
            token_type: TextField::Absent,
            scope: TextField::Absent,
            expires_in: None,
            no_token: AccessToken::new(String::new()),
        }
    }

    /// Returns the tokens of a sign-in, if they are usable.
    pub(super) fn granted(self) -> Result<Granted, RefreshError> {
        let access_token = self.usable_access_token()?;
        let (refresh_token, id_token) = (self.refresh_token()?, self.id_token());
        let (lifetime, scope) = (self.expires_in, self.scope());
        Ok(Granted { access_token, refresh_token, id_token, lifetime, scope })
    }

    /// Returns the response to a refresh token. The previous refresh token was spent for this response, so every part
    /// that keeps the login alive is used.
    pub(super) fn refreshed(self) -> Result<Refreshed, RefreshError> {
        let (refresh_token, id_token) = (self.refresh_token(), self.id_token());
        match (self.usable_access_token(), refresh_token) {
            // Ignore a refresh token that is not text: the previous one remains the last known.
            (Ok(access_token), refresh_token) => Ok(Refreshed::Tokens(Granted {
                access_token,
                refresh_token: refresh_token.ok().flatten(),
                id_token,
                lifetime: self.expires_in,
                scope: self.scope(),
            })),
            (Err(reason), Ok(Some(refresh_token))) => {
                Ok(Refreshed::RefreshTokenAlone { refresh_token, id_token, reason })
            }
            (Err(reason), _) => Err(reason),
        }
    }

    /// Returns the tokens of a truncated response, or of one with trailing data, if it contains a complete refresh
    /// token.
    pub(super) fn salvaged(body: &[u8]) -> Result<Refreshed, RefreshError> {
        let mut answer = Self::empty();
        // Parse as far as possible. The error does not matter, because `answer` has the fields read so far.
        let _ = serde_json::Deserializer::from_slice(body).deserialize_map(TokenAnswerVisitor(&mut answer));
        match answer.refresh_token {
            TextField::Text(_) => answer.refreshed(),
            _ => Err(malformed(NO_OBJECT)),
        }
    }

    fn usable_access_token(&self) -> Result<Secret, RefreshError> {
        let access_token = match &self.access_token {
            TextField::Text(token) => token.secret(),
            TextField::Absent => return Err(malformed("it has no `access_token`")),
            TextField::Wrong => return Err(malformed("its `access_token` must be a text value")),
        };
        if !is_token(access_token) {
            return Err(malformed("its `access_token` has characters that are not allowed in a header"));
        }
        match &self.token_type {
            TextField::Text(kind) if !kind.eq_ignore_ascii_case("bearer") => {
                Err(malformed("its `token_type` is not `Bearer`"))
            }
            // Accept a response without `token_type`: some issuers omit it, and the vendors' programs do not require
            // it.
            _ => Ok(Secret::new(access_token.as_str())),
        }
    }

    fn refresh_token(&self) -> Result<Option<Secret>, RefreshError> {
        match &self.refresh_token {
            TextField::Text(token) => Ok(Some(Secret::new(token.secret().as_str()))),
            TextField::Absent => Ok(None),
            TextField::Wrong => Err(malformed("its `refresh_token` must be a text value")),
        }
    }

    fn id_token(&self) -> Option<Secret> {
        match &self.id_token {
            TextField::Text(token) => Some(Secret::new(token.secret().as_str())),
            _ => None,
        }
    }

    fn scope(&self) -> Option<String> {
        match &self.scope {
            TextField::Text(scope) => Some(scope.clone()),
            _ => None,
        }
    }
}

fn malformed(reason: &str) -> RefreshError {
    RefreshError::Malformed { reason: reason.into() }
}

/// Returns true if a header can contain the text.
fn is_token(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Converts an error of `oauth2` into ours. Overwrites the body of a response that `oauth2` could not parse.
pub(super) fn failure<E: ErrorResponse>(error: RequestTokenError<RefreshError, E>) -> RefreshError {
    let reason = match error {
        RequestTokenError::Request(error) => return error,
        RequestTokenError::Parse(_, body) => {
            drop(Zeroizing::new(body));
            NO_OBJECT
        }
        // Neither variant occurs here: our HTTP clients handle error responses and empty bodies before `oauth2` sees
        // them.
        RequestTokenError::ServerResponse(_) | RequestTokenError::Other(_) => "it cannot be read",
    };
    malformed(reason)
}

impl Serialize for TokenAnswer {
    /// `oauth2` requires this method and never calls it here.
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(S::Error::custom("tokens are not written"))
    }
}

impl TokenResponse for TokenAnswer {
    type TokenType = BasicTokenType;

    fn access_token(&self) -> &AccessToken {
        match &self.access_token {
            TextField::Text(token) => token,
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
            TextField::Text(token) => Some(token),
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

    fn read(answer: &str) -> TokenAnswer {
        serde_json::from_str(answer).unwrap()
    }

    fn granted(answer: &Value) -> Result<Granted, RefreshError> {
        read(&answer.to_string()).granted()
    }

    /// The refresh token that came alone.
    fn alone(refreshed: Result<Refreshed, RefreshError>) -> Option<String> {
        match refreshed {
            Ok(Refreshed::RefreshTokenAlone { refresh_token, .. }) => Some(refresh_token.expose().to_owned()),
            _ => None,
        }
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
            let granted = granted(&answer).unwrap_or_else(|error| panic!("{odd}: {error}"));
            assert_eq!((granted.access_token.expose(), granted.lifetime), ("access", None), "{odd}");
            assert!(granted.refresh_token.is_none());
        }
        for life in [json!(60), json!(60.0), json!("60")] {
            let granted = granted(&json!({ "access_token": "access", "expires_in": life })).unwrap();
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
            let Err(error) = granted(&answer) else { panic!("{answer}") };
            assert!(matches!(error, RefreshError::Malformed { .. }), "{error}");
            assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
        }
    }

    #[test]
    fn a_new_refresh_token_is_taken_whatever_came_with_it() {
        for beside in [
            r#""token_type":"Bearer""#,
            r#""access_token":null"#,
            r#""access_token":"""#,
            r#""access_token":5"#,
            r#""access_token":1e999"#,
            r#""access_token":"\ud800""#,
            r#""access_token":"two words""#,
            r#""access_token":"caf\u00e9""#,
            r#""access_token":"access","token_type":"DPoP""#,
        ] {
            let answer = format!(r#"{{{beside},"refresh_token":"next","expires_in":1e999}}"#);
            assert_eq!(alone(read(&answer).refreshed()).as_deref(), Some("next"), "{answer}");
            assert!(read(&answer).granted().is_err(), "a sign-in needs more: {answer}");
        }
        for answer in [
            json!({ "access_token": "access" }),
            json!({ "access_token": "access", "refresh_token": 5 }),
            json!({ "access_token": "access", "refresh_token": false }),
        ] {
            let Ok(Refreshed::Tokens(granted)) = read(&answer.to_string()).refreshed() else {
                panic!("{answer}")
            };
            assert_eq!((granted.access_token.expose(), granted.refresh_token), ("access", None));
        }
        for answer in [r"{}", r#"{"refresh_token":""}"#, r#"{"refresh_token":["next"],"access_token":5}"#] {
            assert!(matches!(read(answer).refreshed(), Err(RefreshError::Malformed { .. })), "{answer}");
        }
    }

    #[test]
    fn of_a_name_that_is_there_twice_the_last_one_counts() {
        let twice = r#"{"refresh_token":"a","access_token":"a","access_token":"b","refresh_token":"b"}"#;
        let granted = read(twice).granted().unwrap();
        assert_eq!(granted.access_token.expose(), "b");
        assert_eq!(granted.refresh_token.unwrap().expose(), "b");
    }

    #[test]
    fn of_an_answer_that_is_broken_a_whole_refresh_token_is_taken() {
        for body in [
            r#"{"refresh_token":"next","access_to"#,
            r#"{"refresh_token":"next","access_token":"acc"#,
            r#"{"refresh_token":"next""#,
            r#"{"refresh_token":"next"} and more"#,
        ] {
            assert_eq!(alone(TokenAnswer::salvaged(body.as_bytes())).as_deref(), Some("next"), "{body}");
        }
        let both = TokenAnswer::salvaged(br#"{"access_token":"access","refresh_token":"next","id_"#);
        assert!(matches!(both, Ok(Refreshed::Tokens(granted)) if granted.refresh_token.is_some()));
        for body in ["", "{", r#"{"refresh_token":"nex"#, r#"{"access_token":"access","refresh_token":"nex"#]
        {
            let broken = TokenAnswer::salvaged(body.as_bytes());
            assert!(matches!(broken, Err(RefreshError::Malformed { .. })), "{body}");
        }
    }

    #[test]
    fn nothing_prints_or_writes_an_answer() {
        let answer = json!({ "access_token": "canary", "refresh_token": "canary", "id_token": "canary" });
        let answer = read(&answer.to_string());
        assert!(!format!("{answer:?}").contains("canary"));
        assert!(serde_json::to_string(&answer).is_err());
    }
}
