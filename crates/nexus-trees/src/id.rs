//! Object ids of git for commits and trees.

use nexus_core::name_type;

name_type! {
    /// Id of a commit: the hash of its tree, parents, time and message.
    pub struct CommitId: check => InvalidObjectId;
}

name_type! {
    /// Id of a git tree: the hash of all names, modes and contents.
    pub struct TreeId: check => InvalidObjectId;
}

/// The text is not an object id of git.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a git object id has 40 or 64 lower-case hexadecimal digits")]
pub struct InvalidObjectId;

fn check(text: &str) -> Result<(), InvalidObjectId> {
    let is_hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if is_hex && matches!(text.len(), 40 | 64) { Ok(()) } else { Err(InvalidObjectId) }
}
