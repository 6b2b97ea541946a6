//! What was decided at the gate.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::PathDenial;
use crate::id::ParticipantId;

/// Most decisions that a log keeps; of more, the oldest are forgotten. Source: our own bound.
const MAX_KEPT: usize = 65_536;

/// Longest arguments that a decision keeps, in bytes as JSON; of longer ones the beginning is kept, as text. Source:
/// our own bound.
const MAX_ARGUMENT_BYTES: usize = 16 << 10;

/// How many names a denial lists.
const MAX_LISTED: usize = 20;

/// One call at the gate, and what became of it.
///
/// It holds nothing of when or by which door the call came: the same calls by two doors are the same decisions.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Who called.
    pub participant: ParticipantId,
    /// The tool, as it was named.
    pub tool: String,
    /// The arguments, as they came.
    pub arguments: Value,
    /// Whether the tool was asked.
    pub verdict: Verdict,
}

impl Decision {
    pub(super) fn new(participant: ParticipantId, tool: &str, arguments: &Value, verdict: Verdict) -> Self {
        let tool = tool.chars().take(200).collect();
        Self { participant, tool, arguments: bounded(arguments), verdict }
    }
}

fn bounded(arguments: &Value) -> Value {
    let text = arguments.to_string();
    if text.len() <= MAX_ARGUMENT_BYTES {
        return arguments.clone();
    }
    let head = text.get(..text.floor_char_boundary(MAX_ARGUMENT_BYTES)).unwrap_or_default();
    Value::String(format!("{head}…"))
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

/// Why a call was not let through. Displayed, it is what the model reads.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "reason")]
pub enum Denial {
    /// The token is not this session's.
    WrongToken,
    /// The session is over.
    Closed,
    /// There is no such tool in this scope. Whether there is one outside of it is not told.
    UnknownTool {
        /// What was called.
        name: String,
        /// The tools there are.
        known: Vec<String>,
    },
    /// The arguments are no JSON object.
    NotAnObject {
        /// The tool.
        tool: String,
    },
    /// An argument that should be a path is something else.
    NotAPath {
        /// The tool.
        tool: String,
        /// Where the argument stands, as a JSON Pointer.
        pointer: String,
    },
    /// A path is out of scope.
    Path {
        /// The tool.
        tool: String,
        /// Which path, and why.
        denial: PathDenial,
    },
    /// The tool budget is used up.
    OverBudget {
        /// How many calls were allowed.
        budget: u32,
        /// The tools that may be called all the same.
        terminal: Vec<String>,
    },
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongToken => f.write_str("the token is not this session's"),
            Self::Closed => f.write_str("the session is over"),
            Self::UnknownTool { name, known } if known.is_empty() => {
                write!(f, "there is no tool named {name:?}; you have no tools")
            }
            Self::UnknownTool { name, known } => {
                write!(f, "there is no tool named {name:?}; there are: {}", listed(known))
            }
            Self::NotAnObject { tool } => {
                write!(f, "the arguments of {tool:?} are no JSON object; write one JSON object")
            }
            Self::NotAPath { tool, pointer } => {
                write!(f, "the argument {pointer} of {tool:?} is a path: write it as text")
            }
            Self::Path { tool, denial } => write!(f, "{tool:?} was not called: {denial}"),
            Self::OverBudget { budget, terminal } if terminal.is_empty() => {
                write!(f, "the budget of {budget} tool calls is used up")
            }
            Self::OverBudget { budget, terminal } => write!(
                f,
                "the budget of {budget} tool calls is used up; you may still call: {}",
                listed(terminal)
            ),
        }
    }
}

fn listed(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(MAX_LISTED).map(String::as_str).collect();
    let rest = names.len() - shown.len();
    match rest {
        0 => shown.join(", "),
        rest => format!("{}, and {rest} more", shown.join(", ")),
    }
}

impl std::error::Error for Denial {}

/// The decisions of a session, in the order in which they were made. Clones share one log.
#[derive(Clone, Debug, Default)]
pub struct DecisionLog(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    decisions: VecDeque<Decision>,
    forgotten: u64,
}

impl DecisionLog {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// The decisions so far.
    pub fn decisions(&self) -> Vec<Decision> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).decisions.iter().cloned().collect()
    }

    /// How many decisions were forgotten, because there were more than a log keeps (65,536).
    pub fn forgotten(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).forgotten
    }

    pub(super) fn add(&self, decision: Decision) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.decisions.len() == MAX_KEPT {
            kept.decisions.pop_front();
            kept.forgotten += 1;
        }
        kept.decisions.push_back(decision);
    }
}
