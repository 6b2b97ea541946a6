//! Errors of commands.
//!
//! Errors of every service become a [`CommandError`] here, and nowhere else.

use std::{error::Error, fmt, process::ExitCode};

use clap::error::{ContextKind, ContextValue, ErrorKind as ClapErrorKind};
use nexus::{ConfigError, ConversationError, ConversationErrorKind, KindError, Problem, TurnErrorReport};
use nexus_broker::{BrokerError, BrokerErrorKind};
use nexus_debates::{DebateError, DebateErrorKind};
use nexus_project::{ProjectError, ProjectErrorKind};
use nexus_tasks::{TaskError, TaskErrorKind};
use nexus_testbed::TestbedError;
use nexus_trees::{TreeError, TreeErrorKind};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::{
    EXIT_FAILED, EXIT_USAGE,
    for_a_person::{for_a_person, of_project},
    interrupt,
    output::{AnswerWriter, complain, printable_lines, say_json},
    schema::foreign::TurnErrorSchema,
};

/// Error that ends a command early. A failed turn or login is an outcome, not a `CommandError`.
#[derive(Debug)]
pub(crate) struct CommandError {
    cause: FailureCause,
    /// The whole error, for people.
    text: String,
    message: String,
    advice: Option<String>,
    /// Faulty file with line and column, argument, or other subject.
    subject: Option<String>,
}

/// Cause of a failed command.
#[derive(Debug)]
enum FailureCause {
    /// The command line, or a file that it names, cannot be used.
    Usage,
    /// The configuration cannot be used. The problems are empty if it could not be read.
    Configuration(Vec<Problem>),
    /// An operation failed on this machine.
    Failed,
    /// A signal ended the command.
    Cancelled,
}

/// Last line of standard output of a command that failed, where `--json` was given.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ErrorLine {
    /// The error.
    pub(crate) error: ErrorReport,
}

/// An error as `--json` prints it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ErrorReport {
    /// `usage`, `configuration`, `failed` or `cancelled`; of a login or a turn, the kind of its error.
    pub(crate) kind: String,
    /// Description of the error.
    pub(crate) message: String,
    /// Subject of the error: a file with line and column, an argument, or a backend.
    pub(crate) place: Option<String>,
    /// Advice for the person.
    pub(crate) advice: Option<String>,
    /// All problems of the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    problems: Option<Vec<ProblemReport>>,
    /// Full report of a failed turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<TurnErrorSchema>")]
    turn: Option<TurnErrorReport>,
}

/// A [`Problem`] as `--json` prints it. Lines and columns count from 1.
#[derive(Debug, Serialize, JsonSchema)]
struct ProblemReport {
    line: usize,
    column: usize,
    message: String,
    suggestion: Option<String>,
}

impl ErrorLine {
    /// Creates an error of this kind without details.
    pub(crate) fn new(kind: impl Into<String>, message: impl Into<String>) -> Self {
        let (kind, message) = (kind.into(), message.into());
        Self { error: ErrorReport { kind, message, place: None, advice: None, problems: None, turn: None } }
    }

    /// Builds the error of a failed turn. `kind` is the name of its kind; the details are in the report.
    pub(crate) fn of_turn(message: String, report: TurnErrorReport) -> Self {
        let kind = match serde_json::to_value(report.kind) {
            Ok(Value::String(word)) => word,
            // A kind with details serialises as an object, whose key is its name.
            Ok(Value::Object(words)) => words.keys().next().cloned().unwrap_or_default(),
            _ => String::new(),
        };
        let mut line = Self::new(kind, message);
        line.error.place = Some(report.backend.to_string());
        line.error.turn = Some(report);
        line
    }

    /// Builds the error of a command line that the parser rejects.
    pub(crate) fn of_parser(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        // clap separates the message, its tip and the usage by empty lines.
        let mut paragraphs = text.trim().split("\n\n");
        let message = paragraphs.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        let mut line = Self::new("usage", message);
        let faulty = error.get(ContextKind::InvalidArg).or_else(|| error.get(ContextKind::InvalidSubcommand));
        line.error.place = match faulty {
            Some(ContextValue::String(name)) => Some(name.clone()),
            Some(ContextValue::Strings(names)) => Some(names.join(", ")),
            _ => None,
        };
        // The remaining paragraphs: an optional tip, the usage, and a pointer to the help.
        let advice: Vec<_> = paragraphs.map(str::trim).collect();
        line.error.advice = (!advice.is_empty()).then(|| advice.join("; "));
        // clap renders the whole help in this case, without a message.
        if matches!(error.kind(), ClapErrorKind::DisplayHelpOnMissingArgumentOrSubcommand) {
            line.error.message = "a subcommand is missing".to_owned();
            line.error.advice = Some(text);
        }
        line
    }
}

