//! Reading refs: from the ref's own file if it exists, else by git.

use std::{
    fs::{self, File},
    io::Read as _,
    path::Path,
};

use super::{CommitId, TreeError, git::GitCommand, text};

/// Maximum size of a ref's file, in bytes: an id, and a line end.
const MAX_BYTES: u64 = 65;

/// Returns the target of a ref that has a file of its own, as git stores refs that are not packed. `None` if
/// git has to be run: the file does not exist, it names another ref, or the repository has a reftable. Source:
/// gitrepository-layout(5).
pub(super) fn loose(repository: &Path, name: &str) -> Option<CommitId> {
    let path = repository.join(name);
    // Opening a pipe would block.
    let is_file = fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
    if !is_file || repository.join("reftable").exists() {
        return None;
    }
    let mut text = String::new();
    File::open(path).ok()?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    text.strip_suffix('\n')?.parse().ok()
}

/// Returns the target of a ref, by `rev-parse`.
pub(super) fn read(rev_parse: GitCommand<'_>, name: &str) -> Result<Option<CommitId>, TreeError> {
    let (ended, output) = rev_parse.args(["--verify", "-q", name]).outcome(b"")?;
    match ended.code() {
        Some(0) => text::id(&text::line(output)?).map(Some),
        // Exit code 1: the ref does not exist.
        Some(1) => Ok(None),
        _ => Err(ended.failure()),
    }
}
