//! Searches the lines of files for a pattern.

use std::{io::Read as _, str::FromStr};

use super::{
    PathAccess,
    file_opener::EntryKind,
    files::{FileError, ScopedFiles},
    files_walk::{Bound, PassedOver, WalkOptions, Walker},
    line_pattern::LinePattern,
    path_glob::PathGlob,
    path_rule::InvalidRule,
};

/// Maximum number of unreadable or too large files that a result lists. Source: our own bound.
const MAX_NAMED: usize = 20;

/// Limits of a search.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct SearchOptions {
    /// Limits of the walk. Its time limit applies to the whole search.
    pub walk: WalkOptions,
    /// Glob for the files to search; all by default.
    pub names: Option<NameGlob>,
    /// Maximum number of matching lines. 1,000 by default.
    pub matches: usize,
    /// Maximum number of bytes to read from all files together. 256 MiB by default.
    pub bytes: u64,
    /// Largest file to search, in bytes; larger files are skipped. 16 MiB by default.
    pub file_bytes: u64,
    /// Searched bytes of each line. 64 KiB by default.
    pub line_bytes: usize,
    /// Bytes of a line in the result. 500 by default.
    pub shown_bytes: usize,
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self {
            walk: WalkOptions::default(),
            names: None,
            matches: 1000,
            bytes: 256 << 20,
            file_bytes: 16 << 20,
            line_bytes: 64 << 10,
            shown_bytes: 500,
        }
    }
}

/// A glob for files, in the syntax of [`PathRule`](super::PathRule): without a `/` it matches the name of a
/// file, else its path from the scope's root. It matches only files, not folders above them; upper and lower
/// case differ.
#[derive(Clone, Debug)]
pub struct NameGlob(PathGlob);

impl NameGlob {
    /// Returns true if the glob matches the file at `path`, which is relative to the root.
    pub fn is_match(&self, path: &str) -> bool {
        if path.starts_with('/') {
            self.0.is_exact_match(path)
        } else {
            self.0.is_exact_match(&format!("/{path}"))
        }
    }
}

impl FromStr for NameGlob {
    type Err = InvalidRule;

    fn from_str(text: &str) -> Result<Self, InvalidRule> {
        let invalid = |problem| InvalidRule { text: text.chars().take(200).collect(), problem };
        if text.is_empty() || text.len() > 1024 {
            return Err(invalid("is empty, or longer than 1,024 bytes".to_owned()));
        }
        PathGlob::new(text, "").map(Self).map_err(invalid)
    }
}

/// Result of a search.
#[non_exhaustive]
#[derive(Debug, Default)]
pub struct Search {
    /// Matching lines, by file in the order of [`ScopedFiles::walk`], then by number.
    pub matches: Vec<LineMatch>,
    /// Number of searched files.
    pub files: usize,
    /// Entries that the walk skipped.
    pub passed_over: PassedOver,
    /// Unreadable files with the reasons; the first 20.
    pub unreadable: Vec<FileError>,
    /// Number of unreadable files.
    pub unreadable_files: usize,
    /// Number of files with a NUL byte, which are not text.
    pub binary_files: usize,
    /// Files above the size limit; the first 20.
    pub large: Vec<String>,
    /// Number of files above the size limit.
    pub large_files: usize,
    /// Number of lines that were searched only in part. A match in the rest is not found.
    pub long_lines: usize,
    /// Limit that ended the search early. The result then covers only the first files.
    pub stopped: Option<Bound>,
}

/// A line that matches the pattern.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineMatch {
    /// The file: relative to the scope's root if it is below it, else absolute.
    pub path: String,
    /// Number of the line, from 1.
    pub line: usize,
    /// The line without its end. Of a long line, the part with the first match. `…` marks omitted text, and `\u{fffd}`
    /// replaces bytes that are not UTF-8.
    pub text: String,
}

