//! A device flow other than RFC 8628. The final response contains an authorization code and the verifier for its
//! exchange. Source: recorded requests of a vendor's program, and its public source.

use std::time::Duration;

use nexus_core::Secret;
use oauth2::{
    HttpRequest,
    http::{
        Method, Request,
        header::{ACCEPT, CONTENT_TYPE},
    },
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::{
    OnScreen,
    device::{pause, user_code},
    endpoint::Endpoint,
    exchange,
    issuer::Issuer,
    issuer_client::{IssuerClient, IssuerReply},
};
use crate::{Login, LoginStep, RefreshError, SignInError};

/// Lifetime of a code. Source: the public source of a vendor's program.
const LIFE: Duration = Duration::from_secs(15 * 60);
/// Default pause between two polls. Source: RFC 8628 section 3.2.
const INTERVAL: Duration = Duration::from_secs(5);

/// Endpoints of the flow.
pub(super) struct VerifierDeviceEndpoints<'a> {
    pub(super) endpoint: &'a str,
    pub(super) poll_endpoint: &'a str,
    pub(super) page: &'a str,
    pub(super) redirect: &'a str,
}

/// The code for the person, and the id for polling.
#[derive(Deserialize)]
struct Started {
    device_auth_id: String,
    #[serde(alias = "usercode")]
    user_code: String,
    /// Pause between two polls in seconds, as text or as a number.
    #[serde(default)]
    interval: Value,
}

/// Response after the person's consent. Ignores the PKCE challenge, which adds nothing to these fields.
#[derive(Deserialize)]
struct Approved {
    authorization_code: String,
    code_verifier: String,
}

/// Signs a person in on another device.
pub(super) async fn sign_in(
    issuer: &Issuer,
    places: VerifierDeviceEndpoints<'_>,
    issuer_client: &IssuerClient,
    on: OnScreen<'_>,
) -> Result<Login, SignInError> {
    let at = |place| issuer.endpoint(place).map_err(|reason| SignInError::Unsupported { reason });
    let (start, poll) = (at(places.endpoint)?, at(places.poll_endpoint)?);
    let (page, redirect) = (at(places.page)?, at(places.redirect)?);
    // Do not request a code that cannot be exchanged.
    at(&issuer.token_endpoint)?;

    let reply = issuer_client.send(post(&start, &json!({ "client_id": issuer.client_id }))?).await?;
    let started: Started = read(&success(reply, issuer, &[])?)?;
    let device_auth_id = Secret::new(started.device_auth_id);
    let shown_code = user_code(&started.user_code)?;
    let life = LIFE.min(on.patience);
    on.screen.show(&LoginStep::EnterCode {
        url: page.into(),
        complete_url: None,
        user_code: shown_code.clone(),
        expires_in: life,
    });

    let question = json!({ "device_auth_id": device_auth_id.expose(), "user_code": shown_code });
    let until = PollSchedule { pause: interval(&started.interval), life };
    let approved = asked(issuer_client, issuer, &poll, &question, until, device_auth_id.expose()).await?;
    let code = Secret::new(approved.authorization_code);
    let verifier = Secret::new(approved.code_verifier);
    let asked_at = on.clock.now();
    let granted = exchange::code(issuer_client, issuer, &code, &verifier, redirect.as_str()).await?;
    Ok(exchange::login(granted, issuer, asked_at))
}

/// Pause between two polls, and the total time limit.
struct PollSchedule {
    pause: Duration,
    life: Duration,
}

/// Polls until the person consents or the code expires.
async fn asked(
    issuer_client: &IssuerClient,
    issuer: &Issuer,
    endpoint: &Endpoint,
    question: &Value,
    until: PollSchedule,
    sent: &str,
) -> Result<Approved, SignInError> {
    let deadline = Instant::now() + until.life;
    let mut failure: Option<RefreshError> = None;
    loop {
        let turn = async {
            pause(until.pause).await;
            issuer_client.send(post(endpoint, question)?).await
        };
        let reply = match tokio::time::timeout_at(deadline, turn).await {
            Ok(reply) => reply,
            Err(_) => {
                return Err(failure.map_or(SignInError::TimedOut { after: until.life }, SignInError::from));
            }
        };
        failure = match reply.and_then(|reply| {
            // The status 403 or 404 means that the consent is pending. A firewall's page may have the same status; then
            // polling ends with the time limit.
            match matches!(reply.status.as_u16(), 403 | 404) && !reply.refuses_place() {
                true => Ok(None),
                false => success(reply, issuer, &[sent]).map(Some),
            }
        }) {
            Ok(None) => None,
            Ok(Some(body)) => return Ok(read(&body)?),
            Err(error @ RefreshError::Unreachable { .. }) => Some(error),
            Err(error) => return Err(error.into()),
        };
    }
}

/// Parses the polling interval, which is a number or text.
fn interval(value: &Value) -> Duration {
    let seconds = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok());
    seconds.map_or(INTERVAL, Duration::from_secs)
}

fn post(endpoint: &Endpoint, body: &Value) -> Result<HttpRequest, RefreshError> {
    Request::builder()
        .method(Method::POST)
        .uri(endpoint.as_str())
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json")
        .body(body.to_string().into_bytes())
        .map_err(|_| RefreshError::Unreachable { reason: "the address of its endpoint is not valid".into() })
}

/// Returns the body of a successful response.
fn success(reply: IssuerReply, issuer: &Issuer, sent: &[&str]) -> Result<Zeroizing<Vec<u8>>, RefreshError> {
    match reply.status.is_success() {
        true => Ok(reply.into_object()?.body),
        false => Err(reply.error(issuer, sent)),
    }
}

fn read<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Result<T, RefreshError> {
    // The error of serde would quote the unexpected input.
    serde_json::from_slice(body).map_err(|_| RefreshError::Malformed {
        reason: "it is not the JSON object that describes a device code".into(),
    })
}
