//! Parses frontmatter. This is the only file that uses the YAML reader.

use std::{collections::BTreeMap, ops::Range};

use serde::de::{DeserializeOwned, IgnoredAny};
use serde_yaml::{Options, Spanned};

/// Maximum depth of nested values.
const MOST_DEPTH: usize = 16;
/// Maximum number of values in one frontmatter, with its aliases expanded.
const MOST_NODES: usize = 20_000;

/// A fault of a frontmatter, with its position. Lines and columns count from 1.
#[derive(Clone, Debug)]
pub(super) struct YamlError {
    pub(super) line: usize,
    pub(super) column: usize,
    pub(super) message: String,
}

/// Byte ranges of the values, by key.
pub(super) type Values = BTreeMap<String, Range<usize>>;

/// Parses a frontmatter as a type.
pub(super) fn read<T: DeserializeOwned>(text: &str) -> Result<T, YamlError> {
    serde_yaml::from_str_with_options(text, options()).map_err(|error| YamlError::of(&error, text))
}

/// Returns the byte ranges of the values of the outermost keys, quotes included. Empty if the text is not a map.
pub(super) fn values(text: &str) -> Values {
    let read = serde_yaml::from_str_with_options::<BTreeMap<String, Spanned<IgnoredAny>>>(text, options());
    // Ignore faults here: `read` reports them with their positions.
    let spans = read.unwrap_or_default().into_iter().filter_map(|(key, value)| {
        let span = value.referenced.span();
        let at = |number: u64| usize::try_from(number).ok();
        let (start, length) = (at(span.byte_offset()?)?, at(span.byte_len()?)?);
        let range = start..start.checked_add(length)?;
        text.get(range.clone()).map(|_| (key, range))
    });
    spans.collect()
}

/// Quotes a text as a YAML value on one line.
pub(super) fn quoted(text: &str) -> String {
    // A JSON string is also a YAML string, except for some characters that YAML requires to be escaped.
    let json = serde_json::Value::from(text).to_string();
    json.chars().fold(String::with_capacity(json.len()), |mut line, character| {
        match character {
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' => {
                line.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            other => line.push(other),
        }
        line
    })
}

fn options() -> Options {
    // Aliases can expand a small text to gigabytes, so bound the expanded size.
    let budget = serde_yaml::budget! {
        max_nodes: MOST_NODES,
        max_events: 4 * MOST_NODES,
        max_aliases: 100,
        max_anchors: 100,
        max_depth: MOST_DEPTH,
        max_documents: 2,
    };
    serde_yaml::options! {
        budget: budget,
        duplicate_keys: serde_yaml::options::DuplicateKeyPolicy::Error,
        strict_booleans: true,
        with_snippet: false,
    }
}

impl YamlError {
    fn of(error: &serde_yaml::Error, text: &str) -> Self {
        let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).max(1);
        let (line, column) = match error.location() {
            // Some errors have no position. Point to the last line then.
            Some(location) if location.line() > 0 => (number(location.line()), number(location.column())),
            _ => (text.lines().count().max(1), 1),
        };
        let words = error.without_snippet().to_string();
        let words = words.lines().next().unwrap_or_default().trim();
        let words = words.strip_prefix("error: ").unwrap_or(words);
        // Remove the position of the YAML reader: the error has the position in the whole file.
        let words = match words.strip_prefix("line ").and_then(|rest| rest.split_once(": ")) {
            Some((place, words)) if place.contains("column") => words,
            _ => words,
        };
        let words = match words.rsplit_once(" at line ") {
            Some((before, place)) if place.contains("column") => before,
            _ => words,
        };
        let words = words.split_once(", set DuplicateKeyPolicy").map_or(words, |(words, _)| words);
        Self { line, column, message: words.to_owned() }
    }
}
