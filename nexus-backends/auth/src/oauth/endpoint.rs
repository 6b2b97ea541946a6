//! Addresses to which a secret may be sent.

use reqwest::Url;

use crate::http::is_loopback;

/// The URL of an endpoint: `https`, or `http` on a loopback address.
pub(super) type Endpoint = Url;

/// Parses and checks a URL. The error does not quote the URL, which may contain a password.
pub(super) fn parse(text: &str) -> Result<Endpoint, String> {
    let url = Url::parse(text).map_err(|error| format!("an endpoint of the issuer is not a URL: {error}"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("an endpoint of the issuer must not contain a name or a password".into());
    }
    if url.fragment().is_some() {
        return Err("an endpoint of the issuer must not have a fragment".into());
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_loopback(&url) => Ok(url),
        "http" => {
            Err("an endpoint of the issuer uses http, which others can read: use https or a loopback address"
                .into())
        }
        _ => Err("an endpoint of the issuer must begin with https://".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_sent_by_https_or_stays_here() {
        for good in [
            "https://issuer.test/token",
            "http://127.0.0.1:1/token",
            "http://127.8.8.8/token",
            "http://[::1]:9/token",
            "http://LOCALHOST:5/token",
        ] {
            assert!(parse(good).is_ok(), "{good}");
        }
        for bad in [
            "http://issuer.test/token",
            "http://localhost.issuer.test/token",
            "http://127.0.0.1.issuer.test/token",
            "http://127.0.0.1@issuer.test/token",
            "http://10.0.0.1/token",
            "http://0.0.0.0/token",
            "ftp://127.0.0.1/token",
            "https://me:canary@issuer.test/token",
            "https://issuer.test/token#canary",
            "file:///token",
            "/token",
            "",
        ] {
            let reason = parse(bad).unwrap_err();
            assert!(!reason.contains("canary"), "{reason}");
        }
    }
}
