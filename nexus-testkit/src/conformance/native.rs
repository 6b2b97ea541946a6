//! A model's API before the suite: a backend that calls it by itself, with a simulator at the other end.

use std::sync::Arc;

use nexus_core::BackendKind;

use super::{
    kind_subject::{Builder, Counterpart, KindSubject},
    subject::{Line, Stage, StageError},
};
use crate::sim::{Dialect, Scenario, ToolCall};

/// A native backend before the suite: one that takes `base_url` and `credential` among its settings, calls the
/// model itself, and whose resume handles carry the conversation.
///
/// ```
/// # use std::sync::Arc;
/// # use nexus_core::BackendKind;
/// # use nexus_testkit::{conformance::NativeSubject, sim::Dialect};
/// # fn subject(kind: Arc<dyn BackendKind>) -> NativeSubject {
/// NativeSubject::new("responses", kind, Dialect::Responses).with_model("qwen3")
/// # }
/// ```
pub type NativeSubject = KindSubject<Service>;

/// The API that is called.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    dialect: Dialect,
}

impl NativeSubject {
    /// A backend of `kind` before a simulator that speaks `dialect`.
    pub fn new(name: impl Into<String>, kind: Arc<dyn BackendKind>, dialect: Dialect) -> Self {
        let by_name = |name: &str, arguments| ToolCall::function(name, arguments);
        let subject = Self::before(name.into(), kind, Service { dialect }, by_name)
            .not_staging("a_lost_conversation_is_an_error", CARRIED)
            .not_staging("a_lost_conversation_begins_afresh_if_allowed", CARRIED);
        match dialect {
            Dialect::Xai => {
                subject.not_staging("a_plan_that_is_used_up_says_until_when", "xAI's answer names no time")
            }
            _ => subject,
        }
    }
}

/// Why a conversation cannot be lost.
const CARRIED: &str = "the handle carries the conversation, so that there is nothing to lose";

impl Counterpart for Service {
    fn stage(&self, script: Scenario, line: Line, builder: Builder<'_>) -> Result<Stage, StageError> {
        builder.before_sim(self.dialect, script, line)
    }
}
