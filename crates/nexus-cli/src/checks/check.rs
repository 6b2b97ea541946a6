//! Result of one check.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::terminal::{Colour, coloured};

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Check {
    /// Subject of the check, such as `git` or `backend local`.
    pub(crate) subject: String,
    pub(crate) outcome: CheckOutcome,
    pub(crate) severity: Severity,
    /// Description of the result.
    pub(crate) detail: String,
    /// Advice for the person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fix: Option<String>,
    /// Command line that fixes it, for a shell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<String>,
}

/// Outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CheckOutcome {
    /// It works.
    Ok,
    /// It is not there.
    Missing,
    /// It is there and does not work.
    Failed,
    /// It could not be checked.
    Unknown,
}

/// Severity of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Severity {
    /// Nothing to do.
    Fine,
    /// Worth knowing, but turns run.
    Note,
    /// Something does not run until this is fixed.
    Problem,
}

impl Check {
    pub(crate) fn ok(subject: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            subject: subject.into(),
            outcome: CheckOutcome::Ok,
            severity: Severity::Fine,
            detail: detail.into(),
            fix: None,
            command: None,
        }
    }

    pub(crate) fn missing(subject: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { outcome: CheckOutcome::Missing, severity: Severity::Problem, ..Self::ok(subject, detail) }
    }

    pub(crate) fn failed(subject: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { outcome: CheckOutcome::Failed, severity: Severity::Problem, ..Self::ok(subject, detail) }
    }

    pub(crate) fn unknown(subject: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { outcome: CheckOutcome::Unknown, severity: Severity::Note, ..Self::ok(subject, detail) }
    }

    /// Something works, and the person should know more about it.
    pub(crate) fn note(subject: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::ok(subject, detail).noted()
    }

    /// Something does not work until the person follows the advice.
    pub(crate) fn problem(
        subject: impl Into<String>,
        detail: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self::failed(subject, detail).fixed_by(advice)
    }

    /// Marks a result that stops no turn.
    pub(crate) fn noted(mut self) -> Self {
        self.severity = Severity::Note;
        self
    }

    /// Adds advice.
    pub(crate) fn fixed_by(mut self, advice: impl Into<String>) -> Self {
        self.fix = Some(advice.into());
        self
    }

    /// Adds the command line that fixes it.
    pub(crate) fn with_command(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }

    /// Returns true if the check passed.
    pub(crate) fn is_ok(&self) -> bool {
        self.outcome == CheckOutcome::Ok
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.severity {
            Severity::Fine => coloured("ok  ", Colour::Green),
            Severity::Note => coloured("note", Colour::Yellow),
            Severity::Problem => coloured("FAIL", Colour::Red),
        };
        write!(f, "{mark}  {}: {}", self.subject, self.detail)?;
        match &self.fix {
            Some(fix) => write!(f, "\n      to fix it: {fix}"),
            None => Ok(()),
        }
    }
}
