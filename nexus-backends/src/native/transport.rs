//! HTTP transport: sends one request, and determines the kind of the response.
//!
//! All turns of a backend share a client, which retains its connections. The caller enforces time limits on a response
//! by dropping the future. This module limits only the connect time, and the size of a body that is not a stream.
//! [`outcome`](super::outcome) classifies errors.

mod answer;
mod base_url;
mod body;
mod error;
#[cfg(test)]
mod tests;

use std::{
    borrow::Cow,
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
use super::call_route::StreamFraming;
use super::settings::NativeSettings;
use super::signature::RequestSigner;
use super::wires::shape::WireShape;
use crate::http::{ClientPlan, HttpError, HttpProblem, IncomingBody, ServerClient};
use crate::server_address::{LOOPBACK, server_address};

/// Maximum size of a response to [`Transport::get`], in bytes.
const MAX_FETCHED_BYTES: usize = 8 << 20;

/// Connection to one server. `Debug` shows its address, and nothing that may be secret.
pub(crate) struct Transport {
    base_url: BaseUrl,
    plan: ClientPlan,
    /// Created at the first request, because it reads the platform's certificates.
    client: OnceLock<ServerClient>,
    /// Headers that the configuration adds to every request.
    headers: HeaderMap,
    max_answer_bytes: usize,
}

/// Address of a model call, and what is sent and expected there.
#[derive(Debug, Default)]
pub(crate) struct CallAddress<'a> {
    /// Path below the base URL. `None` selects that of the wire.
    pub(crate) path: Option<&'a str>,
    /// Query, without its question mark.
    pub(crate) query: Option<String>,
    /// Requested framing of a streamed answer.
    pub(crate) framing: StreamFraming,
    /// Signer of the request.
    pub(crate) signer: Option<RequestSigner<'a>>,
}

/// Complete response to a small request.
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
    /// Creates a transport for the server that the settings name. Opens no connection yet.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] for `base_url` and the settings under `network`.
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

    /// Requests a model's answer: `POST {base_url}` with the path of the call. Returns as soon as the kind of response is known.
    pub(crate) async fn post(
        &self,
        shape: &WireShape,
        call: CallAddress<'_>,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<ServerAnswer, TransportError> {
        let mut headers = self.guarded(headers);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static(call.framing.media_type()));
        let path = with_query(call.path.unwrap_or_else(|| shape.path()), call.query.as_deref());
        let response = self.sent(Method::POST, &path, headers, body, call.signer).await?;
        ServerAnswer::of(response, shape, self.max_answer_bytes).await
    }

    /// Requests a small response, such as the model list: `GET {base_url}{path_and_query}`.
    pub(crate) async fn get(
        &self,
        path_and_query: &str,
        headers: HeaderMap,
    ) -> Result<Fetched, TransportError> {
        let mut headers = self.guarded(headers);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let response = self.sent(Method::GET, path_and_query, headers, Bytes::new(), None).await?;
        let (status, headers, body) = body::split(response);
        let body = body::whole(body, MAX_FETCHED_BYTES).await?;
        Ok(Fetched { status, headers, body })
    }

    /// Like [`get`](Self::get), with a limit on the whole time.
    pub(crate) async fn get_within(
        &self,
        path_and_query: &str,
        headers: HeaderMap,
        patience: Duration,
    ) -> Result<Fetched, TransportError> {
        let fetched = tokio::time::timeout(patience, self.get(path_and_query, headers)).await;
        fetched.map_err(|elapsed| HttpError::new(HttpProblem::LostBeforeAnswer, elapsed))?
    }

    /// Sends a request to the base URL and waits up to `patience` for a response with any status. The request has no
    /// credential and no configured headers. Returns the response's `Date`.
    pub(crate) async fn reach(&self, patience: Duration) -> Result<Option<SystemTime>, TransportError> {
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("*/*"))]);
        let sent = self.sent(Method::HEAD, "", headers, Bytes::new(), None);
        let too_slow = |elapsed| HttpError::new(HttpProblem::LostBeforeAnswer, elapsed);
        let response = tokio::time::timeout(patience, sent).await.map_err(too_slow)??;
        let date = response.headers().get(DATE).and_then(|date| date.to_str().ok());
        Ok(date.and_then(|date| httpdate::parse_http_date(date).ok()))
    }

    /// Returns the address of the server.
    pub(crate) fn server(&self) -> Option<ServerAddress> {
        server_address(&self.base_url.uri().to_string())
    }

    /// Returns true if the server is on this machine.
    pub(crate) fn is_on_this_machine(&self) -> bool {
        self.server().is_some_and(|server| server.host == LOOPBACK)
    }

    /// Returns true if the base URL is an address alone.
    pub(crate) fn has_no_path(&self) -> bool {
        matches!(self.base_url.uri().path(), "" | "/")
    }

    /// Returns the base URL.
    pub(crate) fn base_url(&self) -> &str {
        self.base_url.as_str()
    }

    /// Returns the base URL, for messages.
    pub(crate) fn place(&self) -> &impl fmt::Debug {
        &self.base_url
    }

    /// Sends a request. Never sends it again once a byte was written, because the server may have read it, and a
    /// repeated call may be billed twice. The loop decides if it repeats a request, and reports that.
    ///
    /// If a reused connection turns out to be closed before anything was written, the client opens another one.
    async fn sent(
        &self,
        method: Method,
        path_and_query: &str,
        headers: HeaderMap,
        body: Bytes,
        signer: Option<RequestSigner<'_>>,
    ) -> Result<Response<IncomingBody>, TransportError> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = self.base_url.join(path_and_query)?;
        *request.headers_mut() = headers;
        // Last, because the signature covers the address, the headers and the body.
        if let Some(signer) = signer {
            signer.sign(&mut request)?;
        }
        Ok(self.client()?.send(request).await?)
    }

    /// Returns the headers with the configured ones, which take precedence. Credentials are marked as sensitive, so
    /// that nothing prints them. No encoding is requested, because a proxy that compresses a stream delays data until a
    /// block is full. Gzip that arrives anyway is decoded.
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
        // Two concurrent first requests may both get here; only one client is stored.
        let client = self.plan.build_for(self.base_url.uri())?;
        Ok(self.client.get_or_init(|| client))
    }
}

/// Returns the path with a query.
pub(crate) fn with_query<'p>(path: &'p str, query: Option<&str>) -> Cow<'p, str> {
    match query {
        Some(query) if path.contains('?') => format!("{path}&{query}").into(),
        Some(query) => format!("{path}?{query}").into(),
        None => path.into(),
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").field("base_url", &self.base_url).field("plan", &self.plan).finish()
    }
}
