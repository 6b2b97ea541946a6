//! The calls of tools: begun by the line that confirms them, ended by the line that answers them.

use std::collections::{BTreeMap, BTreeSet};

use nexus_core::{
    CallId, Effects, ToolCallStatus, TurnEvent,
    turn::{ToolCallArguments, ToolCallFinished, ToolCallStarted, ToolOrigin},
};

use super::{tools, wire::Block};
use crate::delegated::conversation::Step;

/// The calls of one process.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// Those without an answer.
    waiting: BTreeMap<String, Kind>,
    known: BTreeSet<String>,
    denied: BTreeSet<String>,
    /// The tools that the model has, once the CLI has named them.
    offered: Option<BTreeSet<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Tool,
    /// The model hands in an answer that must have a shape.
    Answer,
}

impl Calls {
    /// The CLI names the tools that the model has.
    pub(super) fn offer(&mut self, tools: Vec<String>) {
        self.offered = Some(tools.into_iter().collect());
    }

    /// The model called a tool.
    pub(super) fn begin(&mut self, block: Block, parent: Option<&str>, step: &mut Step) {
        if block.name == tools::STRUCTURED_OUTPUT && block.kind == "tool_use" {
            self.waiting.insert(block.id, Kind::Answer);
            return;
        }
        if !self.known.insert(block.id.clone()) {
            return;
        }
        let origin = match block.kind.as_str() {
            "server_tool_use" => ToolOrigin::Hosted,
            _ => ToolOrigin::Harness,
        };
        let effects = match &self.offered {
            // A call of a tool that is not there is answered with an error, and nothing runs.
            Some(offered) if !tools::is_offered(&block.name, offered) => Effects::None,
            _ => tools::effects(&block.name),
        };
        let call = CallId::new(block.id.as_str());
        let started = ToolCallStarted::new(call.clone(), block.name, origin, effects);
        step.event(started.with_parent(parent.map(CallId::new)));
        step.event(ToolCallArguments::new(call, block.input));
        self.waiting.insert(block.id, Kind::Tool);
    }

    /// The CLI says beforehand that a call is not let through.
    pub(super) fn deny(&mut self, id: String) {
        self.denied.insert(id);
    }

    /// A call was answered.
    pub(super) fn end(&mut self, block: &Block, step: &mut Step) {
        match self.waiting.remove(&block.tool_use_id) {
            None => {}
            Some(Kind::Answer) if block.is_error => {
                step.event(TurnEvent::warning("the answer did not fit the schema; the CLI told the model"));
            }
            Some(Kind::Answer) => {}
            Some(Kind::Tool) => {
                let is_denied = self.denied.contains(&block.tool_use_id) || tools::is_refusal(block);
                let status = match (block.is_error, is_denied) {
                    (false, _) => ToolCallStatus::Succeeded,
                    (true, true) => ToolCallStatus::Denied,
                    (true, false) => ToolCallStatus::Failed,
                };
                let call = CallId::new(block.tool_use_id.as_str());
                step.event(ToolCallFinished::new(call, status, tools::output(block)));
            }
        }
    }

    /// Whether a call has no answer yet.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// No answer comes any more.
    pub(super) fn forget(&mut self) {
        self.waiting.clear();
    }
}
