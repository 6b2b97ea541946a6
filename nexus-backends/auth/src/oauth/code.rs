//! Sign-in through a browser: an authorization code with PKCE (RFC 7636, only S256) and a state, returned to a port of
//! this machine (RFC 8252).
//!
//! A stolen code is useless: its exchange needs a verifier that never left this process. The state is checked before
//! any other part of a request, so no other program can end or influence a sign-in.
//!
//! Some issuers register a client during the sign-in; all later requests use that client. At an issuer with a discovery
//! document, a login needs a verified ID token. A login that fails such a check is revoked at the issuer.

use nexus_core::Secret;
use oauth2::{AuthUrl, ClientId, CsrfToken, PkceCodeChallenge, RedirectUrl, Scope};
use reqwest::Url;

use super::{
    OnScreen,
    callback::Port,
    endpoint::Endpoint,
    exchange, id_token,
    issuer::Issuer,
    issuer_client::IssuerClient,
    page::BrowserPage,
    redirect::{AuthorizationAnswer, RedirectEvent},
    registration::Registration,
    revoke,
    tokens::OAuthClient,
};
use crate::{Login, LoginStep, SignInError};

/// Number of random bytes of a verifier. Source: recorded requests of a vendor's program; RFC 7636 allows 32 to 96.
const VERIFIER_BYTES: u32 = 64;
/// Number of random bytes of a state. Source: recorded requests of a vendor's program.
const STATE_BYTES: u32 = 32;
/// Parameters of the authorization request that Nexus sets. The configuration must not set them.
const RESERVED: [&str; 9] = [
    "response_type",
    "client_id",
    "redirect_uri",
    "scope",
    "state",
    "nonce",
    "resource",
    "code_challenge",
    "code_challenge_method",
];

/// Signs a person in through a browser. With a `registration`, the sign-in uses the client that the issuer registers.
pub(super) async fn sign_in(
    issuer: &Issuer,
    issuer_client: &IssuerClient,
    mut registration: Option<Registration<'_>>,
    on: OnScreen<'_>,
) -> Result<Login, SignInError> {
    let unsupported = |reason| SignInError::Unsupported { reason };
    let Some(authorize) = &issuer.authorize_endpoint else {
        return Err(unsupported("this login does not support a browser: sign in with a device code".into()));
    };
    // A configured value would occur in addition to ours, and servers differ in which of two they use.
    if let Some(name) = RESERVED.iter().find(|name| issuer.authorize_parameters.contains_key(**name)) {
        return Err(unsupported(format!("the parameter `{name}` of the sign-in page cannot be set")));
    }
    let authorize = issuer.endpoint(authorize).map_err(unsupported)?;
    // Do not request a code that cannot be exchanged.
    issuer.endpoint(&issuer.token_endpoint).map_err(unsupported)?;

    // The port number is part of the redirect URI, so open the port before the page is shown.
    let port = Port::open(&issuer.redirect).await.map_err(|reason| SignInError::NoPort { reason })?;
    for taken in &port.taken {
        on.screen.show(&LoginStep::Note(format!(
            "port {taken} of this machine cannot be opened; another port is used"
        )));
    }
    let returns_to = port.redirect_uri().to_owned();
    let AuthorizationRequest { page, state, verifier, nonce } =
        AuthorizationRequest::new(issuer, registration.as_ref(), authorize, &returns_to)
            .map_err(|reason| SignInError::NoPort { reason })?;
    // Serve before the page opens, so that a fast redirect finds the server.
    let mut callback = port.wait_for(state);
    on.screen.show(&LoginStep::OpenPage { url: page.into(), returns_to: returns_to.clone() });

    let answered = async {
        loop {
            match callback.next().await {
                RedirectEvent::Response(arrival) => return arrival,
                RedirectEvent::Stranger => on.screen.show(&LoginStep::Note(
                    "an answer to another sign-in arrived and was rejected; still waiting for the answer to \
                     this sign-in"
                        .into(),
                )),
            }
        }
    };
    let Ok(arrival) = tokio::time::timeout(on.patience, answered).await else {
        return Err(SignInError::TimedOut { after: on.patience });
    };
    let (code, named) = match &arrival.answer {
        AuthorizationAnswer::Code { code, client_id } => (code.clone(), client_id.clone()),
        AuthorizationAnswer::Declined(reason) => {
            let reason = reason.clone();
            callback.finish(arrival, BrowserPage::Declined(reason.clone())).await;
            return Err(SignInError::Declined { reason });
        }
    };
    let settled = async {
        let mut issuer = issuer.clone();
        if let Some(registration) = &mut registration {
            registration.take(named.as_deref()).await?;
            issuer.client_id = registration.client_id().to_owned();
        }
        let asked_at = on.clock.now();
        let granted = exchange::code(issuer_client, &issuer, &code, &verifier, &returns_to).await?;
        let (id_token, scope) = (granted.id_token.clone(), granted.scope.clone());
        let login = exchange::login(granted, &issuer, asked_at);
        let believed = async {
            let subject = match &issuer.discovery_endpoint {
                Some(_) => {
                    id_token::verify(issuer_client, &issuer, id_token.as_ref(), &nonce, asked_at).await?
                }
                None => String::new(),
            };
            let missing = missing_scope(&issuer, scope.as_deref());
            if let Some(registration) = &mut registration {
                registration.conclude(&subject, missing.is_some()).await?;
            }
            match missing {
                Some(scope) => Err(not_granted(scope)),
                None => Ok(()),
            }
        };
        if let Err(error) = believed.await {
            // The login is discarded here, so revoke it at the issuer. The sign-in has failed already; a failed
            // revocation changes nothing.
            let _ = revoke::revoke(issuer_client, &login).await;
            return Err(error);
        }
        Ok(login)
    };
    let settled = callback.during(settled).await;
    let page = match &settled {
        Ok(_) => BrowserPage::SignedIn,
        Err(error) => BrowserPage::Failed(error.to_string()),
    };
    callback.finish(arrival, page).await;
    settled
}

