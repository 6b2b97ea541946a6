//! The conversation, and the requests that are made of it.
//!
//! Items are kept as the JSON that is sent, and appended: a further request costs a copy of the
//! bytes, and nothing is serialized twice. Nothing is stored at the server (`store: false`), so everything the model
//! is to remember goes along, its reasoning included, as it came.

mod parts;

use std::{borrow::Cow, collections::BTreeSet};

use bytes::Bytes;
use nexus_core::{Effort, PromptBlock, ResumeHandle, ToolResult};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json, value::RawValue};

pub(super) use self::parts::bare_call;
use self::parts::{ToolOutput, bare_reasoning, input_part, message, output_of, text_content};
use super::dialect::{Carry, ModelPlan, SystemPosition, TextShape, ToolPosition};
use super::reader::{FunctionCall, OutputItem};
use super::wire::Text;

/// Fewest output tokens a request may be bounded to. Source: the public API reference, `max_output_tokens`.
const FEWEST_OUTPUT_TOKENS: u64 = 16;

/// The version of what a resume handle holds.
const HANDLE_VERSION: u32 = 1;

/// Parts that are the same in all requests of a turn.
#[derive(Debug)]
pub(crate) struct TurnConstants<'a> {
    /// The model and its shape.
    pub(crate) plan: &'a ModelPlan,
    /// Instructions that stand above the prompt.
    pub(crate) system: Option<&'a str>,
    /// Reasoning effort of the request, at a step that the model accepts.
    pub(crate) effort: Option<Effort>,
    /// The tools, as they are offered.
    pub(crate) tools: &'a [Value],
    /// The `text.format` of a structured answer.
    pub(crate) output_format: Option<&'a Value>,
}

/// Conversation with a model: the beginning of every request, and the messages so far.
#[derive(Debug)]
pub(crate) struct ModelConversation {
    /// Names it: the same over all requests and over the turns that resume it.
    id: String,
    carry: Carry,
    text: TextShape,
    takes_output_bound: bool,
    /// The request up to where its input begins.
    head: Vec<u8>,
    /// Items that open the input and do not belong to the conversation.
    opening_items: Vec<u8>,
    /// The conversation: items with a comma between them.
    items: Vec<u8>,
    /// True if `items` contain reasoning.
    has_reasoning: bool,
    /// The ids of the calls that a handle brought along.
    calls_before: BTreeSet<String>,
    /// Up to where `items` can be taken up again: every call before it has its output.
    whole_bytes: usize,
    /// Up to where the server has taken `items` once.
    accepted_bytes: usize,
}

/// Change of an item of the conversation.
enum Rewritten {
    Unchanged,
    LeftOut,
    Changed(Map<String, Value>),
}

/// A conversation in a resume handle.
#[derive(Serialize, Deserialize)]
struct KeptConversation<'a> {
    version: u32,
    conversation: Cow<'a, str>,
    /// The items, as a JSON list in a string, which only the server reads.
    items: Cow<'a, str>,
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
    tools: Option<&'a [Value]>,
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

#[derive(Serialize)]
struct Reasoning {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<Effort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<&'static str>,
}

impl ModelConversation {
    /// A conversation without messages.
    pub(crate) fn new(opening: &TurnConstants<'_>) -> Self {
        let mut conversation = Self {
            id: uuid::Uuid::new_v4().to_string(),
            carry: opening.plan.shape.carry,
            text: opening.plan.shape.text,
            takes_output_bound: opening.plan.shape.max_output_tokens,
            head: Vec::new(),
            opening_items: Vec::new(),
            items: Vec::new(),
            has_reasoning: false,
            calls_before: BTreeSet::new(),
            whole_bytes: 0,
            accepted_bytes: 0,
        };
        conversation.open(opening);
        conversation
    }

