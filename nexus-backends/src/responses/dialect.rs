//! Differences between servers that speak the Responses API, as data and small functions.

use std::fmt;

use async_trait::async_trait;
use http::header::HeaderMap;
use nexus_core::{Capabilities, Effort, ModelId, TurnEvent, harness::Failure, turn::RateLimitNotification};

use super::outcome::ErrorReply;
use super::transport::Transport;
use crate::auth::Credential;

/// Dialect of a server that speaks the Responses API.
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

    /// Returns the headers of one request, including its credential. The transport adds `content-type` and `accept`.
    fn headers(&self, call: &RequestContext<'_>) -> HeaderMap;

    /// Reads the headers of a response with any status.
    fn head(&self, headers: &HeaderMap) -> HeaderInfo;

    /// Parses an event specific to the server, selected by its `type`. `None` if the dialect does not know it either.
    fn event(&self, kind: &str, data: &[u8]) -> Option<Vec<TurnEvent>>;

    /// Returns the failure of an error whose meaning differs from the shared table.
    fn failure(&self, error: &ErrorReply<'_>) -> Option<Failure>;
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
    /// Shape of the request.
    pub(crate) shape: Shape,
    /// Effort levels that the model supports. Requests use the same names. If empty, requests omit the field.
    pub(crate) efforts: Vec<Effort>,
    /// Warnings for the caller before the turn starts.
    pub(crate) warnings: Vec<String>,
}

/// Shape of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Position of system text.
    pub(crate) system: SystemPosition,
    /// Form of a message's text.
    pub(crate) text: TextShape,
    /// Position of tools.
    pub(crate) tools: ToolPosition,
    /// Value of `parallel_tool_calls`; `None` omits it.
    pub(crate) parallel_tool_calls: Option<bool>,
    /// True if the request has `tool_choice: "auto"`.
    pub(crate) tool_choice: bool,
    /// Value of `reasoning.summary`; `None` omits it.
    pub(crate) reasoning_summary: Option<&'static str>,
    /// Value of `reasoning.context`; `None` omits it.
    pub(crate) reasoning_context: Option<&'static str>,
    /// True if the request has `include: ["reasoning.encrypted_content"]`.
    pub(crate) encrypted_reasoning: bool,
    /// True if the request has `prompt_cache_key`.
    pub(crate) prompt_cache_key: bool,
    /// True if the request has `store: false`.
    pub(crate) store: bool,
    /// True if functions and the answer's schema have the flag `strict`.
    pub(crate) strict: bool,
    /// True if the request may have `max_output_tokens`.
    pub(crate) max_output_tokens: bool,
    /// Form in which the model's own items are sent back to it.
    pub(crate) carry: Carry,
    /// Party that answers a `custom_tool_call`.
    pub(crate) custom_calls: CustomCalls,
}

/// Position of system text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SystemPosition {
    /// In the field `instructions`.
    Instructions,
    /// In a first message with the role `developer`.
    DeveloperMessage,
    /// In a first message with the role `system`.
    SystemMessage,
}

/// Form of a message's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextShape {
    /// A list of `input_text` parts.
    Parts,
    /// A plain string, for a single text without other parts.
    Plain,
}

/// Position of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolPosition {
    /// In the field `tools`.
    Field,
    /// In a first item `additional_tools`, with the functions wrapped in the namespace `functions`.
    FirstItem,
}

/// Form in which the model's own items are sent back to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carry {
    /// Unchanged.
    AsTheyCame,
    /// Messages as plain strings; calls without `id` and `status`; reasoning without `status`.
    Bare,
}

/// Party that answers a `custom_tool_call`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CustomCalls {
    /// The server has answered it. Nexus must not answer it again.
    Server,
    /// Nexus answers it.
    Client,
}
