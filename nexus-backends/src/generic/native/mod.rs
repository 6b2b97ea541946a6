//! `responses`: any server that speaks `/v1/responses`, given its base URL.
//!
//! A request contains fields that the OpenAI API documents and that servers of a subset also accept. If a server
//! rejects one of them anyway, a setting omits or changes it. The defaults:
//!
//! | field | default | reason |
//! | --- | --- | --- |
//! | system text | the field `instructions` | Ollama silently drops messages with the role `developer`, and other servers reject the role |
//! | effort | the levels that the OpenAI API documents, and only if the request names one | models without reasoning reject the field |
//! | `reasoning.summary` | omitted | the OpenAI API rejects it for organisations that are not verified |
//! | `include` of encrypted reasoning | sent | without it the OpenAI API forgets the reasoning between two tool calls; servers without reasoning ignore it |
//! | `tool_choice`, `parallel_tool_calls` | omitted | their values would be the default of every server |
//! | `text` | sent only for a schema | LM Studio rejects one without a `format` |
//! | the model's own items | sent back unchanged | every server accepts its own output |
//!
//! Source: the OpenAI API reference, the converter of llama.cpp's server, and public threads about Ollama, vLLM, LM
//! Studio and OpenRouter.

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

use crate::auth::Credential;
use crate::generic::any_server::{self, Cost};
use crate::generic::call_settings::CallSettings;
use crate::native::call_route::CallRoute;
use crate::native::dialect::{Dialect, HeaderInfo, ModelPlan, ProbedModel, RequestContext};
use crate::native::key_placement::KeyPlacement;
use crate::native::outcome::{ErrorBody, ErrorReply, named_field, refuses_field};
use crate::native::settings::NativeSettings;
use crate::native::signature::{RequestSigner, SignatureScope, check_scope, signer};
use crate::native::transport::Transport;
use crate::native::wires::responses::shape::{
    Carry, CustomCalls, Shape, SystemPosition, TextShape, ToolPosition,
};
use crate::native::wires::shape::WireShape;
use crate::native::{kind, own_settings};
use crate::settings::{Billing, CredentialSetting};

/// Effort levels that the OpenAI API documents.
const EFFORTS: [Effort; 5] = [Effort::Minimal, Effort::Low, Effort::Medium, Effort::High, Effort::XHigh];

/// The backend kind `responses`: Nexus's own loop at any server that speaks `/v1/responses`.
///
/// Settings: those of every native backend, of which `base_url` is required; and `vendor`, `system`,
/// `structured_output`, `efforts`, `reasoning_summary`, `encrypted_reasoning`, `prompt_cache_key`, `cost`,
/// `auth`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Responses;

impl BackendKind for Responses {
    fn name(&self) -> &str {
        "responses"
    }

    fn vendor(&self, settings: &Map<String, Value>, _: &BuildContext) -> VendorId {
        any_server::vendor(self.name(), settings)
    }

    fn settings_schema(&self) -> Value {
        let mut schema = own_settings::schema::<Own>();
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
        let (own, shared) = own_settings::part::<Own>(&settings)?;
        own.auth.check("auth")?;
        let settings = NativeSettings::read(&shared, context)?;
        if settings.base_url.is_none() {
            let reason = "name the server without /responses, such as `base_url: \
                 \"http://127.0.0.1:11434/v1\"`";
            return Err(SettingsError::new("base_url", reason));
        }
        let credential = settings.credential.as_ref().map(|setting| setting.source(context)).transpose()?;
        let mut generic = Generic::new(&own, &settings);
        (generic.route, generic.scope) = (call.route(), call.scope());
        generic.provider = any_server::provider(own.vendor.as_deref(), &self.vendor(&shared, context));
        generic.host = any_server::host(&settings);
        kind::build(id, Arc::new(generic), credential, &settings, context)
    }
}

