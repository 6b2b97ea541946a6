//! Sign-in with OAuth 2.0: an authorization code with PKCE, or a device code; refresh and revocation of the tokens.
//!
//! | module | contents |
//! | --- | --- |
//! | `issuer`, `endpoint` | an authorization server as data, and the addresses to which a secret may be sent |
//! | `code`, `callback`, `redirect`, `page` | the flow through a browser, and the page at its end |
//! | `registration` | the client that the first sign-in at an issuer registers, and this installation's name |
//! | `discovery`, `id_token` | the discovery document of an issuer, and verification of its ID tokens |
//! | `device`, `verifier_device` | the flow on another device: RFC 8628, and a flow that ends in an authorization code |
//! | `issuer_client`, `tokens`, `error_reply` | one request to an issuer, and the meaning of its response |
//! | `exchange`, `refresh`, `revoke` | conversion of tokens into a login, its refresh and its revocation |
//! | `claims`, `sanitize` | text of tokens and issuers, cleaned for display |
//!
//! The crate `oauth2` creates requests, PKCE values and states. It sends them through our own HTTP client.
//!
//! # Secrets that are not overwritten
//!
//! Our own copies of tokens, codes and verifiers are overwritten when they are dropped. Libraries make copies that
//! cannot be overwritten from here:
//!
//! - the strings inside `oauth2` and the form that it writes
//! - the write buffer of `hyper`, and the body that `reqwest` keeps while it sends
//! - the chunks of a response that `hyper` passes on, and the plaintext buffers of `rustls`
//! - the strings that `serde_json` and `jsonwebtoken` create while they parse
//! - the browser's request line in the buffer of the callback's connection
//!
//! These copies are freed within their request, but not overwritten.

mod callback;
mod claims;
mod code;
mod device;
mod discovery;
mod endpoint;
mod error_reply;
mod exchange;
mod id_token;
mod issuer;
mod issuer_client;
mod page;
mod redirect;
mod refresh;
mod registration;
mod revoke;
mod sanitize;
mod tokens;
mod verifier_device;

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use nexus_core::{BuildContext, SettingsError};

pub use self::claims::{ClaimPath, IdentityClaims};
pub use self::issuer::{
    DeviceFlow, Issuer, PlainUnauthorized, Redirect, RevocationStyle, SignInRegistration,
};
use self::issuer_client::IssuerClient;
use self::registration::Registration;
use super::{Clock, Login, LoginScreen, RefreshError, Revocation, SignIn, SignInError, SystemClock};
use crate::http::Network;

/// Default time limit for the person. Source: our own choice; the vendors' programs wait between 10 and 15 minutes.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// Interaction with the person who signs in.
struct OnScreen<'a> {
    /// Screen that shows the steps.
    screen: &'a mut dyn LoginScreen,
    /// Clock for the time at which a login was obtained.
    clock: &'a dyn Clock,
    /// Longest wait for the person.
    patience: Duration,
}

/// Method by which a person gives consent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignInMethod {
    /// In a browser on this machine, which returns the response to the callback server.
    Browser,
    /// On any device, by entering a code.
    DeviceCode,
}

/// Sign-in at one issuer. Renewal and revocation go to the issuer that the login itself names.
///
/// Another vendor is another [`Issuer`], and no code:
///
/// ```
/// use nexus_auth::{
///     IdentityClaims, Issuer, OAuthSignIn, Redirect, RevocationStyle, SignInMethod,
///     http::Network,
/// };
/// use nexus_core::BuildContext;
///
/// let issuer = Issuer::new("https://login.example.com", "our-client")
///     .with_oauth_scopes(["openid", "offline_access"])
///     .with_authorize_endpoint("/authorize")
///     .with_token_endpoint("/token")
///     .with_redirect(Redirect::new([8910, 8911], "/callback"))
///     .with_revocation(RevocationStyle::Form { endpoint: "/revoke".into() })
///     .with_identity(IdentityClaims::default().with_account(["sub"]).with_email(["email"]));
/// let sign_in = OAuthSignIn::new(
///     "example",
///     "run `our-program login`",
///     issuer,
///     &BuildContext::from_process(),
///     &Network::default(),
/// )?
/// .with_method(SignInMethod::Browser);
/// # Ok::<(), nexus_core::SettingsError>(())
/// ```
pub struct OAuthSignIn {
    name: String,
    remedy: String,
    issuer: Issuer,
    method: SignInMethod,
    patience: Duration,
    clock: Arc<dyn Clock>,
    issuer_client: IssuerClient,
    /// File of the registered client, if the issuer registers clients.
    registration_file: PathBuf,
    registers_anew: bool,
}

