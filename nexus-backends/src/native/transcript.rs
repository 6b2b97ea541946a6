//! Interface between the loop and a conversation in the form of its wire.

use std::{collections::BTreeSet, fmt, sync::Arc};

use bytes::Bytes;
use nexus_core::{BackendId, Effort, PromptBlock, ResumeHandle, ToolResult};
use serde_json::Value;

use super::compaction::{CompactionDemand, CompactionPlan};
use super::dialect::ModelPlan;
use super::items::{Item, Origin};
use super::reply::OutputItem;
use super::tools::wire_tool::WireTool;

/// Parts that all requests of a turn share.
#[derive(Debug)]
pub(crate) struct TurnConstants<'a> {
    /// Model and request shape.
    pub(crate) plan: &'a ModelPlan,
    /// Base URL of the server.
    pub(crate) server: &'a str,
    /// System instructions before the prompt.
    pub(crate) system: Option<&'a str>,
    /// Reasoning effort of the request, at a level that the model supports.
    pub(crate) effort: Option<Effort>,
    /// Offered tools, in the form of the plan's wire.
    pub(crate) tools: &'a [Arc<WireTool>],
    /// Format of a structured answer, as the Responses API has it in `text.format`.
    pub(crate) output_format: Option<&'a Value>,
}

impl TurnConstants<'_> {
    /// Returns the origin of the turn's replies on a wire.
    pub(crate) fn origin(&self, wire: &str) -> Origin {
        Origin {
            wire: wire.to_owned(),
            server: self.server.to_owned(),
            model: self.plan.model.as_str().to_owned(),
        }
    }
}

/// Conversation with a model, from which each request is built.
pub(crate) trait Transcript: fmt::Debug + Send + Sync {
    /// Returns the id of the conversation, which is a UUID.
    fn id(&self) -> &str;

    /// Returns the ids of the calls in the resumed handle.
    fn calls_before(&self) -> &BTreeSet<String>;

    /// Adds a user message.
    fn user(&mut self, blocks: &[PromptBlock]);

    /// Adds a message of Nexus to the model, with the role of the user.
    fn remark(&mut self, text: &str);

    /// Adds the output of the model. Calls among its items are open until each has its output.
    fn model(&mut self, items: &[OutputItem]);

    /// Adds the result of a call. Returns the hash of the text that the model gets.
    fn tool_output(&mut self, call: &str, is_custom: bool, result: &ToolResult) -> u64;

    /// Records that every call so far has its output, so the conversation can be resumed from here.
    fn is_whole(&mut self);

    /// Removes the model's reasoning. Returns true if there was any.
    fn drop_reasoning(&mut self) -> bool;

    /// Removes everything that refers to items stored at the server. Returns true if there was any.
    fn forget_items(&mut self) -> bool;

    /// Replaces images by text: first those that the server has not accepted yet, otherwise all. Returns true if it
    /// replaced any.
    fn drop_pictures(&mut self) -> bool;

    /// Returns the items of the conversation, in the order of a plan's decisions.
    fn items(&self) -> &[Arc<Item>];

    /// Plans which older parts of the conversation are dropped. Nothing changes yet.
    fn plan_compaction(&self, demand: CompactionDemand) -> CompactionPlan;

    /// Carries out a plan for the present items. The note about dropped items has `summary`, otherwise the summary of the
    /// note that it replaces.
    fn compact(&mut self, plan: CompactionPlan, summary: Option<String>);

    /// Moves pictures out of the results of calls, from now on. Returns true if they were in them. Default: false.
    fn move_pictures(&mut self) -> bool {
        false
    }

    /// Replaces the beginning of the requests. The conversation stays.
    fn reopen(&mut self, opening: &TurnConstants<'_>);

    /// Returns the body of the next request. `output_tokens` limits the answer, if the server supports a limit.
    fn request(&self, output_tokens: Option<u64>) -> Bytes;

    /// Returns the approximate length of the next request, in bytes.
    fn request_bytes(&self) -> usize;

    /// Returns a resume handle: the conversation up to the point at which it can be resumed.
    fn keep(&self, backend: &BackendId) -> ResumeHandle;
}
