//! Tool calls: the line that confirms a call begins it, and the line with its result ends it.

use std::collections::{BTreeMap, BTreeSet};

use nexus_core::{
    CallId, Effects, ErrorKind, ToolAccess, ToolCallStatus, TurnEvent,
    harness::Failure,
    turn::{ToolCallArguments, ToolCallFinished, ToolCallStarted, ToolOrigin, Unrecognized},
};

use serde_json::Value;

use super::wire::Block;
use super::{mcp_config, tools};
use crate::cli::Step;
use crate::cli::caller_tools::CallerTools;

/// Tool calls of one process.
#[derive(Debug, Default)]
pub(super) struct ProcessCalls {
    access: ToolAccess,
    callers: Option<CallerTools>,
    /// Calls without a result, oldest first.
    waiting: Vec<WaitingCall>,
    /// Number of calls with each vendor id. Vendor ids may repeat.
    known: BTreeMap<String, u32>,
    denied: BTreeSet<String>,
    /// Names of the tools that the model has, once the CLI has listed them.
    offered: Option<BTreeSet<String>>,
    is_stopping: bool,
}

/// Call that waits for its result.
#[derive(Debug)]
struct WaitingCall {
    vendor_id: String,
    id: CallId,
    kind: WaitingKind,
}

/// Kind of a call that waits for its result.
#[derive(Clone, Debug)]
enum WaitingKind {
    /// Tool of the harness, or of the vendor's server.
    Own {
        /// Name of the tool if the model's list lacks it. A call of such a tool has no effect.
        unlisted: Option<String>,
    },
    /// Tool of the caller, with the caller's name of it.
    Callers { name: String, arguments: Value },
    /// Submission of an answer that must have a shape.
    Answer,
}

impl ProcessCalls {
    /// Creates an empty list of calls. `callers` distinguishes calls of the caller's tools from calls of the harness's
    /// own.
    pub(super) fn new(access: ToolAccess, callers: Option<CallerTools>) -> Self {
        Self { access, callers, ..Self::default() }
    }

    /// Records the tools that the model has.
    pub(super) fn offer(&mut self, tools: Vec<String>) {
        self.offered = Some(tools.into_iter().collect());
    }

    /// Handles a tool call by the model.
    pub(super) fn begin(&mut self, block: Block, parent: Option<&str>, step: &mut Step) {
        if block.name == tools::STRUCTURED_OUTPUT && block.kind == "tool_use" {
            *self.known.entry(block.id.clone()).or_default() += 1;
            let id = CallId::new(block.id.as_str());
            self.waiting.push(WaitingCall { vendor_id: block.id, id, kind: WaitingKind::Answer });
            return;
        }
        let count = self.known.entry(block.id.clone()).or_default();
        *count += 1;
        let call = match *count {
            1 => CallId::new(block.id.as_str()),
            count => CallId::new(format!("{}#{count}", block.id)),
        };
        let (started, kind) = match self.callers.as_ref().zip(mcp_config::caller_name(&block.name)) {
            Some((callers, name)) => {
                let effects = callers.effects(name);
                let started = ToolCallStarted::new(call.clone(), name, ToolOrigin::Caller, effects);
                (started, WaitingKind::Callers { name: name.to_owned(), arguments: block.input.clone() })
            }
            None => {
                let (started, is_listed) = self.own(call.clone(), &block);
                (started, WaitingKind::Own { unlisted: (!is_listed).then(|| block.name.clone()) })
            }
        };
        step.event(started.with_parent(parent.map(CallId::new)));
        step.event(ToolCallArguments::new(call.clone(), block.input));
        self.waiting.push(WaitingCall { vendor_id: block.id, id: call, kind });
    }

