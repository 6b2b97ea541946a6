//! An artifact: its text, and the positions of its parts. A change replaces only its own part of the text, so that every
//! other byte stays.

use std::{fmt, ops::Range};

use nexus_project::ProjectError;
use serde::de::DeserializeOwned;

use super::{
    kind::{Kind, Sections},
    yaml::{self, Values, YamlError},
};

/// Content of an empty section.
pub const NONE: &str = "_None._";

/// A position in a text. Lines and columns count from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextPosition {
    /// Line.
    pub line: usize,
    /// Column.
    pub column: usize,
}

/// A section: a heading or a pair of tags, with its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Words of the heading, or name of the tag.
    pub name: String,
    /// Byte offset of the heading or the tag.
    pub start: usize,
    /// Byte range of the content.
    pub body: Range<usize>,
    /// True for a heading, and for a tag that is closed.
    pub is_closed: bool,
}

/// An entry: a heading `### D-1: text`, with its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Text before the first colon, if it is a single word.
    pub id: Option<String>,
    /// Words of the heading, without the id.
    pub text: String,
    /// Index of the section in [`Artifact::sections`].
    pub section: usize,
    /// Byte offset of the heading.
    pub start: usize,
    /// Byte range of the content.
    pub body: Range<usize>,
}

/// A line `- **Name:** value` of an entry, with its continuation lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name of the field.
    pub name: String,
    /// Value, without surrounding blanks.
    pub value: String,
    /// Byte offset of the value's first line.
    pub start: usize,
}

/// Syntax that is still open at the end of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unclosed {
    Frontmatter,
    Fence,
    Comment,
}

/// An artifact. Any text can be read as an artifact: the lint finds missing and wrong parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    kind: Kind,
    text: String,
    /// Byte offset of each line.
    lines: Vec<usize>,
    frontmatter: Option<Range<usize>>,
    body: usize,
    sections: Vec<Section>,
    entries: Vec<Entry>,
    unclosed: Vec<(usize, Unclosed)>,
    /// Byte ranges of the body's lines that are outside of code fences and comments.
    prose: Vec<Range<usize>>,
}

impl Artifact {
    /// Reads an artifact of this kind.
    pub fn parse(kind: Kind, text: impl Into<String>) -> Self {
        let text = text.into();
        let mut lines = vec![0];
        lines.extend(text.match_indices('\n').map(|(at, _)| at + 1).filter(|at| *at < text.len()));
        let mut document = Self {
            kind,
            lines,
            frontmatter: None,
            body: 0,
            sections: Vec::new(),
            entries: Vec::new(),
            unclosed: Vec::new(),
            prose: Vec::new(),
            text,
        };
        // META is JSON, which is also YAML. So its whole text counts as frontmatter, and the same reader finds its
        // values.
        if kind == Kind::Meta {
            document.frontmatter = Some(0..document.text.len());
            document.body = document.text.len();
            return document;
        }
        document.find_frontmatter();
        document.find_prose();
        match kind.spec().sections {
            Sections::Headings(_) => document.find_headings(),
            Sections::Tags(names) => document.find_tags(names),
        }
        document
    }

    /// Returns the kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the text: the text that was read, with the changes since.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text of the frontmatter, without the lines around it. For META, returns the whole text.
    pub fn frontmatter(&self) -> Option<&str> {
        Some(&self.text[self.frontmatter.clone()?])
    }

