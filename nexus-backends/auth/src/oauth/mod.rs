//! Sign-in by OAuth 2.0: an authorization code with PKCE, or a device code; refresh and revocation of what it gives.
//!
//! | room | holds |
//! | --- | --- |
//! | `issuer`, `endpoint` | an authorization server as data, and which addresses a secret may be sent to |
//! | `code`, `callback`, `redirect`, `page` | the way through a browser, and what it shows at its end |
//! | `registration` | the client that the first sign-in at an issuer registers, and this installation's name |
//! | `discovery`, `id_token` | what an issuer says of itself, and an ID token that it has signed |
//! | `device`, `verifier_device` | the way by another device: RFC 8628, and one that ends in an authorization code |
//! | `issuer_client`, `tokens`, `verdict` | one request to an issuer, and what its answer means |
//! | `exchange`, `refresh`, `revoke` | tokens made into a login, refreshed, and given up |
//! | `claims`, `words` | what tokens and strangers say, for display |
//!
//! Requests, PKCE and state are made by the crate `oauth2`, which is given our own HTTP client.
//!
//! # What is not overwritten
//!
//! Our own copies of tokens, codes and verifiers are overwritten when they are dropped. Out of reach are the copies
//! that libraries make: the strings inside `oauth2` and the form that it writes, the write buffer of `hyper` and the
//! body that `reqwest` holds while it sends, the pieces of an answer as `hyper` hands them on, the plaintext buffers of
//! `rustls`, the strings that `serde_json` and `jsonwebtoken` make while they read, and the request line of the browser
//! in the buffer of the callback's connection. They are freed, and not written over, within the request that they
//! belong to.

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

/// Default wait for a person. Source: our own choice; the vendors' programs wait between 10 and 15 minutes.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// A person who is waited for.
struct OnScreen<'a> {
    /// Screen that shows the steps.
    screen: &'a mut dyn LoginScreen,
    /// Says when a login was obtained.
    clock: &'a dyn Clock,
    /// Longest wait for the person.
    patience: Duration,
}

/// Way of a person's consent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignInMethod {
    /// In a browser on this machine, which brings the answer back by itself.
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
    /// File with the client that the issuer registered, if it registers one.
    registration_file: PathBuf,
    registers_anew: bool,
}

impl OAuthSignIn {
    /// Creates the sign-in at `issuer`, in a browser. `name` names the login, `remedy` is the command for
    /// signing in again. A client that the issuer registers is stored below the home that `context` names.
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

    /// Replaces how a person says yes.
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

    /// Leaves the client out that an earlier sign-in registered: for another account, or another workspace of it.
    #[must_use]
    pub fn with_new_registration(mut self) -> Self {
        self.registers_anew = true;
        self
    }

    /// Replaces how long a person is waited for. Default: 15 minutes.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Replaces the clock that says when a login was obtained.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Returns the issuer.
    pub fn issuer(&self) -> &Issuer {
        &self.issuer
    }

    /// Returns the way of a person's consent.
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
