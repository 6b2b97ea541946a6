//! An authorization server, as data: who it is, where its endpoints are, and in what it differs from others.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{claims::IdentityClaims, endpoint};
use crate::Login;

/// An authorization server and our registration there. It has no secrets: the clients are public clients.
///
/// A login stores its issuer, so that it is refreshed there even after the configuration changes.
///
/// An endpoint that begins with `/` is below [`Issuer::url`]; any other is a whole URL. Each must use `https`,
/// or `http` on a loopback address.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issuer {
    /// Its address.
    pub url: String,
    /// Our name there.
    pub client_id: String,
    /// Requested scopes.
    #[serde(default)]
    pub oauth_scopes: Vec<String>,
    /// Page for a person's consent, in a browser. `None`: it has no such page for us.
    #[serde(default)]
    pub authorize_endpoint: Option<String>,
    /// Endpoint that exchanges codes and refresh tokens.
    pub token_endpoint: String,
    /// The address on this machine that it sends the browser back to.
    #[serde(default)]
    pub redirect: Redirect,
    /// Additional parameters of its page, beside those of the standard.
    #[serde(default)]
    pub authorize_parameters: BTreeMap<String, String>,
    /// Consent on another device.
    #[serde(default)]
    pub device_flow: DeviceFlow,
    /// Revocation of a login.
    #[serde(default)]
    pub revocation: RevocationStyle,
    /// Codes by which it says that a login is over, beside those of RFC 6749 section 5.2 (`invalid_grant`,
    /// `invalid_client`, `unauthorized_client`), which are final at every issuer.
    #[serde(default)]
    pub final_codes: Vec<String>,
    /// Meaning of its status 401 without such a code.
    #[serde(default)]
    pub plain_unauthorized: PlainUnauthorized,
    /// Claims of the access token that a refresh names again, where the token has them.
    #[serde(default)]
    pub refresh_claims: Vec<String>,
    /// Claims that identify a login's owner.
    #[serde(default)]
    pub identity: IdentityClaims,
    /// Resource that the tokens are for (RFC 8707): sent to its page, and with every code and every refresh
    /// token.
    #[serde(default)]
    pub resource: Option<String>,
    /// Scopes without which a login is of no use. A sign-in through a browser that is not granted each of them fails.
    #[serde(default)]
    pub required_scopes: Vec<String>,
    /// URL of its description of itself (OpenID Connect Discovery 1.0). With it, a sign-in through a browser
    /// needs an ID token that its keys verify.
    #[serde(default)]
    pub discovery_endpoint: Option<String>,
    /// A person's first sign-in through a browser registers a client for them. [`Issuer::client_id`] is what that sign-in
    /// names, and in a login it is the client that was registered.
    #[serde(default)]
    pub registration: Option<SignInRegistration>,
}

/// Registration of a client by the consent page: its answer names a client, which all later requests use.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignInRegistration {
    /// The parameter of the page that names this installation: an URN with a UUID, made once.
    pub host_parameter: String,
    /// The parameter by which a client that is not registered yet says its name.
    pub name_parameter: String,
    /// Value of the parameter.
    pub name: String,
}

impl SignInRegistration {
    /// A client of this name; the page takes the name and the installation under these parameters.
    pub fn new(
        name: impl Into<String>,
        name_parameter: impl Into<String>,
        host_parameter: impl Into<String>,
    ) -> Self {
        Self {
            host_parameter: host_parameter.into(),
            name_parameter: name_parameter.into(),
            name: name.into(),
        }
    }
}

/// The address on this machine that the browser is sent back to.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redirect {
    /// The host as it is registered: `127.0.0.1` or `localhost`. It is `127.0.0.1` that is listened on.
    pub host: String,
    /// The registered ports, in the order in which they are tried. 0 is any free one.
    pub ports: Vec<u16>,
    /// The path.
    pub path: String,
}

