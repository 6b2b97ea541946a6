//! Messages of a turn, assembled from deltas and from the lines that confirm them.
//!
//! A block of a message is confirmed by its `assistant` line. Streamed text without confirmation is retracted as soon
//! as the CLI continues without it, because it repeated the model call or the answer was cut off. If the turn ends
//! there, its partial result contains the text as an incomplete message.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use nexus_core::{
    CallId, FinishReason, MessageId, Usage,
    harness::ModelCall,
    lenient_json::{HalfJoiner, Halves},
    turn::{MessageEnded, MessageVoided, TextDelta, ThinkingDelta, VoidCause},
};

use super::wire::ApiUsage;
use crate::cli::Step;

/// Content of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockKind {
    Text,
    Thinking,
}

/// The messages of one process.
#[derive(Debug, Default)]
pub(super) struct Messages {
    /// Open message of the turn's own agent.
    own: Option<Open>,
    /// Open messages of its sub-agents, keyed by the call that started the sub-agent.
    subs: BTreeMap<String, Open>,
    used_ids: BTreeSet<String>,
    calls: u32,
    /// The last ended message of the turn's own agent, and its text.
    last: Option<MessageId>,
    last_text: String,
    counted: Usage,
    /// Tokens of the last model call that reported them: its whole request, and its answer.
    context_tokens: Option<u64>,
    /// Joins characters that two deltas of the agent's own message split.
    halves: HalfJoiner,
}

/// A message that has not ended.
#[derive(Debug)]
struct Open {
    vendor_id: String,
    id: MessageId,
    parent: Option<CallId>,
    blocks: Vec<ContentBlock>,
    is_confirmed: bool,
    usage: Option<ApiUsage>,
    stop_reason: Option<String>,
}

/// Content block of a message.
#[derive(Debug)]
struct ContentBlock {
    kind: BlockKind,
    has_streamed: bool,
    confirmed: Option<String>,
}

impl BlockKind {
    fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Thinking => "thinking",
        }
    }
}

impl Messages {
    /// Starts a streamed message of the turn's own agent.
    pub(super) fn start(&mut self, vendor_id: &str, usage: Option<ApiUsage>, step: &mut Step) {
        // After a broken stream, the CLI starts the repeated message without ending the old one.
        self.close(step);
        self.halves = HalfJoiner::default();
        self.open_own(vendor_id, usage, step);
    }

    /// Adds a delta to the message that was started last.
    pub(super) fn delta(&mut self, kind: BlockKind, text: Cow<'_, str>, halves: Halves, step: &mut Step) {
        let text = self.halves.delta(kind.name(), text, halves);
        let Some(open) = &mut self.own else { return };
        if text.is_empty() {
            return;
        }
        match open.blocks.last_mut() {
            // The line that confirms a block precedes its `content_block_stop`, so a delta after it starts another
            // block.
            Some(block) if block.kind == kind && block.confirmed.is_none() => block.has_streamed = true,
            _ => open.blocks.push(ContentBlock { kind, has_streamed: true, confirmed: None }),
        }
        open.deliver(kind, &text, step);
    }

    /// Records the stop reason and final usage of the message that was started last.
    pub(super) fn last_word(&mut self, stop_reason: Option<String>, usage: Option<ApiUsage>) {
        let Some(open) = &mut self.own else { return };
        open.stop_reason = stop_reason.or_else(|| open.stop_reason.take());
        if let Some(usage) = usage {
            let known = open.usage.get_or_insert_default();
            // A `message_delta` may omit counts, so those of `message_start` remain.
            known.input_tokens = usage.input_tokens.or(known.input_tokens);
            known.cache_read_input_tokens = usage.cache_read_input_tokens.or(known.cache_read_input_tokens);
            known.cache_creation_input_tokens =
                usage.cache_creation_input_tokens.or(known.cache_creation_input_tokens);
            known.output_tokens = usage.output_tokens.or(known.output_tokens);
        }
    }

    /// Handles the end of a message's stream. An abandoned message also ends like this, without confirmation. A message
    /// that breaks off after complete blocks is valid: claude 2.1.329 retains the blocks in the conversation and asks
    /// the model to continue. Transcript v2_1_329_cut_behind_blocks.
    pub(super) fn stop(&mut self, step: &mut Step) {
        let is_whole = self
            .own
            .as_ref()
            .is_some_and(|open| open.is_whole() && (open.is_confirmed || open.stop_reason.is_some()));
        if is_whole {
            self.close(step);
        }
    }

