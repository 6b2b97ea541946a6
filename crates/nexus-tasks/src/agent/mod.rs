//! One agent's part: a turn that ends when the agent submits its answer.
//!
//! The prose of an agent is never read as an answer. If a turn ends without a submission, the agent gets one more turn in the same
//! conversation, with its terminal tools alone. If that conversation is lost, a new one begins. An agent that still submits nothing is
//! an infrastructure failure; Nexus never invents an opinion for it.

mod briefing;
mod prompts;
mod tool_names;

pub use self::{
    briefing::{ADVICE_HEADING, CRITERION_OF_STEP, briefing, shown_handoff, shown_verdict},
    prompts::{PromptError, Prompts},
    tool_names::AgentPhase,
};
