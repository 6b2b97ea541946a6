//! `gemini`: any server that speaks the Gemini API, by default Google's own.
//!
//! If a server rejects a field, a setting omits or changes it. The defaults:
//!
//! | field | default | reason |
//! | --- | --- | --- |
//! | key | the header `x-goog-api-key` | the API documents it; some gateways require a bearer token |
//! | `thinkingConfig.includeThoughts` | true | without it nothing of the thinking is shown |
//! | effort | `thinkingLevel`, only if the request names one | models since Gemini 3 document it; older ones take a budget |
//! | `minimal` | not among the efforts | only some models accept it |
//! | pictures of a result | in the response of the function | models since Gemini 3 document it |
//! | `maxOutputTokens` | only if the turn has a limit | the default is the maximum of the model |
//! | schemas | `responseJsonSchema`, `parametersJsonSchema` | they take JSON Schema; the older fields take a small subset of it |
//!
//! Source: the API reference, and the guides to thinking, function calling and structured output.

mod advice;

use std::{sync::Arc, time::SystemTime};

use async_trait::async_trait;
use http::{
    StatusCode,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use nexus_core::{
    BackendId, BackendKind, BuildContext, Capabilities, CostReport, Effort, ErrorKind, ExecutionBackend,
    ModelId, OutputSupport, Retry, SettingsError, TurnEvent, VendorId, harness::Failure,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::any_server::{self, StructuredOutput};
use crate::auth::Credential;
use crate::native::dialect::{Dialect, HeaderInfo, ModelPlan, ProbedModel, RequestContext};
use crate::native::outcome::ErrorReply;
use crate::native::settings::NativeSettings;
use crate::native::signature::check_scope;
use crate::native::transport::Transport;
use crate::native::wires::AnswerFormat;
use crate::native::wires::gemini::shape::{GeminiShape, ResultPictures, ThinkingControl, call_path};
use crate::native::wires::shape::WireShape;
use crate::native::{bearer, kind, own_settings};
use crate::settings::{Billing, CredentialSetting};

/// Server of a backend that names none.
const BASE_URL: &str = "https://generativelanguage.googleapis.com/v1beta";

/// Vendor of that server.
const VENDOR: &str = "google";

/// Header with the key.
const KEY_HEADER: HeaderName = HeaderName::from_static("x-goog-api-key");

/// Effort levels that every model with levels accepts, at least since Gemini 3.1.
const EFFORTS: [Effort; 3] = [Effort::Low, Effort::Medium, Effort::High];

/// Members of a request that Nexus writes.
const OWN_MEMBERS: [&str; 6] = ["contents", "model", "stream", "systemInstruction", "toolConfig", "tools"];

/// Members of `generationConfig` that Nexus writes.
const OWN_GENERATION: [&str; 6] = [
    "candidateCount",
    "maxOutputTokens",
    "responseJsonSchema",
    "responseMimeType",
    "responseSchema",
    "thinkingConfig",
];

/// The backend kind `gemini`: Nexus's own loop at any server that speaks the Gemini API.
///
/// Settings: those of every native backend; and `vendor`, `structured_output`, `efforts`, `thinking`,
/// `result_pictures`, `call_ids`, `key_header`, `body`.
#[derive(Clone, Copy, Debug, Default)]
pub struct GeminiApi;

impl BackendKind for GeminiApi {
    fn name(&self) -> &str {
        "gemini"
    }

    fn vendor(&self, settings: &Map<String, Value>, _: &BuildContext) -> VendorId {
        match settings.contains_key("base_url") || settings.contains_key("vendor") {
            true => any_server::vendor(self.name(), settings),
            false => VendorId::from(VENDOR),
        }
    }

    fn settings_schema(&self) -> Value {
        own_settings::schema::<GeminiSettings>()
    }

    fn build(
        &self,
        id: BackendId,
        settings: &Map<String, Value>,
        context: &BuildContext,
    ) -> Result<Arc<dyn ExecutionBackend>, SettingsError> {
        let (mut own, shared) = own_settings::part::<GeminiSettings>(settings)?;
        any_server::check_members(&own.body, &["body"], &OWN_MEMBERS)?;
        let generation = take_generation(&mut own.body)?;
        let mut settings = NativeSettings::read(&shared, context)?;
        settings.base_url.get_or_insert_with(|| BASE_URL.to_owned());
        let credential = settings.credential.as_ref().map(|setting| setting.source(context)).transpose()?;
        let mut server = GeminiServer::new(&own, &settings);
        server.shape.generation = any_server::body(&generation);
        server.provider = any_server::provider(own.vendor.as_deref(), &VendorId::from(VENDOR));
        kind::build(id, Arc::new(server), credential, &settings, context)
    }
}

/// Removes the members of `generationConfig` from the setting `body`.
fn take_generation(body: &mut Map<String, Value>) -> Result<Map<String, Value>, SettingsError> {
    let is_generation = |name: &&String| any_server::in_camel_case(name) == "generationConfig";
    let names: Vec<String> = body.keys().filter(is_generation).cloned().collect();
    let mut generation = None;
    for name in names {
        let error = |reason: &str| SettingsError {
            path: vec!["body".to_owned(), name.clone()],
            reason: reason.to_owned(),
        };
        let Some(Value::Object(members)) = body.remove(&name) else {
            return Err(error("must be an object"));
        };
        any_server::check_members(&members, &["body", &name], &OWN_GENERATION)?;
        if generation.replace(members).is_some() {
            return Err(error("the same member is set in another spelling: remove one of them"));
        }
    }
    Ok(generation.unwrap_or_default())
}

/// Settings of this kind alone.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct GeminiSettings {
    /// The company behind the server, for the vendors that a panel counts. Default: the host of base_url.
    vendor: Option<String>,
    /// Recipient of an answer's schema: the server in responseJsonSchema, the server as a function that the model must
    /// call, or the model by its instructions. Default: native.
    structured_output: StructuredOutput,
    /// The steps of effort that the model takes; an empty list leaves the field out. Default: [low, medium, high].
    #[schemars(schema_with = "any_server::effort_steps")]
    efforts: Option<Vec<Effort>>,
    /// Form of an effort: a level, a budget of tokens for models before Gemini 3, or none for models that do not think.
    /// Default: level.
    thinking: ThinkingForms,
    /// Position of the pictures of a tool's result: inside the response of the function, or beside it, as models before
    /// Gemini 3 require. Default: inside, and beside after the server rejected that.
    result_pictures: PicturePosition,
    /// Send the ids of calls. Google's cloud platform rejects them. Default: true.
    call_ids: Option<bool>,
    /// Header with the key: x-goog-api-key, or authorization as a bearer token. Default: x-goog-api-key.
    key_header: ApiKeyHeader,
    /// More members of every request, such as `safetySettings`, or `generationConfig` with a temperature.
    body: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ThinkingForms {
    #[default]
    Level,
    Budget,
    None,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum PicturePosition {
    #[default]
    Inside,
    Beside,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum ApiKeyHeader {
    #[default]
    XGoogApiKey,
    Authorization,
}

/// Dialect of the server, from the settings.
#[derive(Debug)]
pub(crate) struct GeminiServer {
    provider: String,
    default_model: Option<ModelId>,
    is_list_probed: bool,
    has_version: bool,
    billing: Option<Billing>,
    host: String,
    key_header: ApiKeyHeader,
    /// Shape of requests, whose path lacks the model.
    shape: GeminiShape,
    efforts: Vec<Effort>,
}

impl GeminiServer {
    fn new(own: &GeminiSettings, settings: &NativeSettings) -> Self {
        let thinking = match own.thinking {
            ThinkingForms::Level => ThinkingControl::Level,
            ThinkingForms::Budget => ThinkingControl::Budget,
            ThinkingForms::None => ThinkingControl::Nothing,
        };
        let efforts = match thinking {
            ThinkingControl::Nothing => Vec::new(),
            _ => own.efforts.clone().unwrap_or_else(|| EFFORTS.to_vec()),
        };
        let shape = GeminiShape {
            path: Arc::from(""),
            thinking,
            pictures: match own.result_pictures {
                PicturePosition::Inside => ResultPictures::Inside,
                PicturePosition::Beside => ResultPictures::Beside,
            },
            call_ids: own.call_ids.unwrap_or(true),
            answer: own.structured_output.format(),
            body: any_server::body(&own.body),
            generation: None,
        };
        Self {
            provider: VENDOR.to_owned(),
            default_model: settings.model.as_deref().map(ModelId::from),
            is_list_probed: !settings.credential.as_ref().is_some_and(CredentialSetting::is_of_the_host),
            has_version: names_version(settings.base_url.as_deref().unwrap_or(BASE_URL)),
            billing: settings.billing,
            host: any_server::host(settings),
            key_header: own.key_header,
            shape,
            efforts,
        }
    }
}

/// Returns true if the path of a base URL has the version of the API: at its end, or before a project or a publisher as at
/// Google's cloud platform. A version anywhere else is that of a gateway.
fn names_version(base_url: &str) -> bool {
    let segments: Vec<&str> = base_url.trim().trim_end_matches('/').split('/').skip(3).collect();
    let is_before = |pair: &[&str]| matches!(pair, [version, "projects" | "publishers"] if any_server::is_version(version));
    segments.last().is_some_and(|last| any_server::is_version(last)) || segments.windows(2).any(is_before)
}

/// The dialect without any settings.
impl Default for GeminiServer {
    fn default() -> Self {
        Self::new(&GeminiSettings::default(), &NativeSettings::default())
    }
}

#[async_trait]
impl Dialect for GeminiServer {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = kind::capabilities(&self.provider, &self.efforts, CostReport::Never);
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
        check_scope(None, credential)?;
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
        let path = call_path(&model)?;
        let path = if self.has_version { path } else { format!("/v1beta{path}").into() };
        let shape = WireShape::Gemini(GeminiShape { path, ..self.shape.clone() });
        Ok(ModelPlan {
            model,
            shape,
            efforts: self.efforts.clone(),
            warnings: Vec::new(),
            path: None,
            context_window: None,
        })
    }

    fn probed_model(&self) -> Option<ProbedModel<'_>> {
        let path = self.list_path()?;
        let probed = ProbedModel { model: self.default_model.as_ref(), path };
        self.is_list_probed.then_some(probed)
    }

    // One page has at most 1,000 models. Source: the API reference, `models.list`.
    fn list_path(&self) -> Option<&'static str> {
        Some(match self.has_version {
            true => "/models?pageSize=1000",
            false => "/v1beta/models?pageSize=1000",
        })
    }

    fn headers(&self, call: &RequestContext<'_>) -> HeaderMap {
        self.list_headers(call.credential)
    }

    fn list_headers(&self, credential: Option<&Credential>) -> HeaderMap {
        if self.key_header == ApiKeyHeader::Authorization {
            return bearer::headers(credential);
        }
        let mut headers = bearer::headers(None);
        let key = credential.and_then(bearer::token).and_then(|key| HeaderValue::from_str(key).ok());
        if let Some(mut value) = key {
            value.set_sensitive(true);
            headers.insert(KEY_HEADER, value);
        }
        headers
    }

    fn head(&self, _headers: &HeaderMap) -> HeaderInfo {
        HeaderInfo::default()
    }

    fn event(&self, _kind: &str, _data: &[u8]) -> Option<Vec<TurnEvent>> {
        None
    }

    fn failure(&self, error: &ErrorReply<'_>) -> Option<Failure> {
        let words = error.body.words();
        let says = |words: &[&str]| words.iter().any(|words| error.body.names(words));
        // The API answers a missing key with 403, and an invalid one with 400.
        if says(&["unregistered callers", "api key not valid", "api key expired"]) {
            return Some(Failure::new(ErrorKind::Unauthenticated, words));
        }
        if says(&["location is not supported", "not available in your country"]) {
            return Some(Failure::new(ErrorKind::Forbidden, words));
        }
        // Ignore the delay that an error of the daily quota names: it belongs to the quota per minute.
        match error.body.quota.as_deref().filter(|quota| quota.contains("PerDay")) {
            // A usage limit would suspend the backend, which still serves its other models.
            Some(quota) if quota.contains("PerModel") => {
                let words = format!(
                    "{words} (this model's quota of the day is used up until midnight Pacific time: name another model)"
                );
                return Some(Failure::new(ErrorKind::ModelUnavailable, words));
            }
            Some(_) => {
                let retry = Retry::Guessed(advice::until_reset(SystemTime::now()));
                return Some(Failure::new(ErrorKind::UsageLimit, words).with_retry(retry));
            }
            None => {}
        }
        let switch = advice::switch(error.body).filter(|switch| !advice::is_set(switch, &self.shape));
        match switch.filter(|_| error.status == Some(StatusCode::BAD_REQUEST)) {
            Some(switch) => {
                let words = format!("{words} (set `{switch}` for this backend in nexus.yaml)");
                Some(Failure::new(ErrorKind::InvalidRequest, words))
            }
            None => any_server::misplaced(error, "gemini"),
        }
    }
}

#[cfg(test)]
mod tests;
