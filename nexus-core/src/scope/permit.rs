//! Permission for one call.

use std::{borrow::Cow, fmt, panic::AssertUnwindSafe, sync::Arc};

use futures::FutureExt as _;
use serde_json::Value;

use super::{
    Denial, RemoteSession,
    audit_log::{AuditLog, Counts, ToolOutcome},
};
use crate::{
    id::CallId,
    tool::{ToolCall, ToolDefinition, ToolResult, ToolRouter},
    turn::Effects,
};

/// Answerer of a session's calls.
pub(super) enum Answerer {
    /// Tools, once the session has let a call through.
    Tools(Arc<dyn ToolRouter>),
    /// Another session, which decides on them.
    Session(Arc<dyn RemoteSession>),
}

impl Answerer {
    /// Checks the arguments of a call, if that is possible here.
    pub(super) fn check_arguments(&self, tool: &str, arguments: &Value) -> Result<(), String> {
        match self {
            Self::Tools(tools) => tools.check_arguments(tool, arguments),
            Self::Session(_) => Ok(()),
        }
    }
}

/// Permission for one call. Only [`Session::authorize`](super::Session::authorize) creates it, and it is valid
/// for one call of that session's tools.
pub struct Permit<'s> {
    answerer: &'s Answerer,
    definition: Cow<'s, ToolDefinition>,
    arguments: Value,
    audit_log: &'s AuditLog,
    outcome: ToolOutcome,
}

impl<'s> Permit<'s> {
    pub(super) fn new(
        answerer: &'s Answerer,
        definition: Cow<'s, ToolDefinition>,
        arguments: Value,
        audit_log: &'s AuditLog,
    ) -> Self {
        Self { answerer, definition, arguments, audit_log, outcome: ToolOutcome::default() }
    }

    /// Reports the end of the call to `outcome`.
    pub(super) fn telling(self, outcome: ToolOutcome) -> Self {
        Self { outcome, ..self }
    }

    /// Returns the tool. In a [remote session](super::Session::remote) the tool may be missing: then only its
    /// name is known.
    pub fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    /// Returns the arguments for the tool: each path is the checked one. In a remote session they are as
    /// received and unchecked.
    pub fn arguments(&self) -> &Value {
        &self.arguments
    }

    /// Returns the definition, if this side has to ask its host about the call.
    pub(super) fn needs_approval(&self) -> Option<Cow<'s, ToolDefinition>> {
        let asks_here = matches!(self.answerer, Answerer::Tools(_)) && self.definition.needs_approval;
        asks_here.then(|| self.definition.clone())
    }

    pub(super) fn outcome(&self) -> &ToolOutcome {
        &self.outcome
    }

    /// Asks the tool, or the session that decides. A panic becomes an error that says no more than that. A terminal tool that
    /// succeeds closes the session.
    pub(super) async fn answer(self, call: CallId) -> Result<ToolResult, Denial> {
        let Self { answerer, definition, arguments, audit_log, outcome } = self;
        let call = ToolCall::new(call, definition.name.as_str(), arguments);
        let panicked = |_panic| {
            let tool = &definition.name;
            Ok(ToolResult::error(format!("the tool {tool:?} panicked; part of its work may be done")))
        };
        // Also the making of the future may panic, so that happens inside.
        let result = match answerer {
            Answerer::Tools(tools) => {
                let asked = AssertUnwindSafe(async move { Ok(tools.call(call).await) });
                asked.catch_unwind().await.unwrap_or_else(panicked)
            }
            Answerer::Session(session) => {
                let left = LeftToOther::new(audit_log, &definition);
                let asked = AssertUnwindSafe(async move { session.call(call).await });
                let answered = asked.catch_unwind().await.unwrap_or_else(panicked);
                left.answered(&outcome, answered.as_ref().map(|_| ()).map_err(Denial::clone));
                answered
            }
        }?;
        if result.is_error {
            if definition.terminal {
                audit_log.refuse_submission();
            }
            return Ok(result);
        }
        if definition.terminal && !audit_log.hand_in() {
            return Ok(ToolResult::error(Denial::Closed.to_string()));
        }
        outcome.succeeded();
        Ok(result)
    }
}

/// A call that another session decides on, until it is answered. Dropped before that it counts all the same.
struct LeftToOther<'a> {
    audit_log: &'a AuditLog,
    counts: Counts,
    effects: Effects,
    is_answered: bool,
}

impl<'a> LeftToOther<'a> {
    fn new(audit_log: &'a AuditLog, tool: &ToolDefinition) -> Self {
        let counts = Counts::of(Some(tool));
        Self { audit_log, counts, effects: tool.effects, is_answered: false }
    }

    fn answered(mut self, outcome: &ToolOutcome, verdict: Result<(), Denial>) {
        self.is_answered = true;
        self.audit_log.settle_elsewhere(outcome, verdict, (self.counts, self.effects));
    }
}

impl Drop for LeftToOther<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.audit_log.give_up_elsewhere((self.counts, self.effects));
        }
    }
}

impl fmt::Debug for Permit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("tool", &self.definition.name)
            .field("arguments", &self.arguments)
            .finish()
    }
}