    /// Confirms a block of a message. `content` is empty for a block that is neither text nor thinking.
    pub(super) fn confirm(
        &mut self,
        vendor_id: &str,
        parent: Option<&str>,
        content: Option<(BlockKind, String)>,
        step: &mut Step,
    ) {
        let is_open = |open: &Option<&Open>| open.is_some_and(|open| open.vendor_id == vendor_id);
        let open = match parent {
            None => {
                // Another id without a `message_start` is a response that was not streamed, such as the repetition of a
                // broken one.
                if !is_open(&self.own.as_ref()) {
                    self.close(step);
                    self.open_own(vendor_id, None, step);
                }
                self.own.as_mut()
            }
            Some(parent) => {
                if !is_open(&self.subs.get(parent)) {
                    self.close_sub(parent, step);
                    let open = Open::new(self.fresh_id(vendor_id), vendor_id, Some(CallId::new(parent)));
                    self.subs.insert(parent.to_owned(), open);
                }
                self.subs.get_mut(parent)
            }
        };
        let Some(open) = open else { return };
        open.is_confirmed = true;
        let Some((kind, text)) = content else { return };
        // The rest of a split character cannot follow once the block is confirmed.
        if parent.is_none()
            && let Some(half) = self.halves.finish(kind.name())
        {
            open.deliver(kind, half.encode_utf8(&mut [0; 4]), step);
        }
        let waiting = open.blocks.iter_mut().find(|block| block.kind == kind && block.confirmed.is_none());
        match waiting {
            Some(block) => block.confirmed = Some(text),
            None => {
                // Streams of sub-agents are not forwarded, and a repeated call may not stream: then the text arrives
                // only here.
                open.deliver(kind, &text, step);
                open.blocks.push(ContentBlock { kind, has_streamed: false, confirmed: Some(text) });
            }
        }
    }

    /// Records usage and stop reason of a message that was not streamed. Other messages have neither in this line.
    pub(super) fn reported(&mut self, stop_reason: Option<String>, usage: Option<ApiUsage>) {
        if stop_reason.is_some() {
            self.last_word(stop_reason, usage);
        }
    }

    /// Adds text that only the `result` line contains, as a separate message.
    pub(super) fn add(&mut self, vendor_id: &str, text: &str, step: &mut Step) {
        self.close(step);
        let id = self.fresh_id(vendor_id);
        step.event(TextDelta::new(id.clone(), text));
        step.event(MessageEnded::new(id.clone(), text));
        self.last = Some(id);
        text.clone_into(&mut self.last_text);
    }

    /// Ends the open message, or retracts its unconfirmed part.
    pub(super) fn close(&mut self, step: &mut Step) {
        let Some(open) = self.own.take() else { return };
        let counted = open.counted();
        self.counted = self.counted.plus(&counted);
        self.context_tokens = counted.total_tokens().or(self.context_tokens);
        if open.is_whole() {
            // Otherwise the message was abandoned before it had content, so there is nothing to retract.
            if open.is_confirmed || open.stop_reason.is_some() {
                self.ended(&open);
                open.end(step);
            }
            return;
        }
        step.event(MessageVoided::new(open.id.clone(), VoidCause::Retry));
        let blocks: Vec<ContentBlock> =
            open.blocks.into_iter().filter(|block| block.confirmed.is_some()).collect();
        if blocks.is_empty() {
            return;
        }
        // The confirmed text remains, under a new id.
        let id = self.fresh_id(&format!("{}~kept", open.vendor_id));
        let kept = Open { id, blocks, ..Open::new(open.id, &open.vendor_id, None) };
        for block in &kept.blocks {
            kept.deliver(block.kind, block.confirmed.as_deref().unwrap_or_default(), step);
        }
        self.ended(&kept);
        kept.end(step);
    }

    fn ended(&mut self, open: &Open) {
        self.last = Some(open.id.clone());
        self.last_text = open.text();
    }

    /// Retracts the last message of the turn's own agent, because it does not have the required shape.
    pub(super) fn take_back(&mut self, step: &mut Step) {
        self.close(step);
        if let Some(last) = self.last.take() {
            step.event(MessageVoided::new(last, VoidCause::Repair));
            self.last_text.clear();
        }
    }

    /// Forgets the last message, because another part of the driver has retracted it.
    pub(super) fn forget_last(&mut self) {
        self.last = None;
        self.last_text.clear();
    }

