//! The conversation, and the requests built from it.
//!
//! Items are stored as the JSON that is sent, and appended. So a further request costs a copy of the bytes, and nothing
//! is serialised twice. The server stores nothing (`store: false`), so each request contains everything that the model
//! must remember, including its unchanged reasoning.

mod rewrite;

use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
use nexus_core::{BackendId, Effort, PromptBlock, ResumeHandle, ToolResult};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};

use super::convert;
use super::parts::{
    ToolOutput, bare_call, bare_custom_call, bare_reasoning, input_part, message, output_of, text_content,
};
use super::shape::{Carry, Shape, SystemPosition, ToolPosition};
use crate::native::arguments::json_arguments;
use crate::native::compaction::{CompactionDemand, CompactionPlan};
use crate::native::items::{Item, Origin, adopt, result_parts};
use crate::native::lenient::Text;
use crate::native::reply::OutputItem;
use crate::native::stored::{StoredConversation, StoredItems, items_handle};
use crate::native::tools::wire_tool::ToolList;
use crate::native::transcript::{Transcript, TurnConstants};

/// Minimum of `max_output_tokens`. Source: the public API reference.
const FEWEST_OUTPUT_TOKENS: u64 = 16;

/// Conversation with a model: the beginning of every request, and the items so far.
#[derive(Debug)]
pub(crate) struct ResponsesTranscript {
    /// Id of the conversation, which all requests and all turns that resume it share.
    id: String,
    shape: Shape,
    /// Beginning of the request, up to the start of its input.
    head: Vec<u8>,
    /// Items at the start of the input that do not belong to the conversation.
    opening_items: Vec<u8>,
    /// Items of the conversation, separated by commas.
    items: Vec<u8>,
    /// True if `items` contain reasoning.
    has_reasoning: bool,
    /// Ids of the calls in the resumed handle.
    calls_before: BTreeSet<String>,
    /// Length of the part of `items` that can be resumed: every call in it has its output.
    whole_bytes: usize,
    /// Length of the part of `items` that the server has accepted once.
    accepted_bytes: usize,
    /// Items in the form that a handle stores, one for each of `items`.
    said: Vec<Arc<Item>>,
    /// Number of items that can be resumed.
    whole: usize,
    /// Number of items before the current turn's first message.
    items_before_turn: usize,
    /// Ids of the calls whose results a compaction must not drop.
    pinned: BTreeSet<String>,
    origin: Origin,
}

/// Fields of an item in a handle that are checked.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Said<'a> {
    #[serde(rename = "type", borrow)]
    kind: Text<'a>,
    #[serde(borrow)]
    call_id: Text<'a>,
}

#[derive(Serialize)]
struct RequestHead<'a> {
    model: &'a str,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<ToolList<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    include: Option<[&'static str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'a str>,
}

/// First item with the tools of the turn.
#[derive(Serialize)]
struct AdditionalTools<'a> {
    role: &'a str,
    tools: [Namespace<'a>; 1],
    #[serde(rename = "type")]
    kind: &'a str,
}

#[derive(Serialize)]
struct Namespace<'a> {
    description: &'a str,
    name: &'a str,
    tools: ToolList<'a>,
    #[serde(rename = "type")]
    kind: &'a str,
}

#[derive(Serialize)]
struct Reasoning {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<Effort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<&'static str>,
}

impl ResponsesTranscript {
    /// Creates a conversation without messages.
    pub(crate) fn new(opening: &TurnConstants<'_>, shape: Shape) -> Self {
        let mut conversation = Self {
            id: uuid::Uuid::new_v4().to_string(),
            shape,
            head: Vec::new(),
            opening_items: Vec::new(),
            items: Vec::new(),
            has_reasoning: false,
            calls_before: BTreeSet::new(),
            whole_bytes: 0,
            accepted_bytes: 0,
            items_before_turn: 0,
            said: Vec::new(),
            whole: 0,
            pinned: BTreeSet::new(),
            origin: opening.origin(super::WIRE),
        };
        conversation.open(opening);
        conversation
    }

