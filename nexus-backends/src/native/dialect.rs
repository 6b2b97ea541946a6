//! Differences between servers of one wire, as data and small functions.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use http::header::HeaderMap;
use nexus_core::{
    Capabilities, Effort, ModelId, TurnEvent, harness::Failure, redact::Redactor, turn::RateLimitNotification,
};

use super::bearer;
use super::call_route::CallRoute;
use super::outcome::ErrorReply;
use super::signature::RequestSigner;
use super::transport::Transport;
use super::wires::shape::WireShape;
use crate::auth::Credential;

/// Dialect of a server.
#[async_trait]
pub(crate) trait Dialect: fmt::Debug + Send + Sync + 'static {
    /// See [`ExecutionBackend::capabilities`](nexus_core::ExecutionBackend::capabilities).
    fn capabilities(&self) -> Capabilities;

    /// Advice for a missing credential; `None` if the server may need none.
    fn credential_remedy(&self) -> Option<&'static str>;

    /// Rejects a credential that no header can contain, or that would be billed otherwise than configured. The backend
    /// calls it for each borrowed credential, before it sends the credential.
    fn accepts(&self, credential: &Credential) -> Result<(), Failure>;

    /// Returns the plan for `model`; `None` selects the default of the server or the configuration. May request the
    /// server's model list, and caches it.
    ///
    /// Fails without a model and a default, and if the request for the model list rejects the credential.
    async fn model(
        &self,
        model: Option<&ModelId>,
        transport: &Transport,
        credential: Option<&Credential>,
    ) -> Result<ModelPlan, Failure>;

    /// Returns the model that a probe looks for on the server's list. `None` if a probe must not request the list, because the request
    /// would borrow a login or a credential of the host. Default: `None`.
    fn probed_model(&self) -> Option<ProbedModel<'_>> {
        None
    }

    /// Returns the path of the list of models with their ids, below the base URL. `None` if the server has no such list.
    /// Default: `None`.
    fn list_path(&self) -> Option<&'static str> {
        None
    }

    /// Returns the headers of a request for the list of models. Default: the credential as a bearer token.
    fn list_headers(&self, credential: Option<&Credential>) -> HeaderMap {
        bearer::headers(credential)
    }

    /// Returns the query with the credential, if the server expects the credential there. Default: `None`.
    fn query(&self, _credential: Option<&Credential>) -> Option<String> {
        None
    }

    /// Returns the address and framing of calls, if settings change them. Default: `None`.
    fn route(&self) -> Option<&CallRoute> {
        None
    }

    /// Returns the signer of requests, if `credential` signs them. Default: `None`.
    fn signer<'s>(&'s self, _credential: &'s Credential) -> Option<RequestSigner<'s>> {
        None
    }

    /// Returns the headers of one request, including its credential. The transport adds `content-type` and `accept`.
    fn headers(&self, call: &RequestContext<'_>) -> HeaderMap;

    /// Reads the headers of a response with any status.
    fn head(&self, headers: &HeaderMap) -> HeaderInfo;

    /// Parses an event specific to the server, selected by its `type`. `None` if the dialect does not know it either.
    fn event(&self, kind: &str, data: &[u8]) -> Option<Vec<TurnEvent>>;

    /// Returns the failure of an error whose meaning differs from the shared table.
    fn failure(&self, error: &ErrorReply<'_>) -> Option<Failure>;
}

/// Returns the query of a request: that of the settings, and that of the credential.
pub(super) fn full_query(dialect: &dyn Dialect, credential: Option<&Credential>) -> Option<String> {
    let of_route = dialect.route().and_then(|route| route.query.clone());
    match (of_route, dialect.query(credential)) {
        (Some(one), Some(other)) => Some(format!("{one}&{other}")),
        (one, other) => one.or(other),
    }
}

/// Adds a credential to `redactor` in each form in which a request contains it.
pub(super) fn learn_credential(redactor: &Redactor, dialect: &dyn Dialect, credential: &Credential) {
    redactor.learn(credential.token.expose());
    let session = credential.signing.as_ref().and_then(|key| key.session.as_ref());
    session.inspect(|session| redactor.learn(session.expose()));
    // A query contains the percent-encoded token, and servers repeat the URL of a request in their errors. Some write the
    // escapes again with lower-case digits.
    if let Some(value) = dialect.query(Some(credential)).as_deref().and_then(|query| query.split_once('=')) {
        redactor.learn(value.1);
        redactor.learn(with_lower_escapes(value.1));
    }
}

/// Returns a percent-encoded text whose escapes have lower-case digits.
fn with_lower_escapes(encoded: &str) -> String {
    let mut digits = 0;
    let lower = |character: char| {
        digits = if character == '%' { 2 } else { i32::max(digits - 1, -1) };
        if digits >= 0 { character.to_ascii_lowercase() } else { character }
    };
    encoded.chars().map(lower).collect()
}

/// Model whose presence on the server's list decides whether a turn that names no model can start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProbedModel<'a> {
    /// The configured model.
    pub(crate) model: Option<&'a ModelId>,
    /// Path of the list, below the base URL.
    pub(crate) path: &'static str,
}

/// Context of a request.
#[derive(Debug)]
pub(crate) struct RequestContext<'a> {
    /// Credential that the turn borrowed, if the server needs one.
    pub(crate) credential: Option<&'a Credential>,
    /// Model and request shape.
    pub(crate) plan: &'a ModelPlan,
    /// Id of the conversation: a UUID, which all requests of a turn and all turns that resume the conversation share.
    pub(crate) conversation: &'a str,
    /// Value that the server expects back within this turn: [`HeaderInfo::sticky`].
    pub(crate) sticky: Option<&'a str>,
}

/// Information in the headers of a response.
#[derive(Debug, Default)]
pub(crate) struct HeaderInfo {
    /// Usage of the account's limits.
    pub(crate) limits: Vec<RateLimitNotification>,
    /// Value that the next request of the same turn sends back.
    pub(crate) sticky: Option<String>,
    /// Model that answers, if the server names it.
    pub(crate) model: Option<ModelId>,
}

/// A model, and the shape of its requests.
#[derive(Clone, Debug)]
pub(crate) struct ModelPlan {
    /// Name of the model in requests.
    pub(crate) model: ModelId,
    /// Path of calls below the base URL, if it differs from that of the wire.
    pub(crate) path: Option<Arc<str>>,
    /// Wire, and the shape of the requests on it.
    pub(crate) shape: WireShape,
    /// Effort levels that the model supports. Requests use the same names. If empty, requests omit the field.
    pub(crate) efforts: Vec<Effort>,
    /// Warnings for the caller before the turn starts.
    pub(crate) warnings: Vec<String>,
    /// Size of the model's context in tokens, if the server's model list states it.
    pub(crate) context_window: Option<u64>,
}
