//! Builds the answers of the file tools: path names, as many lines as fit, and advice for errors.

use std::{borrow::Cow, fmt::Write as _, io::ErrorKind, io::Read as _};

use super::ToolContext;
use crate::{
    scope::{Bound, ContentHash, FileError, PassedOver, PathAccess},
    visible::is_invisible,
};

/// Largest file that is read, searched or changed, in bytes. Source: our own bound.
pub(super) const MAX_FILE_BYTES: u64 = 16 << 20;

/// Space that an answer reserves for its last lines, in bytes.
const END_BYTES: usize = 1_200;

/// Longest path in an answer, in bytes. Source: our own bound. As a JSON string a path can take six times as
/// many bytes.
const MAX_NAME_BYTES: usize = 1_000;

/// Maximum number of items that one remark lists.
const MAX_NAMED: usize = 5;

/// Answer of a file tool, with as many lines as fit.
pub(super) struct BoundedAnswer {
    text: String,
    most: usize,
}

impl BoundedAnswer {
    pub(super) fn new(shared: &ToolContext) -> Self {
        // `LEAST_ANSWER_BYTES` exceeds `END_BYTES`, so the difference is positive.
        Self { text: String::new(), most: shared.answer_bytes - END_BYTES }
    }

    /// Adds a line if it fits.
    pub(super) fn push(&mut self, line: &str) -> bool {
        let fits = self.text.len() + line.len() < self.most;
        if fits {
            self.text.push_str(line);
            self.text.push('\n');
        }
        fits
    }

    /// Returns the number of bytes that still fit.
    pub(super) fn room(&self) -> usize {
        self.most.saturating_sub(self.text.len())
    }

    /// Returns the answer, with remarks at its end.
    pub(super) fn end(mut self, remarks: &[String]) -> String {
        let most = self.most + END_BYTES;
        for remark in remarks {
            let room = most.saturating_sub(self.text.len() + 4);
            let remark = remark.get(..remark.floor_char_boundary(room)).unwrap_or_default();
            let _ = writeln!(self.text, "[{remark}]");
        }
        self.text.truncate(self.text.trim_end().len());
        self.text
    }
}

/// Returns a path for a line: as a JSON string if it could be mistaken for other text. A path that is too long
/// ends with `…`.
pub(super) fn name(path: &str) -> Cow<'_, str> {
    // A colon separates a path from the text after it, such as the line of a match.
    let is_plain = |character: char| {
        !character.is_control() && !matches!(character, '"' | ':') && !is_invisible(character)
    };
    // Remarks begin with `[`, and descriptions of entries with two spaces and `(`.
    let is_said = path.starts_with('[') || path.contains("  (");
    let is_shown = path.trim() == path && !path.is_empty() && path.len() <= MAX_NAME_BYTES;
    if is_shown && !is_said && path.chars().all(is_plain) {
        return Cow::Borrowed(path);
    }
    let mut text = String::from('"');
    for character in path.chars() {
        if text.len() > MAX_NAME_BYTES {
            text.push('…');
            break;
        }
        match character {
            '"' | '\\' => text.extend(['\\', character]),
            '\n' => text.push_str("\\n"),
            _ if character.is_control() || is_invisible(character) => {
                // A JSON escape has four hexadecimal digits, so a character above U+FFFF needs two escapes.
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    let _ = write!(text, "\\u{unit:04x}");
                }
            }
            _ => text.push(character),
        }
    }
    text.push('"');
    Cow::Owned(text)
}

/// Returns a message about a failure, with advice.
pub(super) fn fault(path: &str, error: &FileError) -> String {
    let path = name(path);
    match error {
        FileError::Io { source, access, .. } => match source.kind() {
            ErrorKind::NotFound => {
                format!("{path} does not exist; list the folder with list_files")
            }
            ErrorKind::IsADirectory => {
                format!("{path} is a folder, not a file; list it with list_files")
            }
            ErrorKind::NotADirectory => {
                format!("a folder in the path {path} is a file; list the folders with list_files")
            }
            ErrorKind::AlreadyExists => format!(
                "{path} already exists. To change parts of it, use edit_file. To replace all of it, read it \
                 with read_file and give its hash as expected_hash"
            ),
            ErrorKind::PermissionDenied => {
                let done = if *access == PathAccess::Read { "read" } else { "changed" };
                format!("the operating system does not allow {path} to be {done}; continue without it")
            }
            ErrorKind::Unsupported => format!("{path} is neither a file nor a folder; continue without it"),
            _ => format!("{error}: {source}"),
        },
        FileError::Stale { .. } => stale(&path),
        error => error.to_string(),
    }
}

