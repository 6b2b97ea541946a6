//! Selects the proxy for a request. Without a setting, requests go directly to the server.

use std::{collections::BTreeMap, fmt};

use hyper_util::client::proxy::matcher::Matcher;
use nexus_core::{BuildContext, SettingsError};
use reqwest::{ClientBuilder, NoProxy, Proxy, Url};

use super::Network;
use super::problem::HttpError;

/// Proxies of a client. `Debug` shows their hosts, but neither user names nor passwords.
#[derive(Clone, Default)]
pub(super) struct Proxies {
    http: Option<Url>,
    https: Option<Url>,
    /// Hosts that bypass the proxy, in the format of the variable `NO_PROXY`.
    except: Option<String>,
}

impl Proxies {
    /// Resolves the proxies. `network.proxy` applies to every request. Otherwise, with `network.inherit_proxy`, the
    /// host's variables apply as curl reads them. Lower-case names come before upper-case names, `ALL_PROXY` is the
    /// default, and `NO_PROXY` lists exceptions.
    pub(super) fn new(network: &Network, context: &BuildContext) -> Result<Self, SettingsError> {
        if let Some(setting) = &network.proxy {
            let url = proxy_url(setting)
                .map_err(|reason| SettingsError { path: vec!["network".into(), "proxy".into()], reason })?;
            return Ok(Self { http: Some(url.clone()), https: Some(url), except: None });
        }
        if !network.inherit_proxy {
            return Ok(Self::default());
        }
        let environment = &context.environment;
        let except = variable(environment, "no_proxy").map(|(_, value)| value.to_owned());
        // In the client's own matcher `*` covers host names, but not IP addresses.
        if except.as_deref().is_some_and(|except| except.split(',').any(|entry| entry.trim() == "*")) {
            return Ok(Self::default());
        }
        let url = |name: &str| {
            let Some((name, value)) = variable(environment, name) else { return Ok(None) };
            proxy_url(value).map(Some).map_err(|reason| SettingsError {
                path: vec!["network".into(), "inherit_proxy".into()],
                reason: format!("the variable {name}: {reason}"),
            })
        };
        let all = url("all_proxy")?;
        Ok(Self {
            http: url("http_proxy")?.or_else(|| all.clone()),
            https: url("https_proxy")?.or(all),
            except,
        })
    }

    /// Returns true if the connection to one of the proxies uses TLS.
    pub(super) fn is_tls(&self) -> bool {
        [&self.http, &self.https].into_iter().flatten().any(|url| url.scheme() == "https")
    }

    /// Returns true if a proxy exists for the scheme of `url`. Ignores the list of exceptions.
    pub(super) fn is_used_for(&self, url: &Url) -> bool {
        if url.scheme() == "https" { self.https.is_some() } else { self.http.is_some() }
    }

    /// Returns the matcher that selects the proxy for a server.
    pub(super) fn matcher(&self) -> Matcher {
        let url = |url: &Option<Url>| url.as_ref().map(Url::to_string).unwrap_or_default();
        let except = self.except.clone().unwrap_or_default();
        Matcher::builder().http(url(&self.http)).https(url(&self.https)).no(except).build()
    }

    /// Adds the proxies to a `reqwest` client.
    pub(super) fn apply(&self, builder: ClientBuilder) -> Result<ClientBuilder, HttpError> {
        // `no_proxy` also stops `reqwest` from reading this process's proxy variables.
        let mut builder = builder.no_proxy();
        let except = || self.except.as_deref().and_then(NoProxy::from_string);
        if let Some(url) = &self.http {
            builder = builder.proxy(Proxy::http(url.clone()).map_err(HttpError::client)?.no_proxy(except()));
        }
        if let Some(url) = &self.https {
            builder = builder.proxy(Proxy::https(url.clone()).map_err(HttpError::client)?.no_proxy(except()));
        }
        Ok(builder)
    }
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = |url: &Option<Url>| url.as_ref().and_then(|url| url.host_str().map(str::to_owned));
        f.debug_struct("Proxies")
            .field("http", &host(&self.http))
            .field("https", &host(&self.https))
            .field("except", &self.except)
            .finish()
    }
}

/// Returns the name and value of a variable that is set and not blank. The lower-case name takes precedence over the
/// upper-case name.
fn variable<'e>(environment: &'e BTreeMap<String, String>, name: &str) -> Option<(String, &'e str)> {
    [name.to_owned(), name.to_ascii_uppercase()].into_iter().find_map(|name| {
        let value = environment.get(&name)?.trim();
        (!value.is_empty()).then_some((name, value))
    })
}

/// Parses the URL of a proxy. The default scheme is HTTP. The error never repeats the setting, which may contain a
/// password.
fn proxy_url(setting: &str) -> Result<Url, String> {
    let setting = setting.trim();
    let url = match setting.contains("://") {
        true => Url::parse(setting),
        false => Url::parse(&format!("http://{setting}")),
    };
    let url = url.map_err(|error| format!("it is not a URL: {error}"))?;
    // The matcher's rules consist of URIs, which allow fewer characters than URLs. The matcher would silently ignore an
    // invalid URI.
    http::Uri::try_from(url.as_str()).map_err(|error| format!("it is not a URL: {error}"))?;
    match url.scheme() {
        "http" | "https" if url.has_host() => Ok(url),
        "http" | "https" => Err("it names no host".into()),
        scheme => Err(format!("a proxy of the kind `{scheme}` is not supported: use http:// or https://")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(network: &Network, environment: &[(&str, &str)]) -> Result<Proxies, SettingsError> {
        let environment =
            environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Proxies::new(
            network,
            &BuildContext::in_home("/home").with_base_directory("/base").with_environment(environment),
        )
    }

    fn host(url: &Option<Url>) -> Option<&str> {
        url.as_ref()?.host_str()
    }

    #[test]
    fn the_environment_counts_only_when_asked_for() {
        let environment =
            [("HTTPS_PROXY", "http://upper"), ("https_proxy", "lower:8080"), ("ALL_PROXY", "all")];
        let none = read(&Network::default(), &environment).unwrap();
        assert_eq!((host(&none.http), host(&none.https)), (None, None));
        let inherit = Network { inherit_proxy: true, ..Network::default() };
        let some = read(&inherit, &environment).unwrap();
        assert_eq!((host(&some.http), host(&some.https)), (Some("all"), Some("lower")));
        let own = Network { proxy: Some("http://own".into()), ..inherit };
        let own = read(&own, &environment).unwrap();
        assert_eq!((host(&own.http), host(&own.https)), (Some("own"), Some("own")));
    }

    #[test]
    fn a_proxy_that_cannot_be_used_names_the_setting_and_no_password() {
        for setting in [
            "socks5://me:canary@proxy",
            "http://me:canary@",
            "http://me:canary@a b",
            "http://me:canary@{proxy}",
        ] {
            let network = Network { proxy: Some(setting.into()), ..Network::default() };
            let error = read(&network, &[]).unwrap_err();
            assert_eq!(error.path, ["network", "proxy"]);
            assert!(!error.reason.contains("canary"), "{error}");
            let inherit = Network { inherit_proxy: true, ..Network::default() };
            let error = read(&inherit, &[("http_proxy", setting)]).unwrap_err();
            assert!(error.reason.contains("http_proxy") && !error.reason.contains("canary"), "{error}");
        }
        let network = Network { proxy: Some("http://me:canary@proxy".into()), ..Default::default() };
        assert!(!format!("{:?}", read(&network, &[]).unwrap()).contains("canary"));
    }
}
