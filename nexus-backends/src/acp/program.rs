//! Program of an agent, and the enforcement of each access level on it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nexus_core::{AccessEnforcer, AccessSupport, CostReport, PromptBlock, ToolAccess};

use super::agent::{self, CallNames, KnownAgent, UsageReport};
use super::failure::OwnWords;
use super::listed::ListedAgent;
use crate::cli::settings::LevelEnforcer;

/// Longest time until an unknown program exits after its input is closed. Source: our own choice; the known agents take
/// up to 2.2 seconds, or never exit.
const EXIT: Duration = Duration::from_secs(3);

/// Program of an agent.
#[derive(Debug)]
pub(super) enum AgentProgram {
    /// An agent whose access levels were measured.
    Known(&'static KnownAgent),
    /// An agent of the table, which says how it is started and what it reads.
    Listed(Arc<ListedAgent>),
    /// Any other program.
    Any { program: PathBuf, arguments: Vec<String> },
}

/// Enforcement of an access level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelEnforcement {
    /// Enforcer of the level.
    pub(super) by: AccessEnforcer,
    /// Mode that every session must be set to.
    pub(super) mode: Option<&'static str>,
    /// True if the program runs in the sandbox of Nexus.
    pub(super) in_sandbox: bool,
}

impl AgentProgram {
    /// Returns the enforcement of a level; `None` if nothing enforces it.
    pub(super) fn enforcement(
        &self,
        access: ToolAccess,
        wanted: Option<LevelEnforcer>,
    ) -> Option<LevelEnforcement> {
        let by_program = match self {
            Self::Known(agent) => match agent.support(access) {
                AccessSupport::Kept(by) => {
                    Some(LevelEnforcement { by, mode: agent.mode(access), in_sandbox: false })
                }
                _ => None,
            },
            // At the widest level there is nothing to enforce.
            Self::Listed(_) | Self::Any { .. } => (access == ToolAccess::Unrestricted)
                .then_some(LevelEnforcement { by: AccessEnforcer::None, mode: None, in_sandbox: false }),
        };
        if access == ToolAccess::Unrestricted {
            return by_program;
        }
        let by_sandbox = || {
            let is_possible = match (access, self) {
                // The sandbox cannot take an agent's own tools away.
                (ToolAccess::ScopedOnly, Self::Known(_)) => by_program.is_some(),
                (ToolAccess::ScopedOnly, Self::Listed(agent)) => agent.has_off_switch(),
                (ToolAccess::ScopedOnly, Self::Any { .. }) => false,
                _ => true,
            };
            let mode = match self {
                Self::Known(agent) => agent.mode_in_sandbox,
                _ => None,
            };
            is_possible.then_some(LevelEnforcement { by: AccessEnforcer::Nexus, mode, in_sandbox: true })
        };
        match wanted {
            Some(LevelEnforcer::Program) => by_program,
            Some(LevelEnforcer::Sandbox) => by_sandbox(),
            None => by_program.or_else(by_sandbox),
        }
    }

    /// Returns the agent whose levels were measured.
    pub(super) fn known(&self) -> Option<&'static KnownAgent> {
        match self {
            Self::Known(agent) => Some(agent),
            _ => None,
        }
    }

    /// Returns the agent of the table.
    pub(super) fn listed(&self) -> Option<&ListedAgent> {
        match self {
            Self::Listed(agent) => Some(agent),
            _ => None,
        }
    }

    /// Returns the name under which conversations are stored.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Known(agent) => agent.name,
            Self::Listed(agent) => &agent.name,
            Self::Any { .. } => "other",
        }
    }

    /// Returns the vendor whose model answers, if it is known without the settings.
    pub(super) fn vendor(&self) -> Option<&str> {
        match self {
            Self::Known(agent) => Some(agent.vendor),
            Self::Listed(agent) => Some(agent.vendor()),
            Self::Any { .. } => None,
        }
    }

    /// Returns the program. A path is relative to the configuration's folder, as in all settings.
    pub(super) fn program(&self, base_directory: &Path) -> PathBuf {
        match self {
            Self::Known(agent) => agent.program.into(),
            Self::Listed(agent) => agent.program.clone().into(),
            Self::Any { program, .. } => match program.components().count() {
                // A bare name is searched on the `PATH`.
                0 | 1 => program.clone(),
                _ => base_directory.join(program),
            },
        }
    }

    /// Returns the arguments that select the protocol.
    pub(super) fn arguments(&self) -> Vec<&str> {
        match self {
            Self::Known(agent) => agent.arguments.to_vec(),
            Self::Listed(agent) => agent.arguments.iter().map(String::as_str).collect(),
            Self::Any { arguments, .. } => arguments.iter().map(String::as_str).collect(),
        }
    }

    /// Returns advice on how to install it.
    pub(super) fn install(&self) -> &str {
        match self {
            Self::Known(agent) => agent.install,
            Self::Listed(agent) => &agent.install,
            Self::Any { .. } => "write its path in `command`",
        }
    }

    /// Returns the hosts of the vendor's servers.
    pub(super) fn hosts(&self) -> Vec<&str> {
        match self {
            Self::Known(agent) => agent.hosts.to_vec(),
            Self::Listed(agent) => agent.hosts.iter().map(String::as_str).collect(),
            Self::Any { .. } => Vec::new(),
        }
    }

    /// Returns true if the agent's conversations are stored and resumed.
    pub(super) fn is_stored(&self) -> bool {
        match self {
            Self::Known(_) => true,
            Self::Listed(agent) => agent.resumes,
            Self::Any { .. } => false,
        }
    }

    /// Returns true if the agent accepts images.
    pub(super) fn has_images(&self) -> bool {
        match self {
            Self::Known(agent) => agent.has_images,
            Self::Listed(agent) => agent.has_images,
            Self::Any { .. } => false,
        }
    }

    /// Returns the form in which it reports the cost of a turn.
    pub(super) fn cost(&self) -> CostReport {
        self.known().map_or(CostReport::Estimated, |agent| agent.cost)
    }

    /// Returns the form in which it reports usage.
    pub(super) fn usage(&self) -> UsageReport {
        match self {
            Self::Known(agent) => agent.usage,
            Self::Listed(agent) => agent.usage.into(),
            Self::Any { .. } => UsageReport::Answer,
        }
    }

    /// Returns the sources of a called tool's name.
    pub(super) fn names(&self) -> CallNames {
        self.known().map(|agent| agent.names).unwrap_or_default()
    }

    /// Returns true if an answer without counted tokens is an interrupted answer.
    pub(super) fn is_broken_uncounted(&self) -> bool {
        self.known().is_some_and(|agent| agent.is_broken_uncounted)
    }

    /// Returns the kinds of its own error messages.
    pub(super) fn own_words(&self) -> OwnWords {
        self.known().map_or(agent::any_kind, |agent| agent.kind_of)
    }

    /// Returns the longest time until the agent exits after its input is closed.
    pub(super) fn exit(&self) -> Duration {
        self.known().map_or(EXIT, |agent| agent.exit)
    }

    /// Returns the name of the agent and the longest prompt that it takes whole, in bytes.
    pub(super) fn longest_prompt(&self) -> Option<(&'static str, usize)> {
        let agent = self.known()?;
        Some((agent.name, agent.longest_prompt?))
    }

    /// Returns warnings about images that do not reach the agent's model.
    pub(super) fn dropped_pictures(&self, prompt: &[PromptBlock]) -> Vec<String> {
        self.known().map(|agent| (agent.dropped_pictures)(prompt)).unwrap_or_default()
    }
}
