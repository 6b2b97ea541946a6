//! `chat`: any server that speaks `/v1/chat/completions`, given its base URL.
//!
//! A request contains fields that the OpenAI API documents and that servers of a subset also accept. If a server
//! rejects one of them anyway, a setting omits or changes it. The defaults:
//!
//! | field | default | reason |
//! | --- | --- | --- |
//! | system text | a first message with the role `system` | every server knows it; only new models know `developer` |
//! | limit of an answer | `max_tokens` | most servers know only it; reasoning models of OpenAI require `max_completion_tokens` |
//! | `stream_options` | sent | without it most servers report no usage |
//! | `reasoning_effort` | only if the request names an effort | models without reasoning reject the field |
//! | `parallel_tool_calls` | omitted | its value would be the default of every server |
//! | thinking of a reply with calls | sent back in its field | DeepSeek, Moonshot and OpenRouter require it |
//! | schema of an answer | `response_format` | the OpenAI API, vLLM, Ollama and llama.cpp enforce it |
//!
//! Source: the OpenAI API reference, and the references of the named servers.

use std::sync::Arc;

use async_trait::async_trait;
use http::{StatusCode, header::HeaderMap};
use nexus_core::{
    BackendId, BackendKind, BuildContext, Capabilities, CostReport, Effort, ErrorKind, ExecutionBackend,
    ModelId, OutputSupport, SettingsError, TurnEvent, VendorId, harness::Failure,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::any_server::{self, Cost, StructuredOutput};
use super::call_settings::CallSettings;
use crate::auth::Credential;
use crate::native::call_route::CallRoute;
use crate::native::dialect::{Dialect, HeaderInfo, ModelPlan, ProbedModel, RequestContext};
use crate::native::key_placement::KeyPlacement;
use crate::native::outcome::{ErrorBody, ErrorReply, named_field};
use crate::native::settings::NativeSettings;
use crate::native::signature::{RequestSigner, SignatureScope, check_scope, signer};
use crate::native::transport::Transport;
use crate::native::wires::AnswerFormat;
use crate::native::wires::chat::shape::{ChatShape, ThinkingBack};
use crate::native::wires::shape::WireShape;
use crate::native::{kind, own_settings};
use crate::settings::{Billing, CredentialSetting};

/// Effort levels that the OpenAI API documents.
const EFFORTS: [Effort; 5] = [Effort::Minimal, Effort::Low, Effort::Medium, Effort::High, Effort::XHigh];

/// Maximum length of a call's id. Source: the error of the OpenAI API for a longer one.
const ID_BYTES: usize = 40;

/// Length of a call's id at servers that require exactly it. Source: the error of Mistral's API.
const SHORT_ID_BYTES: usize = 9;

/// The backend kind `chat`: Nexus's own loop at any server that speaks `/v1/chat/completions`.
///
/// Settings: those of every native backend, of which `base_url` is required; and `vendor`, `system`,
/// `structured_output`, `efforts`, `output_bound`, `stream_usage`, `parallel_tool_calls`, `strict`, `thinking_back`,
/// `call_ids`, `body`, `cost`, `auth`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChatCompletions;

impl BackendKind for ChatCompletions {
    fn name(&self) -> &str {
        "chat"
    }

    fn vendor(&self, settings: &Map<String, Value>, _: &BuildContext) -> VendorId {
        any_server::vendor(self.name(), settings)
    }

    fn settings_schema(&self) -> Value {
        let mut schema = own_settings::schema::<ChatSettings>();
        CallSettings::add_to(&mut schema);
        schema["required"] = json!(["base_url"]);
        schema
    }

    fn build(
        &self,
        id: BackendId,
        settings: &Map<String, Value>,
        context: &BuildContext,
    ) -> Result<Arc<dyn ExecutionBackend>, SettingsError> {
        let (call, settings) = CallSettings::part(settings)?;
        let (own, shared) = own_settings::part::<ChatSettings>(&settings)?;
        own.auth.check("auth")?;
        any_server::check_body(&own.body)?;
        let settings = NativeSettings::read(&shared, context)?;
        if settings.base_url.is_none() {
            let reason = "name the server without /chat/completions, such as `base_url: \
                 \"http://127.0.0.1:11434/v1\"`";
            return Err(SettingsError::new("base_url", reason));
        }
        let credential = settings.credential.as_ref().map(|setting| setting.source(context)).transpose()?;
        let mut server = ChatServer::new(&own, &settings);
        (server.route, server.scope) = (call.route(), call.scope());
        server.provider = any_server::provider(own.vendor.as_deref(), &self.vendor(&shared, context));
        kind::build(id, Arc::new(server), credential, &settings, context)
    }
}

/// Settings of this kind alone.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct ChatSettings {
    /// The company behind the server, as the spread of a panel counts it. Default: the host of base_url.
    vendor: Option<String>,
    /// Role of the system text. Default: system.
    system: SystemRole,
    /// Recipient of an answer's schema: the server in response_format, the server as a tool that the model must call, or
    /// the model by its instructions. Default: native.
    structured_output: StructuredOutput,
    /// The steps of effort that the model takes; an empty list leaves the field out. Default: [minimal, low, medium, high,
    /// xhigh].
    #[schemars(schema_with = "any_server::effort_steps")]
    efforts: Option<Vec<Effort>>,
    /// Field with the limit of an answer, where the turn has one. Default: max_tokens.
    output_bound: OutputBound,
    /// Ask for the usage in the stream. Default: true.
    stream_usage: Option<bool>,
    /// Value of parallel_tool_calls. Default: left to the server.
    parallel_tool_calls: Option<bool>,
    /// Write the flag strict at schemas. Default: true.
    strict: Option<bool>,
    /// Replies whose thinking returns to the model: those with calls of tools, all, or none. Default: calls.
    thinking_back: ThinkingReturn,
    /// Form of the ids of calls: any, or nine letters and digits, which Mistral requires. Default: any.
    call_ids: CallIds,
    /// More members of every request, such as `thinking: { type: enabled }`.
    body: Map<String, Value>,
    /// Reports of the server on the cost of an answer, in its usage. Default: never.
    cost: Cost,
    /// Place of the credential in a request: bearer, none, `{ header: NAME }` or `{ query: NAME }`. Default: bearer, in the
    /// header Authorization.
    auth: KeyPlacement,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum SystemRole {
    #[default]
    System,
    Developer,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum OutputBound {
    #[default]
    MaxTokens,
    MaxCompletionTokens,
    Omit,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ThinkingReturn {
    #[default]
    Calls,
    Always,
    Never,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum CallIds {
    #[default]
    Any,
    Short,
}

/// Dialect of the server, from the settings.
#[derive(Debug)]
pub(crate) struct ChatServer {
    provider: String,
    default_model: Option<ModelId>,
    is_list_probed: bool,
    billing: Option<Billing>,
    host: String,
    shape: ChatShape,
    efforts: Vec<Effort>,
    cost: CostReport,
    auth: KeyPlacement,
    route: CallRoute,
    scope: Option<SignatureScope>,
}

impl ChatServer {
    fn new(own: &ChatSettings, settings: &NativeSettings) -> Self {
        let shape = ChatShape {
            system: match own.system {
                SystemRole::System => "system",
                SystemRole::Developer => "developer",
            },
            output_bound: match own.output_bound {
                OutputBound::MaxTokens => Some("max_tokens"),
                OutputBound::MaxCompletionTokens => Some("max_completion_tokens"),
                OutputBound::Omit => None,
            },
            parallel_tool_calls: own.parallel_tool_calls,
            stream_usage: own.stream_usage.unwrap_or(true),
            strict: own.strict.unwrap_or(true),
            thinking_back: match own.thinking_back {
                ThinkingReturn::Calls => ThinkingBack::WithCalls,
                ThinkingReturn::Always => ThinkingBack::Always,
                ThinkingReturn::Never => ThinkingBack::Never,
            },
            id_length: match own.call_ids {
                CallIds::Any => ID_BYTES,
                CallIds::Short => SHORT_ID_BYTES,
            },
            answer: own.structured_output.format(),
            body: any_server::body(&own.body),
        };
        Self {
            provider: "openai".to_owned(),
            default_model: settings.model.as_deref().map(ModelId::from),
            is_list_probed: !settings.credential.as_ref().is_some_and(CredentialSetting::is_of_the_host),
            billing: settings.billing,
            host: any_server::host(settings),
            shape,
            efforts: own.efforts.clone().unwrap_or_else(|| EFFORTS.to_vec()),
            cost: own.cost.report(),
            auth: own.auth.clone(),
            route: CallRoute::default(),
            scope: None,
        }
    }
}

/// The dialect without any settings.
impl Default for ChatServer {
    fn default() -> Self {
        Self::new(&ChatSettings::default(), &NativeSettings::default())
    }
}

#[async_trait]
impl Dialect for ChatServer {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = kind::capabilities(&self.provider, &self.efforts, self.cost);
        if self.shape.answer == AnswerFormat::Instructed {
            capabilities.output = OutputSupport::Instructed;
        }
        // The server's model list is not requested, so a request must name a model if no default is set.
        capabilities.needs_model = self.default_model.is_none();
        capabilities
    }

    fn credential_remedy(&self) -> Option<&'static str> {
        None
    }

    fn accepts(&self, credential: &Credential) -> Result<(), Failure> {
        check_scope(self.scope.as_ref(), credential)?;
        any_server::check_key(self.billing, &self.host, credential)
    }

    async fn model(
        &self,
        model: Option<&ModelId>,
        _transport: &Transport,
        _credential: Option<&Credential>,
    ) -> Result<ModelPlan, Failure> {
        let model = model.or(self.default_model.as_ref()).cloned();
        let model = model.ok_or_else(|| kind::name_a_model("the list of the server is not requested"))?;
        let shape = WireShape::Chat(self.shape.clone());
        let path = self.route.path(&model)?;
        Ok(ModelPlan {
            model,
            path,
            shape,
            efforts: self.efforts.clone(),
            warnings: Vec::new(),
            context_window: None,
        })
    }

    fn probed_model(&self) -> Option<ProbedModel<'_>> {
        let probed = ProbedModel { model: self.default_model.as_ref(), path: self.list_path()? };
        self.is_list_probed.then_some(probed)
    }

    fn list_path(&self) -> Option<&'static str> {
        self.route.path.is_none().then_some("/models")
    }

    fn route(&self) -> Option<&CallRoute> {
        Some(&self.route)
    }

    fn signer<'s>(&'s self, credential: &'s Credential) -> Option<RequestSigner<'s>> {
        signer(self.scope.as_ref(), credential)
    }

    fn list_headers(&self, credential: Option<&Credential>) -> HeaderMap {
        self.auth.headers(credential)
    }

    fn query(&self, credential: Option<&Credential>) -> Option<String> {
        self.auth.query(credential)
    }

    fn headers(&self, call: &RequestContext<'_>) -> HeaderMap {
        self.auth.headers(call.credential)
    }

    fn head(&self, _headers: &HeaderMap) -> HeaderInfo {
        HeaderInfo::default()
    }

    fn event(&self, _kind: &str, _data: &[u8]) -> Option<Vec<TurnEvent>> {
        None
    }

    fn failure(&self, error: &ErrorReply<'_>) -> Option<Failure> {
        let is_bad_request =
            matches!(error.status, Some(StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY));
        match switch(error.body).filter(|switch| is_bad_request && !self.has(switch)) {
            Some(switch) => {
                let words = error.body.words();
                let words = format!("{words} (set `{switch}` for this backend in nexus.yaml)");
                Some(Failure::new(ErrorKind::InvalidRequest, words))
            }
            None => any_server::misplaced(error, "chat"),
        }
    }
}

