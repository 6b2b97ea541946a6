//! The calls of one reply: run at once, each answered once, whatever the tool does.

use std::{collections::BTreeMap, panic::AssertUnwindSafe};

use futures::future::{FutureExt as _, join_all};
use nexus_core::{
    CallId, Effects, Limit, Phase, ToolCallStatus, ToolContent, ToolDefinition, ToolResult,
    turn::{ToolCallArguments, ToolCallFinished, ToolCallStarted, ToolOrigin},
};
use serde_json::{Value, json};

use super::{Turn, limit};
use crate::{
    conformance::reference::{
        access::{self, Fence},
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
    pub(super) async fn run_tools(&self, calls: Vec<Called>, fence: &Fence) -> Result<Vec<Told>, Failure> {
        let tools = self.host.tools().definitions();
        let own = |call: &ToolCall| tools.iter().find(|tool| tool.name == access::name(call));
        let is_counted = |called: &&Called| !own(&called.call).is_some_and(|tool| tool.terminal);
        let count = u32::try_from(calls.iter().filter(is_counted).count()).unwrap_or(u32::MAX);
        let total = {
            let mut log = self.log();
            log.tool_calls = log.tool_calls.saturating_add(count);
            log.tool_calls
        };
        if self.request.limits.tool_calls.is_some_and(|limit| total > limit) {
            return Err(limit(Limit::ToolCalls));
        }
        let mut names = Vec::<CallId>::new();
        for called in &calls {
            names.push(self.tell_apart(&called.id, &names));
        }
        let runs = calls
            .iter()
            .zip(names)
            .map(|(Called { call, .. }, id)| self.run_tool(id, call, own(call), fence));
        let told = self.in_phase(Phase::Tool, join_all(runs)).await?;
        self.check_repeats(&calls, &told)?;
        Ok(told)
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

    async fn run_tool(
        &self,
        id: CallId,
        call: &ToolCall,
        own: Option<&ToolDefinition>,
        fence: &Fence,
    ) -> Told {
        let name = access::name(call);
        let (origin, effects) = match own {
            Some(tool) => (ToolOrigin::Caller, tool.effects),
            None => (ToolOrigin::Harness, access::effects(call)),
        };
        let objection = if own.is_some() { None } else { fence.objection(call) };
        let effects = if objection.is_some() { Effects::None } else { effects };
        self.event(ToolCallStarted::new(id.clone(), name, origin, effects));
        let arguments = arguments(call);
        let shown = arguments.clone().unwrap_or_else(Value::String);
        self.event(ToolCallArguments::new(id.clone(), shown));
        let (status, content) = match (objection, own, arguments) {
            (Some(objection), ..) => (ToolCallStatus::Denied, vec![ToolContent::text(objection)]),
            (None, Some(_), Err(_)) => {
                (ToolCallStatus::Failed, vec![ToolContent::text("the arguments are not JSON")])
            }
            (None, Some(_), Ok(arguments)) => {
                let answer = self.ask_caller(nexus_core::ToolCall::new(id.clone(), name, arguments)).await;
                let status = if answer.is_error { ToolCallStatus::Failed } else { ToolCallStatus::Succeeded };
                (status, answer.content)
            }
            (None, None, _) => match tools::run(call, fence, &self.environment()).await {
                Ok(text) => (ToolCallStatus::Succeeded, vec![ToolContent::text(text)]),
                Err(text) => (ToolCallStatus::Failed, vec![ToolContent::text(text)]),
            },
        };
        let told = told(&content);
        self.event(ToolCallFinished::new(id, status, content));
        told
    }

    /// What the caller's tool answers; a panic is a failure of the tool, not of the turn.
    async fn ask_caller(&self, call: nexus_core::ToolCall) -> ToolResult {
        let answer = AssertUnwindSafe(self.host.tools().call(call)).catch_unwind().await;
        answer.unwrap_or_else(|_panic| ToolResult::error("the tool broke down"))
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
