//! Why a tier or a type cannot be registered, or is not there.

use std::fmt;

/// Kind of a named thing.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AgentNameKind {
    /// A tier.
    Tier,
    /// A phase of a tier.
    Phase,
    /// A type of agent.
    Type,
}

impl fmt::Display for AgentNameKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tier => "tier",
            Self::Phase => "phase",
            Self::Type => "agent type",
        })
    }
}

/// Why a tier or a type cannot be registered, or is not there.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgentTypeError {
    /// The text is not a name.
    #[error("{text:?} names no {what}: a name is a letter, and up to 63 ASCII letters, digits, `-` and `_`")]
    InvalidName {
        /// Kind of the named thing.
        what: AgentNameKind,
        /// The given text, shortened.
        text: String,
    },
    /// The name is built in, or looks like a built-in name.
    #[error("the {what} {name:?} would pass for {built_in:?}, which is built in: {}", way_out(*.what))]
    ShadowsBuiltIn {
        /// Kind of the built-in thing.
        what: AgentNameKind,
        /// The name that was given.
        name: String,
        /// The built-in name.
        built_in: String,
    },
    /// The name was registered before, or looks like a registered name.
    #[error("the {what} {name:?} would pass for {other:?}, which is there already: {}", other_way_out(*.what))]
    AlreadyThere {
        /// Kind of the registered thing.
        what: AgentNameKind,
        /// The name that was given.
        name: String,
        /// The registered name.
        other: String,
    },
    /// The name is kept for a part of Nexus itself, or could be taken for it.
    #[error("the {what} {name:?} would pass for {reserved:?}, which is reserved: take another name")]
    Reserved {
        /// Kind of the named thing.
        what: AgentNameKind,
        /// The name that was given.
        name: String,
        /// The reserved name.
        reserved: String,
    },
    /// A tier refers to a tier that is not built in.
    #[error("a tier is like one that is built in, {}; {name:?} is none of them", .known.join(" or "))]
    NotBuiltIn {
        /// The name that was given.
        name: String,
        /// The tiers that are built in.
        known: Vec<String>,
    },
    /// An overlay would give a custom tier tools that the one it is like does not have.
    #[error(
        "the overlay of the tier {tier:?} adds tools, and a custom tier only takes tools away: add them to {like:?}"
    )]
    AddsTools {
        /// The custom tier.
        tier: String,
        /// The tier that it is like.
        like: String,
    },
    /// A text about the type is too long, or has characters that it cannot have.
    #[error("the {field} of the agent type {name:?} cannot be kept: {rule}")]
    UnfitText {
        /// The type.
        name: String,
        /// The field.
        field: &'static str,
        /// Violated rule.
        rule: String,
    },
    /// The name is unknown.
    #[error("unknown {what} {name:?}; {}", suggestion(.nearest.as_deref(), .known))]
    Unknown {
        /// Kind of the missing thing.
        what: AgentNameKind,
        /// The name that was given.
        name: String,
        /// The name that was probably meant.
        nearest: Option<String>,
        /// Every name that there is.
        known: Vec<String>,
    },
}

fn way_out(what: AgentNameKind) -> &'static str {
    match what {
        AgentNameKind::Tier => "take another name, or give an overlay to the one that is built in",
        AgentNameKind::Phase => "take another name, or write it as it is built in",
        AgentNameKind::Type => "take another name, or give an overlay to its tier and phase",
    }
}

fn other_way_out(what: AgentNameKind) -> &'static str {
    match what {
        AgentNameKind::Tier => "take another name, or use that one",
        AgentNameKind::Phase => "take another name, or write it in the same way",
        AgentNameKind::Type => "take another name, or replace that one",
    }
}

fn suggestion(nearest: Option<&str>, known: &[String]) -> String {
    match nearest {
        Some(nearest) => format!("did you mean {nearest:?}?"),
        None if known.is_empty() => "there is none".to_owned(),
        None => format!("there is {}", known.join(", ")),
    }
}
