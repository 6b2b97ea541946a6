//! Sends messages for callers of the configuration over HTTP.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use nexus::{
    BuildContext, CancelToken,
    http::{ClientPlan, Network},
};
use nexus_broker::{
    Broker, BrokerError, BrokerErrorKind, BrokerSettings, CallerCallback, Envelope, trigger::WebhookKey,
};

use crate::command_error::CommandError;

const CONNECT_TIME: Duration = Duration::from_secs(10);

/// Sends each message as a request signed by Standard Webhooks 1.0.0. `webhook-id` is the id of the message, or its hash if the id has
/// characters other than visible ASCII.
#[derive(Debug)]
struct SignedPost {
    url: String,
    key: WebhookKey,
}

#[async_trait]
impl CallerCallback for SignedPost {
    async fn deliver(&self, envelope: &Envelope) -> Result<(), BrokerError> {
        let failed = |reason: String| BrokerError::new(BrokerErrorKind::Unavailable, reason, "");
        let network = Network::default().with_inherited_proxy(true);
        let plan = ClientPlan::new(&network, &BuildContext::from_process(), CONNECT_TIME);
        let plan = plan.map_err(|error| failed(error.reason))?;
        // Plain HTTP must not leave this machine, so it bypasses proxies.
        let is_plain = self.url.starts_with("http://");
        let plan = if is_plain { plan.without_proxies() } else { plan };
        let client = plan.build(!is_plain).map_err(|error| failed(error.to_string()))?;
        let body = serde_json::to_vec(envelope).map_err(|error| failed(error.to_string()))?;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let timestamp = i64::try_from(now.as_secs()).unwrap_or_default();
        let id = envelope.message_id.header_text();
        let signature = self.key.sign(&id, timestamp, &body);
        let request = client
            .post(&self.url)
            .header("content-type", "application/json")
            .header("webhook-id", &*id)
            .header("webhook-timestamp", timestamp.to_string())
            .header("webhook-signature", signature)
            .body(body);
        let response = request.send().await.map_err(|error| failed(error.without_url().to_string()))?;
        match response.status() {
            status if status.is_success() => Ok(()),
            status => {
                // These statuses reject the contents of this message. The caller may accept the next one.
                let kind = match status.as_u16() {
                    400 | 409 | 413 | 415 | 422 => BrokerErrorKind::Invalid,
                    _ => BrokerErrorKind::Unavailable,
                };
                Err(BrokerError::new(kind, format!("the caller answered with {status}"), ""))
            }
        }
    }
}

/// The callbacks of the configuration, each with its caller.
pub(crate) struct Callbacks(Vec<(String, Arc<SignedPost>)>);

impl Callbacks {
    pub(crate) fn of(settings: &BrokerSettings) -> Result<Self, CommandError> {
        let mut all = Vec::new();
        for (name, caller) in &settings.callers {
            let variable = &caller.secret_environment;
            let secret = std::env::var(variable).map_err(|_| {
                CommandError::failed(format_args!(
                    "the secret of the caller {name} is in {variable}, which is not set: set it for this \
                    command"
                ))
            })?;
            let key = WebhookKey::read(secret.trim()).ok_or_else(|| {
                CommandError::failed(format_args!(
                    "{variable} of the caller {name} is not a valid secret: write `whsec_` and the base64 of \
                    24 to 64 bytes"
                ))
            })?;
            all.push((name.clone(), Arc::new(SignedPost { url: caller.url.clone(), key })));
        }
        Ok(Self(all))
    }

    /// Delivers messages until `drain` is cancelled.
    pub(crate) async fn run(self, broker: &Broker, drain: &CancelToken) {
        let serving = self.0.iter().map(|(name, post)| broker.call_back(name, &**post, drain));
        futures::future::join_all(serving).await;
    }
}
