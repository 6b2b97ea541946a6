//! Differences of servers that speak the Responses API: data, and a few small functions.

use std::fmt;

use async_trait::async_trait;
use http::header::HeaderMap;
use nexus_core::{Capabilities, Effort, ModelId, TurnEvent, harness::Failure, turn::RateLimitNotification};

use super::outcome::ErrorReply;
use super::transport::Transport;
use crate::auth::Credential;

/// A server's way to speak the Responses API.
#[async_trait]
pub(crate) trait Dialect: fmt::Debug + Send + Sync + 'static {
    /// See [`ExecutionBackend::capabilities`](nexus_core::ExecutionBackend::capabilities).
    fn capabilities(&self) -> Capabilities;

    /// Advice for a missing credential; `None` if the server may need none.
    fn credential_remedy(&self) -> Option<&'static str>;

    /// Rejects a credential that no header can carry, or that would be billed otherwise than configured. The
    /// backend calls it for each borrowed credential, before it sends anything with it.
    fn accepts(&self, credential: &Credential) -> Result<(), Failure>;

    /// The server's plan for `model`; `None` is the server's or the configuration's default. It may request the
    /// server's catalogue, and remembers the answer.
    ///
    /// Fails without a model and a default, and where the catalogue rejects the credential.
    async fn model(
        &self,
        model: Option<&ModelId>,
        transport: &Transport,
        credential: Option<&Credential>,
    ) -> Result<ModelPlan, Failure>;

    /// The headers of one request, its credential included. The transport adds `content-type` and `accept`.
    fn headers(&self, call: &RequestContext<'_>) -> HeaderMap;

    /// Reads the headers of an answer with any status.
    fn head(&self, headers: &HeaderMap) -> HeaderInfo;

    /// Reads an event of the server's own, by its `type`. `None`: it is not known here either.
    fn event(&self, kind: &str, data: &[u8]) -> Option<Vec<TurnEvent>>;

    /// Failure of an error whose meaning here differs from the table that all dialects share.
    fn failure(&self, error: &ErrorReply<'_>) -> Option<Failure>;
}

/// Context of a request.
#[derive(Debug)]
pub(crate) struct RequestContext<'a> {
    /// Credential that the turn borrowed, if the server wants one.
    pub(crate) credential: Option<&'a Credential>,
    /// The model and its shape.
    pub(crate) plan: &'a ModelPlan,
    /// Names the conversation: a UUID, the same over all requests of a turn and over the turns that resume it.
    pub(crate) conversation: &'a str,
    /// Value that the server wants back within this turn: [`HeaderInfo::sticky`].
    pub(crate) sticky: Option<&'a str>,
}

/// Information in the headers of an answer.
#[derive(Debug, Default)]
pub(crate) struct HeaderInfo {
    /// Usage of the account's limits.
    pub(crate) limits: Vec<RateLimitNotification>,
    /// Value that the next request of the same turn sends back.
    pub(crate) sticky: Option<String>,
    /// The model that answers, where the server names it.
    pub(crate) model: Option<ModelId>,
}

/// A model, and the shape of its requests.
#[derive(Clone, Debug)]
pub(crate) struct ModelPlan {
    /// The name on the wire.
    pub(crate) model: ModelId,
    /// Shape of the request.
    pub(crate) shape: Shape,
    /// The steps of effort that the model takes, with their spelling on the wire the same as ours. Empty: the
    /// field is left out.
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
    /// The value of `parallel_tool_calls`; `None` leaves it out.
    pub(crate) parallel_tool_calls: Option<bool>,
    /// True if the request has `tool_choice: "auto"`.
    pub(crate) tool_choice: bool,
    /// The value of `reasoning.summary`; `None` leaves it out.
    pub(crate) reasoning_summary: Option<&'static str>,
    /// The value of `reasoning.context`; `None` leaves it out.
    pub(crate) reasoning_context: Option<&'static str>,
    /// True if the request has `include: ["reasoning.encrypted_content"]`.
    pub(crate) encrypted_reasoning: bool,
    /// True if the request has `prompt_cache_key`.
    pub(crate) prompt_cache_key: bool,
    /// True if the request has `store: false`.
    pub(crate) store: bool,
    /// True if functions and the schema of an answer have `strict`.
    pub(crate) strict: bool,
    /// True if the request may have `max_output_tokens`.
    pub(crate) max_output_tokens: bool,
    /// Form in which the model's own items return to it.
    pub(crate) carry: Carry,
    /// Party that answers a `custom_tool_call`.
    pub(crate) custom_calls: CustomCalls,
}

/// Position of system text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SystemPosition {
    /// The field `instructions`.
    Instructions,
    /// A first message with the role `developer`.
    DeveloperMessage,
    /// A first message with the role `system`.
    SystemMessage,
}

/// Form of a message's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextShape {
    /// A list of `input_text` parts.
    Parts,
    /// A plain string for a single text without other parts.
    Plain,
}

/// Position of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolPosition {
    /// The field `tools`.
    Field,
    /// A first item `additional_tools`, functions wrapped in the namespace `functions`.
    FirstItem,
}

/// Form in which the model's own items return to it.
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
    /// The server did. It must not be answered again.
    Server,
    /// We do.
    Client,
}