    /// Ends the open message of a sub-agent.
    pub(super) fn close_sub(&mut self, parent: &str, step: &mut Step) {
        if let Some(open) = self.subs.remove(parent) {
            open.end_sub(step);
        }
    }

    /// Ends the open messages of all sub-agents.
    pub(super) fn close_subs(&mut self, step: &mut Step) {
        for open in std::mem::take(&mut self.subs).into_values() {
            open.end_sub(step);
        }
    }

    /// Returns the text of the last ended message of the turn's own agent.
    pub(super) fn last_text(&self) -> &str {
        &self.last_text
    }

    /// Returns the reported usage of the messages of the turn's own agent.
    pub(super) fn counted(&self) -> Usage {
        self.counted
    }

    /// Returns the number of tokens in the model's context after the last message of the turn's own agent.
    pub(super) fn context_tokens(&self) -> Option<u64> {
        let open = self.own.as_ref().and_then(|open| open.counted().total_tokens());
        open.or(self.context_tokens)
    }

    fn open_own(&mut self, vendor_id: &str, usage: Option<ApiUsage>, step: &mut Step) {
        self.calls = self.calls.saturating_add(1);
        step.model_calls = Some(self.calls);
        let id = self.fresh_id(vendor_id);
        self.own = Some(Open { usage, ..Open::new(id, vendor_id, None) });
    }

    /// Returns the vendor's id of a message, with a suffix if the id was used before.
    fn fresh_id(&mut self, vendor_id: &str) -> MessageId {
        let mut id = vendor_id.to_owned();
        let mut count = 1_u64;
        while !self.used_ids.insert(id.clone()) {
            count += 1;
            id = format!("{vendor_id}~{count}");
        }
        MessageId::new(id)
    }
}

impl Open {
    fn new(id: MessageId, vendor_id: &str, parent: Option<CallId>) -> Self {
        Self {
            vendor_id: vendor_id.to_owned(),
            id,
            parent,
            blocks: Vec::new(),
            is_confirmed: false,
            usage: None,
            stop_reason: None,
        }
    }

    /// Returns true if the CLI confirmed all streamed blocks.
    fn is_whole(&self) -> bool {
        self.blocks.iter().all(|block| block.confirmed.is_some() || !block.has_streamed)
    }

    fn text(&self) -> String {
        let texts = self.blocks.iter().filter(|block| block.kind == BlockKind::Text);
        texts.filter_map(|block| block.confirmed.as_deref()).collect()
    }

    fn deliver(&self, kind: BlockKind, text: &str, step: &mut Step) {
        if text.is_empty() {
            return;
        }
        match kind {
            BlockKind::Text => {
                step.event(TextDelta::new(self.id.clone(), text).with_parent(self.parent.clone()));
            }
            BlockKind::Thinking => {
                step.event(ThinkingDelta::new(self.id.clone(), text).with_parent(self.parent.clone()));
            }
        }
    }

    fn end(self, step: &mut Step) {
        let text = self.text();
        let usage = self.stop_reason.is_some().then(|| self.counted());
        let finish = self.stop_reason.as_deref().map(finish);
        step.event(
            MessageEnded::new(self.id, text).with_parent(self.parent).with_usage(usage).with_finish(finish),
        );
    }

    /// Ends a message of a sub-agent. The message is a single model call, whose usage and stop reason the CLI does not report.
    fn end_sub(self, step: &mut Step) {
        step.model_calls_ended.push(ModelCall::new().with_parent(self.parent.clone()));
        self.end(step);
    }

    /// Returns the usage of the model call. It is empty for an interrupted message, which has only the counts of its
    /// start.
    fn counted(&self) -> Usage {
        match (&self.stop_reason, self.usage) {
            (Some(_), Some(usage)) => counted(&usage),
            _ => Usage::new(),
        }
    }
}

fn counted(usage: &ApiUsage) -> Usage {
    let mut counted = Usage::new();
    counted.input_tokens = usage.input_tokens;
    counted.cache_read_tokens = usage.cache_read_input_tokens;
    counted.cache_write_tokens = usage.cache_creation_input_tokens;
    counted.output_tokens = usage.output_tokens;
    counted
}

fn finish(stop_reason: &str) -> FinishReason {
    match stop_reason {
        "end_turn" => FinishReason::Stop,
        "stop_sequence" => FinishReason::StopSequence,
        "tool_use" => FinishReason::ToolCalls,
        "max_tokens" => FinishReason::Length,
        "pause_turn" => FinishReason::Paused,
        other => FinishReason::Other(other.to_owned()),
    }
}
