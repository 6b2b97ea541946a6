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

/// Component that answers a session's calls.
pub(super) enum Answerer {
    /// Tools. They run once the session has allowed a call.
    Tools(Arc<dyn ToolRouter>),
    /// Another session, which decides on the calls.
    Session(Arc<dyn RemoteSession>),
}

impl Answerer {
    /// Checks the arguments of a call, if this side knows the tool.
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

    /// Returns the definition of the tool. In a [remote session](super::Session::remote) the tool may be unknown: then the
    /// definition has only its name.
    pub fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    /// Returns the arguments for the tool, with each path replaced by the checked path. In a remote session the arguments are
    /// as received and unchecked.
    pub fn arguments(&self) -> &Value {
        &self.arguments
    }

    /// Returns the definition if this side has to request its host's approval.
    pub(super) fn needs_approval(&self) -> Option<Cow<'s, ToolDefinition>> {
        let asks_here = matches!(self.answerer, Answerer::Tools(_)) && self.definition.needs_approval;
        asks_here.then(|| self.definition.clone())
    }

    pub(super) fn outcome(&self) -> &ToolOutcome {
        &self.outcome
    }

    /// Runs the tool, or forwards the call to the session that decides. A panic becomes an error that only names the panic. A
    /// terminal tool that succeeds closes the session.
    pub(super) async fn answer(self, call: CallId) -> Result<ToolResult, Denial> {
        let Self { answerer, definition, arguments, audit_log, outcome } = self;
        let call = ToolCall::new(call, definition.name.as_str(), arguments);
        let panicked = |_panic| {
            let tool = &definition.name;
            Ok(ToolResult::error(format!("the tool {tool:?} panicked; part of its work may be done")))
        };
        // Create the future inside, because its creation may panic too.
        let result = match answerer {
            Answerer::Tools(tools) => {
                let asked = AssertUnwindSafe(async move { Ok(tools.call(call).await) });
                asked.catch_unwind().await.unwrap_or_else(panicked)
            }
            Answerer::Session(session) => {
                // Create the guard before the call: a call whose future is dropped may have run, so it
                // counts.
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
        // Another submission was first, so this answer comes too late.
        if definition.terminal && !audit_log.hand_in() {
            return Ok(ToolResult::error(Denial::Closed.to_string()));
        }
        outcome.succeeded();
        Ok(result)
    }
}

/// A call that another session decides on. If it is dropped before the answer, the call still counts.
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
