//! Runs the suite on a native backend, which calls the API of a simulated model.

use std::{sync::Arc, time::Duration};

use nexus_core::BackendKind;

use super::{
    kind_subject::{Builder, Counterpart, KindSubject, Weather},
    subject::{Stage, StageError, Timing},
};
use crate::sim::{Dialect, Model, ToolCall};

/// A native backend under test. Its settings must include `base_url` and `credential`. It calls the model itself, and its
/// resume handles contain the conversation.
///
/// ```
/// # use std::{sync::Arc, time::Duration};
/// # use nexus_core::BackendKind;
/// # use nexus_testkit::{conformance::NativeSubject, sim::{Dialect, Model}};
/// # fn subject(kind: Arc<dyn BackendKind>) -> NativeSubject {
/// NativeSubject::new("codex-sub-token", kind, Dialect::Responses)
///     .with_model("gpt-6.1-sol")
///     .with_catalogue([Model::new("gpt-6.1-sol").lite()])
///     .before_a_strict_vendor()
/// # }
/// ```
pub type NativeSubject = KindSubject<Service>;

/// The API that is called.
#[derive(Clone, Debug)]
pub struct Service {
    dialect: Dialect,
    models: Vec<Model>,
    strict: bool,
}

impl NativeSubject {
    /// A backend of `kind` against a simulator that speaks `dialect`.
    pub fn new(name: impl Into<String>, kind: Arc<dyn BackendKind>, dialect: Dialect) -> Self {
        let service = Service { dialect, models: Vec::new(), strict: false };
        let by_name = |name: &str, arguments| ToolCall::function(name, arguments);
        let subject = Self::before(name.into(), kind, service, by_name)
            .with_timing(Timing { short: SHORT, ..Timing::default() })
            .not_staging("a_lost_conversation_is_an_error", CARRIED)
            .not_staging("a_lost_conversation_begins_afresh_if_allowed", CARRIED);
        match dialect {
            Dialect::Xai => {
                subject.not_staging("a_plan_that_is_used_up_says_until_when", "xAI's answer names no time")
            }
            Dialect::Anthropic => subject
                .not_staging("a_plan_that_is_used_up_says_until_when", "an API key has no plan")
                .not_staging(
                    "usage_that_is_not_reported_is_not_invented",
                    "the API always reports its usage",
                ),
            Dialect::Gemini => subject
                .not_staging("a_plan_that_is_used_up_says_until_when", "the API's answer names no time"),
            _ => subject,
        }
    }

    /// Makes the simulator list `models`, so that the backend learns the properties of each.
    #[must_use]
    pub fn with_catalogue(mut self, models: impl IntoIterator<Item = impl Into<Model>>) -> Self {
        self.counterpart.models = models.into_iter().map(Into::into).collect();
        self
    }

    /// Lets the simulator refuse what the vendor is known to refuse: see [`Scenario::strict`](crate::sim::Scenario::strict).
    #[must_use]
    pub fn before_a_strict_vendor(mut self) -> Self {
        self.counterpart.strict = true;
        self
    }
}

/// Long enough for an answer to arrive: no process has to be started first.
const SHORT: Duration = Duration::from_millis(1500);

/// Why a conversation cannot be lost.
const CARRIED: &str = "the handle contains the conversation, so it cannot be lost";

impl Counterpart for Service {
    fn stage(&self, mut weather: Weather, builder: Builder<'_>) -> Result<Stage, StageError> {
        weather.script.models.extend(self.models.iter().cloned());
        weather.script.strict_shape |= self.strict;
        builder.before_sim(self.dialect, weather)
    }
}
