//! Why a turn failed, named for what the caller can do next.

use std::{
    error::Error,
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};

use crate::{
    id::BackendId,
    turn::{Cost, Effects, Message, Provenance, ResumeHandle, ToolCallRecord, Usage},
};

/// Why a turn failed, named for what the caller can do next.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The program is missing, or is not one that can be run. Install it, or name where it is.
    NotInstalled,
    /// No credential was found, or the vendor refused it. Log in again.
    Unauthenticated,
    /// The credential is good and may not do this. Ask whoever administers the account.
    Forbidden,
    /// The vendor asked for patience. [`TurnError::retry`] says how much.
    RateLimited,
    /// The plan or the budget is used up. [`TurnError::retry`] says until when, where the vendor does.
    UsageLimit,
    /// The vendor has no capacity. Try later, or elsewhere.
    Overloaded,
    /// The vendor does not have the model, or not for this account. Name another.
    ModelUnavailable,
    /// The conversation outgrew the model's window. Shorten it.
    ContextExceeded,
    /// The request cannot be run as it stands. Mend it.
    InvalidRequest,
    /// The backend cannot do what the request asks. Ask another backend, or ask for less.
    Unsupported,
    /// The model, or the vendor's filter, declined to answer.
    Refused,
    /// The answer broke off, as at the output limit, or there was none. The partial has what came.
    Incomplete,
    /// The answer does not have the shape asked for, after every repair.
    OutputInvalid,
    /// The conversation to resume is not there any more.
    SessionLost,
    /// The caller's tools did not reach the agent.
    ToolsUnavailable,
    /// The agent asked for an approval that nobody can give.
    ApprovalRequired,
    /// The credential would be billed otherwise than the configuration says. Nothing was spent.
    BillingMismatch,
    /// A limit of the request was reached.
    LimitReached(Limit),
    /// Nothing was heard for as long as the request allows in this phase.
    Starved(Phase),
    /// The caller cancelled the turn.
    Cancelled,
    /// The program ended without saying how the turn ended. See [`TurnError::process`].
    Crashed,
    /// The connection to the vendor failed.
    Transport,
    /// The vendor sent what we cannot read. Report it, with the cause.
    Protocol,
    /// The vendor reports a failure that it gives no other name to.
    VendorFailure,
    /// Every backend of the chain was tried or skipped. See [`TurnError::skipped`].
    Exhausted,
}

impl ErrorKind {
    /// The kind, as a lowercase phrase after a backend's name.
    fn phrase(self) -> &'static str {
        match self {
            Self::NotInstalled => "is not installed",
            Self::Unauthenticated => "is not logged in",
            Self::Forbidden => "is not allowed to do this",
            Self::RateLimited => "is rate limited",
            Self::UsageLimit => "has used up its plan or budget",
            Self::Overloaded => "is overloaded",
            Self::ModelUnavailable => "does not have the model",
            Self::ContextExceeded => "ran out of room for the conversation",
            Self::InvalidRequest => "cannot run the request as it stands",
            Self::Unsupported => "does not support what the request asks",
            Self::Refused => "declined to answer",
            Self::Incomplete => "gave no complete answer",
            Self::OutputInvalid => "did not answer in the shape asked for",
            Self::SessionLost => "no longer has the conversation",
            Self::ToolsUnavailable => "did not get the caller's tools",
            Self::ApprovalRequired => "asked for an approval that nobody can give",
            Self::BillingMismatch => "would be billed otherwise than configured",
            Self::LimitReached(limit) => match limit {
                Limit::Deadline => "reached the deadline",
                Limit::ToolCalls => "reached the limit of tool calls",
                Limit::ModelCalls => "reached the limit of model calls",
                Limit::OutputTokens => "reached the limit of output tokens",
                Limit::Cost => "reached the cost limit",
                Limit::RepeatedCalls => "made the same call over and over",
            },
            Self::Starved(phase) => match phase {
                Phase::Start => "did not start in time",
                Phase::FirstByte => "got no answer from the model in time",
                Phase::Model => "heard nothing from the model for too long",
                Phase::Tool => "heard nothing from a tool for too long",
            },
            Self::Cancelled => "was cancelled",
            Self::Crashed => "ended without an outcome",
            Self::Transport => "lost its connection",
            Self::Protocol => "sent what cannot be read",
            Self::VendorFailure => "reports a failure",
            Self::Exhausted => "has nobody left to run the turn",
        }
    }
}