    /// Returns a stored conversation, and the number of items that were left out, because another origin created them. `None`
    /// if the conversation cannot be read.
    pub(crate) fn resume(
        opening: &TurnConstants<'_>,
        shape: Shape,
        stored: StoredConversation,
    ) -> Option<(Self, usize)> {
        let mut conversation = Self::new(opening, shape);
        let StoredConversation { id, items, pinned } = stored;
        (conversation.id, conversation.pinned) = (id, pinned);
        // The beginning contains the id as `prompt_cache_key`, so write it again with the stored id.
        conversation.open(opening);
        let (items, mut left_out) = match items {
            StoredItems::Items(items) => (items, 0),
            StoredItems::Responses(list, origin)
                if origin.as_ref().is_none_or(|origin| *origin == conversation.origin) =>
            {
                let list: Vec<&RawValue> = serde_json::from_str(&list).ok()?;
                let item = |item: &&RawValue| convert::to_item(item.get(), &conversation.origin, shape.text);
                (list.iter().map(|json| Arc::new(item(json))).collect(), 0)
            }
            StoredItems::Responses(list, _) => convert::to_items(&list)?,
        };
        for mut item in items {
            match adopt(&mut item, &conversation.origin) {
                true => conversation.stored(item),
                false => left_out += 1,
            }
        }
        conversation.is_whole();
        conversation.accepted_bytes = conversation.items.len();
        Some((conversation, left_out))
    }

    /// Adds an item of a resumed conversation. An item that only its server can read is sent back byte for byte.
    fn stored(&mut self, item: Arc<Item>) {
        if let Item::Call { id: call, .. } | Item::Result { call, .. } = &*item {
            self.calls_before.insert(call.clone());
        }
        let Some(sealed) = item.sealed() else {
            if let Some(json) = convert::of_item(&item, self.shape.text) {
                self.push(false, Some(item), |into| write(into, &json));
            }
            return;
        };
        let json = sealed.json.clone();
        let mut is_reasoning = false;
        if matches!(*item, Item::Reasoning { .. }) {
            // Calls of hosted tools also have ids, which a new call must not repeat.
            let head: Said<'_> = serde_json::from_str(&json).unwrap_or_default();
            is_reasoning = head.kind.as_str() == "reasoning";
            if !head.call_id.is_empty() {
                self.calls_before.insert(head.call_id.as_str().to_owned());
            }
        }
        self.push(is_reasoning, Some(item), |into| into.extend_from_slice(json.as_bytes()));
    }

    /// Returns the ids of the calls in the resumed handle.
    pub(super) fn calls_before(&self) -> &BTreeSet<String> {
        &self.calls_before
    }

    /// Returns the id of the conversation, which is a UUID.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    fn open(&mut self, opening: &TurnConstants<'_>) {
        let shape = self.shape;
        let (effort, summary, context) = (opening.effort, shape.reasoning_summary, shape.reasoning_context);
        let has_reasoning = effort.is_some() || summary.is_some() || context.is_some();
        let has_tools = !opening.tools.is_empty();
        let head = RequestHead {
            model: opening.plan.model.as_str(),
            stream: true,
            store: shape.store.then_some(false),
            instructions: opening.system.filter(|_| shape.system == SystemPosition::Instructions),
            tools: (has_tools && shape.tools == ToolPosition::Field)
                .then_some(ToolList { tools: opening.tools, last: None }),
            tool_choice: (has_tools && shape.tool_choice).then_some("auto"),
            parallel_tool_calls: shape.parallel_tool_calls.filter(|_| has_tools),
            reasoning: has_reasoning.then_some(Reasoning { effort, summary, context }),
            text: opening.output_format.map(|format| json!({ "format": format })),
            include: shape.encrypted_reasoning.then_some(["reasoning.encrypted_content"]),
            prompt_cache_key: shape.prompt_cache_key.then_some(&self.id),
        };
        self.head.clear();
        write(&mut self.head, &head);
        // Remove the closing brace: every request completes the object with its input.
        self.head.pop();
        self.head.extend_from_slice(b",\"input\":[");

