//! Collects problems, so that one load reports all of them.

use super::{
    error::{ConfigError, Problem},
    mask::masked_line,
    nearest::nearest,
    node::{MappingKey, Node, NodeValue, Position},
};

/// Maximum number of problems that one load reports. A file with more needs more than line-by-line fixes.
const MAX_PROBLEMS: usize = 100;
/// Longest name quoted in a message, in characters.
const MAX_QUOTED: usize = 60;

/// A value and its position.
#[derive(Clone, Debug)]
pub(crate) struct Placed<T> {
    pub(crate) value: T,
    pub(crate) position: Position,
}

/// Problems and warnings found so far.
#[derive(Debug, Default)]
pub(crate) struct FoundProblems {
    problems: Vec<PlacedProblem>,
    warnings: Vec<PlacedProblem>,
}

/// A problem with its position and suggestion.
type PlacedProblem = (Position, String, Option<String>);

impl FoundProblems {
    pub(crate) fn add(&mut self, position: Position, message: impl Into<String>) {
        self.push(position, message.into(), None);
    }

    /// Adds a problem that does not prevent the use of the file.
    pub(crate) fn warn(&mut self, position: Position, message: impl Into<String>) {
        self.warnings.push((position, message.into(), None));
    }

    /// Reports that `word` is not among the `valid` names, and returns the name that was probably meant.
    pub(crate) fn unknown<'a>(
        &mut self,
        position: Position,
        what: &str,
        word: &str,
        valid: impl IntoIterator<Item = &'a str>,
    ) -> Option<String> {
        let mut valid: Vec<&str> = valid.into_iter().collect();
        // Names can come from several sources, so sort them and remove repetitions.
        valid.sort_unstable();
        valid.dedup();
        let suggestion = nearest(word, valid.iter().copied());
        let mut message = format!("unknown {what} {}", quoted(word));
        if suggestion.is_none() {
            match valid.as_slice() {
                [] => message.push_str("; there is none"),
                few if few.len() <= 12 => message.push_str(&format!("; valid: {}", few.join(", "))),
                _ => {}
            }
        }
        self.push(position, message, suggestion.clone());
        suggestion
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    /// Returns all problems of `text` as an error.
    pub(crate) fn into_error(self, text: &str) -> ConfigError {
        ConfigError::problems(placed(self.problems, text))
    }

    /// Returns the problems that do not prevent the use of `text`.
    pub(crate) fn into_warnings(self, text: &str) -> Vec<Problem> {
        placed(self.warnings, text)
    }

    fn push(&mut self, position: Position, message: String, suggestion: Option<String>) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push((position, message, suggestion));
        }
    }
}

/// Returns the problems, each with its line.
fn placed(found: Vec<PlacedProblem>, text: &str) -> Vec<Problem> {
    let lines: Vec<&str> = text.lines().collect();
    let problem = |(position, message, suggestion): PlacedProblem| Problem {
        position,
        message,
        suggestion,
        source_line: masked_line(&lines, position.line.saturating_sub(1)),
    };
    found.into_iter().map(problem).collect()
}

/// Returns a name in quotation marks, shortened if it is long.
pub(crate) fn quoted(name: &str) -> String {
    format!("{:?}", nexus_files::shortened(name, MAX_QUOTED))
}

impl Node {
    /// Returns the value as text, or reports a problem.
    pub(crate) fn text(&self, what: &str, report: &mut FoundProblems) -> Option<Placed<String>> {
        match &self.content {
            NodeValue::Text(text) if text.trim().is_empty() => {
                report.add(self.position, format!("{what} cannot be empty"));
                None
            }
            NodeValue::Text(text) => Some(Placed { value: text.clone(), position: self.position }),
            NodeValue::Number(number) => {
                report.add(
                    self.position,
                    format!("{what} must be text: write \"{number}\" in quotation marks"),
                );
                None
            }
            NodeValue::Bool(value) => {
                report
                    .add(self.position, format!("{what} must be text: write \"{value}\" in quotation marks"));
                None
            }
            _ => {
                report.add(self.position, format!("{what} must be text, but this is {}", self.kind()));
                None
            }
        }
    }

    /// Returns the entries of a mapping, or reports a problem.
    pub(crate) fn entries(&self, what: &str, report: &mut FoundProblems) -> Option<&[(MappingKey, Node)]> {
        match &self.content {
            NodeValue::Mapping(entries) => Some(entries),
            _ => {
                report.add(self.position, format!("{what} must be a mapping, but this is {}", self.kind()));
                None
            }
        }
    }

    /// Returns the items of a list, or reports a problem.
    pub(crate) fn items(&self, what: &str, report: &mut FoundProblems) -> Option<&[Self]> {
        match &self.content {
            NodeValue::Sequence(items) => Some(items),
            _ => {
                report.add(self.position, format!("{what} must be a list, but this is {}", self.kind()));
                None
            }
        }
    }
}

/// Fields of one mapping.
#[derive(Debug)]
pub(crate) struct MappingFields<'n>(Vec<(&'static str, &'n MappingKey, &'n Node)>);

impl<'n> MappingFields<'n> {
    /// Returns the fields of `node` and reports invalid keys. A key similar to a missing valid key is used as
    /// that key, so that a typing error gives one problem.
    pub(crate) fn of(
        node: &'n Node,
        what: &str,
        valid: &[&'static str],
        report: &mut FoundProblems,
    ) -> Option<Self> {
        let entries = node.entries(what, report)?;
        let is_there = |name: &str| entries.iter().any(|(key, _)| key.text == name);
        let mut fields = Vec::with_capacity(entries.len().min(valid.len()));
        for (key, value) in entries {
            let named = |text: &str| valid.iter().copied().find(|name| *name == text);
            let meant = named(&key.text).or_else(|| {
                let what = format!("key of {what}");
                let suggestion = report.unknown(key.position, &what, &key.text, valid.iter().copied())?;
                named(&suggestion).filter(|name| !is_there(name))
            });
            if let Some(name) = meant {
                fields.push((name, key, value));
            }
        }
        Some(Self(fields))
    }

    /// Returns the value of a field.
    pub(crate) fn value(&self, name: &str) -> Option<&'n Node> {
        self.0.iter().find(|(field, ..)| *field == name).map(|(_, _, value)| *value)
    }

    /// Returns the text of a field.
    pub(crate) fn text(&self, name: &str, report: &mut FoundProblems) -> Option<Placed<String>> {
        self.value(name)?.text(&format!("`{name}`"), report)
    }

    /// Returns the position of a field's key.
    pub(crate) fn key_position(&self, name: &str) -> Option<Position> {
        self.0.iter().find(|(field, ..)| *field == name).map(|(_, key, _)| key.position)
    }
}
