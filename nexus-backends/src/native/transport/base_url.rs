//! Address of the server: the setting `base_url`, checked.

use std::fmt;

use http::Uri;
use nexus_core::SettingsError;
use url::Url;

use crate::http::{HttpError, HttpProblem};

/// Paths of a model call on each wire.
const ENDPOINTS: [&str; 3] = ["/responses", "/chat/completions", "/messages"];

/// Base URL of the server, without the path of a model call and without a trailing slash.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct BaseUrl {
    text: String,
    uri: Uri,
}

impl BaseUrl {
    /// Parses and checks the setting.
    pub(super) fn parse(setting: Option<&str>) -> Result<Self, SettingsError> {
        let wrong = |reason: &str| SettingsError::new("base_url", reason);
        let setting = setting.ok_or_else(|| wrong("name the server, such as http://127.0.0.1:11434/v1"))?;
        let mut url =
            Url::parse(setting.trim()).map_err(|error| wrong(&format!("it is not a URL: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("must begin with http:// or https://"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("must not contain a name or a password: name the token under `credential`"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("must end with its path: remove `?` or `#` and everything after it"));
        }
        let path = url.path().trim_end_matches('/').to_owned();
        if let Some(end) = ENDPOINTS.iter().find(|end| path.ends_with(**end)) {
            return Err(wrong(&format!("remove `{end}`: Nexus adds it to each request")));
        }
        if path.rsplit_once("/models/").is_some_and(|(_, call)| call.contains(':')) {
            return Err(wrong("remove `/models/` and everything after it: Nexus adds it to each request"));
        }
        url.set_path(&path);
        let uri = Uri::try_from(url.as_str()).map_err(|error| wrong(&format!("it is not a URL: {error}")))?;
        Ok(Self { text: url.as_str().trim_end_matches('/').to_owned(), uri })
    }

    /// Returns the URL of `path_and_query`, which begins with a slash, below the base URL.
    ///
    /// # Errors
    ///
    /// [`HttpProblem::Client`]: `path_and_query` cannot be part of a URL.
    pub(super) fn join(&self, path_and_query: &str) -> Result<Uri, HttpError> {
        let joined = Uri::try_from(format!("{}{path_and_query}", self.text));
        joined.map_err(|error| HttpError::new(HttpProblem::Client, error))
    }

    /// Returns the URL as text, without a trailing slash.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// The URL.
    pub(super) fn uri(&self) -> &Uri {
        &self.uri
    }
}

impl fmt::Debug for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn responses(setting: &str) -> String {
        BaseUrl::parse(Some(setting)).unwrap().join("/responses").unwrap().to_string()
    }

    #[test]
    fn a_slash_at_the_end_makes_no_difference() {
        for setting in ["http://127.0.0.1:1/v1", "http://127.0.0.1:1/v1/", " http://127.0.0.1:1/v1// "] {
            assert_eq!(responses(setting), "http://127.0.0.1:1/v1/responses");
        }
        assert_eq!(responses("https://a.test"), "https://a.test/responses");
        assert_eq!(responses("https://a.test/"), "https://a.test/responses");
        assert_eq!(responses("http://[::1]:8/v1"), "http://[::1]:8/v1/responses");
    }

    #[test]
    fn what_cannot_be_a_server_names_the_setting() {
        for setting in [
            "",
            "a.test/v1",
            "ftp://a.test",
            "http://",
            "http://me:canary@a.test/v1",
            "http://canary@a.test/v1",
            "https://a.test/v1?key=canary",
            "https://a.test/v1#canary",
            "https://a.test/v1/responses/",
            "https://a.test/v1/chat/completions",
            "https://a.test/v1/messages",
        ] {
            let error = BaseUrl::parse(Some(setting)).unwrap_err();
            assert_eq!(error.path, ["base_url"]);
            assert!(!error.reason.contains("canary"), "{error}");
        }
        assert_eq!(BaseUrl::parse(None).unwrap_err().path, ["base_url"]);
    }
}