        self.opening_items.clear();
        if has_tools && shape.tools == ToolPosition::FirstItem {
            let functions = Namespace {
                description: "",
                name: "functions",
                tools: ToolList { tools: opening.tools, last: None },
                kind: "namespace",
            };
            let item = AdditionalTools { role: "developer", tools: [functions], kind: "additional_tools" };
            write(&mut self.opening_items, &item);
        }
        let role = match shape.system {
            SystemPosition::Instructions => None,
            SystemPosition::DeveloperMessage => Some("developer"),
            SystemPosition::SystemMessage => Some("system"),
        };
        if let (Some(role), Some(system)) = (role, opening.system) {
            if !self.opening_items.is_empty() {
                self.opening_items.push(b',');
            }
            let message = message(role, &text_content(self.shape.text, system));
            write(&mut self.opening_items, &message);
        }
    }

    /// Adds a user message.
    pub(crate) fn user(&mut self, blocks: &[PromptBlock]) {
        self.items_before_turn = self.said.len();
        let content = match blocks {
            [PromptBlock::Text { text }] => text_content(self.shape.text, text),
            blocks => blocks.iter().filter_map(input_part).collect(),
        };
        self.push(false, None, |into| write(into, &message("user", &content)));
        self.is_whole();
    }

    /// Adds a message of Nexus to the model, with the role of the user.
    pub(crate) fn remark(&mut self, text: &str) {
        let content = text_content(self.shape.text, text);
        self.push(false, None, |into| write(into, &message("user", &content)));
        self.is_whole();
    }

    /// Adds the output of the model. Calls among its items are open until each has its output.
    pub(crate) fn model(&mut self, items: &[OutputItem]) {
        // A reply proves that the server accepted all items before it.
        self.accepted_bytes = self.items.len();
        for item in items {
            self.output_item(item);
        }
        let has_calls =
            items.iter().any(|item| matches!(item, OutputItem::Call(_) | OutputItem::CustomCall { .. }));
        if !has_calls {
            self.is_whole();
        }
    }

    fn output_item(&mut self, item: &OutputItem) {
        let as_it_came = self.shape.carry == Carry::AsTheyCame;
        match item {
            OutputItem::Message { raw: Some(raw), .. } if as_it_came => self.raw(false, raw.get()),
            OutputItem::Message { text, .. } if text.is_empty() => {}
            OutputItem::Message { text, .. } => {
                let message = message("assistant", &Value::String(text.clone()));
                self.push(false, None, |into| write(into, &message));
            }
            OutputItem::Reasoning { raw } if as_it_came => self.raw(true, raw.get()),
            OutputItem::Reasoning { raw } => {
                if let Ok(reasoning) = serde_json::from_str(raw.get()) {
                    let bare = bare_reasoning(reasoning);
                    self.push(true, None, |into| write(into, &bare));
                }
            }
            OutputItem::Call(call) => match (json_arguments(&call.arguments), &call.raw) {
                (None, Some(raw)) if as_it_came => self.raw(false, raw.get()),
                (None, _) => self.push(false, None, |into| write(into, &bare_call(call))),
                (Some(arguments), raw) => {
                    let item = raw.as_ref().and_then(|raw| serde_json::from_str(raw.get()).ok());
                    let mut item = match item {
                        Some(item @ Value::Object(_)) if as_it_came => item,
                        _ => bare_call(call),
                    };
                    item["arguments"] = Value::String(arguments);
                    self.push(false, None, |into| write(into, &item));
                }
            },
            OutputItem::CustomCall { raw: Some(raw), .. } => self.raw(false, raw.get()),
            OutputItem::CustomCall { call_id, name, input, raw: None } => {
                let call = bare_custom_call(call_id, name, input);
                self.push(false, None, |into| write(into, &call));
            }
            OutputItem::Other { kind, raw } if is_carried(kind) => self.raw(false, raw.get()),
            OutputItem::Other { .. } => {}
        }
    }

    /// Adds the result of a call. Returns the hash of the text that the model gets.
    pub(crate) fn tool_output(&mut self, call: &str, is_custom: bool, result: &ToolResult) -> u64 {
        let kind = if is_custom { "custom_tool_call_output" } else { "function_call_output" };
        let output = output_of(result);
        let hash = output.hash();
        if result.is_pinned {
            self.pinned.insert(call.to_owned());
        }
        let item = Item::result(call, result_parts(result), result.is_error);
        self.push(false, None, |into| write(into, &ToolOutput { kind, call_id: call, output }));
        self.state_result(item);
        hash
    }

    /// Records that every call so far has its output, so the conversation can be resumed from here.
    pub(crate) fn is_whole(&mut self) {
        self.whole_bytes = self.items.len();
        self.whole = self.said.len();
    }

    /// Returns the body of the next request. `output_tokens` limits the answer, if the server supports a limit.
    pub(crate) fn request(&self, output_tokens: Option<u64>) -> Bytes {
        // The last 64 bytes are for punctuation and the limit, so the body is allocated once.
        let mut body = Vec::with_capacity(self.head.len() + self.opening_items.len() + self.items.len() + 64);
        body.extend_from_slice(&self.head);
        body.extend_from_slice(&self.opening_items);
        if !self.opening_items.is_empty() && !self.items.is_empty() {
            body.push(b',');
        }
        body.extend_from_slice(&self.items);
        body.push(b']');
        if let Some(tokens) = output_tokens.filter(|_| self.shape.max_output_tokens) {
            let bound = format!(",\"max_output_tokens\":{}", tokens.max(FEWEST_OUTPUT_TOKENS));
            body.extend_from_slice(bound.as_bytes());
        }
        body.push(b'}');
        body.into()
    }

    /// Returns a resume handle: the conversation up to the point at which it can be resumed.
    pub(crate) fn keep(&self, backend: &BackendId) -> ResumeHandle {
        let said = self.said.get(..self.whole).unwrap_or_default();
        items_handle(backend, &self.id, said.to_vec().into(), &self.pinned)
    }

    fn raw(&mut self, is_reasoning: bool, json: &str) {
        self.push(is_reasoning, None, |into| into.extend_from_slice(json.as_bytes()));
    }

    /// Adds the JSON of an item, which `write` appends. If `item` is `None`, it is parsed from that JSON.
    fn push(&mut self, is_reasoning: bool, item: Option<Arc<Item>>, write: impl FnOnce(&mut Vec<u8>)) {
        if !self.items.is_empty() {
            self.items.push(b',');
        }
        let start = self.items.len();
        write(&mut self.items);
        let item = item.unwrap_or_else(|| {
            let json = String::from_utf8_lossy(self.items.get(start..).unwrap_or_default());
            Arc::new(convert::to_item(&json, &self.origin, self.shape.text))
        });
        self.said.push(item);
        self.has_reasoning |= is_reasoning;
    }

    /// Replaces the last item by `item`, which marks a failure explicitly and not only as text. A sealed form stays.
    fn state_result(&mut self, mut item: Item) {
        if let Some(last) = self.said.last_mut() {
            item.set_sealed(last.sealed().cloned());
            *last = Arc::new(item);
        }
    }
}