/// Which limit of [`Limits`](crate::Limits) was reached.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The whole turn took too long.
    Deadline,
    /// Too many tool calls.
    ToolCalls,
    /// Too many requests to the model.
    ModelCalls,
    /// Too many output tokens.
    OutputTokens,
    /// Too expensive.
    Cost,
    /// The model made one call over and over, and got the same answer each time.
    RepeatedCalls,
}

/// A part of a turn in which silence is counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Until whoever runs the turn shows a first sign of life.
    Start,
    /// From a model call to the first sign of an answer.
    FirstByte,
    /// While the model answers.
    Model,
    /// While a tool runs.
    Tool,
}

/// When the same request may be tried again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retry {
    /// Not as it stands.
    #[default]
    Never,
    /// At once.
    Now,
    /// After this long.
    After(Duration),
    /// At this time, by the vendor's clock.
    At(SystemTime),
}

/// What a turn had produced before it failed.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Partial {
    /// The text of every message of the turn's own agent that was not voided, joined by a blank line.
    pub text: String,
    /// Every message that was not voided.
    pub messages: Vec<Message>,
    /// Every tool call, in the order in which they began.
    pub tool_calls: Vec<ToolCallRecord>,
    /// Tokens used, as far as reported.
    pub usage: Usage,
    /// What it cost, where that is known.
    pub cost: Option<Cost>,
    /// What the turn may have changed.
    pub effects: Effects,
    /// How to go on, where the conversation was kept.
    pub resume: Option<ResumeHandle>,
    /// Who ran it, if anyone did.
    pub provenance: Option<Provenance>,
}

/// How a process ended.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessExit {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// Nobody could tell.
    Unknown,
}

impl fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Unknown => f.write_str("an unknown end"),
        }
    }
}

/// A process of the turn that could not be ended.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survivor {
    /// Its number.
    pub pid: u32,
    /// Its name, as the system shows it.
    pub name: String,
}

impl Survivor {
    /// A process that is still there.
    pub fn new(pid: u32, name: impl Into<String>) -> Self {
        Self { pid, name: name.into() }
    }
}

/// What is known of the process that ran a turn.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessReport {
    /// How it ended, if it did.
    pub exit: Option<ProcessExit>,
    /// The end of what it wrote to standard error, redacted.
    pub stderr_tail: String,
    /// What could not be ended.
    pub survivors: Vec<Survivor>,
}

impl ProcessReport {
    /// A process that left nothing behind.
    pub fn new(exit: Option<ProcessExit>, stderr_tail: impl Into<String>) -> Self {
        Self { exit, stderr_tail: stderr_tail.into(), survivors: Vec::new() }
    }

    /// Names what could not be ended.
    #[must_use]
    pub fn with_survivors(mut self, survivors: Vec<Survivor>) -> Self {
        self.survivors = survivors;
        self
    }
}

/// A backend that was passed over, or tried in vain, and why.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// The backend.
    pub backend: BackendId,
    /// Why, as a kind, where it was an error.
    pub kind: Option<ErrorKind>,
    /// Why, in the vendor's own words where there are any.
    pub reason: String,
    /// Until when it is set aside.
    pub until: Option<SystemTime>,
}

impl Skipped {
    /// `backend` was passed over.
    pub fn new(backend: BackendId, reason: impl Into<String>) -> Self {
        Self { backend, kind: None, reason: reason.into(), until: None }
    }

    /// States the kind of the error it ended with.
    #[must_use]
    pub fn with_kind(mut self, kind: Option<ErrorKind>) -> Self {
        self.kind = kind;
        self
    }

    /// States until when it is set aside.
    #[must_use]
    pub fn with_until(mut self, until: Option<SystemTime>) -> Self {
        self.until = until;
        self
    }
}

