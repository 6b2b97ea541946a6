//! `chatgpt-sub-token`: the public Responses API, on a ChatGPT plan.
//!
//! A request has only the fields that the vendor's pages allow: history in `input`, system text as a first `developer`
//! message, tools in an `additional_tools` item. It has none of the rejected fields (`max_output_tokens`,
//! `temperature`, `truncation`, `metadata` and others). The server's model list is specific to the account, and has
//! another format than for API keys.
//!
//! Source: developers.openai.com, "Sign in with ChatGPT", the pages on open-source apps: models and inference, errors
//! and recovery, preview limitations; `additional_tools` as in the reference of the Responses API, and as Codex writes
//! it. Nothing here was tested against the vendor's own server.

pub mod login;

use async_trait::async_trait;
use http::HeaderMap;
use nexus_core::{Capabilities, CostReport, Effort, ErrorKind, ModelId, TurnEvent, harness::Failure};

use self::login::LOGIN;
use super::model_list::{ModelEntry, Models};
use crate::auth::Credential;
use crate::native::dialect::{Dialect, HeaderInfo, ModelPlan, RequestContext};
use crate::native::kind::name_a_model;
use crate::native::models::{ListLookup, ModelListCache};
use crate::native::outcome::ErrorReply;
use crate::native::own_settings::SubscriptionEndpoint;
use crate::native::settings::NativeSettings;
use crate::native::transport::Transport;
use crate::native::wires::responses::shape::{
    Carry, CustomCalls, Shape, SystemPosition, TextShape, ToolPosition,
};
use crate::native::wires::shape::WireShape;
use crate::native::{bearer, kind};
use crate::settings::Billing;
use crate::vendor::backend_kind;
use nexus_core::settings_schema;

/// Base URL of the public API.
pub(super) const BASE_URL: &str = "https://api.openai.com/v1";
/// Prefix of API keys, which do not belong to a plan.
const KEY_PREFIX: &str = "sk-";

/// Effort levels that at least one listed model supports.
const EFFORTS: [Effort; 5] = [Effort::Low, Effort::Medium, Effort::High, Effort::XHigh, Effort::Max];
/// Effort levels for a model whose entry lists none.
const USUAL_EFFORTS: [Effort; 4] = [Effort::Low, Effort::Medium, Effort::High, Effort::XHigh];

/// Shape of the requests to every model.
const SHAPE: Shape = Shape {
    system: SystemPosition::DeveloperMessage,
    text: TextShape::Parts,
    tools: ToolPosition::FirstItem,
    parallel_tool_calls: None,
    tool_choice: false,
    reasoning_summary: Some("auto"),
    reasoning_context: None,
    encrypted_reasoning: true,
    prompt_cache_key: true,
    store: true,
    strict: true,
    // The vendor's pages list this field among the rejected ones.
    max_output_tokens: false,
    carry: Carry::AsTheyCame,
    custom_calls: CustomCalls::Client,
};

const ENDPOINT: SubscriptionEndpoint = SubscriptionEndpoint { base_url: BASE_URL, login: LOGIN };

backend_kind! {
    /// The backend kind `chatgpt-sub-token`: Nexus's own loop at the public API, on a ChatGPT plan.
    ///
    /// Settings: those of every native backend. Without a `credential`, the backend uses the login that `nexus login
    /// chatgpt` creates.
    ChatgptSubToken = "chatgpt-sub-token" of "openai",
    settings settings_schema::of::<NativeSettings>(),
    built by |id, settings, context| ENDPOINT.build(id, settings, context, Chatgpt::new)
}

/// Dialect of the public API for a ChatGPT plan.
#[derive(Debug)]
struct Chatgpt {
    default_model: Option<ModelId>,
    billing: Billing,
    model_lists: ModelListCache<Models>,
}

impl Chatgpt {
    fn new(settings: &NativeSettings) -> Self {
        Self {
            default_model: settings.model.as_deref().map(ModelId::from),
            billing: settings.billing.unwrap_or(Billing::Plan),
            model_lists: ModelListCache::new(Models::read),
        }
    }