impl Transcript for ResponsesTranscript {
    fn id(&self) -> &str {
        Self::id(self)
    }

    fn calls_before(&self) -> &BTreeSet<String> {
        Self::calls_before(self)
    }

    fn user(&mut self, blocks: &[PromptBlock]) {
        Self::user(self, blocks);
    }

    fn remark(&mut self, text: &str) {
        Self::remark(self, text);
    }

    fn model(&mut self, items: &[OutputItem]) {
        Self::model(self, items);
    }

    fn tool_output(&mut self, call: &str, is_custom: bool, result: &ToolResult) -> u64 {
        Self::tool_output(self, call, is_custom, result)
    }

    fn is_whole(&mut self) {
        Self::is_whole(self);
    }

    fn drop_reasoning(&mut self) -> bool {
        Self::drop_reasoning(self)
    }

    fn forget_items(&mut self) -> bool {
        Self::forget_items(self)
    }

    fn drop_pictures(&mut self) -> bool {
        Self::drop_pictures(self)
    }

    fn items(&self) -> &[Arc<Item>] {
        &self.said
    }

    fn plan_compaction(&self, demand: CompactionDemand) -> CompactionPlan {
        Self::plan_compaction(self, demand)
    }

    fn compact(&mut self, plan: CompactionPlan, summary: Option<String>) {
        Self::compact(self, plan, summary);
    }

    fn reopen(&mut self, opening: &TurnConstants<'_>) {
        self.open(opening);
    }

    fn request(&self, output_tokens: Option<u64>) -> Bytes {
        Self::request(self, output_tokens)
    }

    fn request_bytes(&self) -> usize {
        self.head.len() + self.opening_items.len() + rewrite::text_bytes(&self.items)
    }

    fn keep(&self, backend: &BackendId) -> ResumeHandle {
        Self::keep(self, backend)
    }
}

/// Returns true if an item of this type is sent back to the model. This applies to traces of hosted tools and
/// compactions, not to unknown types.
fn is_carried(kind: &str) -> bool {
    kind.ends_with("_call") || kind.ends_with("_call_output") || kind.ends_with("compaction")
}

/// Writes JSON. Cannot fail in practice, because all keys are strings.
fn write(into: &mut Vec<u8>, value: &impl Serialize) {
    let before = into.len();
    if serde_json::to_writer(&mut *into, value).is_err() {
        into.truncate(before);
        into.extend_from_slice(b"null");
    }
}

#[cfg(test)]
mod tests;