/// A turn that failed: why, what to do, and everything it had produced.
///
/// `Display` speaks for this layer alone; the cause speaks for itself, in [`Error::source`].
///
/// ```
/// use std::time::Duration;
/// use nexus_core::{BackendId, ErrorKind, Retry, TurnError};
///
/// let error = TurnError::new(ErrorKind::RateLimited, BackendId::new("alpha"))
///     .with_retry(Retry::After(Duration::from_secs(20)));
/// assert_eq!(error.to_string(), "alpha is rate limited");
/// ```
#[derive(Clone)]
pub struct TurnError(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    backend: BackendId,
    retry: Retry,
    message: Option<String>,
    partial: Partial,
    process: Option<ProcessReport>,
    skipped: Vec<Skipped>,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl TurnError {
    /// A failure of `backend`, with nothing produced and no reason to retry.
    pub fn new(kind: ErrorKind, backend: BackendId) -> Self {
        Self(Box::new(Inner {
            kind,
            backend,
            retry: Retry::Never,
            message: None,
            partial: Partial::default(),
            process: None,
            skipped: Vec::new(),
            source: None,
        }))
    }

    /// States when the same request may be tried again.
    #[must_use]
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.0.retry = retry;
        self
    }

    /// Adds what happened, in the vendor's words or, where it is our own finding, in ours with the way out.
    /// It must hold no secret.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.0.message = Some(message.into());
        self
    }

    /// Adds what the turn had produced.
    #[must_use]
    pub fn with_partial(mut self, partial: Partial) -> Self {
        self.0.partial = partial;
        self
    }

    /// Adds what is known of the process.
    #[must_use]
    pub fn with_process(mut self, process: ProcessReport) -> Self {
        self.0.process = Some(process);
        self
    }

    /// Adds who was passed over or tried in vain.
    #[must_use]
    pub fn with_skipped(mut self, skipped: Vec<Skipped>) -> Self {
        self.0.skipped = skipped;
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    /// Why it failed.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Who failed.
    pub fn backend(&self) -> &BackendId {
        &self.0.backend
    }

    /// When the same request may be tried again.
    pub fn retry(&self) -> Retry {
        self.0.retry
    }

    /// What happened, in the vendor's words or ours.
    pub fn message(&self) -> Option<&str> {
        self.0.message.as_deref()
    }

    /// What the turn had produced.
    pub fn partial(&self) -> &Partial {
        &self.0.partial
    }

    /// What the turn had produced, to change it on the way up.
    pub fn partial_mut(&mut self) -> &mut Partial {
        &mut self.0.partial
    }

    /// What is known of the process, if there was one.
    pub fn process(&self) -> Option<&ProcessReport> {
        self.0.process.as_ref()
    }

    /// Who was passed over or tried in vain.
    pub fn skipped(&self) -> &[Skipped] {
        &self.0.skipped
    }

    /// Everything as plain data, for storing or sending. The cause becomes its text.
    pub fn report(&self) -> TurnErrorReport {
        let mut causes = Vec::new();
        let mut cause = self.source();
        while let Some(error) = cause {
            causes.push(error.to_string());
            cause = error.source();
        }
        TurnErrorReport {
            kind: self.0.kind,
            backend: self.0.backend.clone(),
            retry: self.0.retry,
            message: self.0.message.clone(),
            partial: self.0.partial.clone(),
            process: self.0.process.clone(),
            skipped: self.0.skipped.clone(),
            causes,
        }
    }
}

impl fmt::Display for TurnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0.backend, self.0.kind.phrase())?;
        match &self.0.message {
            Some(message) => write!(f, ": {message}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for TurnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnError")
            .field("kind", &self.0.kind)
            .field("backend", &self.0.backend)
            .field("retry", &self.0.retry)
            .field("message", &self.0.message)
            .field("process", &self.0.process)
            .field("skipped", &self.0.skipped)
            .field("source", &self.0.source)
            .field("partial", &self.0.partial)
            .finish()
    }
}

impl Error for TurnError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source.as_ref().map(|source| &**source as &(dyn Error + 'static))
    }
}