/// Consent on another device.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceFlow {
    /// Not at all.
    #[default]
    NotOffered,
    /// The device authorization grant, RFC 8628.
    Standard {
        /// Endpoint that issues a code.
        endpoint: String,
        /// Additional parameters, beside those of the standard.
        #[serde(default)]
        parameters: BTreeMap<String, String>,
    },
    /// A way beside the standard: requests in JSON, a pending answer is status 403 or 404, and what comes at last is an
    /// authorization code together with the verifier it is exchanged with. Source: recorded requests of a vendor's program, and
    /// its public source.
    #[serde(rename = "open_ai")]
    CodeWithVerifier {
        /// Endpoint that issues a code.
        endpoint: String,
        /// Endpoint that is polled for the person's consent.
        poll_endpoint: String,
        /// Page on which the person enters the code.
        page: String,
        /// The `redirect_uri` that the code is exchanged with.
        redirect: String,
    },
}

/// Revocation of a login at its issuer.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RevocationStyle {
    /// Not at all.
    #[default]
    NotOffered,
    /// By a form, RFC 7009.
    Form {
        /// Its endpoint.
        endpoint: String,
    },
    /// By the same fields in JSON.
    Json {
        /// Its endpoint.
        endpoint: String,
    },
    /// By a form, where its description ([`Issuer::discovery_endpoint`]) says.
    Discovered,
}

/// Meaning of status 401 for a login, without a code that decides it.
///
/// Without a JSON object the status has no meaning for the login: a proxy, a firewall or a network's login page
/// may have sent it.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlainUnauthorized {
    /// Nothing that can be relied on: the login stays.
    #[default]
    Unclear,
    /// With a JSON object: the login is over.
    Final,
}

impl Issuer {
    /// The issuer at `url`, which exchanges tokens at `/token` and offers nothing else yet.
    pub fn new(url: impl Into<String>, client_id: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            client_id: client_id.into(),
            oauth_scopes: Vec::new(),
            authorize_endpoint: None,
            token_endpoint: "/token".into(),
            redirect: Redirect::default(),
            authorize_parameters: BTreeMap::new(),
            device_flow: DeviceFlow::NotOffered,
            revocation: RevocationStyle::NotOffered,
            final_codes: Vec::new(),
            plain_unauthorized: PlainUnauthorized::Unclear,
            refresh_claims: Vec::new(),
            identity: IdentityClaims::default(),
            resource: None,
            required_scopes: Vec::new(),
            discovery_endpoint: None,
            registration: None,
        }
    }

    /// Moves it, and every endpoint below it, to another address.
    #[must_use]
    pub fn with_url(mut self, url: impl Into<String>) -> Self {
        self.url = url.into();
        self
    }

    /// Replaces our name.
    #[must_use]
    pub fn with_client_id(mut self, client_id: impl Into<String>) -> Self {
        self.client_id = client_id.into();
        self
    }

    /// Replaces the requested scopes.
    #[must_use]
    pub fn with_oauth_scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.oauth_scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// States where a person says yes in a browser.
    #[must_use]
    pub fn with_authorize_endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.authorize_endpoint = Some(endpoint.into());
        self
    }

    /// States where codes and refresh tokens are exchanged.
    #[must_use]
    pub fn with_token_endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.token_endpoint = endpoint.into();
        self
    }

    /// States where the browser is sent back to.
    #[must_use]
    pub fn with_redirect(mut self, redirect: Redirect) -> Self {
        self.redirect = redirect;
        self
    }

    /// Adds a parameter to the page where a person says yes.
    #[must_use]
    pub fn with_authorize_parameter(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.authorize_parameters.insert(name.into(), value.into());
        self
    }

    /// States how a person says yes on another device.
    #[must_use]
    pub fn with_device_flow(mut self, device_flow: DeviceFlow) -> Self {
        self.device_flow = device_flow;
        self
    }

    /// Sets the revocation of a login.
    #[must_use]
    pub fn with_revocation(mut self, revocation: RevocationStyle) -> Self {
        self.revocation = revocation;
        self
    }

    /// Adds codes by which it says that a login is over.
    #[must_use]
    pub fn with_final_codes(mut self, codes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.final_codes.extend(codes.into_iter().map(Into::into));
        self
    }

    /// States what its status 401 means without a code.
    #[must_use]
    pub fn with_plain_unauthorized(mut self, meaning: PlainUnauthorized) -> Self {
        self.plain_unauthorized = meaning;
        self
    }

    /// States which claims of the access token a refresh names again.
    #[must_use]
    pub fn with_refresh_claims(mut self, claims: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.refresh_claims = claims.into_iter().map(Into::into).collect();
        self
    }

    /// States which claims say whose a login is.
    #[must_use]
    pub fn with_identity(mut self, identity: IdentityClaims) -> Self {
        self.identity = identity;
        self
    }

    /// States what the tokens are for.
    #[must_use]
    pub fn with_resource(mut self, resource: impl Into<String>) -> Self {
        self.resource = Some(resource.into());
        self
    }

    /// States the scopes without which a login is of no use.
    #[must_use]
    pub fn with_required_scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.required_scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// States where it describes itself.
    #[must_use]
    pub fn with_discovery_endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.discovery_endpoint = Some(endpoint.into());
        self
    }

    /// States how a person's first sign-in registers a client.
    #[must_use]
    pub fn with_registration(mut self, registration: SignInRegistration) -> Self {
        self.registration = Some(registration);
        self
    }

    /// Returns the form that a login stores.
    pub(super) fn to_origin(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(origin)) => origin,
            // Strings, numbers and maps of strings: there is nothing that could not be written.
            _ => Map::new(),
        }
    }

    /// The issuer that a login is from.
    pub(super) fn of(login: &Login) -> Result<Self, String> {
        // The message of serde would quote what it did not expect.
        serde_json::from_value(Value::Object(login.origin.clone()))
            .map_err(|_| "the login does not name its issuer".into())
    }

    /// Returns an endpoint as a URL, if secrets may be sent to it.
    pub(super) fn endpoint(&self, endpoint: &str) -> Result<endpoint::Endpoint, String> {
        match endpoint.starts_with('/') {
            true => endpoint::parse(&format!("{}{endpoint}", self.url.trim_end_matches('/'))),
            false => endpoint::parse(endpoint),
        }
    }
}