    /// The conversation that a handle holds. `None` if it holds none.
    pub(crate) fn resume(opening: &TurnConstants<'_>, handle: &ResumeHandle) -> Option<Self> {
        let kept = kept_in(handle)?;
        let items: Vec<&RawValue> = serde_json::from_str(&kept.items).ok()?;
        // The server decides if it accepts the objects; a conversation never contained anything else.
        if !items.iter().all(|item| item.get().starts_with('{')) {
            return None;
        }
        let mut conversation = Self::new(opening);
        conversation.id.clear();
        conversation.id.push_str(&kept.conversation);
        conversation.open(opening);
        for item in items {
            let head: Said<'_> = serde_json::from_str(item.get()).unwrap_or_default();
            conversation.raw(head.kind.as_str() == "reasoning", item.get());
            if !head.call_id.is_empty() {
                conversation.calls_before.insert(head.call_id.as_str().to_owned());
            }
        }
        conversation.is_whole();
        conversation.accepted_bytes = conversation.items.len();
        Some(conversation)
    }

    /// The ids of the calls that a handle brought along.
    pub(super) fn calls_before(&self) -> &BTreeSet<String> {
        &self.calls_before
    }

    /// Names the conversation: a UUID.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    fn open(&mut self, opening: &TurnConstants<'_>) {
        let shape = opening.plan.shape;
        let (effort, summary, context) = (opening.effort, shape.reasoning_summary, shape.reasoning_context);
        let has_reasoning = effort.is_some() || summary.is_some() || context.is_some();
        let has_tools = !opening.tools.is_empty();
        let head = RequestHead {
            model: opening.plan.model.as_str(),
            stream: true,
            store: shape.store.then_some(false),
            instructions: opening.system.filter(|_| shape.system == SystemPosition::Instructions),
            tools: (has_tools && shape.tools == ToolPosition::Field).then_some(opening.tools),
            tool_choice: (has_tools && shape.tool_choice).then_some("auto"),
            parallel_tool_calls: shape.parallel_tool_calls.filter(|_| has_tools),
            reasoning: has_reasoning.then_some(Reasoning { effort, summary, context }),
            text: opening.output_format.map(|format| json!({ "format": format })),
            include: shape.encrypted_reasoning.then_some(["reasoning.encrypted_content"]),
            prompt_cache_key: shape.prompt_cache_key.then_some(&self.id),
        };
        self.head.clear();
        write(&mut self.head, &head);
        // Every request completes the object with its input.
        self.head.pop();
        self.head.extend_from_slice(b",\"input\":[");

