//! HTTP client for an issuer: one request at a time, small responses, secrets overwritten.

use std::{future::Future, pin::Pin, sync::OnceLock, time::Duration};

use nexus_core::{BuildContext, SettingsError, harness::run_blocking};
use oauth2::{
    AsyncHttpClient, HttpRequest, HttpResponse,
    http::{Response, StatusCode},
};
use reqwest::{Client, Request};
use tokio::sync::OnceCell;
use zeroize::Zeroizing;

use super::{
    error_reply::{self, IssuerError},
    issuer::Issuer,
};
use crate::{
    RefreshError,
    http::{ClientPlan, HttpProblem, Network, ReadError, read_into},
};

/// Time limit of connecting. Source: our own choice.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit of one request. Source: our own choice; the vendors' programs give an issuer 15 or 30 seconds.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest response that is read, in bytes. Source: our own bound, far above the few kilobytes that tokens need.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// Sends requests to issuers. Each is sent once, over a new connection, with limits on time and size.
#[derive(Debug)]
pub(super) struct IssuerClient {
    plan: ClientPlan,
    /// Client with TLS. Created at the first request, because it reads the platform's certificates.
    tls: OnceCell<Client>,
    /// Client without TLS, for issuers on this machine. It uses no proxy, so unencrypted data never leaves the machine.
    plain: OnceCell<Client>,
}

/// Complete response of an issuer.
pub(super) struct IssuerReply {
    pub(super) status: StatusCode,
    pub(super) body: Zeroizing<Vec<u8>>,
}

/// Failed or incomplete response.
struct BrokenReply {
    why: RefreshError,
    /// Received part of the reply.
    begun: Option<IssuerReply>,
}

impl IssuerReply {
    /// Returns the body of a success, which must be a JSON object. Serde would also accept an array with the values in
    /// order.
    pub(super) fn into_object(self) -> Result<Self, RefreshError> {
        match self.body.trim_ascii_start().first() {
            Some(b'{') => Ok(self),
            Some(_) => Err(RefreshError::Malformed { reason: "it is not a JSON object, as required".into() }),
            None => Err(RefreshError::Malformed { reason: "it is empty".into() }),
        }
    }

    /// Returns true if the reply refuses the country or the network of this machine.
    pub(super) fn refuses_place(&self) -> bool {
        error_reply::refuses_place(&self.body)
    }

    /// Returns the meaning of an unsuccessful reply. The error contains no value of `sent`.
    pub(super) fn error(&self, issuer: &Issuer, sent: &[&str]) -> RefreshError {
        error_reply::meaning(self.status, &IssuerError::read(&self.body, issuer, sent), issuer)
    }
}

impl IssuerClient {
    pub(super) fn new(context: &BuildContext, network: &Network) -> Result<Self, SettingsError> {
        let plan = ClientPlan::new(network, context, CONNECT_TIMEOUT)?.without_kept_connections();
        Ok(Self { plan, tls: OnceCell::new(), plain: OnceCell::new() })
    }

    /// Sends a request and reads the whole response, with any status. Never repeats a request.
    pub(super) async fn send(&self, request: HttpRequest) -> Result<IssuerReply, RefreshError> {
        self.send_keeping(request).await.map_err(|broken| broken.why)
    }

    /// Like [`IssuerClient::send`]; the error also has the received part of an incomplete response.
    async fn send_keeping(&self, request: HttpRequest) -> Result<IssuerReply, BrokenReply> {
        // `begun` outlives the time limit, so that the received part of a response is not lost.
        let mut begun = None;
        let exchange = tokio::time::timeout(REQUEST_TIMEOUT, self.exchange(request, &mut begun)).await;
        let exchanged = exchange.unwrap_or_else(|_| {
            let reason = format!("no answer came within {} seconds", REQUEST_TIMEOUT.as_secs());
            Err(RefreshError::Unreachable { reason })
        });
        match (exchanged, begun) {
            (Ok(()), Some(reply)) => Ok(reply),
            (Err(why), begun) => Err(BrokenReply { why, begun }),
            (Ok(()), None) => {
                let why = RefreshError::Unreachable { reason: "no answer came".into() };
                Err(BrokenReply { why, begun: None })
            }
        }
    }

