//! The tools `write_file` and `delete_file`.

use super::{
    ToolContext,
    answer::{fault, name, read_expected},
    arguments::{DeleteFile, WriteFile},
};
use crate::scope::{ContentHash, lines_of};

pub(super) const WRITE_DESCRIPTION: &str = "Writes a complete file: a new file, or a replacement for a file \
    that you have read, whose hash you give as expected_hash. To change part of a file, use edit_file. The \
    file is written completely or not at all. Returns the hash of the new content. Fails if the file exists \
    and expected_hash is missing or out of date.";

pub(super) const DELETE_DESCRIPTION: &str = "Deletes a file. This cannot be undone. Does not \
    delete folders.";

/// Runs `write_file` and returns its answer.
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
    // The content is written, so a failure here is reported beside the success.
    if let Some(is_executable) = asked.executable
        && let Err(error) = shared.files.set_executable(&path, is_executable)
    {
        text.push_str(&format!("; but its executable mode could not be changed: {}", fault(&path, &error)));
    }
    Ok(text)
}

/// Runs `delete_file` and returns its answer.
pub(super) fn delete_file(shared: &ToolContext, asked: &DeleteFile) -> Result<String, String> {
    let path = shared.path(&asked.path);
    shared.files.remove_file(&path).map_err(|error| fault(&path, &error))?;
    Ok(format!("deleted {}", name(&path)))
}

/// Returns a description of the written file.
pub(super) fn written_as(path: &str, content: &[u8]) -> String {
    let (lines, hash) = (lines_of(content).count(), ContentHash::of(content).short());
    format!("wrote {}: {lines} lines, {} bytes, hash {hash}", name(path), content.len())
}
