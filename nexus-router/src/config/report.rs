//! Collects what is wrong, so that one load reports all of it.

use super::{
    error::{ConfigError, Problem},
    nearest::nearest,
    node::{Content, Key, Node, Position},
};

/// Problems of one load that are kept; beyond, a file is beyond mending line by line.
const MAX_PROBLEMS: usize = 100;
/// Longest name quoted in a message, in characters.
const MAX_QUOTED: usize = 60;

/// A value, and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Placed<T> {
    pub(crate) value: T,
    pub(crate) position: Position,
}

/// What is wrong so far.
#[derive(Debug, Default)]
pub(crate) struct Report {
    problems: Vec<(Position, String, Option<String>)>,
}

impl Report {
    pub(crate) fn add(&mut self, position: Position, message: impl Into<String>) {
        self.push(position, message.into(), None);
    }

    /// Adds that `word` is none of the `valid` names.
    pub(crate) fn unknown<'a>(
        &mut self,
        position: Position,
        what: &str,
        word: &str,
        valid: impl IntoIterator<Item = &'a str>,
    ) {
        let mut valid: Vec<&str> = valid.into_iter().collect();
        valid.sort_unstable();
        valid.dedup();
        let suggestion = nearest(word, valid.iter().copied());
        let mut message = format!("unknown {what} {}", quoted(word));
        if suggestion.is_none() {
            match valid.as_slice() {
                [] => message.push_str("; there is none"),
                few if few.len() <= 12 => message.push_str(&format!("; there is {}", few.join(", "))),
                _ => {}
            }
        }
        self.push(position, message, suggestion);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    /// Everything that is wrong with `text`.
    pub(crate) fn into_error(self, text: &str) -> ConfigError {
        let lines: Vec<&str> = text.lines().collect();
        let line_at = |line: usize| lines.get(line - 1).copied().unwrap_or_default();
        let problem = |(position, message, suggestion): (Position, String, Option<String>)| Problem {
            position,
            message,
            suggestion,
            source_line: line_at(position.line).trim_start_matches('\u{feff}').to_owned(),
        };
        ConfigError::problems(self.problems.into_iter().map(problem).collect())
    }

    fn push(&mut self, position: Position, message: String, suggestion: Option<String>) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push((position, message, suggestion));
        }
    }
}

/// A name in quotation marks, its end left out if it is long.
pub(crate) fn quoted(name: &str) -> String {
    match name.char_indices().nth(MAX_QUOTED) {
        Some((end, _)) => format!("{:?}", format!("{}…", &name[..end])),
        None => format!("{name:?}"),
    }
}

impl Node {
    /// The text, or a problem.
    pub(crate) fn text(&self, what: &str, report: &mut Report) -> Option<Placed<String>> {
        match &self.content {
            Content::Text(text) if text.trim().is_empty() => {
                report.add(self.position, format!("{what} cannot be empty"));
                None
            }
            Content::Text(text) => Some(Placed { value: text.clone(), position: self.position }),
            Content::Number(number) => {
                report.add(self.position, format!("{what} is text: write \"{number}\" in quotation marks"));
                None
            }
            Content::Bool(value) => {
                report.add(self.position, format!("{what} is text: write \"{value}\" in quotation marks"));
                None
            }
            _ => {
                report.add(self.position, format!("{what} is text, and this is {}", self.kind()));
                None
            }
        }
    }

    /// The entries of a mapping, or a problem.
    pub(crate) fn entries(&self, what: &str, report: &mut Report) -> Option<&[(Key, Node)]> {
        match &self.content {
            Content::Mapping(entries) => Some(entries),
            _ => {
                report.add(self.position, format!("{what} is a mapping, and this is {}", self.kind()));
                None
            }
        }
    }

    /// The items of a list, or a problem.
    pub(crate) fn items(&self, what: &str, report: &mut Report) -> Option<&[Self]> {
        match &self.content {
            Content::Sequence(items) => Some(items),
            _ => {
                report.add(self.position, format!("{what} is a list, and this is {}", self.kind()));
                None
            }
        }
    }
}

/// The fields of one mapping, each to be taken once.
#[derive(Debug)]
pub(crate) struct Fields<'n> {
    entries: &'n [(Key, Node)],
    valid: &'static [&'static str],
}

impl<'n> Fields<'n> {
    /// The fields of `node`, after the keys that are not `valid` were reported.
    pub(crate) fn of(
        node: &'n Node,
        what: &str,
        valid: &'static [&'static str],
        report: &mut Report,
    ) -> Option<Self> {
        let entries = node.entries(what, report)?;
        for (key, _) in entries {
            if !valid.contains(&key.text.as_str()) {
                report.unknown(key.position, &format!("key of {what}"), &key.text, valid.iter().copied());
            }
        }
        Some(Self { entries, valid })
    }

    /// The value of one field.
    pub(crate) fn value(&self, name: &str) -> Option<&'n Node> {
        debug_assert!(self.valid.contains(&name));
        self.entries.iter().find(|(key, _)| key.text == name).map(|(_, value)| value)
    }

    /// The text of one field.
    pub(crate) fn text(&self, name: &str, report: &mut Report) -> Option<Placed<String>> {
        self.value(name)?.text(&format!("`{name}`"), report)
    }

    /// Where the key of one field stands.
    pub(crate) fn key_position(&self, name: &str) -> Option<Position> {
        self.entries.iter().find(|(key, _)| key.text == name).map(|(key, _)| key.position)
    }
}
