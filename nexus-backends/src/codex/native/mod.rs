//! `codex-sub-token`: the endpoint that Codex uses, on a ChatGPT plan.
//!
//! Some models need a request in the classic shape and others one in the lite shape. Only the model list shows which;
//! the server rejects the wrong shape. System text is in a first `developer` message in both shapes, as in codex
//! 0.169.0. Older clients used the field `instructions`.
//!
//! Requests identify themselves as Nexus. They omit the data that the vendor's program sends about itself, its
//! installation and the user's folders.
//!
//! Source: requests of codex 0.169.0, and the public source of the program.

mod rate_limits;

use async_trait::async_trait;
use http::{
    StatusCode,
    header::{HeaderMap, HeaderValue},
};
use nexus_core::{Capabilities, CostReport, Effort, ErrorKind, ModelId, Retry, TurnEvent, harness::Failure};

use super::login::LOGIN;
use super::model_list::{ModelEntry, Models};
use crate::auth::Credential;
use crate::native::bearer::OUR_NAME;
use crate::native::dialect::{Dialect, HeaderInfo, ModelPlan, RequestContext};
use crate::native::kind::name_a_model;
use crate::native::models::{ListLookup, ModelListCache};
use crate::native::outcome::ErrorReply;
use crate::native::own_settings::{ClientVersion, SubscriptionEndpoint};
use crate::native::settings::NativeSettings;
use crate::native::transport::Transport;
use crate::native::wires::responses::shape::{
    Carry, CustomCalls, Shape, SystemPosition, TextShape, ToolPosition,
};
use crate::native::wires::shape::WireShape;
use crate::native::{bearer, kind};
use crate::settings::Billing;
use crate::vendor::backend_kind;

/// The endpoint of a ChatGPT plan.
const BASE_URL: &str = "https://chatgpt.com/backend-api/codex";
/// Version of the Codex program that the request for the model list names. Source: the version of all observations
/// here.
const CLIENT_VERSION: &str = "0.169.0";
/// Prefix of API keys, which this endpoint does not accept.
const KEY_PREFIX: &str = "sk-";

/// Effort levels that at least one listed model supports.
const EFFORTS: [Effort; 5] = [Effort::Low, Effort::Medium, Effort::High, Effort::XHigh, Effort::Max];
/// Effort levels that every listed model supports. Used for an unlisted model.
const USUAL_EFFORTS: [Effort; 4] = [Effort::Low, Effort::Medium, Effort::High, Effort::XHigh];

/// Shape of requests to a model that is unlisted, or whose entry requires no other shape.
const CLASSIC: Shape = Shape {
    system: SystemPosition::DeveloperMessage,
    text: TextShape::Parts,
    tools: ToolPosition::Field,
    parallel_tool_calls: Some(true),
    tool_choice: true,
    reasoning_summary: Some("auto"),
    reasoning_context: None,
    encrypted_reasoning: true,
    prompt_cache_key: true,
    store: true,
    strict: true,
    max_output_tokens: false,
    carry: Carry::AsTheyCame,
    custom_calls: CustomCalls::Client,
};

/// Shape of requests to models with `use_responses_lite`.
const LITE: Shape = Shape {
    tools: ToolPosition::FirstItem,
    parallel_tool_calls: Some(false),
    reasoning_context: Some("all_turns"),
    ..CLASSIC
};

/// Header of requests in the lite shape. The classic shape must not have it.
const LITE_HEADER: &str = "x-openai-internal-codex-responses-lite";
/// Header of a response that the client must return in later requests of the same turn.
const TURN_STATE: &str = "x-codex-turn-state";

const ENDPOINT: SubscriptionEndpoint = SubscriptionEndpoint { base_url: BASE_URL, login: LOGIN };

backend_kind! {
    /// The backend kind `codex-sub-token`: Nexus's own loop at the endpoint that Codex uses, on a ChatGPT plan.
    ///
    /// Settings: those of every native backend. Without a `credential` (a token, with its `account`), the backend uses
    /// the login that `nexus login codex` creates.
    CodexSubToken = "codex-sub-token" of "openai",
    settings ClientVersion::schema(CLIENT_VERSION),
    built by |id, settings, context| {
        let (version, settings) = ClientVersion::part(settings, CLIENT_VERSION)?;
        ENDPOINT.build(id, &settings, context, |settings| CodexEndpoint::new(settings, &version))
    }
}

/// Dialect of the endpoint.
#[derive(Debug)]
struct CodexEndpoint {
    default_model: Option<ModelId>,
    billing: Billing,
    model_lists: ModelListCache<Models>,
    model_list_path: String,
}

impl CodexEndpoint {
    fn new(settings: &NativeSettings, client_version: &str) -> Self {
        Self {
            default_model: settings.model.as_deref().map(ModelId::from),
            billing: settings.billing.unwrap_or(Billing::Plan),
            model_lists: ModelListCache::new(Models::read),
            model_list_path: format!("/models?client_version={client_version}"),
        }
    }

