//! Reasons for denying a call, in words for the model.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::PathDenial;
use crate::approval::NotApproved;
use crate::tool::shortened;

/// Maximum number of names that a denial lists.
const MAX_LISTED: usize = 20;

/// Longest tool name that a denial repeats, in bytes. Source: our own bound.
const MAX_NAME_BYTES: usize = 128;

/// Longest path, and longest reason against it, that a denial repeats, in bytes. Source: our own bound.
const MAX_PATH_BYTES: usize = 1_000;

/// Longest reason of the host that a denial repeats, in bytes. Source: our own bound.
const MAX_REASON_BYTES: usize = 1_000;

/// Smallest similarity, of 1, at which a denial suggests another name.
const RESEMBLANCE: f64 = 0.8;

/// Reason why a call was denied. `Display` writes the text for the model.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "reason")]
pub enum Denial {
    /// The token is not this session's.
    WrongToken,
    /// The session is over.
    Closed,
    /// The tool does not exist in this scope. The denial does not reveal tools outside of the scope.
    UnknownTool {
        /// Name in the call, shortened.
        name: String,
        /// The tool with the most similar name, if any is similar.
        nearest: Option<String>,
        /// Existing tools, at most the first 20.
        known: Vec<String>,
        /// Number of further tools.
        more: usize,
    },
    /// The arguments are not a JSON object.
    NotAnObject {
        /// The tool.
        tool: String,
        /// Fault of a text that is not JSON, with its position.
        problem: Option<String>,
    },
    /// The arguments do not fit the tool.
    Unfit {
        /// The tool.
        tool: String,
        /// Fault of the arguments, with its position.
        problem: String,
    },
    /// An argument that should be a path is something else.
    NotAPath {
        /// The tool.
        tool: String,
        /// Position of the argument, as a JSON Pointer.
        pointer: String,
    },
    /// A path is out of scope.
    Path {
        /// The tool.
        tool: String,
        /// The path, and the reason.
        denial: PathDenial,
    },
    /// The call needs the host's approval, which was not given.
    NotApproved {
        /// The tool.
        tool: String,
        /// Reason for the missing approval.
        why: NotApproved,
    },
    /// The tool budget is used up.
    OverBudget {
        /// Number of allowed calls.
        budget: u32,
        /// Terminal tools, which may still be called.
        terminal: Vec<String>,
    },
}

impl Denial {
    /// Creates the denial for a missing tool `name`, with the names in `known`.
    pub(crate) fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> Self {
        // The comparison takes quadratic time, so it uses only the beginning of a long name.
        let resembling = known
            .clone()
            .map(|other| (strsim::jaro_winkler(kept_name(name), other), other))
            .filter(|(resemblance, _)| *resemblance > RESEMBLANCE)
            .reduce(|best, next| if next.0 > best.0 { next } else { best });
        Self::UnknownTool {
            name: shortened(name, MAX_NAME_BYTES),
            nearest: resembling.map(|(_, nearest)| nearest.to_owned()),
            known: known.clone().take(MAX_LISTED).map(str::to_owned).collect(),
            more: known.skip(MAX_LISTED).count(),
        }
    }

    /// Creates the denial of a call that the host did not approve.
    pub(super) fn not_approved(tool: &str, mut why: NotApproved) -> Self {
        if let NotApproved::Refused { reason: Some(reason) } = &mut why {
            *reason = shortened(reason, MAX_REASON_BYTES);
        }
        Self::NotApproved { tool: shortened(tool, MAX_NAME_BYTES), why }
    }

    /// Creates the denial of a path that is out of scope.
    pub(super) fn path(tool: &str, mut denial: PathDenial) -> Self {
        denial.path = shortened(&denial.path, MAX_PATH_BYTES);
        denial.reason = shortened(&denial.reason, MAX_PATH_BYTES);
        Self::Path { tool: tool.to_owned(), denial }
    }
}

