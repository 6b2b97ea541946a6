//! A review of plans that only grows. Each appended entry ends with a seal, a line with the length and the SHA-256 of all
//! bytes before it:
//!
//! ```text
//! <!-- seal 1: 412 bytes, sha256 9f86d081… -->
//! ```
//!
//! So all bytes before the last seal are proven to be unchanged. The bytes after it come from a writer that was killed, or
//! from another program. They are never removed: the next entry seals them, too.

use std::{
    fs::OpenOptions,
    io::{ErrorKind, Write as _},
    path::Path,
};

use nexus_project::{ProjectError, ProjectErrorKind};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::tree;

/// Prefix of a seal.
const SEAL: &str = "<!-- seal ";
/// Maximum size of an entry, in bytes.
const MOST_ENTRY: usize = 256 << 10;

/// State of a review file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ReviewState {
    /// Length of the file, in bytes.
    pub bytes: usize,
    /// SHA-256 of the whole file, in hexadecimal digits.
    pub sha256: String,
    /// Number of seals.
    pub seals: usize,
    /// Number of bytes after the last seal.
    pub unsealed_bytes: usize,
}

/// Result of appending a review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Appended {
    /// State of the review after the append.
    pub state: ReviewState,
    /// Number of bytes without a seal before the append, which are sealed now.
    pub sealed_before: usize,
}

/// Byte offset of a seal that does not match the bytes before it, and the reason.
type BrokenSeal = (usize, String);

/// Checks the seals of a review.
///
/// # Errors
///
/// Byte offset of the first seal that does not match the bytes before it, and the reason.
pub fn verify(bytes: &[u8]) -> Result<ReviewState, (usize, String)> {
    let (mut seals, mut sealed) = (0, 0);
    let mut hash = Sha256::new();
    let mut hashed = 0;
    let mut start = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let at = start;
        start += line.len();
        // A truncated seal is not a seal.
        let Some(found) = line.strip_suffix(b"\n").filter(|line| is_seal(line)) else { continue };
        hash.update(&bytes[hashed..at]);
        hashed = at;
        // Clone the state of the hash, so that a file with many seals is hashed only once.
        let expected = seal(seals + 1, at, &nexus_files::hex(hash.clone().finalize()));
        if found != expected.as_bytes() {
            return Err((at, format!("the bytes before seal {} changed after it was written", seals + 1)));
        }
        seals += 1;
        sealed = start;
    }
    hash.update(&bytes[hashed..]);
    let sha256 = nexus_files::hex(hash.finalize());
    Ok(ReviewState { bytes: bytes.len(), sha256, seals, unsealed_bytes: bytes.len() - sealed })
}

/// Appends an entry to the review at `path`, under the lock of its tree. A new file gets its head first.
///
/// Existing bytes stay: the file is opened only for appending, and read again afterwards.
pub(super) fn append(
    path: &Path,
    head: &str,
    entry: &str,
    expected_sha256: Option<&str>,
) -> Result<Appended, ProjectError> {
    if entry.len() > MOST_ENTRY {
        let message = format!("the entry has {} bytes, more than {MOST_ENTRY}", entry.len());
        return Err(ProjectError::invalid(message, "write less of it"));
    }
    // A later check would take this line for a seal, and report it as broken.
    if entry.lines().any(|line| is_seal(line.as_bytes())) {
        return Err(ProjectError::invalid(
            "a line of the entry has the form of a review's seal",
            "indent that line",
        ));
    }
    let before = tree::read_bytes(path)?.unwrap_or_default();
    let state = verify(&before).map_err(|broken| damaged(path, &before, &broken))?;
    if let Some(expected) = expected_sha256
        && !expected.eq_ignore_ascii_case(&state.sha256)
    {
        let message = format!("{path:?} has the SHA-256 {}, not {expected}", state.sha256);
        return Err(ProjectError::wrong_status(message, "read it again, then append"));
    }
    let mut added = Vec::new();
    if before.is_empty() {
        added.extend_from_slice(head.as_bytes());
    } else if !before.ends_with(b"\n") {
        added.push(b'\n');
    }
    // Verify again with the added line end: it may complete a seal that lacked only this byte.
    let ended = [&before[..], &added[..]].concat();
    let ReviewState { seals, unsealed_bytes, .. } =
        verify(&ended).map_err(|broken| damaged(path, &ended, &broken))?;
    if !entry.is_empty() {
        added.push(b'\n');
        added.extend_from_slice(entry.trim_end_matches(['\r', '\n']).as_bytes());
        added.extend_from_slice(b"\n\n");
    }
    let whole = [&before[..], &added[..]].concat();
    let line = seal(seals + 1, whole.len(), &nexus_files::hex(Sha256::digest(&whole)));
    added.extend_from_slice(line.as_bytes());
    added.push(b'\n');
    tree::check_size(path, before.len() + added.len())?;
    write(path, &added)?;
    // Read the file again: another program may write to it without the lock of the tree.
    let after = tree::read_bytes(path)?.unwrap_or_default();
    let state = verify(&after).map_err(|broken| damaged(path, &after, &broken))?;
    let is_prefix =
        after.len() >= before.len() && Sha256::digest(&after[..before.len()]) == Sha256::digest(&before);
    if !is_prefix || after[before.len()..] != added[..] {
        return Err(ProjectError::damaged(path, "another program wrote to it in the meantime"));
    }
    Ok(Appended { state, sealed_before: if before.is_empty() { 0 } else { unsealed_bytes } })
}

fn is_seal(line: &[u8]) -> bool {
    line.starts_with(SEAL.as_bytes()) && line.trim_ascii_end().ends_with(b"-->")
}

fn write(path: &Path, added: &[u8]) -> Result<(), ProjectError> {
    let failed = |error: std::io::Error| ProjectError::unusable(path, &error);
    // Create the file with the default mode: `open_regular` would create an owner-only file, unlike other files of the
    // project.
    let is_new = match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => false,
        Err(error) => return Err(failed(error)),
    };
    let mut file = nexus_files::open_regular(path, OpenOptions::new().append(true)).map_err(failed)?;
    file.write_all(added).and_then(|()| file.sync_all()).map_err(failed)?;
    match path.parent() {
        // The name of a new file is durable only after the folder is flushed.
        Some(folder) if is_new => nexus_files::sync_folder(folder).map_err(failed),
        _ => Ok(()),
    }
}

fn damaged(path: &Path, bytes: &[u8], (at, reason): &BrokenSeal) -> ProjectError {
    let line = bytes[..*at].iter().filter(|byte| **byte == b'\n').count() + 1;
    let message = format!("{path:?}, line {line}: {reason}");
    ProjectError::new(
        ProjectErrorKind::Damaged,
        message,
        "restore the changed text from version control; nothing was appended",
    )
}

fn seal(number: usize, bytes: usize, sha256: &str) -> String {
    format!("{SEAL}{number}: {bytes} bytes, sha256 {sha256} -->")
}
