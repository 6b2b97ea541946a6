//! Description of an authorization server as data: its identity, its endpoints, and its deviations from the standard.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{claims::IdentityClaims, endpoint};
use crate::Login;

/// An authorization server and the OAuth client registered there. It contains no secrets, because the clients are
/// public clients.
///
/// A login stores its issuer, so it is refreshed there even after the configuration changes.
///
/// An endpoint that begins with `/` is relative to [`Issuer::url`]; any other is a whole URL. Each must use `https`, or
/// `http` on a loopback address.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issuer {
    /// Base URL of the issuer.
    pub url: String,
    /// OAuth client id.
    pub client_id: String,
    /// Requested scopes.
    #[serde(default)]
    pub oauth_scopes: Vec<String>,
    /// Consent page for the browser. `None`: the issuer offers no sign-in through a browser.
    #[serde(default)]
    pub authorize_endpoint: Option<String>,
    /// Endpoint that exchanges codes and refresh tokens.
    pub token_endpoint: String,
    /// Address on this machine to which the issuer sends the browser back.
    #[serde(default)]
    pub redirect: Redirect,
    /// Parameters of the authorization request in addition to those of the standard.
    #[serde(default)]
    pub authorize_parameters: BTreeMap<String, String>,
    /// Sign-in on another device.
    #[serde(default)]
    pub device_flow: DeviceFlow,
    /// Revocation of a login.
    #[serde(default)]
    pub revocation: RevocationStyle,
    /// Codes with which the issuer ends a login, in addition to those of RFC 6749 section 5.2 (`invalid_grant`,
    /// `invalid_client`, `unauthorized_client`), which are final at every issuer.
    #[serde(default)]
    pub final_codes: Vec<String>,
    /// Meaning of the issuer's status 401 without a final code.
    #[serde(default)]
    pub plain_unauthorized: PlainUnauthorized,
    /// Claims of the access token that a refresh request repeats, if the token has them.
    #[serde(default)]
    pub refresh_claims: Vec<String>,
    /// Claims that identify a login's owner.
    #[serde(default)]
    pub identity: IdentityClaims,
    /// Resource that the tokens are for (RFC 8707). It is sent with the authorization request, with every code and with
    /// every refresh token.
    #[serde(default)]
    pub resource: Option<String>,
    /// Scopes that a login needs. A sign-in through a browser fails if one of them is not granted.
    #[serde(default)]
    pub required_scopes: Vec<String>,
    /// URL of the discovery document (OpenID Connect Discovery 1.0). If it is set, a sign-in through a browser needs an
    /// ID token that the issuer's keys verify.
    #[serde(default)]
    pub discovery_endpoint: Option<String>,
    /// Client registration by a person's first sign-in through a browser. That sign-in sends [`Issuer::client_id`]; in
    /// the resulting login, `client_id` is the registered client.
    #[serde(default)]
    pub registration: Option<SignInRegistration>,
}

/// Registration of a client by the consent page. The response of the page names a client, which all later requests use.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignInRegistration {
    /// Name of the parameter that identifies this installation: a URN with a UUID, created once.
    pub host_parameter: String,
    /// Name of the parameter with which an unregistered client states its name.
    pub name_parameter: String,
    /// Value of `name_parameter`.
    pub name: String,
}

impl SignInRegistration {
    /// Creates a registration for a client with this name. The page expects the name and the installation under these
    /// parameters.
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

/// Address on this machine to which the browser is sent back.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redirect {
    /// Host as registered: `127.0.0.1` or `localhost`. The callback server always listens on `127.0.0.1`.
    pub host: String,
    /// Registered ports, in the order in which they are tried. 0 means any free port.
    pub ports: Vec<u16>,
    /// Path of the redirect URI.
    pub path: String,
}

/// Sign-in on another device.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceFlow {
    /// The issuer does not offer it.
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
    /// A non-standard flow. Requests are in JSON, and the status 403 or 404 means that the consent is pending. The
    /// final response contains an authorization code and the verifier for its exchange. Source: recorded requests of a
    /// vendor's program, and its public source.
    #[serde(rename = "open_ai")]
    CodeWithVerifier {
        /// Endpoint that issues a code.
        endpoint: String,
        /// Endpoint that is polled for the person's consent.
        poll_endpoint: String,
        /// Page on which the person enters the code.
        page: String,
        /// Value of `redirect_uri` in the exchange of the code.
        redirect: String,
    },
}

/// Revocation of a login at its issuer.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RevocationStyle {
    /// The issuer does not offer it.
    #[default]
    NotOffered,
    /// A form, RFC 7009.
    Form {
        /// Endpoint for revocations.
        endpoint: String,
    },
    /// The fields of RFC 7009, in JSON.
    Json {
        /// Endpoint for revocations.
        endpoint: String,
    },
    /// A form, sent to the endpoint in the discovery document ([`Issuer::discovery_endpoint`]).
    Discovered,
}