/// Returns the first required scope that was not granted. A response without a scope list granted none.
fn missing_scope<'i>(issuer: &'i Issuer, granted: Option<&str>) -> Option<&'i str> {
    let is_granted =
        |scope: &&String| granted.unwrap_or_default().split(' ').any(|granted| granted == *scope);
    issuer.required_scopes.iter().find(|scope| !is_granted(scope)).map(String::as_str)
}

fn not_granted(scope: &str) -> SignInError {
    let reason = format!(
        "the permission `{scope}` was not granted, but every turn needs it: log in again, \
        and grant it"
    );
    SignInError::Declined { reason }
}

/// Authorization request, and the secrets that tie the response to it.
struct AuthorizationRequest {
    /// URL of the consent page.
    page: Url,
    state: Secret,
    verifier: Secret,
    /// Value that the ID token must repeat.
    nonce: Secret,
}

impl AuthorizationRequest {
    fn new(
        issuer: &Issuer,
        registration: Option<&Registration<'_>>,
        authorize: Endpoint,
        redirect_uri: &str,
    ) -> Result<Self, String> {
        let redirect_url = RedirectUrl::new(redirect_uri.to_owned()).map_err(|error| error.to_string())?;
        let client_id = registration.map_or(issuer.client_id.as_str(), Registration::client_id);
        let client = OAuthClient::new(ClientId::new(client_id.to_owned()))
            .set_auth_uri(AuthUrl::from_url(authorize))
            .set_redirect_uri(redirect_url);
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256_len(VERIFIER_BYTES);
        let mut request = client
            .authorize_url(|| CsrfToken::new_random_len(STATE_BYTES))
            .add_scopes(issuer.oauth_scopes.iter().cloned().map(Scope::new))
            .set_pkce_challenge(challenge);
        for (name, value) in &issuer.authorize_parameters {
            request = request.add_extra_param(name, value);
        }
        for (name, value) in registration.map(Registration::parameters).unwrap_or_default() {
            request = request.add_extra_param(name.to_owned(), value.to_owned());
        }
        if let Some(resource) = &issuer.resource {
            request = request.add_extra_param("resource", resource);
        }
        let nonce = CsrfToken::new_random_len(STATE_BYTES).into_secret();
        if issuer.discovery_endpoint.is_some() {
            request = request.add_extra_param("nonce", nonce.clone());
        }
        let (page, state) = request.url();
        Ok(Self {
            page,
            state: Secret::new(state.into_secret()),
            verifier: Secret::new(verifier.into_secret()),
            nonce: Secret::new(nonce),
        })
    }
}