    /// Sends a request. `begun` receives the response as it arrives, and has the received part after an error.
    async fn exchange(
        &self,
        request: HttpRequest,
        begun: &mut Option<IssuerReply>,
    ) -> Result<(), RefreshError> {
        let on_the_way = |problem: HttpProblem| RefreshError::Unreachable { reason: problem.to_string() };
        let request = Request::try_from(request).map_err(|_| on_the_way(HttpProblem::Client))?;
        let is_tls = request.url().scheme() == "https";
        let client = self.client(is_tls).await.map_err(on_the_way)?;
        let is_proxied = is_tls && self.plan.is_proxied(request.url());
        let response = client.execute(request).await;
        let response =
            response.map_err(|error| on_the_way(HttpProblem::before_answer(&error, is_proxied)))?;
        let status = response.status();
        // Store the status before the body is read, because the response may break off.
        let reply = begun.insert(IssuerReply { status, body: Zeroizing::default() });
        match read_into(&mut reply.body, response, MAX_ANSWER_BYTES).await {
            Ok(()) => Ok(()),
            Err(ReadError::Broken(problem)) => Err(on_the_way(problem)),
            // A truncated error body adds nothing to the status.
            Err(ReadError::TooLarge) if !status.is_success() => {
                reply.body = Zeroizing::default();
                Ok(())
            }
            Err(ReadError::TooLarge) => {
                Err(RefreshError::Malformed { reason: format!("it is larger than {MAX_ANSWER_BYTES} bytes") })
            }
        }
    }

    async fn client(&self, is_tls: bool) -> Result<&Client, HttpProblem> {
        let (kept, plan) = match is_tls {
            true => (&self.tls, self.plan.clone()),
            false => (&self.plain, self.plan.clone().without_proxies()),
        };
        let made = || async {
            // Building the client reads the platform's certificates, which blocks.
            let made = run_blocking(move || plan.build(is_tls)).await;
            made.map_err(|_| HttpProblem::Client)?.map_err(|error| error.problem)
        };
        kept.get_or_try_init(made).await
    }
}

/// Future of one response.
type ResponseFuture<'c> = Pin<Box<dyn Future<Output = Result<HttpResponse, RefreshError>> + Send + 'c>>;

/// HTTP client for `oauth2`. It passes only successes on and interprets every other response itself, because the errors
/// of `oauth2` do not contain the status.
#[derive(Debug)]
pub(super) struct SuccessOnly<'a> {
    pub(super) issuer_client: &'a IssuerClient,
    pub(super) issuer: &'a Issuer,
    /// Parts of the request that errors must not repeat.
    pub(super) sent: &'a [&'a str],
    /// Reason why a success is incomplete. With this cell, the received part of an incomplete success is passed on,
    /// because a refresh token was spent for it.
    pub(super) broken: Option<&'a OnceLock<RefreshError>>,
}

impl<'c> AsyncHttpClient<'c> for SuccessOnly<'_> {
    type Error = RefreshError;
    type Future = ResponseFuture<'c>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(async move {
            let reply = match (self.issuer_client.send_keeping(request).await, self.broken) {
                (Ok(reply), _) => reply,
                (Err(BrokenReply { why, begun: Some(begun) }), Some(broken)) if begun.status.is_success() => {
                    // The request is sent once, so the cell is still empty.
                    let _ = broken.set(why);
                    begun
                }
                (Err(BrokenReply { why, .. }), _) => return Err(why),
            };
            match reply.status.is_success() {
                true => reply.into_object().map(handed_on),
                false => Err(reply.error(self.issuer, self.sent)),
            }
        })
    }
}

/// Converts a reply for `oauth2`. Every success becomes 200 without a content type: a token must not be lost because of
/// a wrong label.
pub(super) fn handed_on(mut reply: IssuerReply) -> HttpResponse {
    let mut response = Response::new(std::mem::take(&mut *reply.body));
    if !reply.status.is_success() {
        *response.status_mut() = reply.status;
    }
    response
}