fn kept_name(name: &str) -> &str {
    &name[..name.floor_char_boundary(MAX_NAME_BYTES)]
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongToken => f.write_str("the token belongs to another session"),
            Self::Closed => f.write_str("the session is over"),
            Self::UnknownTool { name, known, .. } if known.is_empty() => {
                write!(f, "there is no tool named {name:?}; you have no tools")
            }
            Self::UnknownTool { name, nearest, known, more } => {
                write!(f, "there is no tool named {name:?}; ")?;
                if let Some(nearest) = nearest {
                    write!(f, "did you mean {nearest:?}? ")?;
                }
                write!(f, "there are: {}", known.join(", "))?;
                if *more > 0 { write!(f, ", and {more} more") } else { Ok(()) }
            }
            Self::NotAnObject { tool, problem: None } => {
                write!(f, "the arguments of {tool:?} are not a JSON object; write one JSON object")
            }
            Self::NotAnObject { tool, problem: Some(problem) } => {
                write!(f, "the arguments of {tool:?} are not JSON: {problem}; write one JSON object")
            }
            Self::Unfit { tool, problem } => {
                write!(f, "the arguments do not fit the tool {tool:?}: {problem}")
            }
            Self::NotAPath { tool, pointer } => {
                write!(f, "the argument {pointer} of {tool:?} is a path: write it as text")
            }
            Self::Path { tool, denial } => write!(f, "{tool:?} was not called: {denial}"),
            Self::NotApproved { tool, why } => {
                write!(f, "{tool:?} was not called, because it needs an approval: {why}")
            }
            Self::OverBudget { budget, terminal } => {
                write!(f, "the budget of {budget} tool calls is used up")?;
                if terminal.is_empty() {
                    return Ok(());
                }
                write!(f, "; you may still call: {}", terminal.join(", "))
            }
        }
    }
}

impl std::error::Error for Denial {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest_and_the_list() {
        let told = |name: &str, known: &[&str]| Denial::unknown(name, known.iter().copied()).to_string();
        assert_eq!(
            told("list_book", &["add", "list_books"]),
            "there is no tool named \"list_book\"; did you mean \"list_books\"? there are: add, list_books"
        );
        assert_eq!(told("zzz", &["add"]), "there is no tool named \"zzz\"; there are: add");
        assert_eq!(told("add", &[]), "there is no tool named \"add\"; you have no tools");
        let many: Vec<String> = (0..25).map(|n| format!("t{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(told("zzz", &many).ends_with("t18, t19, and 5 more"));
        assert!(told(&"z".repeat(1 << 20), &["add"]).len() < 250);
    }

    #[test]
    fn a_denial_that_is_sent_elsewhere_arrives_as_it_was() {
        let tool = || "pay".to_owned();
        let reasons = [
            NotApproved::Refused { reason: None },
            NotApproved::Refused { reason: Some("not today".to_owned()) },
            NotApproved::TimedOut,
            NotApproved::Failed,
            NotApproved::NobodyAsked,
            NotApproved::Unanswered,
        ];
        let path = PathDenial::new("../\u{1f}out", crate::scope::PathAccess::Write, "it is not in scope");
        let denials = [
            Denial::WrongToken,
            Denial::Closed,
            Denial::unknown("pays", ["pay", "look"].into_iter()),
            Denial::unknown("zzz", std::iter::empty()),
            Denial::NotAnObject { tool: tool(), problem: None },
            Denial::NotAnObject { tool: tool(), problem: Some("EOF".to_owned()) },
            Denial::Unfit { tool: tool(), problem: "at /n: \u{0}".to_owned() },
            Denial::NotAPath { tool: tool(), pointer: "/a~1b".to_owned() },
            Denial::path("pay", path),
            Denial::OverBudget { budget: u32::MAX, terminal: vec!["submit".to_owned()] },
        ];
        let not_approved = reasons.into_iter().map(|why| Denial::not_approved("pay", why));
        for denial in denials.into_iter().chain(not_approved) {
            let sent = serde_json::to_vec(&denial).unwrap();
            let arrived: Denial = serde_json::from_slice(&sent).unwrap();
            assert_eq!(arrived, denial);
            assert_eq!(arrived.to_string(), denial.to_string());
        }
    }
}
