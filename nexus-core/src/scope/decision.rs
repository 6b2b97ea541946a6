//! Records of a session's decisions about calls.

use std::{
    hash::{BuildHasher as _, RandomState},
    io,
    sync::LazyLock,
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Denial;
use crate::{id::ParticipantId, turn::ToolOrigin};

/// Longest arguments that a decision stores, in bytes of JSON. Of longer arguments it stores the beginning, as text. Source: our
/// own bound.
const MAX_ARGUMENT_BYTES: usize = 16 << 10;

/// Longest tool name that a decision stores, in bytes. Source: our own bound.
const MAX_NAME_BYTES: usize = 200;

/// One call that reached a session, and its outcome.
///
/// It records neither the time of the call nor its transport. The same calls give the same decisions from a native loop and from
/// an MCP server.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Participant of the session.
    pub participant: ParticipantId,
    /// Name of the tool in the call.
    pub tool: String,
    /// Owner of the tool. For the program's own tools, only calls that the host decided on are recorded.
    #[serde(default = "of_caller", skip_serializing_if = "is_of_caller")]
    pub origin: ToolOrigin,
    /// Arguments as received; missing arguments are `{}`. Above 16 KiB only their beginning, as text. `null` for a caller with a
    /// wrong token.
    pub arguments: Value,
    /// The decision.
    pub outcome: DecisionOutcome,
    /// True if the host approved a call that needs approval.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approved: bool,
}

fn of_caller() -> ToolOrigin {
    ToolOrigin::Caller
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_of_caller(origin: &ToolOrigin) -> bool {
    *origin == ToolOrigin::Caller
}

impl Decision {
    /// Creates the decision to allow a call.
    pub(super) fn new(participant: ParticipantId, tool: &str, arguments: &Value) -> Self {
        Self {
            participant,
            tool: kept_name(tool).to_owned(),
            origin: ToolOrigin::Caller,
            arguments: kept_arguments(arguments),
            outcome: DecisionOutcome::Allowed,
            approved: false,
        }
    }
}

/// Identifies a call by its tool and its complete arguments, even if the decision stores only a part of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint(u64);

/// Random keys, so that a model cannot create two different calls with the same fingerprint.
static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

impl Fingerprint {
    /// Returns the fingerprint of calls of `tool` with these arguments; missing ones are `{}`.
    pub(super) fn of(tool: &str, arguments: &Value) -> Self {
        match arguments {
            Value::Null => Self::of(tool, &Value::Object(Map::new())),
            _ => Self(KEYS.hash_one((tool, arguments))),
        }
    }
}

fn kept_name(name: &str) -> &str {
    &name[..name.floor_char_boundary(MAX_NAME_BYTES)]
}

fn kept_arguments(arguments: &Value) -> Value {
    let mut head = BoundedWriter(Vec::new());
    match arguments {
        Value::String(text) if text.len() > MAX_ARGUMENT_BYTES => head.0 = text.as_bytes().to_owned(),
        Value::String(_) => return arguments.clone(),
        // Write at most the bound, so that huge arguments are not copied.
        _ => match serde_json::to_writer(&mut head, arguments) {
            Ok(()) => return arguments.clone(),
            Err(_too_long) => {}
        },
    }
    let text = String::from_utf8_lossy(&head.0);
    Value::String(format!("{}…", &text[..text.floor_char_boundary(MAX_ARGUMENT_BYTES)]))
}

/// Writer that stores the first bytes and fails once there are more.
struct BoundedWriter(Vec<u8>);

impl io::Write for BoundedWriter {
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

/// Decision on a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionOutcome {
    /// The tool ran, or the host approved the call of a program's own tool.
    Allowed,
    /// The call was denied.
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
        }
        let longest = json!("x".repeat(MAX_ARGUMENT_BYTES));
        assert_eq!(kept_arguments(&longest), longest);
    }

    #[test]
    fn of_a_long_name_the_beginning_is_kept() {
        let decision = Decision::new("clerk".into(), &"ü".repeat(1 << 20), &json!({}));
        assert_eq!(decision.tool, "ü".repeat(100));
    }

    #[test]
    fn calls_that_begin_alike_are_told_apart() {
        let long = "x".repeat(2 * MAX_ARGUMENT_BYTES);
        let write = |path: &str| json!({ "content": long, "path": path });
        let (one, other) = (write("in"), write("out"));
        assert_eq!(kept_arguments(&one), kept_arguments(&other));
        assert_eq!(Fingerprint::of("write", &one), Fingerprint::of("write", &write("in")));
        assert_ne!(Fingerprint::of("write", &one), Fingerprint::of("write", &other));
        assert_ne!(Fingerprint::of("write", &one), Fingerprint::of("erase", &one));
        assert_eq!(Fingerprint::of("look", &Value::Null), Fingerprint::of("look", &json!({})));
    }
}
