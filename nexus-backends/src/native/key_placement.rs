//! Place of the credential in a request.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use nexus_core::SettingsError;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

use super::bearer;
use super::settings::RESERVED_HEADERS;
use crate::auth::Credential;

/// Place of the credential in a request: `bearer`, `none`, `{ header: NAME }` or `{ query: NAME }`.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum KeyPlacement {
    /// The header `Authorization`, as a bearer token.
    #[default]
    Bearer,
    /// The header of this name, without a prefix.
    Header(String),
    /// The parameter of this name in the query of the URL.
    Query(String),
    /// Nowhere. A credential is not sent.
    None,
}

// A user may write the key itself here by mistake, so no error repeats the value.
impl<'de> Deserialize<'de> for KeyPlacement {
    fn deserialize<Source: Deserializer<'de>>(source: Source) -> Result<Self, Source::Error> {
        let wrong =
            || Source::Error::custom("must be `bearer`, `none`, `{ header: NAME }` or `{ query: NAME }`");
        let value = Value::deserialize(source)?;
        let member = |name: &str| {
            let members = value.as_object().filter(|members| members.len() == 1)?;
            members.get(name)?.as_str().map(ToOwned::to_owned)
        };
        match value.as_str() {
            Some("bearer") => Ok(Self::Bearer),
            Some("none") => Ok(Self::None),
            Some(_) => Err(wrong()),
            None => member("header")
                .map(Self::Header)
                .or_else(|| member("query").map(Self::Query))
                .ok_or_else(wrong),
        }
    }
}

impl KeyPlacement {
    /// Rejects a name that no request can have, or that has another meaning. `key` is the key of the setting.
    pub(crate) fn check(&self, key: &str) -> Result<(), SettingsError> {
        let wrong = |member: &str, reason: &str| {
            Err(SettingsError { path: vec![key.to_owned(), member.to_owned()], reason: reason.to_owned() })
        };
        match self {
            Self::Bearer | Self::None => Ok(()),
            Self::Header(name) => match HeaderName::from_bytes(name.as_bytes()) {
                Err(_) => wrong("header", "this is not a valid header name"),
                // Some servers expect the key there without the word `Bearer`.
                Ok(name) if name == http::header::AUTHORIZATION => Ok(()),
                Ok(name) if RESERVED_HEADERS.iter().any(|(reserved, _)| name == *reserved) => wrong(
                    "header",
                    "Nexus sets this header itself: name the header that the server documents",
                ),
                Ok(_) => Ok(()),
            },
            Self::Query(name) => {
                let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
                match !name.is_empty() && name.chars().all(fits) {
                    true => Ok(()),
                    false => wrong("query", "must consist of ASCII letters, digits, `-`, `_` and `.`"),
                }
            }
        }
    }

    /// Returns the headers of every request: the credential, if it belongs there, and the user agent.
    pub(crate) fn headers(&self, credential: Option<&Credential>) -> HeaderMap {
        let Self::Header(name) = self else {
            return bearer::headers(credential.filter(|_| *self == Self::Bearer));
        };
        let mut headers = bearer::headers(None);
        let value = credential.and_then(bearer::token).and_then(|key| HeaderValue::from_str(key).ok());
        if let (Some(mut value), Ok(name)) = (value, HeaderName::from_bytes(name.as_bytes())) {
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        headers
    }

    /// Returns the query with the credential, if it belongs there.
    pub(crate) fn query(&self, credential: Option<&Credential>) -> Option<String> {
        let Self::Query(name) = self else { return None };
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair(name, credential.and_then(bearer::token)?);
        Some(query.finish())
    }
}

#[cfg(test)]
mod tests {
    use http::header::AUTHORIZATION;
    use nexus_core::Secret;
    use serde_json::{Value, json};

    use super::*;

    fn placement(value: Value) -> KeyPlacement {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn the_key_is_in_one_place_and_marked_as_secret() {
        let key = Credential::new(Secret::new("canary+1"));
        let sent = |value: Value| {
            let placement = placement(value);
            placement.check("auth").unwrap();
            let headers = placement.headers(Some(&key));
            assert!(!format!("{headers:?}").contains("canary"));
            let name = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
            (name(AUTHORIZATION.as_str()), name("api-key"), placement.query(Some(&key)))
        };
        assert_eq!(sent(json!("bearer")), (Some("Bearer canary+1".to_owned()), None, None));
        assert_eq!(sent(json!({ "header": "api-key" })), (None, Some("canary+1".to_owned()), None));
        assert_eq!(sent(json!({ "header": "Authorization" })), (Some("canary+1".to_owned()), None, None));
        assert_eq!(sent(json!({ "query": "key" })), (None, None, Some("key=canary%2B1".to_owned())));
        assert_eq!(sent(json!("none")), (None, None, None));
    }

    #[test]
    fn a_name_that_no_request_can_have_is_refused() {
        for (value, path) in [
            (json!({ "header": "a b" }), "header"),
            (json!({ "header": "Content-Type" }), "header"),
            (json!({ "query": "a&b" }), "query"),
            (json!({ "query": "" }), "query"),
        ] {
            assert_eq!(placement(value).check("auth").unwrap_err().path, ["auth", path]);
        }
    }
}
