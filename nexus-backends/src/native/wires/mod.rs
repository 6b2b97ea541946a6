//! Wires: one protocol each, translated to and from the loop's own reply and conversation.
//!
//! | module | contents |
//! | --- | --- |
//! | `shape` | the wire of a plan, as data |
//! | [`responses`], [`chat`], [`messages`], [`gemini`] | one protocol each |
//! | `reading`, `writing` | parts that the wires of items share |
//!
//! The functions here select the wire of a plan. The loop knows only `WireReader` and `Transcript`.

pub mod chat;
pub mod gemini;
pub mod messages;
mod reading;
pub mod responses;
pub(crate) mod shape;
mod writing;

use std::sync::Arc;

use nexus_core::ResumeHandle;

use self::chat::{reader::ChatReader, request::ChatWriter};
use self::gemini::{reader::GeminiReader, request::GeminiWriter};
use self::messages::{reader::MessagesReader, request::MessagesWriter};
use self::responses::convert;
use self::responses::reader::ResponseReader;
use self::responses::request::ResponsesTranscript;
use self::shape::WireShape;
use super::dialect::{Dialect, ModelPlan};
use super::item_transcript::{ItemTranscript, RequestWriter};
use super::stored::{StoredConversation, StoredItems};
use super::transcript::{Transcript, TurnConstants};
use super::wire_reader::WireReader;

/// Recipient of an answer's schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerFormat {
    /// The server, in the field that the wire has for it.
    Native,
    /// The server, as the arguments of a tool that the model must call.
    Tool,
    /// The model, by its instructions.
    Instructed,
}

/// Conversation that a resume handle continues.
#[derive(Debug)]
pub(crate) struct Resumed {
    pub(crate) transcript: Box<dyn Transcript>,
    /// Number of items that only another wire, server or model can read, which are left out.
    left_out: usize,
}

impl Resumed {
    /// Returns a warning about items that were left out.
    pub(crate) fn warning(&self) -> Option<&'static str> {
        (self.left_out > 0).then_some(
            "another wire, server or model began this conversation; its reasoning is left out, and the rest is \
             resumed",
        )
    }
}

/// Returns a reader for the model call with the number `call` within the turn.
pub(crate) fn reader(call: u32, dialect: &Arc<dyn Dialect>, plan: &ModelPlan) -> Box<dyn WireReader> {
    let dialect = Arc::clone(dialect);
    match &plan.shape {
        WireShape::Responses(shape) => Box::new(ResponseReader::new(call, dialect, shape.custom_calls)),
        WireShape::Chat(shape) => {
            Box::new(ChatReader::new(call, dialect, shape.answer == AnswerFormat::Tool))
        }
        WireShape::Messages(shape) => {
            Box::new(MessagesReader::new(call, dialect, shape.answer == AnswerFormat::Tool))
        }
        WireShape::Gemini(shape) => {
            Box::new(GeminiReader::new(call, dialect, shape.answer == AnswerFormat::Tool))
        }
    }
}

/// Returns a conversation without messages.
pub(crate) fn open(opening: &TurnConstants<'_>) -> Box<dyn Transcript> {
    match &opening.plan.shape {
        WireShape::Responses(shape) => Box::new(ResponsesTranscript::new(opening, *shape)),
        WireShape::Chat(shape) => Box::new(ItemTranscript::new(ChatWriter(shape.clone()), opening)),
        WireShape::Messages(shape) => {
            Box::new(ItemTranscript::new(MessagesWriter::new(shape.clone(), opening.effort), opening))
        }
        WireShape::Gemini(shape) => {
            Box::new(ItemTranscript::new(GeminiWriter::new(shape.clone(), opening), opening))
        }
    }
}

/// Returns the conversation in a handle, converted if another wire began it; `None` if the handle contains none.
pub(crate) fn resume(opening: &TurnConstants<'_>, handle: &ResumeHandle) -> Option<Resumed> {
    let stored = StoredConversation::of(handle)?;
    match &opening.plan.shape {
        WireShape::Responses(shape) => {
            let (transcript, left_out) = ResponsesTranscript::resume(opening, *shape, stored)?;
            Some(Resumed { transcript: Box::new(transcript), left_out })
        }
        WireShape::Chat(shape) => resume_items(ChatWriter(shape.clone()), opening, stored),
        WireShape::Messages(shape) => {
            resume_items(MessagesWriter::new(shape.clone(), opening.effort), opening, stored)
        }
        WireShape::Gemini(shape) => resume_items(GeminiWriter::new(shape.clone(), opening), opening, stored),
    }
}

fn resume_items(
    writer: impl RequestWriter + 'static,
    opening: &TurnConstants<'_>,
    stored: StoredConversation,
) -> Option<Resumed> {
    let (items, before) = match stored.items {
        StoredItems::Responses(list, _) => convert::to_items(&list)?,
        StoredItems::Items(items) => (items, 0),
    };
    let (transcript, left_out) = ItemTranscript::with_items(writer, opening, stored.id, items, stored.pinned);
    Some(Resumed { transcript: Box::new(transcript), left_out: before + left_out })
}

/// Returns true if a handle contains a conversation of this loop.
pub(crate) fn holds_conversation(handle: &ResumeHandle) -> bool {
    StoredConversation::of(handle).is_some()
}

/// Returns true if a handle is of a version of this loop. Unlike [`holds_conversation`], it does not read the items, which may be
/// large.
pub(crate) fn is_of_this_loop(handle: &ResumeHandle) -> bool {
    StoredConversation::is_in(handle)
}

#[cfg(test)]
mod tests;
