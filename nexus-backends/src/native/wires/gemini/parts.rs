//! Parts of an answer, assembled from their pieces.

use super::UNNAMED_CALL;
use super::chunk::CalledFunction;
use super::signature::SealedSignature;
use crate::native::reply::{FunctionCall, OutputItem};

/// Maximum number of parts of one reply that are stored. Source: our own bound.
const MAX_PARTS: usize = 65_536;

/// Parts so far, in order.
#[derive(Debug, Default)]
pub(super) struct AnswerParts {
    list: Vec<AnswerPart>,
    /// Thinking since the last part of another kind.
    thought: String,
    signatures: usize,
}

/// Part of the answer. Pieces of text between two other parts are one part.
#[derive(Debug)]
pub(super) enum AnswerPart {
    Text {
        text: String,
        /// Signed pieces: their first byte, the byte after them, and the signature.
        marks: Vec<(usize, usize, String)>,
    },
    /// Thinking with a signature. Other thinking does not go back.
    Thought {
        text: String,
        signature: String,
    },
    Call {
        id: String,
        name: String,
        arguments: String,
        signature: String,
    },
}

impl AnswerParts {
    /// Returns true if no further part can be stored.
    pub(super) fn is_full(&self) -> bool {
        // Signatures count too, because each becomes an item of its own.
        self.list.len().saturating_add(self.signatures) >= MAX_PARTS
    }

    /// Adds a piece of text, with its signature.
    pub(super) fn text(&mut self, piece: &str, signature: &str) {
        // Thinking that ends without a signature does not return to the model.
        self.thought.clear();
        if piece.is_empty() && signature.is_empty() {
            return;
        }
        if !matches!(self.list.last(), Some(AnswerPart::Text { .. })) {
            self.list.push(AnswerPart::Text { text: String::new(), marks: Vec::new() });
        }
        if let Some(AnswerPart::Text { text, marks }) = self.list.last_mut() {
            let start = text.len();
            text.push_str(piece);
            if !signature.is_empty() {
                self.signatures += 1;
                // A signature returns only with exactly the piece with which it arrived.
                marks.push((start, text.len(), signature.to_owned()));
            }
        }
    }

    /// Adds a piece of thinking, with its signature.
    pub(super) fn thought(&mut self, piece: &str, signature: &str) {
        self.thought.push_str(piece);
        if !signature.is_empty() {
            let text = std::mem::take(&mut self.thought);
            self.list.push(AnswerPart::Thought { text, signature: signature.to_owned() });
        }
    }

    /// Adds a call, with its signature.
    pub(super) fn call(&mut self, call: &CalledFunction<'_>, signature: &str) {
        self.thought.clear();
        self.list.push(AnswerPart::Call {
            id: call.id.as_str().to_owned(),
            name: call.name.as_str().to_owned(),
            arguments: call.arguments(),
            signature: signature.to_owned(),
        });
    }

    /// Returns the parts.
    pub(super) fn take(&mut self) -> Vec<AnswerPart> {
        self.thought.clear();
        std::mem::take(&mut self.list)
    }
}

impl AnswerPart {
    /// Returns the items before a text: its signatures.
    pub(super) fn marks(marks: Vec<(usize, usize, String)>) -> impl Iterator<Item = OutputItem> {
        marks.into_iter().filter_map(|(start, end, signature)| {
            let range = Some((start, end));
            SealedSignature { thought_signature: signature.into(), range, thought: None }.into_item()
        })
    }

    /// Returns the items of a call: its signature if it has one, and the call. `call` is the number of the model call
    /// within the turn, and `place` that of the part.
    pub(super) fn call(
        (id, name, arguments, signature): (String, String, String, String),
        call: u32,
        place: usize,
    ) -> impl Iterator<Item = OutputItem> {
        let signature = (!signature.is_empty()).then(|| {
            SealedSignature { thought_signature: signature.into(), ..Default::default() }.into_item()
        });
        let call_id = if id.is_empty() { format!("{UNNAMED_CALL}{call}_{place}") } else { id };
        let item = OutputItem::Call(FunctionCall { call_id, name, namespace: None, arguments, raw: None });
        signature.flatten().into_iter().chain([item])
    }

    /// Returns the item of signed thinking.
    pub(super) fn thought(text: String, signature: String) -> Option<OutputItem> {
        let thought = Some(text.into());
        SealedSignature { thought_signature: signature.into(), range: None, thought }.into_item()
    }
}