    /// Parses the frontmatter as a type.
    ///
    /// # Errors
    ///
    /// The fault, with its line and column in the text.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, ProjectError> {
        let found = self.frontmatter().ok_or_else(|| "it has no frontmatter".to_owned());
        let read = found.and_then(|text| {
            yaml::read(text).map_err(|error| {
                let TextPosition { line, column } = self.position_in_frontmatter(&error);
                format!("line {line}, column {column}: {}", error.message)
            })
        });
        read.map_err(|reason| {
            let message = format!("a {} cannot be read: {reason}", self.kind.name());
            ProjectError::new(
                nexus_project::ProjectErrorKind::Damaged,
                message,
                "correct the file as `nexus artifact lint` advises",
            )
        })
    }

    /// Returns the byte ranges of the frontmatter's values in the text.
    pub(super) fn values(&self) -> Values {
        let Some(range) = self.frontmatter.clone() else { return Values::new() };
        let values = yaml::values(&self.text[range.clone()]).into_iter();
        values.map(|(key, value)| (key, value.start + range.start..value.end + range.start)).collect()
    }

    /// Returns the position of a frontmatter fault in the text.
    pub(super) fn position_in_frontmatter(&self, error: &YamlError) -> TextPosition {
        let before = self.frontmatter.as_ref().map_or(0, |range| self.position(range.start).line - 1);
        TextPosition { line: error.line + before, column: error.column }
    }

    /// Returns the sections, in order.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// Returns the first section of this name.
    pub fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.is_called(name))
    }

    /// Returns the entries, in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the entries of a section.
    pub fn entries_of<'a>(&'a self, section: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.entries.iter().filter(move |entry| self.sections[entry.section].is_called(section))
    }

    /// Returns the fields of an entry.
    pub fn fields(&self, entry: &Entry) -> Vec<Field> {
        let mut fields: Vec<Field> = Vec::new();
        for range in self.prose_in(entry.body.clone()) {
            let line = &self.text[range.clone()];
            if let Some((name, value)) = field_of(line) {
                let start = range.start + (line.len() - value.len());
                fields.push(Field { name: name.to_owned(), value: value.trim().to_owned(), start });
            } else if let (Some(field), false) = (fields.last_mut(), line.trim().is_empty()) {
                if !field.value.is_empty() {
                    field.value.push(' ');
                }
                field.value.push_str(line.trim());
            }
        }
        fields
    }

    /// Returns the value of an entry's field, unless it is empty.
    pub fn field(&self, entry: &Entry, name: &str) -> Option<Field> {
        self.fields(entry).into_iter().find(|field| field.name == name && !field.value.is_empty())
    }

    pub(super) fn unclosed(&self) -> &[(usize, Unclosed)] {
        &self.unclosed
    }

    /// Returns the lines of a part of the body, without their ends. Skips code and comments.
    pub(super) fn prose_in(&self, part: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        // `find_prose` collects the lines in order, so a binary search finds the first one.
        let first = self.prose.partition_point(|line| line.end < part.start);
        let lines = self.prose[first..].iter().take_while(move |line| line.start <= part.end);
        lines
            .map(move |line| line.start.max(part.start)..line.end.min(part.end))
            .filter(|line| line.start <= line.end)
    }

    /// Returns the byte range of the body.
    pub(super) fn body(&self) -> Range<usize> {
        self.body..self.text.len()
    }

    /// Returns true if a part of the body has only blanks and comments.
    pub(super) fn is_blank(&self, part: Range<usize>) -> bool {
        let mut rest = &self.text[part];
        loop {
            rest = rest.trim_start();
            match rest.strip_prefix("<!--").and_then(|comment| comment.split_once("-->")) {
                Some((_, after)) => rest = after,
                None => return rest.is_empty(),
            }
        }
    }

    /// Returns the line and column of a byte offset.
    pub fn position(&self, at: usize) -> TextPosition {
        let line = self.lines.partition_point(|start| *start <= at).max(1);
        let start = self.lines[line - 1];
        let before = self.text.get(start..at).unwrap_or_default();
        // Editors do not show a byte order mark, so it has no column.
        let column = before.chars().filter(|character| *character != '\u{feff}').count() + 1;
        TextPosition { line, column }
    }

    /// Replaces the value of a key, and keeps its quotes.
    ///
    /// # Errors
    ///
    /// [`WrongState`](nexus_project::ProjectErrorKind::WrongState) if the frontmatter has no such key with a value on one
    /// line.
    pub fn set_value(&mut self, key: &str, value: &str) -> Result<(), ProjectError> {
        let range = self.values().remove(key).filter(|range| !range.is_empty());
        let old = range.clone().map(|range| &self.text[range]).filter(|old| !old.contains('\n'));
        let (Some(range), Some(old)) = (range, old) else {
            let message = format!("the {} has no value of {key} to change", self.kind.name());
            return Err(ProjectError::wrong_status(
                message,
                format!("write `{key}: {value}` into its frontmatter"),
            ));
        };
        // Reuse the quotes of the old value, so that only the value itself changes.
        let quote = match old.as_bytes()[0] {
            b'"' => "\"",
            b'\'' => "'",
            _ => "",
        };
        self.splice(range, &format!("{quote}{value}{quote}"));
        Ok(())
    }

    /// Adds to the end of a section, or replaces its [`NONE`].
    ///
    /// # Errors
    ///
    /// [`WrongState`](nexus_project::ProjectErrorKind::WrongState) if the section does not exist.
    pub fn add_to_section(&mut self, name: &str, content: &str) -> Result<(), ProjectError> {
        let Some(section) = self.section(name).filter(|section| section.is_closed) else {
            let message = format!("the {} has no section {name}", self.kind.name());
            return Err(ProjectError::wrong_status(message, "add it to the file"));
        };
        let body = &self.text[section.body.clone()];
        let start = section.body.start + (body.len() - body.trim_start().len());
        let end = section.body.start + body.trim_end().len();
        let content = content.trim_matches(['\r', '\n']);
        if body.trim() == NONE {
            self.splice(start..end, content);
        } else if body.trim().is_empty() {
            let gap = if body.contains('\n') { "" } else { "\n" };
            let at = section.body.start + body.find('\n').map_or(0, |at| at + 1);
            self.splice(at..at, &format!("{gap}{content}\n"));
        } else {
            self.splice(end..end, &format!("\n{content}"));
        }
        Ok(())
    }

    /// Replaces a part of the text. The line ends of `content` become those of the text.
    fn splice(&mut self, range: Range<usize>, content: &str) {
        // The first line end decides for the whole file: mixed line ends would show as changes of other lines.
        let is_windows = self.text.find('\n').is_some_and(|at| self.text[..at].ends_with('\r'));
        let content = if is_windows { content.replace('\n', "\r\n") } else { content.to_owned() };
        let mut text = std::mem::take(&mut self.text);
        text.replace_range(range, &content);
        // Parse again: every offset behind the change has moved.
        *self = Self::parse(self.kind, text);
    }

    /// Returns the lines that begin at byte `from` or later, without their line ends.
    fn lines_from(&self, from: usize) -> impl Iterator<Item = Range<usize>> {
        let first = self.lines.partition_point(|start| *start < from);
        (first..self.lines.len()).map(|index| {
            let start = self.lines[index];
            let end = self.lines.get(index + 1).copied().unwrap_or(self.text.len());
            start..start + self.text[start..end].trim_end_matches(['\r', '\n']).len()
        })
    }

    /// Returns the start of the line after the line of a byte.
    fn line_after(&self, at: usize) -> usize {
        let next = self.lines.partition_point(|start| *start <= at);
        self.lines.get(next).copied().unwrap_or(self.text.len())
    }

    fn find_frontmatter(&mut self) {
        let is_edge = |line: &str| line.trim_end() == "---";
        let first = self
            .lines_from(0)
            .next()
            .filter(|line| is_edge(self.text[line.clone()].trim_start_matches('\u{feff}')));
        let Some(first) = first else { return };
        let last = self.lines_from(0).skip(1).find(|line| is_edge(&self.text[line.clone()]));
        let Some(last) = last else {
            self.unclosed.push((first.start, Unclosed::Frontmatter));
            return;
        };
        let start = self.lines.get(1).copied().unwrap_or(self.text.len());
        self.frontmatter = Some(start..last.start);
        self.body = self.line_after(last.start);
    }

    fn find_prose(&mut self) {
        let mut fence: Option<(char, usize, usize)> = None;
        let mut comment: Option<usize> = None;
        let mut prose = Vec::new();
        for range in self.lines_from(self.body) {
            let line = &self.text[range.clone()];
            // A comment hides fences, and a fence hides comments, so check the open one first.
            if comment.is_some() {
                if line.contains("-->") {
                    comment = None;
                }
            } else if let Some((mark, length, _)) = fence {
                if closes_fence(line, mark, length) {
                    fence = None;
                }
            } else if let Some((mark, length)) = opens_fence(line) {
                fence = Some((mark, length, range.start));
            } else if let Some(inner) = line.trim_start().strip_prefix("<!--") {
                if !inner.contains("-->") {
                    comment = Some(range.start);
                }
            } else {
                prose.push(range);
            }
        }
        self.prose = prose;
        self.unclosed.extend(fence.map(|(_, _, start)| (start, Unclosed::Fence)));
        self.unclosed.extend(comment.map(|start| (start, Unclosed::Comment)));
    }

    fn find_headings(&mut self) {
        let mut sections: Vec<Section> = Vec::new();
        let mut entries: Vec<Entry> = Vec::new();
        // An open section ends at the next heading of its own or a higher level.
        let (mut section, mut entry) = (false, false);
        for range in self.prose.clone() {
            let line = &self.text[range.clone()];
            let heading = heading_of(line);
            let is_break = line.trim_end() == "---";
            let after = self.line_after(range.start);
            if is_break || heading.is_some_and(|(level, _)| level <= 3) {
                if let (Some(open), true) = (entries.last_mut(), entry) {
                    open.body.end = range.start;
                }
                entry = false;
            }
            if is_break || heading.is_some_and(|(level, _)| level <= 2) {
                if let (Some(open), true) = (sections.last_mut(), section) {
                    open.body.end = range.start;
                }
                section = false;
            }
            match heading {
                Some((2, words)) => {
                    let name = words.to_owned();
                    let body = after..self.text.len();
                    sections.push(Section { name, start: range.start, body, is_closed: true });
                    section = true;
                }
                // An entry outside of any section is left to the lint, which reports it as misplaced.
                Some((3, words)) if section => {
                    let id = words
                        .split_once(':')
                        .filter(|(id, _)| !id.is_empty() && !id.contains(char::is_whitespace));
                    let (id, text) = match id {
                        Some((id, text)) => (Some(id.to_owned()), text.trim().to_owned()),
                        None => (None, words.to_owned()),
                    };
                    let body = after..self.text.len();
                    entries.push(Entry { id, text, section: sections.len() - 1, start: range.start, body });
                    entry = true;
                }
                _ => {}
            }
        }
        self.sections = sections;
        self.entries = entries;
    }

    fn find_tags(&mut self, names: &[&str]) {
        let mut sections: Vec<Section> = Vec::new();
        let mut open: Option<String> = None;
        for range in &self.prose {
            let line = &self.text[range.clone()];
            let mut from = range.start;
            if open.is_none()
                && let Some(name) = names.iter().find(|name| line.starts_with(&format!("<{name}>")))
            {
                from += name.len() + 2;
                let body = from..self.text.len();
                let name = (*name).to_owned();
                sections.push(Section { name: name.clone(), start: range.start, body, is_closed: false });
                open = Some(name);
            }
            // The end may follow on the same line, so search from behind the opening tag.
            if let (Some(name), Some(section)) = (&open, sections.last_mut())
                && let Some(at) = self.text[from..range.end].find(&format!("</{name}>"))
            {
                section.body.end = from + at;
                section.is_closed = true;
                open = None;
            }
        }
        self.sections = sections;
    }
}