/// Meaning of status 401 for a login, if the response has no code that decides it.
///
/// Without a JSON object the status has no meaning for the login: a proxy, a firewall or a network's login page may
/// have sent it.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlainUnauthorized {
    /// The status has no reliable meaning: the login stays.
    #[default]
    Unclear,
    /// A 401 with a JSON object ends the login.
    Final,
}

impl Issuer {
    /// Creates an issuer at `url` that exchanges tokens at `/token`. It offers neither a browser flow, nor a device
    /// flow, nor revocation.
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

    /// Replaces the base URL, and so the location of every relative endpoint.
    #[must_use]
    pub fn with_url(mut self, url: impl Into<String>) -> Self {
        self.url = url.into();
        self
    }

    /// Replaces the OAuth client id.
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

    /// Sets the consent page for the browser.
    #[must_use]
    pub fn with_authorize_endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.authorize_endpoint = Some(endpoint.into());
        self
    }

    /// Sets the endpoint that exchanges codes and refresh tokens.
    #[must_use]
    pub fn with_token_endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.token_endpoint = endpoint.into();
        self
    }

    /// Sets the address on this machine to which the browser is sent back.
    #[must_use]
    pub fn with_redirect(mut self, redirect: Redirect) -> Self {
        self.redirect = redirect;
        self
    }

    /// Adds a parameter to the authorization request.
    #[must_use]
    pub fn with_authorize_parameter(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.authorize_parameters.insert(name.into(), value.into());
        self
    }

    /// Sets the flow for sign-in on another device.
    #[must_use]
    pub fn with_device_flow(mut self, device_flow: DeviceFlow) -> Self {
        self.device_flow = device_flow;
        self
    }

    /// Sets how a login is revoked.
    #[must_use]
    pub fn with_revocation(mut self, revocation: RevocationStyle) -> Self {
        self.revocation = revocation;
        self
    }

    /// Adds codes with which the issuer ends a login.
    #[must_use]
    pub fn with_final_codes(mut self, codes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.final_codes.extend(codes.into_iter().map(Into::into));
        self
    }

    /// Sets the meaning of status 401 without a final code.
    #[must_use]
    pub fn with_plain_unauthorized(mut self, meaning: PlainUnauthorized) -> Self {
        self.plain_unauthorized = meaning;
        self
    }

    /// Sets the claims of the access token that a refresh request repeats.
    #[must_use]
    pub fn with_refresh_claims(mut self, claims: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.refresh_claims = claims.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the claims that identify a login's owner.
    #[must_use]
    pub fn with_identity(mut self, identity: IdentityClaims) -> Self {
        self.identity = identity;
        self
    }

    /// Sets the resource that the tokens are for.
    #[must_use]
    pub fn with_resource(mut self, resource: impl Into<String>) -> Self {
        self.resource = Some(resource.into());
        self
    }

    /// Sets the scopes that a login needs.
    #[must_use]
    pub fn with_required_scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.required_scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the URL of the discovery document.
    #[must_use]
    pub fn with_discovery_endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.discovery_endpoint = Some(endpoint.into());
        self
    }

    /// Sets the registration of a client by a person's first sign-in.
    #[must_use]
    pub fn with_registration(mut self, registration: SignInRegistration) -> Self {
        self.registration = Some(registration);
        self
    }

    /// Returns the issuer in the form that a login stores.
    pub(super) fn to_origin(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(origin)) => origin,
            // Unreachable: an issuer serialises to an object of strings, numbers and maps.
            _ => Map::new(),
        }
    }

    /// Returns the issuer that a login stores.
    pub(super) fn of(login: &Login) -> Result<Self, String> {
        // The error of serde would quote the unexpected input.
        serde_json::from_value(Value::Object(login.origin.clone()))
            .map_err(|_| "the login does not name its issuer".into())
    }

    /// Returns an endpoint as a URL. A URL to which secrets must not be sent is an error.
    pub(super) fn endpoint(&self, endpoint: &str) -> Result<endpoint::Endpoint, String> {
        match endpoint.starts_with('/') {
            true => endpoint::parse(&format!("{}{endpoint}", self.url.trim_end_matches('/'))),
            false => endpoint::parse(endpoint),
        }
    }
}

impl Redirect {
    /// Creates a redirect to these ports of `127.0.0.1`, in the order in which they are tried. 0 means any free port.
    pub fn new(ports: impl IntoIterator<Item = u16>, path: impl Into<String>) -> Self {
        Self { host: "127.0.0.1".into(), ports: ports.into_iter().collect(), path: path.into() }
    }

    /// Sets the host as registered: `127.0.0.1` or `localhost`.
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
