//! The HTTP server of webhooks.

use std::{
    future::Future,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, UNIX_EPOCH},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::BytesMut;
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Incoming,
    header::{CONNECTION, HeaderValue, RETRY_AFTER},
    http::request::Parts,
};
use nexus_http::{
    BodyError, BoundedServer, HttpConnection, RequestHandler, ServerLimits,
    head::{only, stated_length},
    listen, read_body,
    response::{ResponseBody, text},
};
use serde_json::{Value, json};

use super::{
    super::{
        document::{Trigger, TriggerId},
        firing::named,
        schedule::{TriggerSchedule, WebhookSchedule},
        triggers::Triggers,
    },
    rate::{RateLimit, TriggerRates},
    secret::WebhookSecrets,
    signature::WebhookKey,
};
use crate::error::BrokerErrorKind;

/// Prefix of the path of a webhook.
const PATH: &str = "/hooks/";
/// Longest time to send the last answers after `ended` has completed.
const LAST_ANSWERS: Duration = Duration::from_secs(1);
/// Maximum size of the head of a request, in bytes. Source: the smallest limit that hyper accepts.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// Longest `webhook-id`, in bytes.
const MAX_ID_BYTES: usize = 256;

/// Address and limits of a server of webhooks.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct WebhookSettings {
    /// Address on which it listens. A free port of 127.0.0.1 by default. It does not speak TLS: beyond this
    /// machine, put it behind a proxy that does.
    pub address: SocketAddr,
    /// Largest body, in bytes. 64 KiB by default.
    pub max_body_bytes: usize,
    /// Longest time for the head of a request, and also for its body. Ten seconds by default.
    pub read_within: Duration,
    /// Maximum difference between the time of a request and the broker's clock. Five minutes by default. The store must know
    /// ids for longer.
    pub max_time_difference: Duration,
    /// Maximum number of connections. A further connection ends the oldest one. 64 by default.
    pub max_connections: usize,
    /// Maximum number of requests per second that are read, from all senders together. 100 by default.
    pub max_per_second: u32,
}

impl Default for WebhookSettings {
    fn default() -> Self {
        Self {
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            max_body_bytes: 64 << 10,
            read_within: Duration::from_secs(10),
            max_time_difference: Duration::from_secs(5 * 60),
            max_connections: 64,
            max_per_second: 100,
        }
    }
}

/// A server that fires triggers of type `webhook`.
///
/// A request is `POST /hooks/TRIGGER`, signed as [Standard Webhooks](https://www.standardwebhooks.com) specifies:
///
/// | header | content |
/// | --- | --- |
/// | `webhook-id` | id of the event, 1 to 256 visible characters. A request that is sent again with the same id fires once |
/// | `webhook-timestamp` | time of sending, in seconds since 1970: at most five minutes from the broker's clock |
/// | `webhook-signature` | `v1,` and the base64 of the HMAC-SHA256 of `ID.TIMESTAMP.BODY`. Several are separated by spaces; one has to be right |
///
/// The secret is `whsec_` and the base64 of 24 to 64 random bytes. Each trigger has its own. It is in an owner-only file of
/// the broker's folder of secrets, or in an environment variable of the broker: see [`WebhookSecrets`] for the reasons.
///
/// The body is the trigger's `data`: as JSON if it is JSON, else as text, else `{ "base64": … }`. It is data, never an
/// instruction.
///
/// | answer | meaning |
/// | --- | --- |
/// | 202 | the message is in its queue, now or since an earlier request of this id |
/// | 401 | a header is missing or wrong, the time is off, or no signature is right. The answer does not say which |
/// | 404 | no webhook exists here: another path, another method, or a trigger that is switched off or has no secret |
/// | 408 | the body did not arrive in time |
/// | 413 | the body, or the message with it, is too large |
/// | 429 | too many requests, too many for this trigger, or its target's queue is full. `Retry-After` has the time of the next attempt |
/// | 503 | the store cannot be reached; it is safe to repeat the request |
pub struct WebhookServer {
    server: BoundedServer<WebhookHandler>,
    address: SocketAddr,
}

impl std::fmt::Debug for WebhookServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebhookServer").field("address", &self.address).finish_non_exhaustive()
    }
}