/// A [`TurnError`] as plain data.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnErrorReport {
    /// Why it failed.
    pub kind: ErrorKind,
    /// Who failed.
    pub backend: BackendId,
    /// When the same request may be tried again.
    pub retry: Retry,
    /// What happened.
    pub message: Option<String>,
    /// What the turn had produced.
    pub partial: Partial,
    /// What is known of the process.
    pub process: Option<ProcessReport>,
    /// Who was passed over or tried in vain.
    pub skipped: Vec<Skipped>,
    /// The chain of causes, outermost first.
    pub causes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_chain_says_each_thing_once() {
        let cause = std::io::Error::other("connection reset");
        let error = TurnError::new(ErrorKind::Transport, "alpha".into()).with_source(cause);
        assert_eq!(error.to_string(), "alpha lost its connection");
        assert_eq!(error.report().causes, ["connection reset"]);
    }

    /// Every kind once: a kind that is missing here does not compile.
    fn after(kind: ErrorKind) -> Option<ErrorKind> {
        Some(match kind {
            ErrorKind::NotInstalled => ErrorKind::Unauthenticated,
            ErrorKind::Unauthenticated => ErrorKind::Forbidden,
            ErrorKind::Forbidden => ErrorKind::RateLimited,
            ErrorKind::RateLimited => ErrorKind::UsageLimit,
            ErrorKind::UsageLimit => ErrorKind::Overloaded,
            ErrorKind::Overloaded => ErrorKind::ModelUnavailable,
            ErrorKind::ModelUnavailable => ErrorKind::ContextExceeded,
            ErrorKind::ContextExceeded => ErrorKind::InvalidRequest,
            ErrorKind::InvalidRequest => ErrorKind::Unsupported,
            ErrorKind::Unsupported => ErrorKind::Refused,
            ErrorKind::Refused => ErrorKind::Incomplete,
            ErrorKind::Incomplete => ErrorKind::OutputInvalid,
            ErrorKind::OutputInvalid => ErrorKind::SessionLost,
            ErrorKind::SessionLost => ErrorKind::ToolsUnavailable,
            ErrorKind::ToolsUnavailable => ErrorKind::ApprovalRequired,
            ErrorKind::ApprovalRequired => ErrorKind::BillingMismatch,
            ErrorKind::BillingMismatch => ErrorKind::LimitReached(Limit::Deadline),
            ErrorKind::LimitReached(limit) => match limit {
                Limit::Deadline => ErrorKind::LimitReached(Limit::ToolCalls),
                Limit::ToolCalls => ErrorKind::LimitReached(Limit::ModelCalls),
                Limit::ModelCalls => ErrorKind::LimitReached(Limit::OutputTokens),
                Limit::OutputTokens => ErrorKind::LimitReached(Limit::Cost),
                Limit::Cost => ErrorKind::LimitReached(Limit::RepeatedCalls),
                Limit::RepeatedCalls => ErrorKind::Starved(Phase::Start),
            },
            ErrorKind::Starved(phase) => match phase {
                Phase::Start => ErrorKind::Starved(Phase::FirstByte),
                Phase::FirstByte => ErrorKind::Starved(Phase::Model),
                Phase::Model => ErrorKind::Starved(Phase::Tool),
                Phase::Tool => ErrorKind::Cancelled,
            },
            ErrorKind::Cancelled => ErrorKind::Crashed,
            ErrorKind::Crashed => ErrorKind::Transport,
            ErrorKind::Transport => ErrorKind::Protocol,
            ErrorKind::Protocol => ErrorKind::VendorFailure,
            ErrorKind::VendorFailure => ErrorKind::Exhausted,
            ErrorKind::Exhausted => return None,
        })
    }

    #[test]
    fn what_each_kind_says() {
        let kinds = std::iter::successors(Some(ErrorKind::NotInstalled), |&kind| after(kind));
        let texts: Vec<_> = kinds.map(|kind| TurnError::new(kind, "alpha".into()).to_string()).collect();
        insta::assert_snapshot!(texts.join("\n"), @r"
        alpha is not installed
        alpha is not logged in
        alpha is not allowed to do this
        alpha is rate limited
        alpha has used up its plan or budget
        alpha is overloaded
        alpha does not have the model
        alpha ran out of room for the conversation
        alpha cannot run the request as it stands
        alpha does not support what the request asks
        alpha declined to answer
        alpha gave no complete answer
        alpha did not answer in the shape asked for
        alpha no longer has the conversation
        alpha did not get the caller's tools
        alpha asked for an approval that nobody can give
        alpha would be billed otherwise than configured
        alpha reached the deadline
        alpha reached the limit of tool calls
        alpha reached the limit of model calls
        alpha reached the limit of output tokens
        alpha reached the cost limit
        alpha made the same call over and over
        alpha did not start in time
        alpha got no answer from the model in time
        alpha heard nothing from the model for too long
        alpha heard nothing from a tool for too long
        alpha was cancelled
        alpha ended without an outcome
        alpha lost its connection
        alpha sent what cannot be read
        alpha reports a failure
        alpha has nobody left to run the turn
        ");
    }

    #[test]
    fn an_error_is_one_pointer_wide() {
        assert_eq!(size_of::<TurnError>(), size_of::<usize>());
        assert!(size_of::<ErrorKind>() <= 2);
    }

    #[test]
    fn a_report_survives_being_stored() {
        let error = TurnError::new(ErrorKind::LimitReached(Limit::Cost), "alpha".into())
            .with_retry(Retry::At(SystemTime::UNIX_EPOCH))
            .with_process(ProcessReport::new(Some(ProcessExit::Code(3)), "tail"));
        let stored = serde_json::to_string(&error.report()).unwrap();
        assert_eq!(serde_json::from_str::<TurnErrorReport>(&stored).unwrap(), error.report());
    }
}