/// Returns the message that a file changed since it was read.
pub(super) fn stale(path: &str) -> String {
    format!(
        "{path} has changed since you read it, so nothing was written. Read it again with read_file, then \
         repeat the change with the new hash"
    )
}

/// Content of a file that a tool changes or shows.
pub(super) struct FileBytes {
    pub(super) bytes: Vec<u8>,
    /// True if the file is longer than the part that was read.
    pub(super) is_cut: bool,
}

/// Reads a file, up to [`MAX_FILE_BYTES`].
pub(super) fn read(shared: &ToolContext, path: &str) -> Result<FileBytes, String> {
    let fault = |error: FileError| fault(path, &error);
    let file = shared.files.open_file(path).map_err(fault)?;
    let mut bytes = Vec::new();
    // Read one byte more, to detect a longer file.
    if let Err(source) = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes) {
        return Err(fault(FileError::Io { path: path.to_owned(), access: PathAccess::Read, source }));
    }
    let is_cut = bytes.len() as u64 > MAX_FILE_BYTES;
    bytes.truncate(MAX_FILE_BYTES as usize);
    Ok(FileBytes { bytes, is_cut })
}

/// Reads a file before a change, if it still has the content that the model has read. Also returns the file's
/// hash.
pub(super) fn read_expected(
    shared: &ToolContext,
    path: &str,
    expected: &str,
) -> Result<(Vec<u8>, ContentHash), String> {
    let given = expected.trim().to_ascii_lowercase();
    // A shorter prefix of the hash could match other content by chance.
    if given.len() < 16 || !given.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err("expected_hash is not a hash: give the 16 digits that read_file shows in its first line"
            .to_owned());
    }
    let content = read(shared, path)?;
    if content.is_cut {
        let most = MAX_FILE_BYTES;
        return Err(format!(
            "{} is larger than {most} bytes; it cannot be changed with this tool",
            name(path)
        ));
    }
    let hash = ContentHash::of(&content.bytes);
    if hash.to_string().starts_with(&given) { Ok((content.bytes, hash)) } else { Err(stale(&name(path))) }
}

/// Adds remarks about the entries that a walk skipped.
pub(super) fn passed_over(passed_over: &PassedOver, remarks: &mut Vec<String>) {
    if passed_over.not_unicode > 0 {
        remarks.push(format!("{} names are left out because they are not Unicode", passed_over.not_unicode));
    }
    if passed_over.unreadable_folders > 0 {
        let folders = unreadable(&passed_over.unreadable);
        remarks
            .push(format!("folders that could not be read: {} ({folders})", passed_over.unreadable_folders));
    }
}

/// Returns the first unreadable entries, with the reasons.
pub(super) fn unreadable(errors: &[FileError]) -> String {
    let said = |error: &FileError| match error {
        FileError::Io { path, source, .. } => format!("{}: {}", name(path), source.kind()),
        error => error.to_string(),
    };
    let first: Vec<_> = errors.iter().take(MAX_NAMED).map(said).collect();
    first.join("; ")
}

/// Returns a message about the limit that was reached, with advice.
pub(super) fn stopped(bound: Bound) -> &'static str {
    match bound {
        Bound::Entries => "there are too many entries for one call: give the path of a deeper folder",
        Bound::Time => "the time limit was reached: give the path of a deeper folder",
        Bound::Matches => "there are more matches: give `path`, `names` or a more specific pattern",
        Bound::Bytes => "there is too much text for one search: give `path` or `names`",
    }
}
