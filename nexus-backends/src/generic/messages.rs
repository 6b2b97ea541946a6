//! `messages`: any server that speaks the Messages API, by default Anthropic's own.
//!
//! If a server rejects a field, a setting omits or changes it. The defaults:
//!
//! | field | default | reason |
//! | --- | --- | --- |
//! | key | the header `x-api-key` | the Anthropic API documents it; some gateways require a bearer token |
//! | `anthropic-version` | `2023-06-01` | the only version of the API |
//! | effort | `output_config.effort` with adaptive thinking, only if the request names one | models since Claude 4.6 reject a budget, older ones the effort |
//! | `max_tokens` | 32,000 | every request must state it, and the smallest current model allows it |
//! | `cache_control` | at the system text and at the last message | without marks nothing is cached |
//! | schema of an answer | `output_config.format` | current models enforce it |
//!
//! Source: the API reference, and the types of Anthropic's SDK for Python 2.14.0.

mod advice;

use std::sync::Arc;

use async_trait::async_trait;
use http::{
    StatusCode,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use nexus_core::{
    BackendId, BackendKind, BuildContext, Capabilities, CostReport, Effort, ErrorKind, ExecutionBackend,
    ModelId, OutputSupport, SettingsError, TurnEvent, VendorId, harness::Failure,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::any_server::{self, Cost, StructuredOutput};
use super::call_settings::CallSettings;
use crate::auth::Credential;
use crate::native::call_route::{CallRoute, StreamFraming};
use crate::native::dialect::{Dialect, HeaderInfo, ModelPlan, ProbedModel, RequestContext};
use crate::native::outcome::ErrorReply;
use crate::native::settings::NativeSettings;
use crate::native::signature::{RequestSigner, SignatureScope, check_scope, signer};
use crate::native::transport::Transport;
use crate::native::wires::AnswerFormat;
use crate::native::wires::messages::shape::{MessagesShape, ThinkingForm};
use crate::native::wires::shape::WireShape;
use crate::native::{bearer, kind, own_settings};
use crate::settings::{Billing, CredentialSetting};

/// Server of a backend that names none.
const BASE_URL: &str = "https://api.anthropic.com";

/// Version of the API that requests name.
const VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

/// Effort levels that the API documents.
const EFFORTS: [Effort; 5] = [Effort::Low, Effort::Medium, Effort::High, Effort::XHigh, Effort::Max];

/// The backend kind `messages`: Nexus's own loop at any server that speaks the Messages API.
///
/// Settings: those of every native backend; and `vendor`, `structured_output`, `efforts`, `thinking`, `max_tokens`,
/// `cache_marks`, `key_header`, `omit`, `body`, `cost`, and those of a call: `path`, `query`, `framing`, `sigv4`. A token of a Claude plan is rejected.
#[derive(Clone, Copy, Debug, Default)]
pub struct MessagesApi;

/// Name of the kind.
const NAME: &str = "messages";

impl BackendKind for MessagesApi {
    fn name(&self) -> &str {
        NAME
    }

    fn vendor(&self, settings: &Map<String, Value>, _: &BuildContext) -> VendorId {
        match settings.contains_key("base_url") || settings.contains_key("vendor") {
            true => any_server::vendor(self.name(), settings),
            false => VendorId::from("anthropic"),
        }
    }

    fn settings_schema(&self) -> Value {
        let mut schema = own_settings::schema::<MessagesSettings>();
        CallSettings::add_to(&mut schema);
        schema
    }

    fn build(
        &self,
        id: BackendId,
        settings: &Map<String, Value>,
        context: &BuildContext,
    ) -> Result<Arc<dyn ExecutionBackend>, SettingsError> {
        let (call, settings) = CallSettings::part(settings)?;
        let (own, shared) = own_settings::part::<MessagesSettings>(&settings)?;
        any_server::check_body(&own.body)?;
        if own.max_tokens == Some(0) {
            return Err(SettingsError::new("max_tokens", "must be at least 1"));
        }
        let mut settings = NativeSettings::read(&shared, context)?;
        settings.base_url.get_or_insert_with(|| BASE_URL.to_owned());
        let credential = settings.credential.as_ref().map(|setting| setting.source(context)).transpose()?;
        let mut server = MessagesServer::new(&own, &settings);
        server.apply(&call);
        server.provider = own.vendor.unwrap_or_else(|| "anthropic".to_owned());
        kind::build(id, Arc::new(server), credential, &settings, context)
    }
}

/// Settings of this kind alone.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct MessagesSettings {
    /// The company behind the server, as the spread of a panel counts it. Default: the host of base_url.
    vendor: Option<String>,
    /// Recipient of an answer's schema: the server in output_config, the server as a tool that the model must call, or
    /// the model by its instructions. Default: native.
    structured_output: StructuredOutput,
    /// The steps of effort that the model takes; an empty list leaves the field out. Default: [low, medium, high, xhigh,
    /// max].
    #[schemars(schema_with = "any_server::effort_steps")]
    efforts: Option<Vec<Effort>>,
    /// Form of an effort: a step with adaptive thinking, a budget of tokens for models before Claude 4.6, or none. Default:
    /// adaptive.
    thinking: ThinkingSetting,
    /// Maximum number of tokens of an answer, thinking included. Default: 32000.
    #[schemars(range(min = 1))]
    max_tokens: Option<u64>,
    /// Mark where the server's cache of prompts ends. Default: true.
    cache_marks: Option<bool>,
    /// Header with the key: x-api-key, or authorization as a bearer token. Default: x-api-key.
    key_header: KeyHeader,
    /// Members that requests leave out, because the address states them.
    omit: Vec<OmittedMember>,
    /// More members of every request.
    body: Map<String, Value>,
    /// Reports of the server on the cost of an answer, in its usage. Default: never.
    cost: Cost,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ThinkingSetting {
    #[default]
    Adaptive,
    Budget,
    None,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum KeyHeader {
    #[default]
    XApiKey,
    Authorization,
}

/// Member of a request that the address can state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum OmittedMember {
    Model,
    Stream,
}

/// Dialect of the server, from the settings.
#[derive(Debug)]
pub(crate) struct MessagesServer {
    provider: String,
    default_model: Option<ModelId>,
    is_list_probed: bool,
    /// Path of the list of models; `None` at a server whose calls have another path than the API.
    list_path: Option<&'static str>,
    billing: Option<Billing>,
    host: String,
    key_header: KeyHeader,
    shape: MessagesShape,
    efforts: Vec<Effort>,
    cost: CostReport,
    route: CallRoute,
    scope: Option<SignatureScope>,
    /// True if the body names the version of the API, so that no header does.
    has_version_member: bool,
}

impl MessagesServer {
    fn new(own: &MessagesSettings, settings: &NativeSettings) -> Self {
        let thinking = match own.thinking {
            ThinkingSetting::Adaptive => ThinkingForm::Adaptive,
            ThinkingSetting::Budget => ThinkingForm::Budget,
            ThinkingSetting::None => ThinkingForm::Nothing,
        };
        let efforts = match thinking {
            ThinkingForm::Nothing => Vec::new(),
            _ => own.efforts.clone().unwrap_or_else(|| EFFORTS.to_vec()),
        };
        let shape = MessagesShape {
            path: path_below(settings.base_url.as_deref().unwrap_or(BASE_URL)),
            max_tokens: own.max_tokens.unwrap_or(32_000),
            thinking,
            cache_marks: own.cache_marks.unwrap_or(true),
            answer: own.structured_output.format(),
            omits_model: own.omit.contains(&OmittedMember::Model),
            omits_stream: own.omit.contains(&OmittedMember::Stream),
            body: any_server::body(&own.body),
        };
        Self {
            provider: "anthropic".to_owned(),
            default_model: settings.model.as_deref().map(ModelId::from),
            is_list_probed: !settings.credential.as_ref().is_some_and(CredentialSetting::is_of_the_host),
            list_path: Some(if shape.path == "/messages" { "/models" } else { "/v1/models" }),
            billing: settings.billing,
            host: any_server::host(settings),
            key_header: own.key_header,
            shape,
            efforts,
            cost: own.cost.report(),
            route: CallRoute::default(),
            scope: None,
            has_version_member: own.body.contains_key("anthropic_version"),
        }
    }

    /// Applies the settings of a call's address and signature.
    fn apply(&mut self, call: &CallSettings) {
        self.route = call.route();
        self.scope = call.scope();
        if self.route.path.is_some() {
            self.list_path = None;
        }
    }
}

/// The dialect without any settings.
impl Default for MessagesServer {
    fn default() -> Self {
        Self::new(&MessagesSettings::default(), &NativeSettings::default())
    }
}

/// Returns the path of a call below a base URL.
fn path_below(base_url: &str) -> &'static str {
    if any_server::ends_with_version(base_url) { "/messages" } else { "/v1/messages" }
}

#[async_trait]
impl Dialect for MessagesServer {
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
        let shape = WireShape::Messages(self.shape.clone());
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
        let probed = ProbedModel { model: self.default_model.as_ref(), path: self.list_path? };
        self.is_list_probed.then_some(probed)
    }

    // A page has 20 models by default, and 1000 at most. Source: API reference, "List Models".
    fn list_path(&self) -> Option<&'static str> {
        Some(match self.list_path? {
            "/models" => "/models?limit=1000",
            _ => "/v1/models?limit=1000",
        })
    }

    fn route(&self) -> Option<&CallRoute> {
        Some(&self.route)
    }

    fn signer<'s>(&'s self, credential: &'s Credential) -> Option<RequestSigner<'s>> {
        signer(self.scope.as_ref(), credential)
    }

    fn headers(&self, call: &RequestContext<'_>) -> HeaderMap {
        self.list_headers(call.credential)
    }

    fn list_headers(&self, credential: Option<&Credential>) -> HeaderMap {
        let mut headers = match self.key_header {
            KeyHeader::Authorization => bearer::headers(credential),
            KeyHeader::XApiKey => bearer::headers(None),
        };
        if !self.has_version_member {
            headers.insert(HeaderName::from_static("anthropic-version"), VERSION);
        }
        let key = credential.filter(|_| self.key_header == KeyHeader::XApiKey);
        if let Some(mut value) = key.and_then(bearer::token).and_then(|key| HeaderValue::from_str(key).ok()) {
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static("x-api-key"), value);
        }
        headers
    }

    fn head(&self, headers: &HeaderMap) -> HeaderInfo {
        HeaderInfo { limits: advice::limits(headers), ..HeaderInfo::default() }
    }

    fn event(&self, _kind: &str, _data: &[u8]) -> Option<Vec<TurnEvent>> {
        None
    }

    fn failure(&self, error: &ErrorReply<'_>) -> Option<Failure> {
        let words = error.body.words();
        // The API's error for an unknown model is `not_found_error` with the words `model: NAME`.
        if error.status == Some(StatusCode::NOT_FOUND) && words.starts_with("model:") {
            let words =
                format!("{words} (set `model` for this backend in nexus.yaml to a model of this server)");
            return Some(Failure::new(ErrorKind::ModelUnavailable, words));
        }
        if let Some(until) = advice::own_limit(words) {
            return Some(Failure::new(ErrorKind::UsageLimit, words).with_retry(until));
        }
        if self.route.framing == StreamFraming::AwsEventStream
            && let Some(failure) = advice::bedrock_model(error)
        {
            return Some(failure);
        }
        let switch = advice::switch(error.body).filter(|switch| !self.has(switch));
        match switch.filter(|_| error.status == Some(StatusCode::BAD_REQUEST)) {
            Some(switch) => {
                let words = format!("{words} (set `{switch}` for this backend in nexus.yaml)");
                Some(Failure::new(ErrorKind::InvalidRequest, words))
            }
            None => any_server::misplaced(error, NAME),
        }
    }
}

impl MessagesServer {
    /// Returns true if a setting is present already, so that advice to set it does not help.
    fn has(&self, setting: &str) -> bool {
        match setting {
            "thinking: adaptive" => self.shape.thinking == ThinkingForm::Adaptive,
            "thinking: budget" => self.shape.thinking == ThinkingForm::Budget,
            "structured_output: tool" => self.shape.answer == AnswerFormat::Tool,
            "cache_marks: false" => !self.shape.cache_marks,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
