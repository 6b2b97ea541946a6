//! Faults of a configuration, with their positions.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use super::node::Position;

/// Longest part of a line in an error message, in characters.
const MAX_SHOWN: usize = 100;

/// One thing that is wrong with a configuration.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Position of the problem in the file.
    pub position: Position,
    /// Description of the problem: a lowercase sentence without a full stop.
    pub message: String,
    /// The most similar valid name, if any is similar.
    pub suggestion: Option<String>,
    /// The line of the file, with possible secrets replaced.
    pub source_line: String,
}

/// A configuration that cannot be used. Reports all of its faults at once, as far as possible; after invalid
/// YAML nothing further is checked.
#[derive(Debug)]
pub struct ConfigError {
    path: Option<PathBuf>,
    cause: LoadFailure,
}

/// Reason why a configuration does not load.
#[derive(Debug)]
#[cfg_attr(not(feature = "yaml"), allow(dead_code, reason = "without it no file is read"))]
enum LoadFailure {
    Unreadable { reason: String, source: Option<io::Error> },
    Problems(Vec<Problem>),
}

impl ConfigError {
    #[cfg(feature = "yaml")]
    pub(crate) fn unreadable(reason: impl Into<String>, source: Option<io::Error>) -> Self {
        Self { path: None, cause: LoadFailure::Unreadable { reason: reason.into(), source } }
    }

    pub(crate) fn problems(mut problems: Vec<Problem>) -> Self {
        // The checks do not run in the order of the file, and two of them may find the same fault.
        problems.sort_by_key(|problem| problem.position);
        problems.dedup();
        Self { path: None, cause: LoadFailure::Problems(problems) }
    }

    #[cfg(feature = "yaml")]
    #[must_use]
    pub(crate) fn in_file(mut self, path: &Path) -> Self {
        self.path = Some(path.to_owned());
        self
    }

    /// Returns the path of the file, if the configuration came from a file.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns the faults, in the order of the file. Empty only if the file could not be read.
    pub fn all(&self) -> &[Problem] {
        match &self.cause {
            LoadFailure::Problems(problems) => problems,
            LoadFailure::Unreadable { .. } => &[],
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match &self.path {
            Some(path) => path.display().to_string(),
            None => "configuration".to_owned(),
        };
        match &self.cause {
            LoadFailure::Unreadable { reason, .. } => write!(f, "{name}: {reason}"),
            LoadFailure::Problems(problems) => {
                for (index, problem) in problems.iter().enumerate() {
                    if index > 0 {
                        f.write_str("\n")?;
                    }
                    write!(f, "{name}:{problem}")?;
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.cause {
            LoadFailure::Unreadable { source, .. } => source.as_ref().map(|source| source as _),
            LoadFailure::Problems(_) => None,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { line, column } = self.position;
        write!(f, "{line}:{column}: {}", self.message)?;
        if let Some(suggestion) = &self.suggestion {
            write!(f, "; did you mean {suggestion:?}?")?;
        }
        let (shown, caret) = window(&self.source_line, column);
        let gutter = line.to_string();
        write!(f, "\n {gutter} | {shown}\n {:width$} | {:caret$}^", "", "", width = gutter.len())
    }
}

/// Returns the part of a line around a column, safe to print, and the column's offset in it.
fn window(line: &str, column: usize) -> (String, usize) {
    let index = column.saturating_sub(1);
    let start = if index < MAX_SHOWN { 0 } else { index - MAX_SHOWN / 2 };
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    let shown: String = line.chars().skip(start).take(MAX_SHOWN).map(printable).collect();
    let caret = (index - start).min(shown.chars().count());
    (shown.trim_end().to_owned(), caret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_under_the_place() {
        let problem = Problem {
            position: Position { line: 12, column: 3 },
            message: "unknown key \"gruop\"".into(),
            suggestion: Some("group".into()),
            source_line: "  gruop: alpha".into(),
        };
        let error = ConfigError::problems(vec![problem]).in_file(Path::new("nexus.yaml"));
        assert_eq!(
            error.to_string(),
            "nexus.yaml:12:3: unknown key \"gruop\"; did you mean \"group\"?\n 12 |   gruop: alpha\n    |   ^"
        );
    }

    #[test]
    fn a_long_line_is_shown_around_the_place() {
        let line = format!("{}HERE{}", "x".repeat(5000), "y".repeat(5000));
        let (shown, caret) = window(&line, 5001);
        assert_eq!(shown.chars().count(), MAX_SHOWN);
        assert!(shown.chars().skip(caret).collect::<String>().starts_with("HERE"));
    }
}
