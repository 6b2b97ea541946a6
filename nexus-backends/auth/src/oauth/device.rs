//! Sign-in on another device: the device authorization grant, RFC 8628.
//!
//! A failed connection during polling is not an answer: polling continues, more slowly, until the code expires.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use oauth2::{
    AsyncHttpClient, ClientId, DeviceAuthorizationUrl, DeviceCodeErrorResponse, HttpRequest, HttpResponse,
    RequestTokenError, Scope, StandardDeviceAuthorizationResponse, TokenUrl, http::StatusCode,
};

use super::{
    OnScreen,
    endpoint::{self, Endpoint},
    error_reply::{self, IssuerError},
    exchange,
    issuer::Issuer,
    issuer_client::{IssuerClient, SuccessOnly, handed_on},
    sanitize,
    tokens::{self, OAuthClient},
};
use crate::{Clock, Login, LoginStep, RefreshError, SignInError};

/// Shortest pause between two polls of any issuer.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause between two polls of any issuer.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Time limit passed to `oauth2`, which measures it with a clock that can be set. The caller enforces the real time
/// limit.
const WITHOUT_END: Duration = Duration::from_secs(24 * 3600);

/// Signs a person in on another device.
pub(super) async fn sign_in(
    issuer: &Issuer,
    endpoint: &str,
    parameters: &BTreeMap<String, String>,
    issuer_client: &IssuerClient,
    on: OnScreen<'_>,
) -> Result<Login, SignInError> {
    let unsupported = |reason| SignInError::Unsupported { reason };
    let endpoint = issuer.endpoint(endpoint).map_err(unsupported)?;
    let token_endpoint = issuer.endpoint(&issuer.token_endpoint).map_err(unsupported)?;
    let client = OAuthClient::new(ClientId::new(issuer.client_id.clone()))
        .set_device_authorization_url(DeviceAuthorizationUrl::from_url(endpoint))
        .set_token_uri(TokenUrl::from_url(token_endpoint));
    let scopes = issuer.oauth_scopes.iter().cloned().map(Scope::new);
    let mut request = client.exchange_device_code().add_scopes(scopes);
    for (name, value) in parameters {
        request = request.add_extra_param(name, value);
    }
    let answer = request.request_async(&SuccessOnly { issuer_client, issuer, sent: &[], broken: None }).await;
    let details: StandardDeviceAuthorizationResponse = answer.map_err(tokens::failure)?;
    let life = details.expires_in().min(on.patience);
    on.screen.show(&step(&details, life)?);

    let asker = Asker::new(issuer_client, issuer, on.clock, details.device_code().secret(), life);
    let asked = async {
        // Also pause before the first poll: a person needs time to enter the code.
        pause(details.interval()).await;
        let request = client.exchange_device_access_token(&details);
        request.request_async(&asker, pause, Some(WITHOUT_END)).await
    };
    match tokio::time::timeout(life, asked).await {
        Ok(Ok(answer)) => Ok(exchange::login(answer.granted()?, issuer, asker.last().asked_at)),
        Ok(Err(error)) => Err(asker.failure(error)),
        Err(_) => Err(asker.too_late()),
    }
}

/// Returns the step to show to the person. The URL must be safe to open in a browser, and the code must be printable.
fn step(details: &StandardDeviceAuthorizationResponse, life: Duration) -> Result<LoginStep, SignInError> {
    let page = |text: &str| endpoint::parse(text).ok().map(|page: Endpoint| page.to_string());
    let url = page(details.verification_uri()).ok_or_else(|| SignInError::Malformed {
        reason: "the page on which the code is entered does not use https".into(),
    })?;
    let complete_url = details.verification_uri_complete().and_then(|complete| page(complete.secret()));
    let user_code = user_code(details.user_code().secret())?;
    Ok(LoginStep::EnterCode { url, complete_url, user_code, expires_in: life })
}

