//! Skills of a place to work: folders with a SKILL.md, a person's own and those that come from a hub.
//!
//! A skill is text that an agent reads. It adds no right: what an agent can do with it is the agent's own scope.

mod digest;
mod hub;
mod kind;
mod place;

pub use hub::{FolderHub, HubIndex, HubReader, HubSkill, clone_hub};
pub use kind::SkillKind;
pub use place::{FoundSkill, SkillChange, SkillPlace};
