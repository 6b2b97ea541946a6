//! Facts about one agent: its start, and its enforcement of each access level.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use nexus_core::{AccessEnforcer, AccessSupport, CostReport, ErrorKind, PromptBlock, ToolAccess};
use serde_json::Value;

use crate::settings::Billing;

/// Agent whose behaviour was measured with the real program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownAgent {
    /// Name of the agent in a configuration.
    pub(crate) name: &'static str,
    /// Vendor whose model answers.
    pub(crate) vendor: &'static str,
    /// Default program.
    pub(crate) program: &'static str,
    /// Arguments that select the protocol.
    pub(crate) arguments: &'static [&'static str],
    /// Command that installs it.
    pub(crate) install: &'static str,
    /// True if it accepts a lent token of a subscription. It always accepts an API key.
    pub(crate) takes_plan: bool,
    /// Enforcement of each level of [`ToolAccess::ALL`].
    pub(crate) levels: [Level; 4],
    /// Mode of every session in the sandbox of Nexus: one in which the agent's own sandbox, which would fail there, is off.
    pub(crate) mode_in_sandbox: Option<&'static str>,
    /// API that a server at `base_url` must speak.
    pub(crate) wire: &'static str,
    /// Hosts of the vendor's servers.
    pub(crate) hosts: &'static [&'static str],
    /// Longest prompt that reaches the agent's model whole, in bytes; `None` without a limit.
    pub(crate) longest_prompt: Option<usize>,
    /// True if the agent accepts images.
    pub(crate) has_images: bool,
    /// Returns warnings about the images of a prompt that do not reach the agent's model.
    pub(crate) dropped_pictures: fn(&[PromptBlock]) -> Vec<String>,
    /// True if an answer without counted tokens is an interrupted answer.
    pub(crate) is_broken_uncounted: bool,
    /// Source of a called tool's name.
    pub(crate) names: CallNames,
    /// Form in which it reports the usage of a turn.
    pub(crate) usage: UsageReport,
    /// Form in which it reports the cost of a turn.
    pub(crate) cost: CostReport,
    /// Returns the kind of an error message that is specific to the agent, beyond the protocol's codes. [`any_kind`]
    /// for an agent without such messages.
    pub(crate) kind_of: fn(&str) -> Option<ErrorKind>,
    /// Longest time until the agent exits after its input is closed.
    pub(crate) exit: Duration,
    /// Returns the files, variables and arguments of one process.
    pub(crate) set_up: fn(&ProcessSetup<'_>) -> Furnishing,
}

/// Enforcement of an access level by an agent. Each level was measured: `docs/reference/agents.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// The agent does not enforce the level completely, so a turn at this level is rejected.
    NotKept,
    /// The level is enforced.
    Kept {
        /// Mode that every session must be set to, if the level needs one.
        mode: Option<&'static str>,
        /// Part that enforces the level.
        by: AccessEnforcer,
    },
}

/// Sources of a called tool's name other than the field `name`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallNames {
    /// JSON pointer into `_meta`.
    pub(crate) in_meta: Option<&'static str>,
    /// The agent's own tool with which the model calls tools of servers, if these are not offered under their own
    /// names.
    pub(crate) wrapper: Option<&'static str>,
    /// True if the title of a call with the kind `other` is the name of its tool.
    pub(crate) are_titles: bool,
}

/// Form in which an agent reports the usage of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UsageReport {
    /// In `usage` of the response to the prompt. The input excludes cached tokens.
    Answer,
    /// In `usage` of that response. The input includes cached tokens.
    AnswerWithCached,
    /// In `_meta.usage` of that response. The input includes cached tokens.
    MetaWithCached,
    /// The agent reports no usage, or incomplete usage.
    None,
}

/// [`KnownAgent::kind_of`] of an agent without error messages of its own. The shared table decides.
pub(crate) fn any_kind(_: &str) -> Option<ErrorKind> {
    None
}

/// [`KnownAgent::dropped_pictures`] of an agent that drops no image.
pub(crate) fn no_picture_dropped(_: &[PromptBlock]) -> Vec<String> {
    Vec::new()
}

impl KnownAgent {
    /// Returns the mode that a level needs.
    pub(crate) fn mode(&self, access: ToolAccess) -> Option<&'static str> {
        match self.level(access) {
            Level::Kept { mode, .. } => mode,
            Level::NotKept => None,
        }
    }

    /// Returns the part that enforces a level.
    pub(crate) fn support(&self, access: ToolAccess) -> AccessSupport {
        match self.level(access) {
            Level::Kept { by, .. } => AccessSupport::Kept(by),
            Level::NotKept => AccessSupport::Unsupported,
        }
    }

    fn level(&self, access: ToolAccess) -> Level {
        let at = ToolAccess::ALL.iter().position(|level| *level == access);
        // A level that the table does not contain counts as not enforced.
        at.and_then(|at| self.levels.get(at).copied()).unwrap_or(Level::NotKept)
    }
}

/// Inputs for the set-up of one process.
#[derive(Debug)]
pub(crate) struct ProcessSetup<'a> {
    /// Access level of the turn.
    pub(crate) access: ToolAccess,
    /// Home of the program. It exists as long as the conversation.
    pub(crate) home: &'a Path,
    /// Folders with Nexus's logins, which the agent's tools must not read.
    pub(crate) closed: &'a [PathBuf],
    /// Endpoint of the model, if it is not the vendor's own.
    pub(crate) base_url: Option<&'a str>,
    /// Lent credential.
    pub(crate) token: &'a str,
    /// Billing of the credential.
    pub(crate) billing: Billing,
    /// Requested model.
    pub(crate) model: Option<&'a str>,
    /// System instructions.
    pub(crate) system: Option<&'a str>,
}

/// Arguments, variables and files of a process.
#[derive(Debug, Default)]
pub(crate) struct Furnishing {
    /// Additional arguments.
    pub(crate) arguments: Vec<OsString>,
    /// Environment variables.
    pub(crate) variables: Vec<(String, OsString)>,
    /// Contents of files, with their paths below the home.
    pub(crate) files: Vec<(String, String)>,
    /// Value of `_meta` in the request that opens the session.
    pub(crate) meta: Option<Value>,
    /// Method of `authenticate` before the session.
    pub(crate) authentication: Option<String>,
    /// True if the arguments, variables and files name the requested model.
    pub(crate) sets_model: bool,
    /// Name of the model in the session, if it differs from the requested one.
    pub(crate) session_model: Option<String>,
}

impl Furnishing {
    /// Adds a variable.
    #[must_use]
    pub(crate) fn with(mut self, name: impl Into<String>, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }
}