impl CommandError {
    /// An operation failed on this machine. The command line is not the cause.
    pub(crate) fn failed(message: impl fmt::Display) -> Self {
        Self::new(FailureCause::Failed, message)
    }

    /// The command line, or a file that it names, cannot be used.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::new(FailureCause::Usage, message)
    }

    /// No configuration was found.
    pub(crate) fn no_configuration(message: String) -> Self {
        Self::new(FailureCause::Configuration(Vec::new()), message)
    }

    /// A signal ended the command, and the command has already reported it.
    pub(crate) fn cancelled() -> Self {
        Self::new(FailureCause::Cancelled, "a signal ended the command")
    }

    /// A signal ended the command, or the command could not listen for signals.
    pub(crate) fn by_signal(listened: std::io::Result<()>) -> Self {
        listened.map_or_else(|error| Self::deaf(&error), |()| Self::cancelled())
    }

    /// The command cannot listen for signals.
    pub(crate) fn deaf(error: &std::io::Error) -> Self {
        Self::failed(format_args!("signals cannot be received: {error}"))
    }

    /// Returns the message without its advice.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Adds advice.
    pub(crate) fn with_advice(mut self, advice: impl fmt::Display) -> Self {
        self.text = format!("{}; {advice}", self.text);
        self.advice = Some(advice.to_string());
        self
    }

    /// Adds advice on a line of its own, below a message with several lines.
    pub(crate) fn with_advice_below(mut self, advice: impl fmt::Display) -> Self {
        self.text = format!("{}\n{advice}", self.text);
        self.advice = Some(advice.to_string());
        self
    }

    /// Names the subject of the error, such as a file.
    pub(crate) fn with_subject(mut self, subject: impl fmt::Display) -> Self {
        self.subject = Some(subject.to_string());
        self
    }

    fn new(cause: FailureCause, message: impl fmt::Display) -> Self {
        let message = message.to_string();
        Self { cause, text: message.clone(), message, advice: None, subject: None }
    }

    /// Builds the error of a service, caused by its caller or by the machine. `error` is the whole text.
    fn of_service(is_callers: bool, error: &dyn fmt::Display, message: &str, advice: &str) -> Self {
        let cause = if is_callers { FailureCause::Usage } else { FailureCause::Failed };
        let advice = Some(for_a_person(advice)).filter(|advice| !advice.is_empty());
        let text = for_a_person(&error.to_string());
        Self { cause, text, message: for_a_person(message), advice, subject: None }
    }

    /// Prints the error, with `--json` to standard output, and returns the exit code.
    pub(crate) fn report(self, out: AnswerWriter) -> ExitCode {
        let code = match &self.cause {
            FailureCause::Usage | FailureCause::Configuration(_) => ExitCode::from(EXIT_USAGE),
            FailureCause::Failed => ExitCode::from(EXIT_FAILED),
            FailureCause::Cancelled => interrupt::exit_code(),
        };
        if out.is_json() {
            say_json(&ErrorLine { error: self.into_report() });
        // A person who ended the command by a signal knows the reason.
        } else if !matches!(self.cause, FailureCause::Cancelled) {
            // The message may quote untrusted text.
            complain(printable_lines(&self.to_string()));
        }
        code
    }

    /// The error as `--json` prints it.
    pub(crate) fn into_report(self) -> ErrorReport {
        let (kind, problems) = match &self.cause {
            FailureCause::Usage => ("usage", None),
            FailureCause::Configuration(problems) => {
                let problems: Vec<_> = problems.iter().map(ProblemReport::of).collect();
                ("configuration", Some(problems).filter(|problems| !problems.is_empty()))
            }
            FailureCause::Failed => ("failed", None),
            FailureCause::Cancelled => ("cancelled", None),
        };
        let (message, place, advice) = (self.message, self.subject, self.advice);
        ErrorReport { kind: kind.to_owned(), message, place, advice, problems, turn: None }
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl ProblemReport {
    fn of(problem: &Problem) -> Self {
        Self {
            line: problem.position.line,
            column: problem.position.column,
            message: problem.message.clone(),
            suggestion: problem.suggestion.clone(),
        }
    }
}

impl From<TreeError> for CommandError {
    fn from(error: TreeError) -> Self {
        let failed = Self::failed(&error);
        match error.kind() {
            TreeErrorKind::Changed => failed.with_advice(
                "copy what you need, or repeat with --force; `nexus undo --redo` restores the overwritten files",
            ),
            TreeErrorKind::NotFound => failed.with_advice("`nexus undo --list` lists the turns with a snapshot"),
            _ => failed,
        }
    }
}

impl From<String> for CommandError {
    fn from(message: String) -> Self {
        Self::usage(message)
    }
}

impl From<&str> for CommandError {
    fn from(message: &str) -> Self {
        Self::usage(message)
    }
}

impl From<ConfigError> for CommandError {
    fn from(error: ConfigError) -> Self {
        let mut failure = Self::new(FailureCause::Configuration(error.all().to_vec()), &error);
        failure.subject = error.path().map(|path| match error.all().first() {
            Some(first) => {
                format!("{}:{}:{}", path.display(), first.position.line, first.position.column)
            }
            None => path.display().to_string(),
        });
        failure
    }
}

impl From<KindError> for CommandError {
    fn from(error: KindError) -> Self {
        error.to_string().into()
    }
}

impl From<ConversationError> for CommandError {
    fn from(error: ConversationError) -> Self {
        use ConversationErrorKind::{InvalidName, NameTaken, NoSuchMessage, Unknown};
        let is_callers = matches!(error.kind, InvalidName | NameTaken | NoSuchMessage | Unknown);
        Self::of_service(is_callers, &error, &error.message, &error.advice)
    }
}

impl From<TaskError> for CommandError {
    fn from(error: TaskError) -> Self {
        use TaskErrorKind::{InvalidArgument, NotConfigured, OutsideRoots, UnknownTask};
        let is_callers = matches!(error.kind, UnknownTask | InvalidArgument | OutsideRoots | NotConfigured);
        Self::of_service(is_callers, &error, &error.message, &error.advice)
    }
}

impl From<DebateError> for CommandError {
    fn from(error: DebateError) -> Self {
        use DebateErrorKind::{InvalidArgument, NotConfigured, OutsideRoots, UnknownDebate};
        let is_callers = matches!(error.kind, UnknownDebate | InvalidArgument | OutsideRoots | NotConfigured);
        Self::of_service(is_callers, &error, &error.message, &error.advice)
    }
}

impl From<ProjectError> for CommandError {
    fn from(error: ProjectError) -> Self {
        let is_callers = matches!(error.kind, ProjectErrorKind::InvalidArgument | ProjectErrorKind::Unknown);
        let (text, message, advice) = (error.to_string(), error.message, error.advice);
        Self::of_service(is_callers, &of_project(&text), &of_project(&message), &of_project(&advice))
    }
}

impl From<BrokerError> for CommandError {
    fn from(error: BrokerError) -> Self {
        // Broker errors count as failures of the machine by default, since other machines may share its store.
        Self::of_service(false, &error, &error.message, &error.advice)
    }
}

impl CommandError {
    /// Builds an error of the broker that counts as a usage error if the command line names something that does not exist.
    pub(crate) fn of_named(error: &BrokerError) -> Self {
        let is_callers = matches!(error.kind, BrokerErrorKind::Unknown | BrokerErrorKind::Invalid);
        Self::of_service(is_callers, error, &error.message, &error.advice)
    }
}

impl From<TestbedError> for CommandError {
    fn from(error: TestbedError) -> Self {
        let is_callers = matches!(
            error,
            TestbedError::Trap(_) | TestbedError::Arm { .. } | TestbedError::Experiment { .. }
        );
        let message = with_causes(&error);
        if is_callers { Self::usage(message) } else { Self::failed(message) }
    }
}

/// Formats an error with its chain of causes.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
