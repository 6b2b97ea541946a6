//! Errors of registering and finding tiers and types.

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

/// Reason why a tier or a type cannot be registered or found.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgentTypeError {
    /// The text is not a name.
    #[error(
        "{text:?} is not a valid {what} name: write a letter, and up to 63 ASCII letters, digits, `-` and `_`"
    )]
    InvalidName {
        /// Kind of the named thing.
        what: AgentNameKind,
        /// The given text, shortened.
        text: String,
    },
    /// The name is built in, or looks like a built-in name.
    #[error("the {what} {name:?} looks like the built-in {built_in:?}: {}", way_out(*.what))]
    ShadowsBuiltIn {
        /// Kind of the built-in thing.
        what: AgentNameKind,
        /// The name that was given.
        name: String,
        /// The built-in name.
        built_in: String,
    },
    /// The name was registered before, or looks like a registered name.
    #[error("the {what} {name:?} looks like {other:?}, which already exists: {}", other_way_out(*.what))]
    AlreadyThere {
        /// Kind of the registered thing.
        what: AgentNameKind,
        /// The name that was given.
        name: String,
        /// The registered name.
        other: String,
    },
    /// The name is reserved for a part of Nexus, or looks like a reserved name.
    #[error("the {what} {name:?} looks like {reserved:?}, which is reserved: choose another name")]
    Reserved {
        /// Kind of the named thing.
        what: AgentNameKind,
        /// The name that was given.
        name: String,
        /// The reserved name.
        reserved: String,
    },
    /// A tier refers to a tier that is not built in.
    #[error("a tier must be like a built-in tier, {}; {name:?} is not built in", .known.join(" or "))]
    NotBuiltIn {
        /// The name that was given.
        name: String,
        /// The tiers that are built in.
        known: Vec<String>,
    },
    /// An overlay would add tools to a custom tier that its built-in tier does not have.
    #[error(
        "the overlay of the tier {tier:?} adds tools, but a custom tier can only remove tools: add them to \
        {like:?}"
    )]
    AddsTools {
        /// The custom tier.
        tier: String,
        /// The built-in tier that the custom tier is based on.
        like: String,
    },
    /// A text of the type is too long, or contains forbidden characters.
    #[error("the {field} of the agent type {name:?} cannot be stored: {rule}")]
    UnfitText {
        /// The name of the type.
        name: String,
        /// The name of the field.
        field: &'static str,
        /// The rule that the text violates.
        rule: String,
    },
    /// The name is unknown.
    #[error("unknown {what} {name:?}; {}", suggestion(.nearest.as_deref(), .known))]
    Unknown {
        /// Kind of the missing thing.
        what: AgentNameKind,
        /// The name that was given.
        name: String,
        /// The known name that is most similar.
        nearest: Option<String>,
        /// Every known name.
        known: Vec<String>,
    },
}

fn way_out(what: AgentNameKind) -> &'static str {
    match what {
        AgentNameKind::Tier => "choose another name, or write an overlay for the built-in one",
        AgentNameKind::Phase => "choose another name, or write it exactly as the built-in one",
        AgentNameKind::Type => "choose another name, or write an overlay for its tier and phase",
    }
}

fn other_way_out(what: AgentNameKind) -> &'static str {
    match what {
        AgentNameKind::Tier => "choose another name, or use the existing one",
        AgentNameKind::Phase => "choose another name, or write it in the same way",
        AgentNameKind::Type => "choose another name, or replace the existing one",
    }
}

fn suggestion(nearest: Option<&str>, known: &[String]) -> String {
    match nearest {
        Some(nearest) => format!("did you mean {nearest:?}?"),
        None if known.is_empty() => "there is none".to_owned(),
        None => format!("valid: {}", known.join(", ")),
    }
}
