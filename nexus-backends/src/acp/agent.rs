//! Facts about one agent: how to start it, and how it enforces each access level.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use nexus_core::{AccessEnforcer, AccessSupport, CostReport, ErrorKind, PromptBlock, ToolAccess};
use serde_json::Value;

use crate::settings::Billing;

/// An agent whose ways are known, because it was driven.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownAgent {
    /// The word for it in a configuration.
    pub(crate) name: &'static str,
    /// The vendor whose model answers.
    pub(crate) vendor: &'static str,
    /// The program, if none is named.
    pub(crate) program: &'static str,
    /// Arguments that make it speak the protocol.
    pub(crate) arguments: &'static [&'static str],
    /// Command that installs it.
    pub(crate) install: &'static str,
    /// True if it accepts a lent token of a subscription. It always accepts an API key.
    pub(crate) takes_plan: bool,
    /// Enforcement of each level of [`ToolAccess::ALL`].
    pub(crate) levels: [Level; 4],
    /// The longest prompt that reaches its model whole, in bytes; `None` if any does.
    pub(crate) longest_prompt: Option<usize>,
    /// True if it accepts pictures.
    pub(crate) has_images: bool,
    /// Warnings about the pictures of a prompt that do not reach its model.
    pub(crate) dropped_pictures: fn(&[PromptBlock]) -> Vec<String>,
    /// True if it accepts instructions above the prompt.
    pub(crate) has_system: bool,
    /// True if an answer without counted tokens is an interrupted answer.
    pub(crate) is_broken_uncounted: bool,
    /// Source of a called tool's name.
    pub(crate) names: CallNames,
    /// Form in which it reports the usage of a turn.
    pub(crate) usage: UsageReport,
    /// Form in which it reports the cost of a turn.
    pub(crate) cost: CostReport,
    /// Meaning of its own error messages, beyond the protocol's codes. [`any_kind`] if they are the usual ones.
    pub(crate) kind_of: fn(&str) -> Option<ErrorKind>,
    /// Longest time until it exits after its input is closed.
    pub(crate) exit: Duration,
    /// Makes everything ready for one process.
    pub(crate) set_up: fn(&ProcessSetup<'_>) -> Furnishing,
}

/// An agent's enforcement of an access level. Each was measured: `docs/reference/agents.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// Not all of it, so that no turn is run at it.
    NotKept,
    /// It is kept.
    Kept {
        /// The mode to set on every session, where that is part of it.
        mode: Option<&'static str>,
        /// By whom.
        by: AccessEnforcer,
    },
}

/// Sources of a called tool's name other than `name`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallNames {
    /// Path in `_meta`: a JSON pointer.
    pub(crate) in_meta: Option<&'static str>,
    /// Its tool by which the model calls those of servers, if they are not offered under their own names.
    pub(crate) wrapper: Option<&'static str>,
    /// True if the title of a call of the kind `other` is its tool's name.
    pub(crate) are_titles: bool,
}

/// Form in which an agent reports the usage of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UsageReport {
    /// In `usage` of the answer to the prompt, without what came from a cache.
    Answer,
    /// In `_meta.usage` of that answer, what came from a cache included.
    MetaWithCached,
    /// Not, or not whole.
    None,
}

/// For an agent without error messages of its own: the usual messages decide.
pub(crate) fn any_kind(_: &str) -> Option<ErrorKind> {
    None
}

/// For an agent that drops no picture.
pub(crate) fn no_picture_dropped(_: &[PromptBlock]) -> Vec<String> {
    Vec::new()
}

impl KnownAgent {
    /// The mode that a level needs.
    pub(crate) fn mode(&self, access: ToolAccess) -> Option<&'static str> {
        match self.level(access) {
            Level::Kept { mode, .. } => mode,
            Level::NotKept => None,
        }
    }

    /// Returns which part enforces a level.
    pub(crate) fn support(&self, access: ToolAccess) -> AccessSupport {
        match self.level(access) {
            Level::Kept { by, .. } => AccessSupport::Kept(by),
            Level::NotKept => AccessSupport::Unsupported,
        }
    }

    fn level(&self, access: ToolAccess) -> Level {
        let at = ToolAccess::ALL.iter().position(|level| *level == access);
        at.and_then(|at| self.levels.get(at).copied()).unwrap_or(Level::NotKept)
    }
}

/// Setup of one process.
#[derive(Debug)]
pub(crate) struct ProcessSetup<'a> {
    /// The level of the turn.
    pub(crate) access: ToolAccess,
    /// The folder that is the program's home. It lives as long as the conversation.
    pub(crate) home: &'a Path,
    /// The folders with our logins, which its tools must not read.
    pub(crate) closed: &'a [PathBuf],
    /// The endpoint of the model, if it is not the vendor's own.
    pub(crate) base_url: Option<&'a str>,
    /// Lent credential.
    pub(crate) token: &'a str,
    /// Billing of the credential.
    pub(crate) billing: Billing,
    /// The model.
    pub(crate) model: Option<&'a str>,
    /// Instructions that stand above the prompt.
    pub(crate) system: Option<&'a str>,
}

/// Files and variables for a process.
#[derive(Debug, Default)]
pub(crate) struct Furnishing {
    /// Further arguments.
    pub(crate) arguments: Vec<OsString>,
    /// Variables.
    pub(crate) variables: Vec<(&'static str, OsString)>,
    /// Files, by their paths below the home.
    pub(crate) files: Vec<(&'static str, String)>,
    /// `_meta` of the request that opens the session.
    pub(crate) meta: Option<Value>,
}

impl Furnishing {
    /// Sets a variable.
    #[must_use]
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.variables.push((name, value.into()));
        self
    }
}