impl WebhookServer {
    /// Binds the address. The server answers nothing before [`WebhookServer::serve`].
    ///
    /// # Errors
    ///
    /// The server cannot listen on the address.
    pub async fn bind(
        triggers: Triggers,
        secrets: WebhookSecrets,
        settings: WebhookSettings,
    ) -> io::Result<Self> {
        let listener = listen(settings.address)?;
        let address = listener.local_addr()?;
        let (connections, within) = (settings.max_connections, settings.read_within);
        // A sender that does not read its answer occupies a connection no longer than a sender that does not
        // send.
        let limits =
            ServerLimits::one_request(connections, within, within * 3).with_max_head_bytes(MAX_HEAD_BYTES);
        let handler = WebhookHandler {
            triggers,
            secrets,
            requests: Mutex::new(RateLimit::new(settings.max_per_second)),
            rates: TriggerRates::default(),
            settings,
        };
        Ok(Self { server: BoundedServer::new(listener, handler, limits), address })
    }

    /// Returns the address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of a trigger, on this machine.
    pub fn url(&self, id: &TriggerId) -> String {
        format!("http://{}{PATH}{id}", self.address)
    }

    /// Serves requests until `ended` completes.
    pub async fn serve(mut self, ended: impl Future<Output = ()>) {
        self.server.during(ended).await;
        self.server.finish(LAST_ANSWERS).await;
    }
}

/// Reason why a request fires nothing. It reveals nothing about the trigger that a stranger could use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WebhookRejection {
    NotFound,
    Unauthenticated,
    TooSlow,
    TooLarge,
    /// Too many requests, or too many waiting messages. The time until the next attempt.
    Busy(Duration),
    Unavailable,
}

impl WebhookRejection {
    fn answer(self) -> Response<ResponseBody> {
        let (status, words) = match self {
            Self::NotFound => (StatusCode::NOT_FOUND, "there is nothing here\n"),
            Self::Unauthenticated => (
                StatusCode::UNAUTHORIZED,
                "the signature of the request is missing or \
                wrong\n",
            ),
            Self::TooSlow => (StatusCode::REQUEST_TIMEOUT, "the body was incomplete or too late\n"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "the body is too large\n"),
            Self::Busy(_) => (StatusCode::TOO_MANY_REQUESTS, "too many requests: try again later\n"),
            Self::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "try again later\n"),
        };
        let mut answer = text(status, words);
        let headers = answer.headers_mut();
        if let Self::Busy(wait) = self {
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        // The rest of the request is not read, so the connection cannot be used again.
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        answer
    }
}

/// Answers the requests of all connections.
struct WebhookHandler {
    triggers: Triggers,
    secrets: WebhookSecrets,
    settings: WebhookSettings,
    requests: Mutex<RateLimit>,
    rates: TriggerRates,
}

/// The signed headers of a request.
struct SignedHead<'h> {
    id: &'h str,
    timestamp: i64,
    signatures: &'h str,
}

impl WebhookHandler {
    async fn take(&self, request: Request<Incoming>) -> Result<(), WebhookRejection> {
        let taken = {
            let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
            requests.take(self.settings.max_per_second, Duration::from_secs(1))
        };
        taken.map_err(WebhookRejection::Busy)?;
        let (head, body) = request.into_parts();
        let (trigger, schedule) = self.trigger(&head).await?;
        let signed = self.signed_head(&head.headers).ok_or(WebhookRejection::Unauthenticated)?;
        let key = self.key(&trigger, &schedule).await?;
        let stated = stated_length(&head.headers);
        if stated.is_some_and(|length| length > self.settings.max_body_bytes as u64) {
            return Err(WebhookRejection::TooLarge);
        }
        let body = self.read(body).await?;
        if !key.verifies(signed.signatures, signed.id, signed.timestamp, &body) {
            return Err(WebhookRejection::Unauthenticated);
        }
        self.rates.take(&trigger.id, schedule.max_per_minute).map_err(WebhookRejection::Busy)?;
        let fired = self.triggers.fire(&trigger, &named(signed.id), data(&body)).await;
        fired.map(drop).map_err(|error| {
            tracing::warn!(trigger = %trigger.id, %error, "a webhook did not fire");
            match error.kind {
                BrokerErrorKind::QueueFull => WebhookRejection::Busy(Duration::from_secs(60)),
                BrokerErrorKind::Invalid => WebhookRejection::TooLarge,
                _ => WebhookRejection::Unavailable,
            }
        })
    }

