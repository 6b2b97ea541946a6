//! Skills: ways of working that a tag in a message starts; and tags with an immediate effect.

mod active;
mod catalog;
mod inline;
mod tag;

pub use active::ActiveSkill;
pub use catalog::Skill;
pub use inline::InlineResult;
pub use tag::{InlineAction, Tag};
