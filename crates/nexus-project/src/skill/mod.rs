//! Skills: ways of working that a tag in a message begins, and what other tags do at once.

mod active;
mod catalog;
mod inline;
mod tag;

pub use active::ActiveSkill;
pub use catalog::Skill;
pub use inline::InlineResult;
pub use tag::{InlineAction, Tag};
