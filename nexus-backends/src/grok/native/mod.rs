//! `grok-sub-token`: the endpoint that Grok Build uses, on a subscription of xAI.
//!
//! Messages are plain strings, the system text is the first message, and items return to the model without the server's
//! ids. A request contains an effort only if the model list names efforts for the model, because other models reject
//! such a request.
//!
//! Requests identify themselves as Nexus. Two headers have fixed values, because the endpoint rejects requests without
//! them: the type of token, and the version of the vendor's program that this module follows (`client_version`).
//!
//! Source: requests of grok 1.0.41, and the public source of the program (1.0.6).

mod models;

use std::time::Duration;

use async_trait::async_trait;
use http::{
    StatusCode,
    header::{HeaderMap, HeaderValue},
};
use nexus_core::{Capabilities, CostReport, Effort, ErrorKind, ModelId, Retry, TurnEvent, harness::Failure};
use serde::Deserialize;

use self::models::{ModelEntry, Models};
use super::login::LOGIN;
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

/// Base URL of the endpoint for subscriptions.
const BASE_URL: &str = "https://cli-chat-proxy.grok.com/v1";
/// Default version of the vendor's program in requests. Source: the version of all observations here.
const CLIENT_VERSION: &str = "1.0.41";
/// Prefix of API keys.
const KEY_PREFIX: &str = "xai-";
/// Time until an exhausted free allowance is available again, if the server does not report it. Source: public reports
/// of a day.
const FREE_USAGE_RESET: Duration = Duration::from_secs(24 * 3600);

/// Effort levels that at least one listed model supports.
const EFFORTS: [Effort; 4] = [Effort::Low, Effort::Medium, Effort::High, Effort::XHigh];

/// Shape of the requests to every model.
const SHAPE: Shape = Shape {
    // The vendor's program sends the system text as a message, and never uses `instructions`.
    system: SystemPosition::SystemMessage,
    text: TextShape::Plain,
    tools: ToolPosition::Field,
    parallel_tool_calls: None,
    tool_choice: false,
    // The value that the vendor's program sends.
    reasoning_summary: Some("concise"),
    reasoning_context: None,
    encrypted_reasoning: true,
    prompt_cache_key: true,
    store: true,
    strict: true,
    max_output_tokens: true,
    // The endpoint rejects reasoning that returns with its `status`.
    carry: Carry::Bare,
    // Searches arrive as `custom_tool_call`. The server has already run them, so a result would be wrong.
    custom_calls: CustomCalls::Server,
};

const ENDPOINT: SubscriptionEndpoint = SubscriptionEndpoint { base_url: BASE_URL, login: LOGIN };

backend_kind! {
    /// The backend kind `grok-sub-token`: Nexus's own loop at the endpoint that Grok Build uses, on a subscription.
    ///
    /// Settings: those of every native backend. Without a `credential`, the backend uses the login that `nexus login
    /// grok` creates. Raise `client_version` if the endpoint rejects the default as outdated.
    GrokSubToken = "grok-sub-token" of "xai",
    settings ClientVersion::schema(CLIENT_VERSION),
    built by |id, settings, context| {
        let (version, settings) = ClientVersion::part(settings, CLIENT_VERSION)?;
        ENDPOINT.build(id, &settings, context, |settings| GrokEndpoint::new(settings, version))
    }
}

/// Dialect of the endpoint.
#[derive(Debug)]
struct GrokEndpoint {
    default_model: Option<ModelId>,
    billing: Billing,
    client_version: String,
    model_lists: ModelListCache<Models>,
}

impl GrokEndpoint {
    fn new(settings: &NativeSettings, client_version: String) -> Self {
        Self {
            default_model: settings.model.as_deref().map(ModelId::from),
            billing: settings.billing.unwrap_or(Billing::Plan),
            client_version,
            model_lists: ModelListCache::new(Models::read),
        }
    }

    /// Returns the headers of a request, with the token of the credential.
    fn account_headers(&self, credential: Option<&Credential>) -> HeaderMap {
        let mut headers = bearer::headers(credential);
        // According to public reports, the endpoint answers 403 without this header, and 426 for an outdated version.
        headers.insert("x-xai-token-auth", HeaderValue::from_static("xai-grok-cli"));
        headers.insert("x-grok-client-identifier", HeaderValue::from_static(OUR_NAME));
        bearer::set(&mut headers, "x-grok-client-version", &self.client_version);
        headers
    }
}

