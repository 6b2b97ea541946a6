//! Where servers that speak the Responses API differ: data, and a few small functions.

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
    /// As [`ExecutionBackend::capabilities`](nexus_core::ExecutionBackend::capabilities).
    fn capabilities(&self) -> Capabilities;

    /// What to do where no credential is configured; `None` if the server may want none.
    fn credential_remedy(&self) -> Option<&'static str>;

    /// Refuses a credential that no header can carry, or that would be billed otherwise than configured. It is
    /// asked of each one that is borrowed, before anything is sent with it.
    fn accepts(&self, credential: &Credential) -> Result<(), Failure>;

    /// What the server takes for `model`; `None` is the server's or the configuration's default. It may ask the
    /// server's catalogue, and remembers the answer.
    ///
    /// Fails where no model is named and there is no default, and where the catalogue refuses the credential.
    async fn model(
        &self,
        model: Option<&ModelId>,
        transport: &Transport,
        credential: Option<&Credential>,
    ) -> Result<ModelPlan, Failure>;

    /// The headers of one request, its credential included. The transport adds `content-type` and `accept`.
    fn headers(&self, call: &RequestContext<'_>) -> HeaderMap;

    /// Reads the headers of an answer, whatever its status.
    fn head(&self, headers: &HeaderMap) -> HeaderInfo;

    /// Reads an event of the server's own, by its `type`. `None`: it is not known here either.
    fn event(&self, kind: &str, data: &[u8]) -> Option<Vec<TurnEvent>>;

    /// What an error means here, where the table that all dialects share would say something else.
    fn failure(&self, error: &ErrorReply<'_>) -> Option<Failure>;
}

/// Context of a request.
#[derive(Debug)]
pub(crate) struct RequestContext<'a> {
    /// What the turn borrowed, if the server wants anything.
    pub(crate) credential: Option<&'a Credential>,
    /// The model and its shape.
    pub(crate) plan: &'a ModelPlan,
    /// Names the conversation: a UUID, the same over all requests of a turn and over the turns that resume it.
    pub(crate) conversation: &'a str,
    /// What the server asked to be sent back within this turn: [`HeaderInfo::sticky`].
    pub(crate) sticky: Option<&'a str>,
}

/// Information in the headers of an answer.
#[derive(Debug, Default)]
pub(crate) struct HeaderInfo {
    /// How near the account's limits are.
    pub(crate) limits: Vec<RateLimitNotification>,
    /// What the next request of the same turn sends back.
    pub(crate) sticky: Option<String>,
    /// The model that answers, where the server names it.
    pub(crate) model: Option<ModelId>,
}

/// A model, and how it is asked.
#[derive(Clone, Debug)]
pub(crate) struct ModelPlan {
    /// The name on the wire.
    pub(crate) model: ModelId,
    /// How the request is written.
    pub(crate) shape: Shape,
    /// The steps of effort that the model takes, with their spelling on the wire the same as ours. Empty: the
    /// field is left out.
    pub(crate) efforts: Vec<Effort>,
    /// What the caller should know before the turn starts.
    pub(crate) warnings: Vec<String>,
}

/// How a request is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Where system text goes.
    pub(crate) system: SystemPosition,
    /// How the text of a message is written.
    pub(crate) text: TextShape,
    /// Where tools go.
    pub(crate) tools: ToolPosition,
    /// The value of `parallel_tool_calls`; `None` leaves it out.
    pub(crate) parallel_tool_calls: Option<bool>,
    /// Whether `tool_choice: "auto"` is written.
    pub(crate) tool_choice: bool,
    /// The value of `reasoning.summary`; `None` leaves it out.
    pub(crate) reasoning_summary: Option<&'static str>,
    /// The value of `reasoning.context`; `None` leaves it out.
    pub(crate) reasoning_context: Option<&'static str>,
    /// Whether `include: ["reasoning.encrypted_content"]` is written.
    pub(crate) encrypted_reasoning: bool,
    /// Whether `prompt_cache_key` is written.
    pub(crate) prompt_cache_key: bool,
    /// Whether `store: false` is written.
    pub(crate) store: bool,
    /// Whether `strict` is written, at functions and at the schema of an answer.
    pub(crate) strict: bool,
    /// Whether `max_output_tokens` may be written.
    pub(crate) max_output_tokens: bool,
    /// How the model's own items go back to it.
    pub(crate) carry: Carry,
    /// Who answers a `custom_tool_call`.
    pub(crate) custom_calls: CustomCalls,
}

/// Where system text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SystemPosition {
    /// The field `instructions`.
    Instructions,
    /// A first message with the role `developer`.
    DeveloperMessage,
    /// A first message with the role `system`.
    SystemMessage,
}

/// How the text of a message is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextShape {
    /// A list of `input_text` parts.
    Parts,
    /// A plain string where there is one text and nothing else.
    Plain,
}

/// Where tools go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolPosition {
    /// The field `tools`.
    Field,
    /// A first item `additional_tools`, functions wrapped in the namespace `functions`.
    FirstItem,
}

/// How the model's own items go back to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carry {
    /// As they came.
    AsTheyCame,
    /// Messages as plain strings; calls without `id` and `status`; reasoning without `status`.
    Bare,
}

/// Who answers a `custom_tool_call`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CustomCalls {
    /// The server did. It must not be answered again.
    Server,
    /// We do.
    Client,
}
