//! Address of a collector.

use std::{fmt, str::FromStr};

use reqwest::Url;

/// Base URL of a collector, such as `http://127.0.0.1:4318`. Requests add `/v1/traces` or `/v1/metrics` to
/// its path.
#[derive(Clone, PartialEq, Eq)]
pub struct Collector(Url);

/// Reason why a text is not a [`Collector`]. The error does not repeat the text, which may contain a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CollectorError {
    /// The text is not a URL.
    #[error("not a URL; write the collector as http://127.0.0.1:4318")]
    NoUrl,
    /// The scheme of the URL is not HTTP or HTTPS.
    #[error("not an http or https URL; a collector's port for OTLP over HTTP is usually 4318")]
    NoHttp,
    /// The URL contains a user's name or a password.
    #[error("a URL with credentials; set them in OTEL_EXPORTER_OTLP_HEADERS, which no log shows")]
    Credentials,
    /// The URL has more parts than a path.
    #[error("a URL with a query or a fragment; name the base, to which /v1/traces is added")]
    NoBase,
}

impl Collector {
    /// Returns the URL of one signal: `traces` or `metrics`.
    pub(crate) fn of(&self, signal: &str) -> String {
        format!("{}/v1/{signal}", self.0.as_str().trim_end_matches('/'))
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.0.scheme() == "https"
    }

    pub(crate) fn is_loopback(&self) -> bool {
        nexus_auth::http::is_loopback(&self.0)
    }
}

impl FromStr for Collector {
    type Err = CollectorError;

    fn from_str(text: &str) -> Result<Self, CollectorError> {
        let url = Url::parse(text.trim()).map_err(|_| CollectorError::NoUrl)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(CollectorError::NoHttp);
        }
        // Rejected, because logs and errors show the URL.
        if !url.username().is_empty() || url.password().is_some() {
            return Err(CollectorError::Credentials);
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(CollectorError::NoBase);
        }
        Ok(Self(url))
    }
}

impl fmt::Display for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Collector({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_paths_below_the_base() {
        let traces = |base: &str| base.parse::<Collector>().map(|collector| collector.of("traces"));
        assert_eq!(traces("http://127.0.0.1:4318").unwrap(), "http://127.0.0.1:4318/v1/traces");
        assert_eq!(traces("https://host/otel/").unwrap(), "https://host/otel/v1/traces");
    }

    #[test]
    fn what_is_no_base_url_is_refused_and_not_repeated() {
        let cases = [
            ("canary", CollectorError::NoUrl),
            ("localhost:4318", CollectorError::NoHttp),
            ("grpc://canary", CollectorError::NoHttp),
            ("http://user:canary@host", CollectorError::Credentials),
            ("http://host/?key=canary", CollectorError::NoBase),
        ];
        for (text, expected) in cases {
            let error = text.parse::<Collector>().unwrap_err();
            assert_eq!(error, expected, "{text}");
            assert!(!error.to_string().contains("canary"), "{error}");
        }
    }
}
