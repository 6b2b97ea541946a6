//! The way through a browser: an authorization code with PKCE (RFC 7636, S256 alone) and a state, brought back to a
//! port of this machine (RFC 8252).
//!
//! The code is good for nobody else: it is exchanged with a verifier that never left this process. The state is
//! checked before anything that a issuer_client says is looked at, so that a stranger can neither end nor steer a sign-in.

use nexus_core::Secret;
use oauth2::{AuthUrl, ClientId, CsrfToken, PkceCodeChallenge, RedirectUrl, Scope};
use reqwest::Url;

use super::{
    OnScreen,
    callback::Port,
    endpoint::Endpoint,
    exchange,
    issuer::Issuer,
    issuer_client::IssuerClient,
    page::Page,
    redirect::{AuthorizationAnswer, RedirectEvent},
    tokens::OAuthClient,
};
use crate::{Login, LoginStep, SignInError};

/// How many random bytes a verifier is made from. Source: recorded requests of a vendor's program;
/// RFC 7636 takes 32 to 96.
const VERIFIER_BYTES: u32 = 64;
/// How many random bytes a state is made from. Source: recorded requests of a vendor's program.
const STATE_BYTES: u32 = 32;
/// Parameters of the page that are made here, and not the configuration's to set.
const RESERVED: [&str; 7] = [
    "response_type",
    "client_id",
    "redirect_uri",
    "scope",
    "state",
    "code_challenge",
    "code_challenge_method",
];

/// Signs a person in through a browser.
pub(super) async fn sign_in(
    issuer: &Issuer,
    issuer_client: &IssuerClient,
    on: OnScreen<'_>,
) -> Result<Login, SignInError> {
    let unsupported = |reason| SignInError::Unsupported { reason };
    let Some(authorize) = &issuer.authorize_endpoint else {
        return Err(unsupported(
            "this issuer has no page for a browser here: sign in with a device code".into(),
        ));
    };
    if let Some(name) = RESERVED.iter().find(|name| issuer.authorize_parameters.contains_key(**name)) {
        return Err(unsupported(format!("the parameter `{name}` of the sign-in page is not one to be set")));
    }
    let authorize = issuer.endpoint(authorize).map_err(unsupported)?;
    // What cannot be exchanged is not asked for.
    issuer.endpoint(&issuer.token_endpoint).map_err(unsupported)?;

    let port = Port::open(&issuer.redirect).await.map_err(|reason| SignInError::NoPort { reason })?;
    for taken in &port.taken {
        on.screen.show(&LoginStep::Note(format!(
            "port {taken} of this machine cannot be opened: another one is used"
        )));
    }
    let returns_to = port.redirect_uri().to_owned();
    let Question { page, state, verifier } =
        Question::new(issuer, authorize, &returns_to).map_err(|reason| SignInError::NoPort { reason })?;
    let mut callback = port.wait_for(state);
    on.screen.show(&LoginStep::OpenPage { url: page.into(), returns_to: returns_to.clone() });

    let answered = async {
        loop {
            match callback.next().await {
                RedirectEvent::Response(arrival) => return arrival,
                RedirectEvent::Stranger => on.screen.show(&LoginStep::Note(
                    "somebody called with an answer to another sign-in; it was refused, and the right one is still \
                     waited for"
                        .into(),
                )),
            }
        }
    };
    let Ok(arrival) = tokio::time::timeout(on.patience, answered).await else {
        return Err(SignInError::TimedOut { after: on.patience });
    };
    let code = match &arrival.answer {
        AuthorizationAnswer::Code(code) => code.clone(),
        AuthorizationAnswer::Declined(reason) => {
            let reason = reason.clone();
            callback.finish(arrival, Page::Declined(reason.clone())).await;
            return Err(SignInError::Declined { reason });
        }
    };
    let asked_at = on.clock.now();
    let exchanged =
        callback.during(exchange::code(issuer_client, issuer, &code, &verifier, &returns_to)).await;
    let (page, login) = match exchanged {
        Ok(granted) => (Page::SignedIn, Ok(exchange::login(granted, issuer, asked_at))),
        Err(error) => (Page::Failed(error.to_string()), Err(SignInError::from(error))),
    };
    callback.finish(arrival, page).await;
    login
}

/// What the issuer is asked, and what proves later that it was we who asked.
struct Question {
    /// The page that the person is sent to.
    page: Url,
    state: Secret,
    verifier: Secret,
}

impl Question {
    fn new(issuer: &Issuer, authorize: Endpoint, redirect_uri: &str) -> Result<Self, String> {
        let redirect_url = RedirectUrl::new(redirect_uri.to_owned()).map_err(|error| error.to_string())?;
        let client = OAuthClient::new(ClientId::new(issuer.client_id.clone()))
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
        let (page, state) = request.url();
        Ok(Self {
            page,
            state: Secret::new(state.into_secret()),
            verifier: Secret::new(verifier.into_secret()),
        })
    }
}