impl ScopedFiles {
    /// Returns the lines of a file, or of the files below a folder, that match the pattern. Walks like
    /// [`ScopedFiles::walk`], and opens only files. Line ends are `\n` and `\r\n`. Reads a growing file up to
    /// the size limit.
    ///
    /// # Errors
    ///
    /// Errors of [`ScopedFiles::walk`]. Unreadable entries below `path` are skipped and reported.
    pub fn search(
        &self,
        path: &str,
        pattern: &LinePattern,
        options: &SearchOptions,
    ) -> Result<Search, FileError> {
        let mut walker = Walker::new(self, path, &options.walk)?;
        let mut found = Search::default();
        let (mut content, mut bytes_left) = (Vec::new(), options.bytes);
        while let Some(entry) = walker.next() {
            let is_asked_for = options.names.as_ref().is_none_or(|names| names.is_match(&entry.path));
            if entry.kind != EntryKind::File || !is_asked_for {
                continue;
            }
            // Read one byte more, to distinguish a file of exactly this size from a larger one.
            let most = options.file_bytes.min(bytes_left).saturating_add(1);
            content.clear();
            let read = self.open_file(&entry.path).and_then(|file| {
                let read = file.take(most).read_to_end(&mut content);
                read.map_err(|source| FileError::io(&entry.path, PathAccess::Read, source))
            });
            match read {
                Ok(read) if read as u64 > options.file_bytes => found.pass_over_large(entry.path),
                Ok(read) if read as u64 > bytes_left => {
                    found.stopped = Some(Bound::Bytes);
                    break;
                }
                Ok(read) => {
                    bytes_left -= read as u64;
                    found.search_file(&entry.path, &content, pattern, options, &walker);
                }
                Err(error) => {
                    found.unreadable_files += 1;
                    if found.unreadable.len() < MAX_NAMED {
                        found.unreadable.push(error);
                    }
                }
            }
            if found.stopped.is_some() {
                break;
            }
        }
        found.stopped = found.stopped.or(walker.stopped);
        found.passed_over = walker.passed_over;
        Ok(found)
    }
}

impl Search {
    fn pass_over_large(&mut self, path: String) {
        self.large_files += 1;
        if self.large.len() < MAX_NAMED {
            self.large.push(path);
        }
    }

    fn search_file(
        &mut self,
        path: &str,
        content: &[u8],
        pattern: &LinePattern,
        options: &SearchOptions,
        walker: &Walker<'_>,
    ) {
        if memchr::memchr(0, content).is_some() {
            self.binary_files += 1;
            return;
        }
        self.files += 1;
        for (index, line) in lines_of(content).enumerate() {
            let part = part_of(line, options.line_bytes);
            let place = pattern.place_in(part);
            // A match that reaches the end of the searched part may not match the whole line.
            let place = place.filter(|(_, end)| part.len() == line.len() || *end < part.len());
            self.long_lines += usize::from(part.len() < line.len());
            if let Some((start, _)) = place {
                if self.matches.len() >= options.matches {
                    self.stopped = Some(Bound::Matches);
                    return;
                }
                let text = shown(line, start, options.shown_bytes);
                self.matches.push(LineMatch { path: path.to_owned(), line: index + 1, text });
            }
            // One long line may take much time. For short lines, reading the clock would cost more than the search.
            if (line.len() > 1024 || index % 64 == 63) && walker.is_over() {
                self.stopped = Some(Bound::Time);
                return;
            }
        }
    }
}

/// Returns the lines of a text, without line ends. Text after the last line end is also a line.
pub(crate) fn lines_of(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = content;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (line, after) = match memchr::memchr(b'\n', rest) {
            Some(end) => (rest.get(..end)?, rest.get(end + 1..)?),
            None => (rest, &[][..]),
        };
        rest = after;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    })
}

/// Returns the beginning of a line, cut between two characters.
fn part_of(line: &[u8], most: usize) -> &[u8] {
    line.get(..floor_boundary(line, most)).unwrap_or(line)
}

/// Returns the last character boundary at or before `place`.
fn floor_boundary(line: &[u8], place: usize) -> usize {
    if place >= line.len() {
        return line.len();
    }
    let is_inside = |place: &usize| line.get(*place).is_some_and(|byte| (0x80..0xC0).contains(byte));
    // A UTF-8 character has at most four bytes, so it begins at most three bytes earlier.
    (place.saturating_sub(3)..=place).rev().find(|place| !is_inside(place)).unwrap_or(place)
}

/// Returns at most `most` bytes of a line, with some of the text before `start`.
fn shown(line: &[u8], start: usize, most: usize) -> String {
    if line.len() <= most {
        return String::from_utf8_lossy(line).into_owned();
    }
    // Begin a quarter of the shown text before the match, or earlier near the end of the line.
    let from = floor_boundary(line, start.saturating_sub(most / 4).min(line.len() - most));
    let to = floor_boundary(line, from + most);
    let part = String::from_utf8_lossy(line.get(from..to).unwrap_or_default()).into_owned();
    let mark = |is_cut| if is_cut { "…" } else { "" };
    format!("{}{part}{}", mark(from > 0), mark(to < line.len()))
}