#[async_trait]
impl Dialect for GrokEndpoint {
    fn capabilities(&self) -> Capabilities {
        kind::capabilities("x_ai", &EFFORTS, CostReport::Reported)
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
        let headers = self.account_headers(credential);
        let found = self.model_lists.look(transport, "/models", headers, self).await?;
        let named = model.or(self.default_model.as_ref()).cloned();
        let plan = |model, entry: Option<&ModelEntry>, warning: Option<String>| {
            Ok(ModelPlan {
                model,
                shape: WireShape::Responses(SHAPE),
                efforts: entry.map(ModelEntry::efforts).unwrap_or_default(),
                warnings: warning.into_iter().collect(),
                path: None,
                context_window: entry.and_then(|entry| entry.context_window.0),
            })
        };
        match (found, named) {
            (ListLookup::List(list), Some(model)) => {
                let entry = list.entry(model.as_str());
                plan(model, entry, None)
            }
            (ListLookup::List(list), None) => match list.default_entry() {
                Some(entry) => plan(ModelId::from(entry.id.as_str()), Some(entry), None),
                None => Err(name_a_model("the endpoint's list has no models")),
            },
            // Models without reasoning reject an effort. Only the list shows which models have it.
            (ListLookup::Nothing(reason), Some(model)) => {
                let warning = format!("{reason}: the request to {model} has no effort");
                plan(model, None, Some(warning))
            }
            (ListLookup::Nothing(reason), None) => Err(name_a_model(&reason)),
        }
    }

    fn headers(&self, call: &RequestContext<'_>) -> HeaderMap {
        let mut headers = self.account_headers(call.credential);
        bearer::set(&mut headers, "x-grok-conv-id", call.conversation);
        bearer::set(&mut headers, "x-grok-session-id", call.conversation);
        bearer::set(&mut headers, "x-grok-req-id", &uuid::Uuid::new_v4().to_string());
        bearer::set(&mut headers, "x-grok-model-override", call.plan.model.as_str());
        headers
    }

    fn head(&self, _headers: &HeaderMap) -> HeaderInfo {
        HeaderInfo::default()
    }

    fn event(&self, kind: &str, data: &[u8]) -> Option<Vec<TurnEvent>> {
        #[derive(Deserialize)]
        struct Event {
            doom_loop_check: Check,
        }
        #[derive(Deserialize)]
        struct Check {
            #[serde(default)]
            triggers: Vec<String>,
        }
        if kind != "response.doom_loop_check" {
            return None;
        }
        let check = serde_json::from_slice::<Event>(data).ok()?.doom_loop_check;
        let text =
            format!("the vendor stopped the model because it repeats itself ({})", check.triggers.join(", "));
        Some(vec![TurnEvent::warning(text)])
    }

    fn failure(&self, error: &ErrorReply<'_>) -> Option<Failure> {
        let body = error.body;
        if body.names("subscription:free-usage-exhausted") {
            let named = body.resets_at.map(Retry::At).or(body.retry_in.map(Retry::After));
            let retry = named.unwrap_or(Retry::Guessed(FREE_USAGE_RESET));
            return Some(Failure::new(ErrorKind::UsageLimit, body.words()).with_retry(retry));
        }
        if body.names("personal-team-blocked:spending-limit") {
            return Some(Failure::new(ErrorKind::UsageLimit, body.words()));
        }
        let is_bad_token =
            || body.names("bad-credentials") || body.names("access token could not be validated");
        match error.status? {
            // Any other 403 concerns policy, content or a header, and a renewed token would not help.
            StatusCode::FORBIDDEN if is_bad_token() => {
                Some(Failure::new(ErrorKind::Unauthenticated, body.words()))
            }
            StatusCode::UPGRADE_REQUIRED => {
                let words = body.words();
                let reason = format!("{words} (raise `client_version`, which is {})", self.client_version);
                Some(Failure::new(ErrorKind::InvalidRequest, reason))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