        self.opening_items.clear();
        if has_tools && shape.tools == ToolPosition::FirstItem {
            let functions = json!({ "type": "namespace", "name": "functions", "description": "", "tools": opening.tools });
            let item = json!({ "type": "additional_tools", "role": "developer", "tools": [functions] });
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
            let message = message(role, &text_content(self.text, system));
            write(&mut self.opening_items, &message);
        }
    }

    /// The user speaks.
    pub(crate) fn user(&mut self, blocks: &[PromptBlock]) {
        let content = match blocks {
            [PromptBlock::Text { text }] => text_content(self.text, text),
            blocks => blocks.iter().filter_map(input_part).collect(),
        };
        self.push(false, |into| write(into, &message("user", &content)));
        self.is_whole();
    }

    /// We tell the model something, in the user's place.
    pub(crate) fn remark(&mut self, text: &str) {
        let content = text_content(self.text, text);
        self.push(false, |into| write(into, &message("user", &content)));
        self.is_whole();
    }

    /// The model spoke. Calls among its items are open until each has its output.
    pub(crate) fn model(&mut self, items: &[OutputItem]) {
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
        let as_it_came = self.carry == Carry::AsTheyCame;
        match item {
            OutputItem::Message { raw, .. } if as_it_came => self.raw(false, raw.get()),
            OutputItem::Message { text, .. } if text.is_empty() => {}
            OutputItem::Message { text, .. } => {
                let message = message("assistant", &Value::String(text.clone()));
                self.push(false, |into| write(into, &message));
            }
            OutputItem::Reasoning { raw } if as_it_came => self.raw(true, raw.get()),
            OutputItem::Reasoning { raw } => {
                if let Ok(reasoning) = serde_json::from_str(raw.get()) {
                    let bare = bare_reasoning(reasoning);
                    self.push(true, |into| write(into, &bare));
                }
            }
            OutputItem::Call(call) => match json_arguments(&call.arguments) {
                None if as_it_came => self.raw(false, call.raw.get()),
                None => self.push(false, |into| write(into, &bare_call(call))),
                Some(arguments) => {
                    let mut item = match serde_json::from_str(call.raw.get()) {
                        Ok(item @ Value::Object(_)) if as_it_came => item,
                        _ => bare_call(call),
                    };
                    item["arguments"] = Value::String(arguments);
                    self.push(false, |into| write(into, &item));
                }
            },
            OutputItem::CustomCall { raw, .. } => self.raw(false, raw.get()),
            OutputItem::Other { kind, raw } if is_carried(kind) => self.raw(false, raw.get()),
            OutputItem::Other { .. } => {}
        }
    }

    /// Adds the answer to a call. Returns the hash of the model's text.
    pub(crate) fn tool_output(&mut self, call: &str, is_custom: bool, result: &ToolResult) -> u64 {
        let kind = if is_custom { "custom_tool_call_output" } else { "function_call_output" };
        let output = output_of(result);
        let hash = output.hash();
        self.push(false, |into| write(into, &ToolOutput { kind, call_id: call, output }));
        hash
    }

    /// Every call so far has its output: from here the conversation can be taken up again.
    pub(crate) fn is_whole(&mut self) {
        self.whole_bytes = self.items.len();
    }

    /// Removes the model's reasoning from the conversation. Returns true if it contained any. Some servers
    /// cannot read the reasoning of another account or model. The remaining items lose their ids: a server that
    /// knows the id misses the reasoning that came with it. Source: "'function_call' was provided without its
    /// required 'reasoning' item".
    pub(crate) fn drop_reasoning(&mut self) -> bool {
        self.has_reasoning && self.forget_items()
    }

    /// Takes out what a server is expected to know by itself: reasoning and the ids of items. Returns whether there was any.
    /// Source: "Item with id 'rs_…' not found. Items are not persisted when `store` is set to false."
    pub(crate) fn forget_items(&mut self) -> bool {
        self.has_reasoning = false;
        self.rewrite(|_, mut fields| {
            if fields.get("type").is_some_and(|kind| kind == "reasoning") {
                return Rewritten::LeftOut;
            }
            match fields.remove("id") {
                Some(_) => Rewritten::Changed(fields),
                None => Rewritten::Unchanged,
            }
        })
    }

    /// Replaces pictures by words: those that the server has not taken yet, or else all. Returns true if it
    /// replaced any.
    pub(crate) fn drop_pictures(&mut self) -> bool {
        let without = |mut fields: Map<String, Value>| match parts::replace_pictures(&mut fields) {
            true => Rewritten::Changed(fields),
            false => Rewritten::Unchanged,
        };
        memchr::memmem::find(&self.items, b"\"input_image\"").is_some()
            && (self.rewrite(|was_accepted, fields| match was_accepted {
                true => Rewritten::Unchanged,
                false => without(fields),
            }) || self.rewrite(|_, fields| without(fields)))
    }

    /// Rewrites the conversation. `rewritten` gets each item, and true if the server has taken it. Returns true
    /// after a change.
    fn rewrite(&mut self, mut rewritten: impl FnMut(bool, Map<String, Value>) -> Rewritten) -> bool {
        let said = [b"[", self.items.as_slice(), b"]"].concat();
        let Ok(items) = serde_json::from_slice::<Vec<&RawValue>>(&said) else { return false };
        let (whole_bytes, accepted_bytes) = (self.whole_bytes, self.accepted_bytes);
        self.items.clear();
        (self.whole_bytes, self.accepted_bytes) = (0, 0);
        let mut read_bytes = 0;
        let mut has_changed = false;
        for item in items {
            read_bytes += item.get().len() + usize::from(read_bytes > 0);
            let fields: Map<String, Value> = serde_json::from_str(item.get()).unwrap_or_default();
            let new = rewritten(read_bytes <= accepted_bytes, fields);
            has_changed |= !matches!(new, Rewritten::Unchanged);
            match new {
                Rewritten::Unchanged => self.raw(false, item.get()),
                Rewritten::Changed(fields) => self.push(false, |into| write(into, &fields)),
                Rewritten::LeftOut => {}
            }
            if read_bytes <= whole_bytes {
                self.is_whole();
            }
            if read_bytes <= accepted_bytes {
                self.accepted_bytes = self.items.len();
            }
        }
        has_changed
    }

    /// Replaces the beginning of the requests; the conversation stays.
    pub(crate) fn reopen(&mut self, opening: &TurnConstants<'_>) {
        self.open(opening);
    }

    /// The body of the next request. `output_tokens` bounds the answer, where the server takes a bound.
    pub(crate) fn request(&self, output_tokens: Option<u64>) -> Bytes {
        let mut body = Vec::with_capacity(self.head.len() + self.opening_items.len() + self.items.len() + 64);
        body.extend_from_slice(&self.head);
        body.extend_from_slice(&self.opening_items);
        if !self.opening_items.is_empty() && !self.items.is_empty() {
            body.push(b',');
        }
        body.extend_from_slice(&self.items);
        body.push(b']');
        if let Some(tokens) = output_tokens.filter(|_| self.takes_output_bound) {
            let bound = format!(",\"max_output_tokens\":{}", tokens.max(FEWEST_OUTPUT_TOKENS));
            body.extend_from_slice(bound.as_bytes());
        }
        body.push(b'}');
        body.into()
    }

    /// Content of a resume handle: the conversation itself, up to the point at which it can be resumed.
    pub(crate) fn keep(&self) -> Value {
        let said = self.items.get(..self.whole_bytes).unwrap_or_default();
        let items = format!("[{}]", String::from_utf8_lossy(said));
        let kept = KeptConversation {
            version: HANDLE_VERSION,
            conversation: Cow::Borrowed(&self.id),
            items: items.into(),
        };
        serde_json::to_value(kept).unwrap_or_default()
    }

    fn raw(&mut self, is_reasoning: bool, json: &str) {
        self.push(is_reasoning, |into| into.extend_from_slice(json.as_bytes()));
    }

    fn push(&mut self, is_reasoning: bool, write: impl FnOnce(&mut Vec<u8>)) {
        if !self.items.is_empty() {
            self.items.push(b',');
        }
        write(&mut self.items);
        self.has_reasoning |= is_reasoning;
    }
}

