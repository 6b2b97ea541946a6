//! Signatures of thinking: sealed bytes that go back in the part in which they came.
//!
//! A reply has an item of reasoning before each item that was signed. So a conversation that moves loses the signature,
//! and not the words or the call.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::native::reply::OutputItem;

/// Placeholder for the signature of a call that another model made. Source: the guide to thought signatures, its
/// questions and answers.
pub(super) const MOVED_CALL: &str = "skip_thought_signature_validator";

/// Sealed form of a signature.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SealedSignature<'a> {
    #[serde(borrow)]
    pub(super) thought_signature: Cow<'a, str>,
    /// Bytes of the next message that are the signed part; `None` for the next call and for thinking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) range: Option<(usize, usize)>,
    /// Thinking that was signed itself.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) thought: Option<Cow<'a, str>>,
}

impl SealedSignature<'_> {
    /// Returns the item of a reply.
    pub(super) fn into_item(self) -> Option<OutputItem> {
        // Writing cannot fail, because all keys are strings.
        let raw = RawValue::from_string(serde_json::to_string(&self).ok()?).ok()?;
        Some(OutputItem::Reasoning { raw })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_read_as_it_was_sealed() {
        for (signature, json) in [
            (
                SealedSignature { thought_signature: "A+/=".into(), ..Default::default() },
                r#"{"thoughtSignature":"A+/="}"#,
            ),
            (
                SealedSignature { thought_signature: "A".into(), range: Some((1, 3)), thought: None },
                r#"{"thoughtSignature":"A","range":[1,3]}"#,
            ),
            (
                SealedSignature { thought_signature: "A".into(), range: None, thought: Some("é\n".into()) },
                r#"{"thoughtSignature":"A","thought":"é\n"}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&signature).unwrap(), json);
            assert_eq!(serde_json::from_str::<SealedSignature<'_>>(json).unwrap(), signature);
        }
    }
}
