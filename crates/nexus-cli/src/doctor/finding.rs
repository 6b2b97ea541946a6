//! One line of `nexus doctor`.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::terminal::{Colour, coloured};

/// Result of one check.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Finding {
    subject: String,
    pub(super) state: Severity,
    text: String,
    /// Advice for the person.
    #[serde(skip_serializing_if = "Option::is_none")]
    mend: Option<String>,
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Severity {
    /// The check passed.
    Fine,
    /// Worth knowing, but turns run.
    Note,
    /// Something does not run until this is fixed.
    Problem,
}

impl Finding {
    pub(super) fn fine(subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self { subject: subject.into(), state: Severity::Fine, text: text.into(), mend: None }
    }

    pub(super) fn note(subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self { state: Severity::Note, ..Self::fine(subject, text) }
    }

    pub(super) fn problem(
        subject: impl Into<String>,
        text: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        Self { state: Severity::Problem, mend: Some(mend.into()), ..Self::fine(subject, text) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.state {
            Severity::Fine => coloured("ok  ", Colour::Green),
            Severity::Note => coloured("note", Colour::Yellow),
            Severity::Problem => coloured("FAIL", Colour::Red),
        };
        write!(f, "{mark}  {}: {}", self.subject, self.text)?;
        match &self.mend {
            Some(mend) => write!(f, "\n      to fix it: {mend}"),
            None => Ok(()),
        }
    }
}