    /// Returns the plan of the requests to `model`, from its entry in the list. `warning` is the reason for a missing
    /// entry.
    fn plan(model: ModelId, entry: Option<&ModelEntry>, warning: Option<String>) -> ModelPlan {
        let efforts = entry.map(ModelEntry::efforts).filter(|efforts| !efforts.is_empty());
        ModelPlan {
            model,
            shape: WireShape::Responses(SHAPE),
            efforts: efforts.unwrap_or_else(|| USUAL_EFFORTS.to_vec()),
            warnings: warning.into_iter().collect(),
            path: None,
            context_window: entry.and_then(|entry| entry.context_window.0),
        }
    }
}

#[async_trait]
impl Dialect for Chatgpt {
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
        let found = self.model_lists.look(transport, "/models", bearer::headers(credential), self).await?;
        match (found, model.or(self.default_model.as_ref())) {
            (ListLookup::List(list), Some(model)) => {
                let entry = list.entry(model.as_str());
                let warning =
                    entry.is_none().then(|| format!("{model} is not in the account's list of models"));
                Ok(Self::plan(model.clone(), entry, warning))
            }
            (ListLookup::List(list), None) => match list.default_entry() {
                Some(entry) => Ok(Self::plan(ModelId::from(entry.slug.as_str()), Some(entry), None)),
                None => Err(name_a_model("the account's list shows no model")),
            },
            (ListLookup::Nothing(reason), Some(model)) => Ok(Self::plan(model.clone(), None, Some(reason))),
            (ListLookup::Nothing(reason), None) => Err(name_a_model(&reason)),
        }
    }

    fn headers(&self, call: &RequestContext<'_>) -> HeaderMap {
        bearer::headers(call.credential)
    }

    fn head(&self, _: &HeaderMap) -> HeaderInfo {
        HeaderInfo::default()
    }

    fn event(&self, _: &str, _: &[u8]) -> Option<Vec<TurnEvent>> {
        None
    }

    fn failure(&self, error: &ErrorReply<'_>) -> Option<Failure> {
        let body = error.body;
        let (kind, hint) = meaning(body.code.as_deref()?, body.param.as_deref())?;
        let message = match hint {
            Some(hint) => format!("{}: {hint}", body.words()),
            None => body.words().to_owned(),
        };
        Some(Failure::new(kind, message).with_retry(error.named_retry()))
    }
}

/// Returns the kind of an error code that concerns the plan, in a response or a stream, with advice. The vendor's list
/// of codes is not exhaustive; other codes have the same meaning as at any server.
pub(super) fn meaning(code: &str, param: Option<&str>) -> Option<(ErrorKind, Option<&'static str>)> {
    const SETTINGS: &str = "chatgpt.com/settings/usage shows how much of the plan this program may use";
    Some(match code {
        "subscription_sharing_user_not_eligible" => (
            ErrorKind::Forbidden,
            Some(
                "the account, its workspace or its plan does not permit other programs; logging in again \
                does not help",
            ),
        ),
        "subscription_sharing_usage_limit_exceeded" => (ErrorKind::UsageLimit, Some(SETTINGS)),
        "subscription_sharing_usage_unavailable" | "subscription_sharing_user_unavailable" => {
            (ErrorKind::Overloaded, None)
        }
        "subscription_sharing_unsupported_capability" if param == Some("model") => {
            (ErrorKind::ModelUnavailable, None)
        }
        "subscription_sharing_unsupported_capability" => (ErrorKind::InvalidRequest, None),
        "subscription_sharing_route_not_supported" => {
            (ErrorKind::Forbidden, Some("check `base_url`: a plan is valid only for `/v1/responses`"))
        }
        "subscription_sharing_invalid_user" => (ErrorKind::Unauthenticated, None),
        "chatpass_v2_scope_not_authorized" | "chatpass_v2_invalid_authorization_context" => {
            (ErrorKind::Forbidden, Some("run `nexus login chatgpt`, and allow the use of the plan"))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