    /// Returns the plan of the requests to `model`, from its entry in the list. `warning` is the reason for a missing
    /// entry.
    fn plan(model: ModelId, entry: Option<&ModelEntry>, warning: Option<String>) -> ModelPlan {
        ModelPlan {
            model,
            shape: WireShape::Responses(match entry.is_some_and(|entry| entry.use_responses_lite) {
                true => LITE,
                false => CLASSIC,
            }),
            efforts: entry.map_or_else(|| USUAL_EFFORTS.to_vec(), ModelEntry::efforts),
            warnings: warning.into_iter().collect(),
            path: None,
            context_window: entry.and_then(|entry| entry.context_window.0),
        }
    }
}

#[async_trait]
impl Dialect for CodexEndpoint {
    fn capabilities(&self) -> Capabilities {
        kind::capabilities("openai", &EFFORTS, CostReport::Never)
    }

    fn credential_remedy(&self) -> Option<&'static str> {
        Some(LOGIN.remedy())
    }

    fn accepts(&self, credential: &Credential) -> Result<(), Failure> {
        bearer::check(Some(self.billing), KEY_PREFIX, credential)
    }

    async fn model(
        &self,
        model: Option<&ModelId>,
        transport: &Transport,
        credential: Option<&Credential>,
    ) -> Result<ModelPlan, Failure> {
        let headers = account_headers(credential);
        let found = self.model_lists.look(transport, &self.model_list_path, headers, self).await?;
        let named = model.or(self.default_model.as_ref());
        match (found, named) {
            (ListLookup::List(list), Some(model)) => {
                let entry = list.entry(model.as_str());
                let warning = entry.is_none().then(|| {
                    format!(
                        "{model} is not in the endpoint's list of models; the request uses the classic format"
                    )
                });
                Ok(Self::plan(model.clone(), entry, warning))
            }
            (ListLookup::List(list), None) => match list.default_entry() {
                Some(entry) => Ok(Self::plan(ModelId::from(entry.slug.as_str()), Some(entry), None)),
                None => Err(name_a_model("the endpoint's list shows no model")),
            },
            (ListLookup::Nothing(reason), Some(model)) => {
                let warning = format!("{reason}: the request to {model} uses the classic format");
                Ok(Self::plan(model.clone(), None, Some(warning)))
            }
            (ListLookup::Nothing(reason), None) => Err(name_a_model(&reason)),
        }
    }

    fn headers(&self, call: &RequestContext<'_>) -> HeaderMap {
        let mut headers = account_headers(call.credential);
        for name in ["session-id", "thread-id", "x-client-request-id"] {
            bearer::set(&mut headers, name, call.conversation);
        }
        if let Some(state) = call.sticky {
            bearer::set(&mut headers, TURN_STATE, state);
        }
        if call.plan.shape.responses().is_some_and(|shape| shape.tools == ToolPosition::FirstItem) {
            bearer::set(&mut headers, LITE_HEADER, "true");
        }
        headers
    }

    fn head(&self, headers: &HeaderMap) -> HeaderInfo {
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        HeaderInfo {
            limits: rate_limits::in_headers(headers),
            sticky: text(TURN_STATE).map(str::to_owned),
            model: text("openai-model").filter(|model| !model.is_empty()).map(ModelId::from),
        }
    }

    fn event(&self, kind: &str, data: &[u8]) -> Option<Vec<TurnEvent>> {
        match kind {
            "codex.rate_limits" => {
                rate_limits::in_event(data).map(|limits| limits.into_iter().map(TurnEvent::from).collect())
            }
            // The event repeats headers, and shows results of checks that only the vendor's program uses.
            "response.metadata" => Some(Vec::new()),
            _ => None,
        }
    }

    fn failure(&self, error: &ErrorReply<'_>) -> Option<Failure> {
        let body = error.body;
        let is = |word: &str| [&body.code, &body.kind].into_iter().any(|name| name.as_deref() == Some(word));
        if is("usage_not_included") {
            return Some(Failure::new(ErrorKind::Forbidden, body.words()));
        }
        // The message about a model outside the plan. The response has no code for it.
        let is_about_the_request =
            error.status.is_some_and(|status| matches!(status.as_u16(), 400 | 404 | 422));
        if is_about_the_request && body.names("is not supported when using codex") {
            return Some(Failure::new(ErrorKind::ModelUnavailable, body.words()));
        }
        let is_used_up = is("usage_limit_reached");
        let is_told_so =
            error.status == Some(StatusCode::TOO_MANY_REQUESTS) && rate_limits::is_reached(error.headers);
        if !is_used_up && !is_told_so {
            return None;
        }
        // Often only the headers contain the reset time.
        let retry = match body.resets_at.or_else(|| rate_limits::resets_at(error.headers)) {
            Some(at) => Retry::At(at),
            None if is_used_up => return None,
            None => body.retry_in.map(Retry::After).unwrap_or_default(),
        };
        Some(Failure::new(ErrorKind::UsageLimit, body.words()).with_retry(retry))
    }
}

/// Returns the headers of a request, with the account of the credential.
fn account_headers(credential: Option<&Credential>) -> HeaderMap {
    let mut headers = bearer::headers(credential);
    headers.insert("originator", HeaderValue::from_static(OUR_NAME));
    if let Some(account) = credential.and_then(|credential| credential.account.as_deref()) {
        bearer::set(&mut headers, "chatgpt-account-id", account);
    }
    headers
}

#[cfg(test)]
mod tests;