/// Settings of this kind alone.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Own {
    /// The company behind the server, for the vendors that a panel counts. Default: the host of base_url.
    vendor: Option<String>,
    /// Destination of system text: the field of that name, or a message of that role. Default: instructions.
    system: SystemText,
    /// Recipient of an answer's schema: the server, or the model by its instructions. Default: native.
    structured_output: StructuredOutput,
    /// The effort levels that the model accepts. With an empty list requests contain no effort. Default: [minimal, low,
    /// medium, high, xhigh].
    #[schemars(schema_with = "any_server::effort_steps")]
    efforts: Option<Vec<Effort>>,
    /// Requested summary of the model's thinking. Default: none.
    reasoning_summary: Option<Summary>,
    /// Request the reasoning in encrypted form, which later requests send back to the model. Default: true.
    encrypted_reasoning: Option<bool>,
    /// Send a name of the conversation, so that the server can use its cache of earlier requests. Default: true.
    prompt_cache_key: Option<bool>,
    /// Request to store the conversation: `never` writes store: false, which a few servers refuse; `omit`
    /// leaves it to the server, and some store it then. Default: never.
    store: Store,
    /// Form in which the model's items return to it: unchanged, or without ids and states, which some servers
    /// refuse. Default: whole.
    items: Items,
    /// Write the flag strict at tools and schemas. Default: true.
    strict: Option<bool>,
    /// Send the turn's limit on output tokens to the server. Default: true.
    max_output_tokens: Option<bool>,
    /// Reports of the server on the cost of an answer, in its usage. Default: never.
    cost: Cost,
    /// Place of the credential in a request: bearer, none, `{ header: NAME }` or `{ query: NAME }`. Default: bearer, in the
    /// header Authorization.
    auth: KeyPlacement,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum SystemText {
    #[default]
    Instructions,
    System,
    Developer,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum StructuredOutput {
    #[default]
    Native,
    Instructed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Store {
    #[default]
    Never,
    Omit,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Items {
    #[default]
    Whole,
    Bare,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Summary {
    Auto,
    Concise,
    Detailed,
}

/// Dialect of the server, from the settings.
#[derive(Debug)]
pub(crate) struct Generic {
    provider: String,
    default_model: Option<ModelId>,
    billing: Option<Billing>,
    is_list_probed: bool,
    /// Host of the server.
    host: String,
    shape: Shape,
    efforts: Vec<Effort>,
    output: OutputSupport,
    cost: CostReport,
    auth: KeyPlacement,
    route: CallRoute,
    scope: Option<SignatureScope>,
}

impl Generic {
    fn new(own: &Own, settings: &NativeSettings) -> Self {
        let shape = Shape {
            system: match own.system {
                SystemText::Instructions => SystemPosition::Instructions,
                SystemText::System => SystemPosition::SystemMessage,
                SystemText::Developer => SystemPosition::DeveloperMessage,
            },
            text: TextShape::Parts,
            tools: ToolPosition::Field,
            parallel_tool_calls: None,
            tool_choice: false,
            reasoning_summary: own.reasoning_summary.map(|summary| match summary {
                Summary::Auto => "auto",
                Summary::Concise => "concise",
                Summary::Detailed => "detailed",
            }),
            reasoning_context: None,
            encrypted_reasoning: own.encrypted_reasoning.unwrap_or(true),
            prompt_cache_key: own.prompt_cache_key.unwrap_or(true),
            store: own.store == Store::Never,
            strict: own.strict.unwrap_or(true),
            max_output_tokens: own.max_output_tokens.unwrap_or(true),
            carry: match own.items {
                Items::Whole => Carry::AsTheyCame,
                Items::Bare => Carry::Bare,
            },
            custom_calls: CustomCalls::Client,
        };
        Self {
            provider: "openai".to_owned(),
            default_model: settings.model.as_deref().map(ModelId::from),
            billing: settings.billing,
            is_list_probed: !settings.credential.as_ref().is_some_and(CredentialSetting::is_of_the_host),
            host: String::new(),
            shape,
            efforts: own.efforts.clone().unwrap_or_else(|| EFFORTS.to_vec()),
            output: match own.structured_output {
                StructuredOutput::Native => OutputSupport::Native,
                StructuredOutput::Instructed => OutputSupport::Instructed,
            },
            cost: own.cost.report(),
            auth: own.auth.clone(),
            route: CallRoute::default(),
            scope: None,
        }
    }
}

/// The dialect without any settings.
impl Default for Generic {
    fn default() -> Self {
        Self::new(&Own::default(), &NativeSettings::default())
    }
}

#[async_trait]
impl Dialect for Generic {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = kind::capabilities(&self.provider, &self.efforts, self.cost);
        capabilities.output = self.output;
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
        let path = self.route.path(&model)?;
        Ok(ModelPlan {
            model,
            path,
            shape: WireShape::Responses(self.shape),
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
        let words = error.body.words();
        let says = |known| error.body.names(known);
        let (kind, hint) = match error.status? {
            // Text of the OpenAI API for a model without reasoning.
            StatusCode::BAD_REQUEST if says("encrypted content is not supported") => {
                (ErrorKind::InvalidRequest, " (set `encrypted_reasoning: false` for this model)")
            }
            // Parameter names of the OpenAI API and of LiteLLM 1.106.2.
            StatusCode::BAD_REQUEST if says("reasoning.effort") || says("reasoning_effort") => (
                ErrorKind::InvalidRequest,
                " (set `efforts` to the efforts that this model supports, if any)",
            ),
            // Text of the server of llama.cpp 0.5.0, for a model without image input. A retry would not help.
            StatusCode::INTERNAL_SERVER_ERROR if says("image input is not supported") => {
                (ErrorKind::Unsupported, "")
            }
            StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => {
                let Some(switch) = switch(error.body).filter(|switch| !self.has(switch)) else {
                    return any_server::misplaced(error, "responses");
                };
                let hint = format!(" (set `{switch}` for this backend in nexus.yaml)");
                return Some(Failure::new(ErrorKind::InvalidRequest, format!("{words}{hint}")));
            }
            _ => return any_server::misplaced(error, "responses"),
        };
        Some(Failure::new(kind, format!("{words}{hint}")))
    }
}

impl Generic {
    /// Returns true if a setting is present already, so that advice to set it does not help.
    fn has(&self, setting: &str) -> bool {
        let shape = &self.shape;
        match setting {
            "encrypted_reasoning: false" => !shape.encrypted_reasoning,
            "prompt_cache_key: false" => !shape.prompt_cache_key,
            "store: omit" => !shape.store,
            "strict: false" => !shape.strict,
            "max_output_tokens: false" => !shape.max_output_tokens,
            "system: system" => shape.system == SystemPosition::SystemMessage,
            "structured_output: instructed" => self.output == OutputSupport::Instructed,
            "items: bare" => shape.carry == Carry::Bare,
            _ => false,
        }
    }
}

/// Returns the setting that omits the field that an error concerns.
fn switch(body: &ErrorBody) -> Option<&'static str> {
    let field = named_field(body)?;
    let is_in_item = |name: &str| name == field && refuses_field(body);
    Some(match field.split('[').next()? {
        "include" => "encrypted_reasoning: false",
        "prompt_cache_key" => "prompt_cache_key: false",
        "store" => "store: omit",
        "strict" => "strict: false",
        "max_output_tokens" => "max_output_tokens: false",
        "instructions" => "system: system",
        "format" | "json_schema" => "structured_output: instructed",
        _ if is_in_item("status") || is_in_item("id") => "items: bare",
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