/// Returns the code if a person can read it on a terminal and type it.
pub(super) fn user_code(text: &str) -> Result<String, SignInError> {
    match !text.is_empty() && text.len() <= 64 && sanitize::shown(text, &[]) == text {
        true => Ok(text.to_owned()),
        false => Err(SignInError::Malformed { reason: "the code to enter has invalid characters".into() }),
    }
}

/// Waits between two polls.
pub(super) async fn pause(wanted: Duration) {
    tokio::time::sleep(wanted.clamp(SHORTEST_PAUSE, LONGEST_PAUSE)).await;
}

/// HTTP client that polls for the person's consent. `oauth2` receives a temporary problem as a failed connection and
/// polls again. A final response is stored with its status.
struct Asker<'a> {
    issuer_client: &'a IssuerClient,
    issuer: &'a Issuer,
    clock: &'a dyn Clock,
    /// The device code, which errors must not repeat.
    sent: [&'a str; 1],
    /// Lifetime of the code.
    life: Duration,
    last: Mutex<Last>,
}

/// Result of the last poll.
struct Last {
    asked_at: SystemTime,
    /// Error of the last completed poll; `None` if that poll succeeded. While a poll is running, it is the error of the
    /// poll before.
    failure: Option<SignInError>,
}

impl<'a> Asker<'a> {
    fn new(
        issuer_client: &'a IssuerClient,
        issuer: &'a Issuer,
        clock: &'a dyn Clock,
        device_code: &'a str,
        life: Duration,
    ) -> Self {
        let last = Mutex::new(Last { asked_at: clock.now(), failure: None });
        Self { issuer_client, issuer, clock, sent: [device_code], life, last }
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(&self, request: HttpRequest) -> Result<HttpResponse, RefreshError> {
        // Record the time before the request, because the lifetime of the tokens counts from it.
        self.last().asked_at = self.clock.now();
        let unreachable = |reason: String| {
            self.last().failure = Some(SignInError::Unreachable { reason: reason.clone() });
            Err(RefreshError::Unreachable { reason })
        };
        let reply = self.issuer_client.send(request).await;
        let reply = reply.and_then(|reply| match reply.status.is_success() {
            true => reply.into_object(),
            false => Ok(reply),
        });
        let mut reply = match reply {
            Ok(reply) => reply,
            Err(RefreshError::Unreachable { reason }) => return unreachable(reason),
            Err(other) => {
                self.last().failure = Some(other.into());
                // An empty success ends the polling. `failure` then returns the stored error.
                return Ok(oauth2::http::Response::new(Vec::new()));
            }
        };
        if reply.status.is_success() {
            self.last().failure = None;
            return Ok(handed_on(reply));
        }
        let said = IssuerError::read(&reply.body, self.issuer, &self.sent);
        if said.is("authorization_pending") || said.is("slow_down") {
            self.last().failure = None;
            // With this status `oauth2` reads the code in the body. The issuer may have sent that body with another
            // status.
            reply.status = StatusCode::BAD_REQUEST;
            return Ok(handed_on(reply));
        }
        match error_reply::meaning(reply.status, &said, self.issuer) {
            RefreshError::Unreachable { reason } => unreachable(reason),
            other => {
                self.last().failure = Some(match said.code {
                    // Only here do these two codes answer a poll. Source: RFC 8628 section 3.5.
                    Some(code) if code == "access_denied" => SignInError::Declined { reason: code },
                    Some(code) if code == "expired_token" => SignInError::TimedOut { after: self.life },
                    _ => other.into(),
                });
                Ok(handed_on(reply))
            }
        }
    }

    /// Returns the reason why polling failed.
    fn failure(&self, error: RequestTokenError<RefreshError, DeviceCodeErrorResponse>) -> SignInError {
        self.last().failure.take().unwrap_or_else(|| tokens::failure(error).into())
    }

    /// Returns the error for an expired code: the failure of the last poll, or a timeout.
    fn too_late(&self) -> SignInError {
        self.last().failure.take().unwrap_or(SignInError::TimedOut { after: self.life })
    }
}

impl<'c> AsyncHttpClient<'c> for Asker<'_> {
    type Error = RefreshError;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, RefreshError>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(self.ask(request))
    }
}
