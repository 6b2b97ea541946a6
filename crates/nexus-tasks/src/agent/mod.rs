//! One agent's part: a turn that ends by handing something in.
//!
//! What an agent says in prose is never read as an answer. One that ends without handing anything in is asked once more, in
//! the same conversation and with nothing but its terminal tools; where that conversation is lost, it begins afresh. Then it
//! is a failure of the infrastructure, never a made-up opinion.

mod briefing;
mod prompts;
mod tool_names;

pub use self::{
    briefing::{briefing, shown_handoff, shown_verdict},
    prompts::{PromptError, Prompts},
    tool_names::AgentPhase,
};
