//! Wires: one protocol each, translated to and from the loop's own reply and conversation.
//!
//! | module | contents |
//! | --- | --- |
//! | `shape` | the wire of a plan, as data |
//! | [`responses`] | the Responses API |
//!
//! The functions here select the wire of a plan. The loop knows only [`WireReader`] and [`Transcript`].

pub mod responses;
pub(crate) mod shape;

use std::sync::Arc;

use nexus_core::ResumeHandle;

use self::responses::reader::ResponseReader;
use self::responses::request::ResponsesTranscript;
use self::shape::WireShape;
use super::dialect::{Dialect, ModelPlan};
use super::transcript::{Transcript, TurnConstants};
use super::wire_reader::WireReader;

/// Returns a reader for the model call with the number `call` within the turn.
pub(crate) fn reader(call: u32, dialect: &Arc<dyn Dialect>, plan: &ModelPlan) -> Box<dyn WireReader> {
    match plan.shape {
        WireShape::Responses(shape) => {
            Box::new(ResponseReader::new(call, Arc::clone(dialect), shape.custom_calls))
        }
    }
}

/// Returns a conversation without messages.
pub(crate) fn open(opening: &TurnConstants<'_>) -> Box<dyn Transcript> {
    match opening.plan.shape {
        WireShape::Responses(shape) => Box::new(ResponsesTranscript::new(opening, shape)),
    }
}

/// Returns the conversation in a handle; `None` if the handle contains none.
pub(crate) fn resume(opening: &TurnConstants<'_>, handle: &ResumeHandle) -> Option<Box<dyn Transcript>> {
    match opening.plan.shape {
        WireShape::Responses(shape) => {
            ResponsesTranscript::resume(opening, shape, handle).map(|transcript| Box::new(transcript) as _)
        }
    }
}

/// Returns true if a handle contains a conversation of this loop.
pub(crate) fn holds_conversation(handle: &ResumeHandle) -> bool {
    responses::request::holds_conversation(handle)
}
