//! Rules for arguments of tools, and for numbers in answers.

use std::{
    collections::BTreeSet,
    path::{Component, Path},
};

use nexus_mcp::page::cut;

use crate::error::ProjectError;

/// Maximum length of a title or topic, in bytes. Source: our own bound: lists show them in full.
const MOST_TITLE: usize = 500;
/// Maximum length of any other text, in bytes. Source: our own bound.
const MOST_TEXT: usize = 64 << 10;
/// Maximum number of numbers in an answer's list. Source: our own bound: two lists and a page fit into one answer.
pub(super) const MOST_NUMBERS: usize = 300;
/// Maximum number of numbers that an error names.
const MOST_NAMED: usize = 50;

/// Returns true if a character starts another line or is not printable.
pub(crate) fn breaks_line(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}' | '\u{2029}')
}

/// Checks a title: one line that is not blank.
pub(super) fn checked_title(field: &str, text: &str) -> Result<String, ProjectError> {
    let text = text.trim();
    if text.is_empty() || text.len() > MOST_TITLE || text.contains(breaks_line) {
        let message = format!("`{field}` is not one line of 1 to {MOST_TITLE} bytes");
        return Err(ProjectError::invalid(
            message,
            "shorten it, and write the rest into a field for longer texts",
        ));
    }
    Ok(text.to_owned())
}

/// Checks a long text. A blank one counts as left out.
pub(crate) fn checked_text(field: &str, text: Option<String>) -> Result<Option<String>, ProjectError> {
    match text {
        Some(text) if text.trim().is_empty() => Ok(None),
        Some(text) if text.len() > MOST_TEXT => {
            let message = format!("`{field}` has {} bytes, more than {MOST_TEXT}", text.len());
            Err(ProjectError::invalid(message, "write it to a file with artifact_write, and name the file"))
        }
        text => Ok(text),
    }
}

/// Returns the first of the existing numbers, for errors.
pub(super) fn numbers(ids: impl Iterator<Item = u32>) -> String {
    let mut ids: Vec<_> = ids.map(|id| id.to_string()).collect();
    let more = ids.len().saturating_sub(MOST_NAMED);
    ids.truncate(MOST_NAMED);
    match (ids.is_empty(), more) {
        (true, _) => "none".to_owned(),
        (false, 0) => ids.join(", "),
        (false, more) => format!("{}, and {more} more", ids.join(", ")),
    }
}

/// Checks paths of files relative to the project.
pub(super) fn checked_files(field: &str, files: BTreeSet<String>) -> Result<BTreeSet<String>, ProjectError> {
    if files.len() > 10_000 {
        let message = format!("`{field}` names {} files, more than 10,000", files.len());
        return Err(ProjectError::invalid(message, "name their folders"));
    }
    let checked = files.into_iter().map(|file| {
        plain_path(&file).ok_or_else(|| {
            let shown = cut(&file, 200);
            let message = format!("{shown:?} in `{field}` is not a path below the project");
            ProjectError::invalid(message, "name files relative to the project")
        })
    });
    checked.collect()
}

/// Returns a path in its normal form, so that each file has only one. `None`: the path leads out of the project, or is
/// invalid.
fn plain_path(file: &str) -> Option<String> {
    if file.len() > 4_096 || file.chars().any(char::is_control) {
        return None;
    }
    let mut plain = Vec::new();
    for part in Path::new(file).components() {
        match part {
            Component::Normal(name) => plain.push(name.to_str()?),
            Component::CurDir => {}
            _ => return None,
        }
    }
    (!plain.is_empty()).then(|| plain.join("/"))
}