    /// Returns the trigger that a request addresses.
    async fn trigger(&self, head: &Parts) -> Result<(Trigger, WebhookSchedule), WebhookRejection> {
        let id = head.uri.path().strip_prefix(PATH).and_then(|id| id.parse::<TriggerId>().ok());
        let Some(id) = id.filter(|_| head.method == Method::POST && head.uri.query().is_none()) else {
            return Err(WebhookRejection::NotFound);
        };
        let trigger = match self.triggers.find(&id).await {
            Ok(trigger) => trigger.filter(|trigger| trigger.enabled),
            Err(error) if error.kind == BrokerErrorKind::Damaged => None,
            Err(error) => {
                tracing::warn!(trigger = %id, %error, "the trigger of a webhook cannot be read");
                return Err(WebhookRejection::Unavailable);
            }
        };
        let trigger = trigger.ok_or(WebhookRejection::NotFound)?;
        match trigger.schedule.clone() {
            TriggerSchedule::Webhook(schedule) => Ok((trigger, schedule)),
            _ => Err(WebhookRejection::NotFound),
        }
    }

    async fn key(
        &self,
        trigger: &Trigger,
        schedule: &WebhookSchedule,
    ) -> Result<WebhookKey, WebhookRejection> {
        let (secrets, id, schedule) = (self.secrets.clone(), trigger.id.clone(), schedule.clone());
        let key = tokio::task::spawn_blocking(move || secrets.key(&id, &schedule)).await;
        match key {
            Ok(Ok(key)) => Ok(key),
            Ok(Err(error)) => {
                tracing::warn!(trigger = %trigger.id, %error, "a webhook cannot accept a request");
                Err(WebhookRejection::NotFound)
            }
            Err(_) => Err(WebhookRejection::Unavailable),
        }
    }

    /// Returns the signed headers, if each is present once and the time is near the broker's.
    fn signed_head<'h>(&self, headers: &'h HeaderMap) -> Option<SignedHead<'h>> {
        let id = only(headers, "webhook-id")?;
        let timestamp = only(headers, "webhook-timestamp")?.parse().ok()?;
        let signatures = only(headers, "webhook-signature")?;
        if id.is_empty() || id.len() > MAX_ID_BYTES || id.bytes().any(|byte| !byte.is_ascii_graphic()) {
            return None;
        }
        let now = self.triggers.now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let difference = i64::try_from(now).ok()?.abs_diff(timestamp);
        (difference <= self.settings.max_time_difference.as_secs()).then_some(SignedHead {
            id,
            timestamp,
            signatures,
        })
    }

    /// Reads a body within its size limit and time limit.
    async fn read(&self, body: Incoming) -> Result<BytesMut, WebhookRejection> {
        let read = read_body(body, self.settings.max_body_bytes, None);
        match tokio::time::timeout(self.settings.read_within, read).await {
            Ok(Ok(body)) => Ok(body),
            Ok(Err(BodyError::TooLarge)) => Err(WebhookRejection::TooLarge),
            Ok(Err(BodyError::Incomplete)) | Err(_) => Err(WebhookRejection::TooSlow),
        }
    }
}

impl RequestHandler for WebhookHandler {
    async fn respond(&self, request: Request<Incoming>, _: &Arc<HttpConnection>) -> Response<ResponseBody> {
        match self.take(request).await {
            Ok(()) => text(StatusCode::ACCEPTED, "accepted\n"),
            Err(rejection) => {
                tracing::debug!(?rejection, "a request to a webhook was rejected");
                rejection.answer()
            }
        }
    }
}

/// Returns the body as the trigger's data. None for an empty body.
fn data(body: &[u8]) -> Option<Value> {
    if body.is_empty() {
        return None;
    }
    Some(match (serde_json::from_slice(body), std::str::from_utf8(body)) {
        (Ok(value), _) => value,
        (Err(_), Ok(text)) => text.into(),
        (Err(_), Err(_)) => json!({ "base64": STANDARD.encode(body) }),
    })
}
