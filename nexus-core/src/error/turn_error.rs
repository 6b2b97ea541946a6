//! The error of a failed turn.

use std::{error::Error, fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{ErrorKind, Partial, ProcessReport, Retry, Skipped};
use crate::id::BackendId;

/// The error of a failed turn: the reason, the caller's options, and the partial result.
///
/// `Display` describes this layer only; [`Error::source`] returns the cause.
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
pub struct TurnError(Box<TurnErrorFields>);

/// Fields of a [`TurnError`], which boxes them.
#[derive(Clone)]
struct TurnErrorFields {
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
    /// Creates a failure of `backend`, without a partial result and with [`Retry::Never`].
    pub fn new(kind: ErrorKind, backend: BackendId) -> Self {
        Self(Box::new(TurnErrorFields {
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

    /// Changes the kind, if a layer above knows a better one.
    #[must_use]
    pub fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    /// Sets the time at which the same request may be tried again.
    #[must_use]
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.0.retry = retry;
        self
    }

    /// Adds a message: in the vendor's words, or in our own words with advice. It must contain no secret.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.0.message = Some(message.into());
        self
    }

    /// Sets the partial result.
    #[must_use]
    pub fn with_partial(mut self, partial: Partial) -> Self {
        self.0.partial = partial;
        self
    }

    /// Sets the report on the process.
    #[must_use]
    pub fn with_process(mut self, process: ProcessReport) -> Self {
        self.0.process = Some(process);
        self
    }

    /// Sets the backends that were skipped or failed before.
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

    /// Returns the kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the backend that failed.
    pub fn backend(&self) -> &BackendId {
        &self.0.backend
    }

    /// Returns the time at which the same request may be tried again.
    pub fn retry(&self) -> Retry {
        self.0.retry
    }

    /// Returns the message, in the vendor's words or ours.
    pub fn message(&self) -> Option<&str> {
        self.0.message.as_deref()
    }

    /// Returns the partial result.
    pub fn partial(&self) -> &Partial {
        &self.0.partial
    }

    /// Returns the partial result, so that a layer above can change it.
    pub fn partial_mut(&mut self) -> &mut Partial {
        &mut self.0.partial
    }

    /// Returns the report on the process, if the turn had one.
    pub fn process(&self) -> Option<&ProcessReport> {
        self.0.process.as_ref()
    }

    /// Returns the backends that were skipped or failed before.
    pub fn skipped(&self) -> &[Skipped] {
        &self.0.skipped
    }

    /// Returns the error as plain data, for storing or sending. The cause becomes text.
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
    /// Kind of the failure.
    pub kind: ErrorKind,
    /// Backend that failed.
    pub backend: BackendId,
    /// Time at which the same request may be tried again.
    pub retry: Retry,
    /// Message.
    pub message: Option<String>,
    /// Partial result.
    pub partial: Partial,
    /// Report on the process.
    pub process: Option<ProcessReport>,
    /// Backends that were skipped or failed before.
    pub skipped: Vec<Skipped>,
    /// Messages of the chain of causes, outermost first.
    pub causes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::error::{Limit, Phase, ProcessExit};

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
            ErrorKind::OutputInvalid => ErrorKind::ConversationLost,
            ErrorKind::ConversationLost => ErrorKind::ToolsUnavailable,
            ErrorKind::ToolsUnavailable => ErrorKind::ApprovalRequired,
            ErrorKind::ApprovalRequired => ErrorKind::BillingMismatch,
            ErrorKind::BillingMismatch => ErrorKind::LimitReached(Limit::Deadline),
            ErrorKind::LimitReached(limit) => match limit {
                Limit::Deadline => ErrorKind::LimitReached(Limit::ToolCalls),
                Limit::ToolCalls => ErrorKind::LimitReached(Limit::ModelCalls),
                Limit::ModelCalls => ErrorKind::LimitReached(Limit::OutputTokens),
                Limit::OutputTokens => ErrorKind::LimitReached(Limit::Cost),
                Limit::Cost => ErrorKind::LimitReached(Limit::Budget),
                Limit::Budget => ErrorKind::LimitReached(Limit::RepeatedCalls),
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
        alpha does not permit this request
        alpha is rate limited
        alpha has used up its plan or budget
        alpha is overloaded
        alpha does not have the model
        alpha ran out of room for the conversation
        alpha cannot run the request in this form
        alpha does not support a feature that the request needs
        alpha declined to answer
        alpha gave no complete answer
        alpha did not answer in the requested format
        alpha no longer has the conversation
        alpha did not get the caller's tools
        alpha asked for an approval, but no approver is configured
        alpha would be billed differently than configured
        alpha reached the deadline
        alpha reached the limit of tool calls
        alpha reached the limit of model calls
        alpha reached the limit of output tokens
        alpha reached the cost limit
        alpha reached the end of the budget
        alpha made the same call over and over
        alpha did not start in time
        alpha got no answer from the model in time
        alpha received nothing from the model for too long
        alpha received nothing from a tool for too long
        alpha was cancelled
        alpha ended without an outcome
        alpha lost its connection
        alpha sent data that cannot be read
        alpha reports a failure
        alpha has no backend left to run the turn
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
