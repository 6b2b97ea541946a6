//! The HTTP seam: one request out, and what kind of answer came in.
//!
//! A client is shared by all turns of a backend and keeps its connections. Limits on how long an answer may take
//! are left to the caller, who drops the future; bounded here are the time to connect, and how much is
//! read of a body that is not a stream. What an error means is left to [`outcome`](super::outcome).

mod answer;
mod base_url;
mod body;
mod error;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    sync::OnceLock,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::{
    Method, Request, Response, StatusCode,
    header::{
        ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, DATE, HeaderMap, HeaderValue,
        PROXY_AUTHORIZATION,
    },
};
use nexus_core::{BuildContext, ServerAddress, SettingsError};

pub(crate) use self::answer::ServerAnswer;
use self::base_url::BaseUrl;
pub(crate) use self::body::Body;
pub(crate) use self::error::TransportError;
use super::settings::NativeSettings;
use crate::http::{ClientPlan, HttpError, HttpProblem, IncomingBody, ServerClient};
use crate::server_address::server_address;

/// Largest answer to [`Transport::get`], in bytes.
const MAX_FETCHED_BYTES: usize = 8 << 20;

/// The way to one server. `Debug` shows where it leads and nothing that could be a secret.
pub(crate) struct Transport {
    base_url: BaseUrl,
    plan: ClientPlan,
    /// Made at the first request: it reads the certificates of the platform.
    client: OnceLock<ServerClient>,
    /// Headers that the configuration adds to every request.
    headers: HeaderMap,
    max_answer_bytes: usize,
}

/// The whole answer to a small request.
#[derive(Debug)]
pub(crate) struct Fetched {
    /// The status.
    pub(crate) status: StatusCode,
    /// The headers.
    pub(crate) headers: HeaderMap,
    /// The body.
    pub(crate) body: Bytes,
}

impl Transport {
    /// The way to the server that the settings name. Nothing is connected yet.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] for `base_url` and what stands under `network`.
    pub(crate) fn new(settings: &NativeSettings, context: &BuildContext) -> Result<Self, SettingsError> {
        let base_url = BaseUrl::parse(settings.base_url.as_deref())?;
        let connect_timeout = Duration::from_secs(settings.connect_timeout_seconds);
        let plan = ClientPlan::new(&settings.network, context, connect_timeout)?;
        Ok(Self {
            base_url,
            plan,
            client: OnceLock::new(),
            headers: settings.extra_headers()?,
            max_answer_bytes: settings.max_event_bytes,
        })
    }

    /// Asks for a model's answer: `POST {base_url}/responses`. It returns as soon as it is known what kind of
    /// answer comes.
    pub(crate) async fn post(&self, headers: HeaderMap, body: Bytes) -> Result<ServerAnswer, TransportError> {
        let mut headers = self.guarded(headers);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let response = self.sent(Method::POST, "/responses", headers, body).await?;
        ServerAnswer::of(response, self.max_answer_bytes).await
    }

    /// Asks for something small, such as a catalogue: `GET {base_url}{path_and_query}`.
    pub(crate) async fn get(
        &self,
        path_and_query: &str,
        headers: HeaderMap,
    ) -> Result<Fetched, TransportError> {
        let mut headers = self.guarded(headers);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let response = self.sent(Method::GET, path_and_query, headers, Bytes::new()).await?;
        let (status, headers, body) = body::split(response);
        let body = body::whole(body, MAX_FETCHED_BYTES).await?;
        Ok(Fetched { status, headers, body })
    }

    /// Asks the base URL for any answer within `patience`: a request without a credential and without the
    /// headers of the configuration, whose answer counts with any status. Returns the answer's `Date`.
    pub(crate) async fn reach(&self, patience: Duration) -> Result<Option<SystemTime>, TransportError> {
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("*/*"))]);
        let sent = self.sent(Method::HEAD, "", headers, Bytes::new());
        let too_slow = |elapsed| HttpError::new(HttpProblem::LostBeforeAnswer, elapsed);
        let response = tokio::time::timeout(patience, sent).await.map_err(too_slow)??;
        let date = response.headers().get(DATE).and_then(|date| date.to_str().ok());
        Ok(date.and_then(|date| httpdate::parse_http_date(date).ok()))
    }

    /// The server, by its name.
    pub(crate) fn server(&self) -> Option<ServerAddress> {
        server_address(&self.base_url.uri().to_string())
    }

    /// Its target, for messages.
    pub(crate) fn place(&self) -> &impl fmt::Debug {
        &self.base_url
    }

    /// Sends a request, and never a second time once a byte of it was written: the server may have read it, and
    /// a repeated call may be paid twice. The loop decides if it repeats a request, and reports it.
    ///
    /// The client replaces a reused connection that proves closed before anything was written to it.
    async fn sent(
        &self,
        method: Method,
        path_and_query: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<IncomingBody>, TransportError> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = self.base_url.join(path_and_query)?;
        *request.headers_mut() = headers;
        Ok(self.client()?.send(request).await?)
    }

    /// The headers and those of the configuration, which win, with credentials marked so that nothing prints
    /// them. An encoding is not asked for: a proxy that compresses a stream holds back what it has not filled a
    /// block with. Gzip that comes all the same is decoded.
    fn guarded(&self, mut headers: HeaderMap) -> HeaderMap {
        headers.extend(self.headers.clone());
        for name in [AUTHORIZATION, PROXY_AUTHORIZATION] {
            if let Some(value) = headers.get_mut(name) {
                value.set_sensitive(true);
            }
        }
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers
    }

    fn client(&self) -> Result<&ServerClient, HttpError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        // Two first requests at once may both get here; one client is kept.
        let client = self.plan.build_for(self.base_url.uri())?;
        Ok(self.client.get_or_init(|| client))
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").field("base_url", &self.base_url).field("plan", &self.plan).finish()
    }
}
