//! The calls of one reply: run at once, each answered once, whatever the tool does.

use std::collections::BTreeMap;

use futures::future::join_all;
use nexus_core::{
    CallId, Effects, Limit, Phase, ToolCallStatus, ToolContent,
    turn::{ToolCallArguments, ToolCallFinished, ToolCallStarted, ToolOrigin},
};
use serde_json::{Value, json};

use super::{Turn, limit};
use crate::{
    conformance::reference::{
        access::{self, Sandbox},
        fault::Failure,
        tools,
    },
    sim::ToolCall,
};

/// How often one and the same call may get one and the same answer in a row.
const REPEATS: u32 = 8;

/// A call that the model made, by the id that it gave.
pub(super) struct Called {
    pub(super) id: String,
    pub(super) call: ToolCall,
}

/// What the model is told about a call.
pub(super) struct Told {
    pub(super) text: String,
    pub(super) images: usize,
}

/// The calls and answers of the last round, and how often they came in a row.
#[derive(Debug, Default)]
pub(super) struct Repeated {
    round: String,
    times: u32,
}

impl Turn<'_> {
    /// Runs the calls of one reply, all at once. Returns what the model is told, in their order.
    pub(super) async fn run_tools(
        &self,
        calls: Vec<Called>,
        sandbox: &Sandbox,
    ) -> Result<Vec<Told>, Failure> {
        let count = calls.iter().filter(|called| !self.is_callers(&called.call)).count();
        {
            let mut log = self.log();
            log.harness_calls = log.harness_calls.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        }
        self.check_budget()?;
        let mut names = Vec::<CallId>::new();
        for called in &calls {
            names.push(self.tell_apart(&called.id, &names));
        }
        let runs = calls.iter().zip(names).map(|(Called { call, .. }, id)| self.run_tool(id, call, sandbox));
        let told = self.in_phase(Phase::Tool, join_all(runs)).await?;
        self.check_budget()?;
        self.check_repeats(&calls, &told)?;
        Ok(told)
    }

    /// Whether a call is for the caller to answer: it names a tool of the caller's, or none of the harness's.
    fn is_callers(&self, call: &ToolCall) -> bool {
        let is_harness =
            matches!(call, ToolCall::Shell { .. } | ToolCall::WriteFile { .. } | ToolCall::ReadFile { .. });
        !is_harness || self.session.definitions().iter().any(|tool| tool.name == access::name(call))
    }

    /// Ends a turn that makes more calls than it may. Those of the caller's tools are the session's to count: of one
    /// that it denied the model is told, and where there is still a tool to call it may try another time.
    fn check_budget(&self) -> Result<(), Failure> {
        let made = self.log().harness_calls.saturating_add(self.session.calls_made());
        let chances = u32::from(self.session.has_terminal_tools());
        let is_over = self.request.limits.tool_calls.is_some_and(|limit| made > limit);
        if is_over || self.session.over_budget_calls() > chances {
            return Err(limit(Limit::ToolCalls));
        }
        Ok(())
    }

    /// The model's id for a call, or another if that one is taken.
    fn tell_apart(&self, id: &str, taken: &[CallId]) -> CallId {
        let wanted = CallId::new(id);
        let is_taken = taken.contains(&wanted)
            || self.log().recorder.tool_calls().iter().any(|record| record.call == wanted);
        if is_taken { CallId::new(self.name(id)) } else { wanted }
    }

    /// Ends a turn that goes round in a circle.
    fn check_repeats(&self, calls: &[Called], told: &[Told]) -> Result<(), Failure> {
        let asked = calls.iter().map(|called| format!("{:?}", called.call));
        let answered = told.iter().map(|told| told.text.clone());
        let round = asked.chain(answered).collect::<Vec<_>>().join("\n");
        let repeated = &mut self.log().repeated;
        repeated.times = if repeated.round == round { repeated.times + 1 } else { 1 };
        repeated.round = round;
        if repeated.times >= REPEATS { Err(limit(Limit::RepeatedCalls)) } else { Ok(()) }
    }

    async fn run_tool(&self, id: CallId, call: &ToolCall, sandbox: &Sandbox) -> Told {
        if self.is_callers(call) {
            return self.ask_caller(id, call).await;
        }
        let objection = sandbox.objection(call);
        let effects = if objection.is_some() { Effects::None } else { access::effects(call) };
        let arguments = arguments(call).unwrap_or_else(Value::String);
        self.tell_of(&id, access::name(call), ToolOrigin::Harness, effects, arguments);
        let (status, content) = match objection {
            Some(objection) => (ToolCallStatus::Denied, vec![ToolContent::text(objection)]),
            None => match tools::run(call, sandbox, &self.environment()).await {
                Ok(text) => (ToolCallStatus::Succeeded, vec![ToolContent::text(text)]),
                Err(text) => (ToolCallStatus::Failed, vec![ToolContent::text(text)]),
            },
        };
        self.tell_end(id, status, content)
    }

    /// Has the caller answer, if the session lets the call through.
    async fn ask_caller(&self, id: CallId, call: &ToolCall) -> Told {
        let name = access::name(call);
        let arguments = arguments(call).unwrap_or_else(Value::String);
        let permit = self.session.authorize(self.session.token(), name, &arguments);
        let effects = permit.as_ref().map_or(Effects::None, |permit| permit.definition().effects);
        self.tell_of(&id, name, ToolOrigin::Caller, effects, arguments);
        let permit = match permit {
            Ok(permit) => permit,
            Err(denial) => {
                return self.tell_end(
                    id,
                    ToolCallStatus::Denied,
                    vec![ToolContent::text(denial.to_string())],
                );
            }
        };
        let answer = self.session.answer(id.clone(), permit).await;
        let status = if answer.is_error { ToolCallStatus::Failed } else { ToolCallStatus::Succeeded };
        self.tell_end(id, status, answer.content)
    }

    fn tell_of(&self, id: &CallId, name: &str, origin: ToolOrigin, effects: Effects, arguments: Value) {
        self.event(ToolCallStarted::new(id.clone(), name, origin, effects));
        self.event(ToolCallArguments::new(id.clone(), arguments));
    }

    fn tell_end(&self, id: CallId, status: ToolCallStatus, content: Vec<ToolContent>) -> Told {
        let told = told(&content);
        self.event(ToolCallFinished::new(id, status, content));
        told
    }

    /// What a tool sees of the host's environment.
    fn environment(&self) -> BTreeMap<String, String> {
        let named = self.request.environment.iter().map(String::as_str).chain(["PATH", "HOME"]);
        let values = named.filter_map(|name| {
            let value = self.backend.environment.get(name)?;
            Some((name.to_owned(), value.clone()))
        });
        values.collect()
    }
}

/// The arguments of a call, or the text that should have been some.
fn arguments(call: &ToolCall) -> Result<Value, String> {
    Ok(match call {
        ToolCall::Shell { command } => json!({ "command": command }),
        ToolCall::WriteFile { path, text } => json!({ "path": path, "text": text }),
        ToolCall::ReadFile { path } => json!({ "path": path }),
        ToolCall::Mcp { arguments, .. } | ToolCall::Function { arguments, .. } => arguments.clone(),
        ToolCall::RawFunction { arguments, .. } => {
            return serde_json::from_str(arguments).map_err(|_not_json| arguments.clone());
        }
        ToolCall::Custom { input, .. } => json!({ "input": input }),
    })
}

fn told(content: &[ToolContent]) -> Told {
    let texts = content.iter().filter_map(|piece| match piece {
        ToolContent::Text { text } => Some(text.clone()),
        ToolContent::Json { value } => Some(value.to_string()),
        _ => None,
    });
    let is_image = |piece: &&ToolContent| matches!(piece, ToolContent::Image { .. });
    Told { text: texts.collect::<Vec<_>>().join("\n"), images: content.iter().filter(is_image).count() }
}
