//! What was decided at the gate.

use std::io;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Denial;
use crate::id::ParticipantId;

/// Longest arguments that a decision keeps, in bytes as JSON; of longer ones the beginning is kept, as text. Source:
/// our own bound.
const MAX_ARGUMENT_BYTES: usize = 16 << 10;

/// Longest name of a tool that a decision keeps, in bytes. Source: our own bound.
const MAX_NAME_BYTES: usize = 200;

/// One call at the gate, and what became of it.
///
/// It holds nothing of when or by which door the call came: the same calls by two doors are the same decisions.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Whose session it was.
    pub participant: ParticipantId,
    /// The tool, as it was named.
    pub tool: String,
    /// The arguments, as they came; none at all are `{}`. Of more than 16 KiB it is the beginning, as text, and of whoever
    /// showed a wrong token it is `null`.
    pub arguments: Value,
    /// Whether the tool was asked.
    pub verdict: Verdict,
}

impl Decision {
    /// The call is let through.
    pub(super) fn new(participant: ParticipantId, tool: &str, arguments: &Value) -> Self {
        Self {
            participant,
            tool: kept_name(tool).to_owned(),
            arguments: kept_arguments(arguments),
            verdict: Verdict::Allowed,
        }
    }

    /// Whether it is about such a call.
    pub(super) fn is_about(&self, tool: &str, arguments: &Value) -> bool {
        self.tool == kept_name(tool) && self.arguments == kept_arguments(arguments)
    }
}

fn kept_name(name: &str) -> &str {
    &name[..name.floor_char_boundary(MAX_NAME_BYTES)]
}

fn kept_arguments(arguments: &Value) -> Value {
    let mut head = Head(Vec::new());
    match arguments {
        Value::String(text) if text.len() > MAX_ARGUMENT_BYTES => head.0 = text.as_bytes().to_owned(),
        Value::String(_) => return arguments.clone(),
        _ => match serde_json::to_writer(&mut head, arguments) {
            Ok(()) => return arguments.clone(),
            Err(_too_long) => {}
        },
    }
    let text = String::from_utf8_lossy(&head.0);
    Value::String(format!("{}…", &text[..text.floor_char_boundary(MAX_ARGUMENT_BYTES)]))
}

/// Takes no more than is kept.
struct Head(Vec<u8>);

impl io::Write for Head {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = MAX_ARGUMENT_BYTES - self.0.len();
        if bytes.len() <= room {
            self.0.extend_from_slice(bytes);
            return Ok(bytes.len());
        }
        self.0.extend_from_slice(&bytes[..room]);
        Err(io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether a call was let through.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The tool was asked.
    Allowed,
    /// It was not.
    Denied(Denial),
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_long_arguments_the_beginning_is_kept() {
        let whole = json!({ "a": [1, 2, { "b": "ü" }] });
        assert_eq!(kept_arguments(&whole), whole);
        for long in
            [json!({ "text": "ü".repeat(1 << 20) }), json!(vec!["x"; 1 << 20]), json!("ü".repeat(1 << 20))]
        {
            let Value::String(kept) = kept_arguments(&long) else { panic!("{long} is kept") };
            assert!((MAX_ARGUMENT_BYTES - 8..MAX_ARGUMENT_BYTES + 8).contains(&kept.len()), "{}", kept.len());
            assert!(kept.ends_with('…'));
            let decision = Decision::new("clerk".into(), "look", &long);
            assert!(decision.is_about("look", &long) && !decision.is_about("look", &whole));
        }
        let longest = json!("x".repeat(MAX_ARGUMENT_BYTES));
        assert_eq!(kept_arguments(&longest), longest);
    }

    #[test]
    fn of_a_long_name_the_beginning_is_kept() {
        let decision = Decision::new("clerk".into(), &"ü".repeat(1 << 20), &json!({}));
        assert_eq!(decision.tool, "ü".repeat(100));
        assert!(decision.is_about(&"ü".repeat(1 << 20), &json!({})));
    }
}
