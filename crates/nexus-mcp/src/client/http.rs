//! A server that is reached over HTTP, with credentials that are lent for each request.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use nexus_auth::http::{ClientPlan, HttpProblem};
use nexus_core::{Credential, CredentialSource, redact::Redactor};
use reqwest::Url;
use rmcp::{
    model::ClientJsonRpcMessage,
    transport::{
        StreamableHttpClientTransport,
        streamable_http_client::{
            SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
            StreamableHttpPostResponse,
        },
    },
};
use sse_stream::Sse;

use super::cut_text;

/// Time for which a request needs its credential. Source: our own choice; a stream is opened with it once.
const CREDENTIAL_LIFE: Duration = Duration::from_secs(120);

/// Shortest and longest pause between two openings of a stream that the server closes at once. Source: our own choice.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Maximum length of the description of a failure, in bytes.
const FAULT_BYTES: usize = 500;

/// Content of a header of every request.
#[derive(Clone, Debug)]
pub enum HeaderContent {
    /// A text without a secret.
    Text(String),
    /// The value of a variable of the host, which may be a secret.
    Variable(String),
    /// A token that is lent for each request, after a prefix.
    Credential {
        /// Source of the token.
        source: Arc<dyn CredentialSource>,
        /// Text before the token, such as `Bearer `.
        prefix: &'static str,
    },
}

/// Address of a server over HTTP, and the headers of its requests.
#[derive(Clone)]
pub struct HttpEndpoint {
    url: Url,
    headers: Arc<[(HeaderName, HeaderContent)]>,
    plan: ClientPlan,
}

impl HttpEndpoint {
    /// Creates an endpoint. Redirects are not followed, so that a credential reaches only this server.
    pub fn new(
        url: Url,
        headers: impl IntoIterator<Item = (HeaderName, HeaderContent)>,
        plan: ClientPlan,
    ) -> Self {
        Self { url, headers: headers.into_iter().collect(), plan }
    }

    /// Returns a transport to the server, and the client that it uses.
    ///
    /// # Errors
    ///
    /// The client cannot be created, for a person.
    pub(super) fn transport(
        &self,
    ) -> Result<(StreamableHttpClientTransport<LendingClient>, LendingClient), String> {
        let http = self.plan.build(self.url.scheme() == "https").map_err(|error| error.to_string())?;
        let client = LendingClient {
            http,
            headers: Arc::clone(&self.headers),
            is_proxied: self.plan.is_proxied(&self.url),
            redactor: Redactor::default(),
            refused: Arc::default(),
            fault: Arc::default(),
            opened: Arc::default(),
        };
        let config = StreamableHttpClientTransportConfig::with_uri(self.url.as_str());
        Ok((StreamableHttpClientTransport::with_client(client.clone(), config), client))
    }
}

// The query of the address may contain a key, so `Debug` does not show the address.
impl fmt::Debug for HttpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<_> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("HttpEndpoint").field("headers", &headers).finish_non_exhaustive()
    }
}

/// HTTP client that borrows a credential for each request.
#[derive(Clone)]
pub(super) struct LendingClient {
    http: reqwest::Client,
    headers: Arc<[(HeaderName, HeaderContent)]>,
    is_proxied: bool,
    /// Every credential that was lent.
    redactor: Redactor,
    /// Credentials that the server refused, by the position of their header.
    refused: Arc<Mutex<HashMap<usize, Credential>>>,
    /// Time of the last opened stream, and the pause before the next.
    opened: Arc<Mutex<Option<(Instant, Duration)>>>,
    /// Last failure, for a person. The library's errors do not show it.
    fault: Arc<Mutex<Option<String>>>,
}

type HttpFailure = StreamableHttpError<reqwest::Error>;

impl LendingClient {
    /// Returns the redactor that knows every lent credential.
    pub(super) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Takes the description of the last failure.
    pub(super) fn take_fault(&self) -> Option<String> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn note(&self, fault: impl Into<String>) {
        // A server may answer with a whole page.
        let fault = cut_text(&self.redactor.redact_text(&fault.into()), FAULT_BYTES);
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
    }

    /// Returns the headers of a request. The protocol's own headers win.
    async fn lent(
        &self,
        given: HashMap<HeaderName, HeaderValue>,
        used: &mut HashMap<usize, Credential>,
    ) -> Result<HashMap<HeaderName, HeaderValue>, HttpFailure> {
        let mut headers = HashMap::new();
        for (index, (name, content)) in self.headers.iter().enumerate() {
            let value = match content {
                HeaderContent::Text(text) => HeaderValue::from_str(text).ok(),
                HeaderContent::Variable(text) => {
                    self.redactor.learn(text);
                    HeaderValue::from_str(text).ok().map(|mut value| {
                        value.set_sensitive(true);
                        value
                    })
                }
                HeaderContent::Credential { source, prefix } => {
                    let credential = self.credential(index, &**source).await?;
                    self.redactor.learn(credential.token.expose());
                    let value = HeaderValue::from_str(&format!("{prefix}{}", credential.token.expose())).ok();
                    used.insert(index, credential);
                    value.map(|mut value| {
                        value.set_sensitive(true);
                        value
                    })
                }
            };
            let Some(value) = value else {
                return Err(
                    self.unusable(format!("the value of the header {name} cannot be sent: check its source"))
                );
            };
            headers.insert(name.clone(), value);
        }
        headers.extend(given);
        Ok(headers)
    }