impl OAuthSignIn {
    /// Creates the sign-in at `issuer`, through a browser. `name` is the name of the login, and `remedy` the command
    /// for signing in again. A client that the issuer registers is stored below the home that `context` names.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] for a fault in `network`.
    pub fn new(
        name: impl Into<String>,
        remedy: impl Into<String>,
        issuer: Issuer,
        context: &BuildContext,
        network: &Network,
    ) -> Result<Self, SettingsError> {
        let name = name.into();
        Ok(Self {
            registration_file: context.home.join("auth").join(format!("{name}.registration.json")),
            registers_anew: false,
            name,
            remedy: remedy.into(),
            issuer,
            method: SignInMethod::Browser,
            patience: PATIENCE,
            clock: Arc::new(SystemClock),
            issuer_client: IssuerClient::new(context, network)?,
        })
    }

    /// Sets the method by which a person gives consent.
    #[must_use]
    pub fn with_method(mut self, method: SignInMethod) -> Self {
        self.method = method;
        self
    }

    /// Replaces the issuer.
    #[must_use]
    pub fn with_issuer(mut self, issuer: Issuer) -> Self {
        self.issuer = issuer;
        self
    }

    /// Ignores the client that an earlier sign-in registered, for a login with another account or another workspace.
    #[must_use]
    pub fn with_new_registration(mut self) -> Self {
        self.registers_anew = true;
        self
    }

    /// Sets the longest wait for the person. Default: 15 minutes.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Replaces the clock for the time at which a login was obtained.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Returns the issuer.
    pub fn issuer(&self) -> &Issuer {
        &self.issuer
    }

    /// Returns the method by which a person gives consent.
    pub fn method(&self) -> SignInMethod {
        self.method
    }
}

#[async_trait]
impl SignIn for OAuthSignIn {
    fn name(&self) -> &str {
        &self.name
    }

    fn remedy(&self) -> String {
        self.remedy.clone()
    }

    async fn sign_in(&self, screen: &mut dyn LoginScreen) -> Result<Login, SignInError> {
        let on = OnScreen { screen, clock: &*self.clock, patience: self.patience };
        match self.method {
            SignInMethod::Browser => {
                // The consent page registers a client, so a sign-in by device code has no registration.
                let registration = match &self.issuer.registration {
                    Some(style) => {
                        let (file, anew) = (&self.registration_file, self.registers_anew);
                        Some(Registration::open(file, &self.issuer, style, anew).await?)
                    }
                    None => None,
                };
                code::sign_in(&self.issuer, &self.issuer_client, registration, on).await
            }
            SignInMethod::DeviceCode => match &self.issuer.device_flow {
                DeviceFlow::Standard { endpoint, parameters } => {
                    device::sign_in(&self.issuer, endpoint, parameters, &self.issuer_client, on).await
                }
                DeviceFlow::CodeWithVerifier { endpoint, poll_endpoint, page, redirect } => {
                    let places =
                        verifier_device::VerifierDeviceEndpoints { endpoint, poll_endpoint, page, redirect };
                    verifier_device::sign_in(&self.issuer, places, &self.issuer_client, on).await
                }
                DeviceFlow::NotOffered => Err(SignInError::Unsupported {
                    reason: "this login does not support a device code: sign in with a browser".into(),
                }),
            },
        }
    }

    async fn refresh(&self, login: &Login) -> Result<Login, RefreshError> {
        refresh::refresh(&self.issuer_client, login, self.clock.now(), &self.remedy).await
    }

    async fn revoke(&self, login: &Login) -> Result<Revocation, RefreshError> {
        revoke::revoke(&self.issuer_client, login).await
    }
}

impl fmt::Debug for OAuthSignIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthSignIn")
            .field("name", &self.name)
            .field("issuer", &self.issuer.url)
            .field("method", &self.method)
            .finish_non_exhaustive()
    }
}
