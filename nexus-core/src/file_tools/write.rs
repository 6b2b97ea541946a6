//! `write_file` and `delete_file`.

use super::{
    ToolContext,
    answer::{fault, name, read_expected},
    arguments::{DeleteFile, WriteFile},
};
use crate::scope::{ContentHash, lines_of};

pub(super) const WRITE_DESCRIPTION: &str = "Writes a whole file: a new one, or in place of one that you have read, whose hash \
    you give as expected_hash. A file is written whole or not at all. To change a part of a file, use edit_file. The answer has \
    the hash of what was written.";

pub(super) const DELETE_DESCRIPTION: &str =
    "Deletes a file. It cannot be brought back. Folders are not deleted.";

/// The answer of `write_file`.
pub(super) fn write_file(shared: &ToolContext, asked: &WriteFile) -> Result<String, String> {
    let (path, content) = (shared.path(&asked.path), asked.content.as_str());
    let written = match asked.expected_hash.as_deref().filter(|hash| !hash.trim().is_empty()) {
        Some(expected) => {
            let (_, hash) = read_expected(shared, &path, expected)?;
            shared.files.replace(&path, &hash, content)
        }
        None => shared.files.write_new(&path, content),
    };
    written.map_err(|error| fault(&path, &error))?;
    let mut text = written_as(&path, content.as_bytes());
    if let Some(is_executable) = asked.executable
        && let Err(error) = shared.files.set_executable(&path, is_executable)
    {
        text.push_str(&format!("; but whether it is a program stays as it was: {}", fault(&path, &error)));
    }
    Ok(text)
}

/// The answer of `delete_file`.
pub(super) fn delete_file(shared: &ToolContext, asked: &DeleteFile) -> Result<String, String> {
    let path = shared.path(&asked.path);
    shared.files.remove_file(&path).map_err(|error| fault(&path, &error))?;
    Ok(format!("deleted {}", name(&path)))
}

/// Describes the written file.
pub(super) fn written_as(path: &str, content: &[u8]) -> String {
    let (lines, hash) = (lines_of(content).count(), ContentHash::of(content).short());
    format!("wrote {}: {lines} lines, {} bytes, hash {hash}", name(path), content.len())
}