impl Redirect {
    /// These ports of `127.0.0.1`, in the order in which they are tried; 0 is any free one.
    pub fn new(ports: impl IntoIterator<Item = u16>, path: impl Into<String>) -> Self {
        Self { host: "127.0.0.1".into(), ports: ports.into_iter().collect(), path: path.into() }
    }

    /// Names the host as it is registered: `127.0.0.1` or `localhost`.
    #[must_use]
    pub fn with_host(mut self, host: impl Into<String>) -> Self {
        self.host = host.into();
        self
    }
}

impl Default for Redirect {
    fn default() -> Self {
        Self::new([0], "/callback")
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use nexus_core::Secret;

    use super::*;

    fn issuer() -> Issuer {
        Issuer::new("https://issuer.test/base/", "us")
            .with_authorize_endpoint("/authorize")
            .with_revocation(RevocationStyle::Json { endpoint: "https://elsewhere.test/revoke".into() })
            .with_device_flow(DeviceFlow::Standard {
                endpoint: "/device".into(),
                parameters: BTreeMap::new(),
            })
    }

    #[test]
    fn endpoints_below_the_issuer_move_with_it() {
        let at = |issuer: &Issuer, endpoint: &str| issuer.endpoint(endpoint).unwrap().to_string();
        assert_eq!(at(&issuer(), "/token"), "https://issuer.test/base/token");
        assert_eq!(at(&issuer(), "https://elsewhere.test/x"), "https://elsewhere.test/x");
        let moved = issuer().with_url("http://127.0.0.1:8080");
        assert_eq!(at(&moved, "/token"), "http://127.0.0.1:8080/token");
    }

    #[test]
    fn a_login_says_where_it_is_from() {
        let login = Login::new(Secret::new("a"), SystemTime::now()).with_origin(issuer().to_origin());
        assert_eq!(Issuer::of(&login), Ok(issuer()));
        assert!(Issuer::of(&Login::new(Secret::new("a"), SystemTime::now())).is_err());
    }
}