    async fn credential(
        &self,
        index: usize,
        source: &dyn CredentialSource,
    ) -> Result<Credential, HttpFailure> {
        // Removed, so that one refusal causes only one renewal.
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner).remove(&index);
        let lent = match refused {
            Some(refused) => match source.renewed(&refused, CREDENTIAL_LIFE).await {
                Ok(Some(renewed)) => Ok(renewed),
                Ok(None) => Ok(refused),
                Err(error) => Err(error),
            },
            None => source.credential(CREDENTIAL_LIFE).await,
        };
        lent.map_err(|error| self.unusable(error.to_string()))
    }

    /// Waits before a stream is opened again soon after the last one. A server can ask for that without a pause.
    async fn pause_before_stream(&self) {
        // A block of its own, so that the lock is released before the sleep.
        let pause = {
            let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let pause = match *opened {
                Some((last, pause)) if now.duration_since(last) < LONGEST_PAUSE => pause,
                _ => Duration::ZERO,
            };
            // The stream opens after the pause, so the next interval begins there.
            *opened = Some((now + pause, (pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE)));
            pause
        };
        tokio::time::sleep(pause).await;
    }

    fn unusable(&self, reason: String) -> HttpFailure {
        self.note(reason.clone());
        StreamableHttpError::UnexpectedServerResponse(reason.into())
    }

    /// Runs a request, and once more with another credential if the server refused the first one and the source has another.
    async fn with_credentials<T, F: Future<Output = Result<T, HttpFailure>> + Send>(
        &self,
        given: HashMap<HeaderName, HeaderValue>,
        request: impl Fn(HashMap<HeaderName, HeaderValue>) -> F + Send,
    ) -> Result<T, HttpFailure> {
        let mut used = HashMap::new();
        let headers = self.lent(given.clone(), &mut used).await?;
        let answered = request(headers).await;
        if used.is_empty() || !answered.as_ref().is_err_and(is_unauthorized) {
            return answered.map_err(|error| self.described(error));
        }
        let first = used.clone();
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).extend(used.drain());
        let headers = self.lent(given, &mut used).await?;
        // The server would refuse the same credential again.
        let has_another = used
            .iter()
            .any(|(index, new)| first.get(index).is_none_or(|old| old.token.expose() != new.token.expose()));
        let answered = if has_another { request(headers).await } else { answered };
        answered.map_err(|error| self.described(error))
    }

    /// Notes the cause of a failure, and removes the address from the error.
    fn described(&self, error: HttpFailure) -> HttpFailure {
        match error {
            StreamableHttpError::Client(error) => {
                self.note(HttpProblem::before_answer(&error, self.is_proxied).to_string());
                StreamableHttpError::Client(error.without_url())
            }
            error if is_unauthorized(&error) => {
                self.note(
                    "the server refused the credential (HTTP 401): check the `credential` of its entry",
                );
                StreamableHttpError::UnexpectedServerResponse("HTTP 401".into())
            }
            // Not a fault: the protocol allows a server without a stream for its own messages.
            StreamableHttpError::ServerDoesNotSupportSse => error,
            // The texts are the server's, may repeat a header, and are logged by the library.
            StreamableHttpError::UnexpectedServerResponse(text) => {
                self.note(text.clone());
                let text = cut_text(&self.redactor.redact_text(&text), FAULT_BYTES);
                StreamableHttpError::UnexpectedServerResponse(text.into())
            }
            StreamableHttpError::InsufficientScope(_) => {
                self.note("the server refused the request: the credential lacks a scope (HTTP 403)");
                StreamableHttpError::UnexpectedServerResponse("HTTP 403".into())
            }
            error => {
                self.note(error.to_string());
                error
            }
        }
    }
}

/// Returns true if the server refused the credential.
fn is_unauthorized(error: &HttpFailure) -> bool {
    match error {
        StreamableHttpError::AuthRequired(_) => true,
        StreamableHttpError::UnexpectedServerResponse(text) => text.starts_with("HTTP 401"),
        StreamableHttpError::Client(error) => error.status() == Some(http::StatusCode::UNAUTHORIZED),
        _ => false,
    }
}

impl StreamableHttpClient for LendingClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _authorization: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpFailure> {
        let request = |headers| {
            self.http.post_message(Arc::clone(&uri), message.clone(), session.clone(), None, headers)
        };
        self.with_credentials(headers, request).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _authorization: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), HttpFailure> {
        let request =
            |headers| self.http.delete_session(Arc::clone(&uri), Arc::clone(&session), None, headers);
        self.with_credentials(headers, request).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _authorization: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpFailure> {
        let request = |headers| {
            self.http.get_stream(Arc::clone(&uri), session.clone(), last_event.clone(), None, headers)
        };
        self.pause_before_stream().await;
        self.with_credentials(headers, request).await
    }
}