    /// Returns the start event of a call that the caller does not answer, and true if the model has the tool.
    fn own(&self, call: CallId, block: &Block) -> (ToolCallStarted, bool) {
        // The list does not contain hosted tools.
        let is_call = block.kind != "server_tool_use";
        let origin = if is_call { ToolOrigin::Harness } else { ToolOrigin::Hosted };
        let is_listed = match &self.offered {
            Some(offered) => !is_call || tools::is_offered(&block.name, self.access, offered),
            None => true,
        };
        // The CLI answers a call of an unlisted tool with an error, and executes nothing.
        let effects = if is_listed { tools::effects(&block.name) } else { Effects::None };
        (ToolCallStarted::new(call, block.name.as_str(), origin, effects), is_listed)
    }

    /// Records that the CLI or this turn denies a call.
    pub(super) fn deny(&mut self, id: String) {
        self.denied.insert(id);
    }

    /// Records that a call is allowed after all.
    pub(super) fn allow(&mut self, id: &str) {
        self.denied.remove(id);
    }

    /// Records that the turn is stopping. From now on, the CLI itself answers calls whose tools it no longer waits for.
    pub(super) fn stop(&mut self) {
        self.is_stopping = true;
    }

    /// Handles the result of a call.
    pub(super) fn end(&mut self, block: &Block, step: &mut Step) {
        let Some(at) = self.waiting.iter().position(|waiting| waiting.vendor_id == block.tool_use_id) else {
            if !self.known.contains_key(&block.tool_use_id) && !self.is_stopping {
                // The call happened, but the line that announced it was not understood.
                let id = Value::String(block.tool_use_id.clone());
                step.event(Unrecognized::new(Some("the answer to an unknown call".to_owned()), id));
            }
            return;
        };
        let WaitingCall { id: call, kind, .. } = self.waiting.remove(at);
        let is_denied = match kind {
            WaitingKind::Answer => {
                if block.is_error {
                    step.event(TurnEvent::warning(
                        "the answer did not fit the schema; the CLI informed the model",
                    ));
                }
                return;
            }
            // This error is the CLI's own and not the result of the tool, so no end of the call is reported.
            WaitingKind::Callers { .. } if self.is_stopping && block.is_error => return,
            WaitingKind::Callers { name, arguments } => {
                if tools::is_cut(block) {
                    let reason = "is too long for the CLI, which shows the model only the beginning";
                    step.event(TurnEvent::warning(format!("the answer of the tool {name} {reason}")));
                }
                self.was_denied(&name, &arguments) || self.denied.contains(&block.tool_use_id)
            }
            WaitingKind::Own { unlisted: Some(tool) } if !block.is_error => {
                self.ran_unlisted(&tool, step);
                false
            }
            WaitingKind::Own { .. } => self.denied.contains(&block.tool_use_id) || tools::is_refusal(block),
        };
        let status = match (block.is_error, is_denied) {
            (false, _) => ToolCallStatus::Succeeded,
            (true, true) => ToolCallStatus::Denied,
            (true, false) => ToolCallStatus::Failed,
        };
        step.event(ToolCallFinished::new(call, status, tools::output(block)));
    }

    /// Handles an executed call of a tool that the model should not have.
    fn ran_unlisted(&self, tool: &str, step: &mut Step) {
        step.event(Unrecognized::new(Some(format!("a call of the unknown tool {tool}")), Value::Null));
        if tools::is_list(self.access) {
            let level = self.access.as_str();
            let reason = format!("the CLI executed a call of {tool}, which {level} does not allow");
            step.failed_and_stops(Failure::new(ErrorKind::Unsupported, reason));
        }
    }

    /// Returns true if a call of the caller's tools was denied: by the session, or by the CLI, which knows only the
    /// session's tools.
    fn was_denied(&self, name: &str, arguments: &Value) -> bool {
        let denied =
            |callers: &CallerTools| !mcp_config::has(callers, name) || callers.was_denied(name, arguments);
        self.callers.as_ref().is_some_and(denied)
    }

    /// Returns true if a call has no result yet.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns true if a call has no result yet and the model needs it to continue.
    pub(super) fn is_going_on(&self) -> bool {
        self.waiting.iter().any(|waiting| !matches!(waiting.kind, WaitingKind::Answer))
    }

