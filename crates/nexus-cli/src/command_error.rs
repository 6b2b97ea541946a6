//! Why a command could not do its work.

use std::{fmt, process::ExitCode};

use nexus::{ConfigError, KindError, Problem};
use serde::Serialize;
use serde_json::json;

use crate::{
    EXIT_FAILED, EXIT_USAGE,
    output::{complain, printable_lines, say_json},
};

/// Why a command ends before its work is done. What a turn or a login failed of is its outcome, not this.
#[derive(Debug)]
pub(crate) struct CommandError {
    cause: FailureCause,
    message: String,
}

/// Cause of a failed command.
#[derive(Debug)]
enum FailureCause {
    /// The command line, or a file that it names, cannot be used.
    Usage,
    /// The configuration cannot be used, for these reasons if it could be read.
    Configuration(Vec<Problem>),
    /// Something of this machine failed.
    Failed,
}

/// A [`Problem`] as `--json` prints it. Lines and columns count from 1.
#[derive(Debug, Serialize)]
struct ProblemReport<'a> {
    line: usize,
    column: usize,
    message: &'a str,
    suggestion: Option<&'a str>,
}

impl CommandError {
    /// Something of this machine failed: the command line is not to blame.
    pub(crate) fn failed(message: impl fmt::Display) -> Self {
        Self { cause: FailureCause::Failed, message: message.to_string() }
    }

    /// The command line, or a file that it names, cannot be used.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self { cause: FailureCause::Usage, message: message.to_string() }
    }

    /// No configuration is there.
    pub(crate) fn no_configuration(message: String) -> Self {
        Self { cause: FailureCause::Configuration(Vec::new()), message }
    }

    /// Prints it, to standard output if JSON is wanted, and gives the exit code.
    pub(crate) fn report(&self, as_json: bool) -> ExitCode {
        let (kind, code) = match &self.cause {
            FailureCause::Usage => ("usage", EXIT_USAGE),
            FailureCause::Configuration(_) => ("configuration", EXIT_USAGE),
            FailureCause::Failed => ("failed", EXIT_FAILED),
        };
        if as_json {
            let mut error = json!({ "kind": kind, "message": self.message });
            if let FailureCause::Configuration(problems) = &self.cause {
                error["problems"] =
                    problems.iter().map(|problem| json!(ProblemReport::of(problem))).collect();
            }
            say_json(&json!({ "error": error }));
        } else {
            // It may quote what came from elsewhere.
            complain(printable_lines(&self.message));
        }
        ExitCode::from(code)
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<'a> ProblemReport<'a> {
    fn of(problem: &'a Problem) -> Self {
        Self {
            line: problem.position.line,
            column: problem.position.column,
            message: &problem.message,
            suggestion: problem.suggestion.as_deref(),
        }
    }
}

impl From<String> for CommandError {
    fn from(message: String) -> Self {
        Self { cause: FailureCause::Usage, message }
    }
}

impl From<ConfigError> for CommandError {
    fn from(error: ConfigError) -> Self {
        Self { cause: FailureCause::Configuration(error.all().to_vec()), message: error.to_string() }
    }
}

impl From<KindError> for CommandError {
    fn from(error: KindError) -> Self {
        error.to_string().into()
    }
}
