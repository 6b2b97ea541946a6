//! The calls of one reply: the caller's tools behind the session, the harness's behind the sandbox.

use std::collections::BTreeMap;

use nexus_core::{
    ToolCall, ToolResult,
    harness::{Failure, PendingCall},
    turn::ToolOrigin,
};
use serde_json::{Value, json};

use super::Turn;
use crate::{
    conformance::reference::{
        access::{self, Sandbox},
        tools,
    },
    sim::ToolCall as ScriptedCall,
};

/// A call that the model made, by the id that it gave.
pub(super) struct Called {
    pub(super) id: String,
    pub(super) call: ScriptedCall,
}

impl Turn<'_, '_> {
    /// Runs the calls of one reply concurrently. Returns the texts for the model, in the order of the calls.
    pub(super) async fn run_tools(
        &mut self,
        calls: &[Called],
        sandbox: &Sandbox,
    ) -> Result<Vec<ToolResult>, Failure> {
        let session = self.running.session.share();
        let environment = &self.environment();
        let mut pending = Vec::new();
        for Called { id, call: scripted } in calls {
            let name = access::name(scripted);
            let call = ToolCall::new(self.running.call_id(id), name, arguments(scripted));
            let is_callers =
                !is_harness(scripted) || session.definitions().iter().any(|tool| tool.name == name);
            pending.push(match sandbox.objection(scripted) {
                _ if is_callers => PendingCall::of_caller(&session, call),
                Some(objection) => PendingCall::denied(ToolOrigin::Harness, call, objection),
                None => {
                    let answer = tools::run(scripted, sandbox, environment);
                    PendingCall::of_harness(call, access::effects(scripted), answer)
                }
            });
        }
        self.running.run_calls(pending).await
    }

    /// Returns the part of the host's environment that a tool may see.
    fn environment(&self) -> BTreeMap<String, String> {
        let named = self.running.request.environment.iter().map(String::as_str).chain(["PATH", "HOME"]);
        let values = named.filter_map(|name| {
            let value = self.backend.environment.get(name)?;
            Some((name.to_owned(), value.clone()))
        });
        values.collect()
    }
}

fn is_harness(call: &ScriptedCall) -> bool {
    matches!(
        call,
        ScriptedCall::Shell { .. } | ScriptedCall::WriteFile { .. } | ScriptedCall::ReadFile { .. }
    )
}

/// The arguments of a call, or the text that should have been some.
fn arguments(call: &ScriptedCall) -> Value {
    match call {
        ScriptedCall::Shell { command } => json!({ "command": command }),
        ScriptedCall::WriteFile { path, text } => json!({ "path": path, "text": text }),
        ScriptedCall::ReadFile { path } => json!({ "path": path }),
        ScriptedCall::Mcp { arguments, .. } | ScriptedCall::Function { arguments, .. } => arguments.clone(),
        ScriptedCall::RawFunction { arguments, .. } => {
            serde_json::from_str(arguments).unwrap_or_else(|_not_json| Value::String(arguments.clone()))
        }
        ScriptedCall::Custom { input, .. } => json!({ "input": input }),
    }
}
