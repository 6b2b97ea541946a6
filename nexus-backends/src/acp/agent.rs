//! What is known about one agent: how it is started, and what it keeps of each access level.

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
    /// What makes it speak the protocol.
    pub(crate) arguments: &'static [&'static str],
    /// How to get it.
    pub(crate) install: &'static str,
    /// Whether a subscription's token can be lent to it. An API key always can.
    pub(crate) takes_plan: bool,
    /// What keeps each level of [`ToolAccess::ALL`].
    pub(crate) levels: [Level; 4],
    /// The longest prompt that reaches its model whole, in bytes; `None` if any does.
    pub(crate) longest_prompt: Option<usize>,
    /// Whether it takes pictures.
    pub(crate) has_images: bool,
    /// Warnings about the pictures of a prompt that do not reach its model.
    pub(crate) dropped_pictures: fn(&[PromptBlock]) -> Vec<String>,
    /// Whether instructions can be put above the prompt.
    pub(crate) has_system: bool,
    /// Whether an answer of which nothing was counted is one that broke off.
    pub(crate) is_broken_uncounted: bool,
    /// How it names the tool of a call.
    pub(crate) names: CallNames,
    /// How the usage of a turn is told.
    pub(crate) usage: UsageReport,
    /// Whether it says what a turn costs.
    pub(crate) cost: CostReport,
    /// What its own words for an error mean, beyond the protocol's codes. [`any_kind`] if they say no more than anybody's.
    pub(crate) kind_of: fn(&str) -> Option<ErrorKind>,
    /// How long it may take to end once its input is closed.
    pub(crate) exit: Duration,
    /// Makes everything ready for one process.
    pub(crate) set_up: fn(&ProcessSetup<'_>) -> Furnishing,
}

/// What an agent keeps of an access level. Each was measured: `docs/acp.md`.
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

/// How an agent names the tool of a call, if not by `name`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallNames {
    /// Where in `_meta`: a JSON pointer.
    pub(crate) in_meta: Option<&'static str>,
    /// Its tool by which the model calls those of servers, if they are not offered under their own names.
    pub(crate) wrapper: Option<&'static str>,
    /// Whether the title of a call that is told to be of the kind `other` is its tool's name.
    pub(crate) are_titles: bool,
}

/// How an agent tells the usage of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UsageReport {
    /// In `usage` of the answer to the prompt, without what came from a cache.
    Answer,
    /// In `_meta.usage` of that answer, what came from a cache included.
    MetaWithCached,
    /// Not, or not whole.
    None,
}

/// Of an agent whose words are nobody else's business: the common ones say what they mean.
pub(crate) fn any_kind(_: &str) -> Option<ErrorKind> {
    None
}

/// Of an agent that drops no picture.
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

    /// Who keeps a level.
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
    /// What is lent.
    pub(crate) token: &'a str,
    /// What kind of credential that is.
    pub(crate) billing: Billing,
    /// The model.
    pub(crate) model: Option<&'a str>,
    /// Instructions that stand above the prompt.
    pub(crate) system: Option<&'a str>,
}

/// What a process is given.
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