fn kept_in(handle: &ResumeHandle) -> Option<KeptConversation<'_>> {
    let kept = KeptConversation::deserialize(handle.state()).ok()?;
    (kept.version == HANDLE_VERSION && uuid::Uuid::parse_str(&kept.conversation).is_ok()).then_some(kept)
}

/// Returns true if a handle holds a conversation of this loop.
pub(super) fn holds_conversation(handle: &ResumeHandle) -> bool {
    kept_in(handle).is_some_and(|kept| serde_json::from_str::<Vec<&RawValue>>(&kept.items).is_ok())
}

/// Arguments that can go back to the server, if the received ones are not a JSON object: strict servers reject
/// the whole request for them. The object contains the received text, so that the model sees it.
fn json_arguments(came: &str) -> Option<String> {
    if serde_json::from_str::<Map<String, Value>>(came).is_ok() {
        return None;
    }
    let shown = came.get(..came.floor_char_boundary(MAX_SHOWN_ARGUMENTS)).unwrap_or_default();
    Some(match came.trim().is_empty() {
        true => "{}".to_owned(),
        false => json!({ "not_json": shown }).to_string(),
    })
}

/// Most bytes of arguments that are not JSON that go back. Source: our own bound.
const MAX_SHOWN_ARGUMENTS: usize = 4 << 10;

/// Returns true if an item of this kind goes back to the model: traces of hosted tools and compactions do,
/// unknown kinds do not.
fn is_carried(kind: &str) -> bool {
    kind.ends_with("_call") || kind.ends_with("_call_output") || kind.ends_with("compaction")
}

/// Writes JSON. What is written has text for keys, so nothing can fail.
fn write(into: &mut Vec<u8>, value: &impl Serialize) {
    let before = into.len();
    if serde_json::to_writer(&mut *into, value).is_err() {
        into.truncate(before);
        into.extend_from_slice(b"null");
    }
}

#[cfg(test)]
mod tests;
