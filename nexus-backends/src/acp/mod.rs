//! `acp`: any program that speaks the Agent Client Protocol, one process per turn.
//!
//! The access levels of a **known agent** (`agent: NAME`) were measured with the real program
//! (`docs/reference/agents.md`). A level that the agent does not enforce is rejected. The agent has a private home,
//! which is removed after the turn or stored with the conversation. It borrows a credential, and sends its requests to
//! `base_url`. The vendors' folders define the known agents.
//!
//! **Any other program** (`command: [PROGRAM, ARGUMENT…]`) runs as in an editor: with the user's home, and so with its
//! own login, settings and sessions. It may act without a permission request, so it runs only at `unrestricted`.
//!
//! | feature | implementation |
//! | --- | --- |
//! | the mode of the session | set on every session, if the level needs one; a change of the mode ends the turn |
//! | permissions | decided by access level and path, then by the host's approver; an approval holds only for that call |
//! | the agent's files and terminals | not offered: the agent uses its own, under the level that it enforces |
//! | the caller's tools | through MCP over HTTP; the prompt is sent after the agent has listed them |
//! | `end_turn` | an answer if it has text; from an agent that also ends a broken stream like this, only if it has counted tokens |
//! | `usage_update` | the event `ContextUsage`: how full the context is, never usage of the turn |
//! | `elicitation/create` | a question to the host's approver, if it answers questions; offered to the agent only then |
//! | the end of a session | `session/close` for a stored one. `session/delete` for one that an unstored turn leaves in the user's home |
//! | a missing login | `Unauthenticated`, with the command that signs in; Nexus does not run it |
//! | a plan | a harmless `Unrecognized` event, because no other event fits |
//!
//! Source of the facts about the protocol: its schema, revision 1, and the known agents with loopback servers.

#[cfg_attr(not(feature = "every-vendor"), allow(dead_code, reason = "each vendor uses its part of it"))]
pub(crate) mod agent;
mod context_usage;
mod elicitation;
mod evidence;
mod failure;
mod home;
mod judgement;
mod kind;
pub(crate) mod listed;
mod local_agent;
mod own_settings;
mod program;
mod prompt;
mod session_answers;
#[cfg(test)]
mod session_tests;
mod sign_in;
mod summary;
#[cfg(test)]
mod tests;
mod tool_calls;
mod translate;
mod user_agents;

use crate::vendor::Vendor;

pub use self::evidence::AgentFactsEvidence;
pub use self::judgement::{AgentJudgement, JudgedCase, JudgedLevel};
pub use self::kind::Acp;
pub use self::summary::{KnownAgentList, KnownAgentSummary, agents, kind};
pub use self::user_agents::{AgentFileError, AgentFiles};

/// The backend kind as a vendor. It belongs to no vendor: the vendors' folders define its agents, and the code that
/// collects these creates the kind.
pub(crate) const VENDOR: Vendor = Vendor::new("acp", &[]);