    /// Forgets the open calls, because no result arrives any more.
    pub(super) fn forget(&mut self) {
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nexus_core::{
        Brief, ParticipantScope, Recorder, Session, Tool, ToolCall, ToolContent, ToolFault, ToolResult,
        Toolbox,
    };
    use serde_json::json;

    use super::*;

    /// Takes the money, and then fails if it is asked to.
    fn tools() -> Toolbox {
        let pay = |arguments: Value| async move {
            match arguments["fails"].as_bool() {
                Some(true) => Err(ToolFault::new("charged, but the receipt was lost")),
                _ => Ok("charged"),
            }
        };
        let pay = Tool::with_schema("pay", "", json!({ "type": "object" }), pay);
        Toolbox::new().with(pay.with_effects(Effects::Wrote).writing("/path"))
    }

    fn block(block: Value) -> Block {
        serde_json::from_value(block).unwrap()
    }

    /// What is recorded of two calls of one reply.
    async fn record(session: &Arc<Session>, inputs: [Value; 2]) -> (Vec<ToolCallStatus>, Effects) {
        let callers = CallerTools::new(Arc::clone(session), "http://127.0.0.1:1/mcp".into());
        let mut calls = ProcessCalls::new(ToolAccess::ScopedOnly, Some(callers));
        let mut step = Step::default();
        for (id, input) in ["1", "2"].into_iter().zip(&inputs) {
            let call = json!({ "type": "tool_use", "id": id, "name": "mcp__nexus__pay", "input": input });
            calls.begin(block(call), None, &mut step);
        }
        let mut results: Vec<ToolResult> = Vec::new();
        for (id, input) in ["1", "2"].into_iter().zip(inputs) {
            results.push(session.call(session.token(), ToolCall::new(id, "pay", input)).await);
        }
        for (id, result) in ["1", "2"].into_iter().zip(results) {
            let [ToolContent::Text { text }] = &*result.content else { panic!("{result:?}") };
            let is_error = result.is_error;
            let answer =
                json!({ "type": "tool_result", "tool_use_id": id, "content": text, "is_error": is_error });
            calls.end(&block(answer), &mut step);
        }
        let mut recorder = Recorder::new();
        step.events.iter().for_each(|event| recorder.observe(event));
        (recorder.tool_calls().iter().map(|call| call.status).collect(), recorder.effects())
    }

    #[tokio::test]
    async fn of_two_equal_calls_the_one_that_ran_has_had_its_effects() {
        let mint =
            || Session::mint_with_budget("clerk", ParticipantScope::unrestricted(), Arc::new(tools()), 1);
        let fails = json!({ "fails": true });
        let (_, effects) = record(&mint(), [fails.clone(), fails]).await;
        assert_eq!(effects, Effects::Wrote);
        // Where the one that ran went well, it is known which one was denied.
        let (statuses, effects) = record(&mint(), [json!({}), json!({})]).await;
        assert_eq!(statuses, [ToolCallStatus::Succeeded, ToolCallStatus::Denied]);
        assert_eq!(effects, Effects::Wrote);
    }

    #[tokio::test]
    async fn of_two_long_calls_that_begin_alike_each_is_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("in")).unwrap();
        let brief = Brief::new(&root).tool("*".parse().unwrap()).writing("in");
        let scope = ParticipantScope::assemble(&brief, None, None).unwrap();
        let session = Session::mint("clerk", scope, Arc::new(tools()));
        let content = "x".repeat(20_000);
        let write = |path: &str| json!({ "content": content, "fails": true, "path": path });
        let (statuses, effects) = record(&session, [write("in/a"), write("../out")]).await;
        assert_eq!(statuses, [ToolCallStatus::Failed, ToolCallStatus::Denied]);
        assert_eq!(effects, Effects::Wrote);
    }
}