impl Section {
    /// Returns true if the heading begins with these words.
    pub fn is_called(&self, name: &str) -> bool {
        let rest = self.name.strip_prefix(name);
        rest.is_some_and(|rest| {
            // A heading may have an addition, as in `Slices (execution order)`, but not a longer word.
            !rest.starts_with(|next: char| next.is_alphanumeric() || matches!(next, '-' | '_'))
        })
    }
}

impl fmt::Display for Artifact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Returns the level and the words of a heading.
pub(super) fn heading_of(line: &str) -> Option<(usize, &str)> {
    let trimmed = line.trim_start_matches(' ');
    let level = trimmed.bytes().take_while(|byte| *byte == b'#').count();
    let words = &trimmed[level..];
    // CommonMark: four spaces of indentation begin a code block.
    let is_heading = line.len() - trimmed.len() <= 3
        && (1..=6).contains(&level)
        && (words.is_empty() || words.starts_with([' ', '\t']));
    let words = words.trim();
    let without_end = words.trim_end_matches('#');
    let has_end =
        without_end.len() < words.len() && (without_end.is_empty() || without_end.ends_with([' ', '\t']));
    is_heading.then_some((level, if has_end { without_end.trim_end() } else { words }))
}

/// Returns the name and the value of a line `- **Name:** value`.
fn field_of(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let line = line.strip_prefix(['-', '*']).filter(|rest| rest.starts_with(' ')).unwrap_or(line);
    let (name, value) = line.trim_start().strip_prefix("**")?.split_once(":**")?;
    (!name.is_empty() && !name.contains('*')).then(|| (name, value.trim_start()))
}

fn opens_fence(line: &str) -> Option<(char, usize)> {
    let trimmed = line.trim_start_matches(' ');
    let mark = trimmed.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let length = trimmed.chars().take_while(|one| *one == mark).count();
    let is_fence = line.len() - trimmed.len() <= 3 && length >= 3;
    // A line with further backticks after the first ones is inline code and no fence.
    (is_fence && !(mark == '`' && trimmed[length..].contains('`'))).then_some((mark, length))
}

fn closes_fence(line: &str, mark: char, fewest: usize) -> bool {
    let trimmed = line.trim_start_matches(' ');
    let length = trimmed.chars().take_while(|one| *one == mark).count();
    line.len() - trimmed.len() <= 3 && length >= fewest && trimmed[length..].trim().is_empty()
}