impl ChatServer {
    /// Returns true if a setting is present already, so that advice to set it does not help.
    fn has(&self, setting: &str) -> bool {
        let shape = &self.shape;
        match setting {
            "output_bound: max_tokens" => shape.output_bound == Some("max_tokens"),
            "output_bound: max_completion_tokens" => shape.output_bound == Some("max_completion_tokens"),
            "stream_usage: false" => !shape.stream_usage,
            "parallel_tool_calls: null" => shape.parallel_tool_calls.is_none(),
            "efforts: []" => self.efforts.is_empty(),
            "structured_output: tool" => shape.answer == AnswerFormat::Tool,
            "structured_output: instructed" => shape.answer == AnswerFormat::Instructed,
            "strict: false" => !shape.strict,
            "thinking_back: never" => shape.thinking_back == ThinkingBack::Never,
            "call_ids: short" => shape.id_length == SHORT_ID_BYTES,
            _ => false,
        }
    }
}

/// Returns the setting that omits or changes the field that an error concerns.
fn switch(body: &ErrorBody) -> Option<&'static str> {
    // The OpenAI API names the other field too, so its words are matched before the name of a field.
    if body.names("max_completion_tokens") && body.names("max_tokens") {
        return Some(match body.words().find("max_tokens") < body.words().find("max_completion_tokens") {
            true => "output_bound: max_completion_tokens",
            false => "output_bound: max_tokens",
        });
    }
    Some(match named_field(body)?.split('[').next()? {
        "max_tokens" => "output_bound: max_completion_tokens",
        "max_completion_tokens" => "output_bound: max_tokens",
        "stream_options" | "include_usage" => "stream_usage: false",
        "parallel_tool_calls" => "parallel_tool_calls: null",
        "reasoning_effort" => "efforts: []",
        "response_format" | "json_schema" => "structured_output: tool",
        "strict" => "strict: false",
        "reasoning_content" | "reasoning" | "reasoning_details" => "thinking_back: never",
        "tool_call_id" => "call_ids: short",
        "tool_choice" => "structured_output: instructed",
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
