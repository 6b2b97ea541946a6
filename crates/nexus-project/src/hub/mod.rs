//! Skills from a hub: folders with a SKILL.md, installed beside a person's own.
//!
//! A skill is text that an agent reads. It adds no right: an agent may do with it what its own scope allows.

mod clone;
mod description;
mod index;
mod installed;
mod kind;
mod lock;
mod origin;

use sha2::{Digest as _, Sha256};

pub use clone::clone_hub;
pub use index::{FolderHub, HubIndex, HubReader, HubSkill};
pub use installed::{FoundSkill, LeftOutSkill, SkillChange, SkillFolder};
pub use kind::SkillKind;

/// Returns the SHA-256 of bytes in the form of hubs and installed skills: 64 lowercase hexadecimal digits.
fn sha256(bytes: &[u8]) -> String {
    nexus_files::hex(Sha256::digest(bytes))
}
