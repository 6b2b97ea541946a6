//! The failure of a turn, before the backend's name and the partial result are added.

use std::time::{Duration, SystemTime};

use crate::{BackendId, ErrorKind, Retry, TurnError};

use crate::credential_source::CredentialError;

/// The failure of a turn: a [`TurnError`] without its backend and its partial result.
///
/// Converts from a [`CredentialError`]. An unreachable issuer is [`ErrorKind::Transport`], an unreadable answer of an issuer
/// is [`ErrorKind::Protocol`], and any other error is [`ErrorKind::Unauthenticated`].
#[derive(Debug)]
pub struct Failure {
    /// Kind of the failure, which tells the caller its options.
    pub kind: ErrorKind,
    /// Time at which the same request may be tried again.
    pub retry: Retry,
    /// Message, in the vendor's words or ours, without secrets.
    pub message: Option<String>,
    /// The cause.
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Failure {
    /// Creates a failure that no retry can fix.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, retry: Retry::Never, message: Some(message.into()), source: None }
    }

    /// Creates the failure of a turn that its caller cancelled.
    pub fn cancelled() -> Self {
        Self::new(ErrorKind::Cancelled, "by the caller")
    }

    /// Creates the failure of a turn that ran out of time `elapsed` after its start. `kind` is the result of
    /// [`Watch::ran_out`](super::Watch::ran_out).
    pub fn out_of_time(kind: ErrorKind, elapsed: Duration) -> Self {
        Self::new(kind, format!("after {:.1} s", elapsed.as_secs_f64())).with_named_retry(None)
    }

    /// Creates a failure with the messages of `error` and its causes, outermost first, joined by colons.
    pub fn of(kind: ErrorKind, error: &(dyn std::error::Error + 'static)) -> Self {
        let mut words = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            words = format!("{words}: {error}");
            cause = error.source();
        }
        Self::new(kind, words)
    }

    /// Sets the retry time by the common policy [`Retry::after_failure`]. `named` is the vendor's own time, if it named one.
    /// An implausibly long time is cut, and the message notes it. The longest accepted times are 24 hours, and 400 days for
    /// a used-up plan.
    #[must_use]
    pub fn with_named_retry(mut self, named: Option<Retry>) -> Self {
        self.retry = Retry::after_failure(self.kind, named);
        // A vendor's wrong clock must not stop a backend for years.
        if let Some((capped, longest)) = self.retry.capped(self.kind, SystemTime::now()) {
            self.retry = capped;
            let words = self.message.get_or_insert_default();
            let hours = longest.as_secs() / 3_600;
            words.push_str(&format!(" (the named time is too far away; {hours} hours are assumed)"));
        }
        self
    }

    /// Sets the retry time, in place of the policy's.
    #[must_use]
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Returns the error of `backend`, with an empty partial result. [`TurnLog::into_error`](super::TurnLog::into_error)
    /// adds the partial result.
    pub fn into_error(self, backend: BackendId) -> TurnError {
        let mut error = TurnError::new(self.kind, backend).with_retry(self.retry);
        if let Some(message) = self.message {
            error = error.with_message(message);
        }
        if let Some(source) = self.source {
            error = error.with_source(source);
        }
        error
    }
}

impl From<CredentialError> for Failure {
    fn from(error: CredentialError) -> Self {
        let kind = match error {
            CredentialError::Unreachable { .. } => ErrorKind::Transport,
            CredentialError::Malformed { .. } => ErrorKind::Protocol,
            _ => ErrorKind::Unauthenticated,
        };
        Self::of(kind, &error)
    }
}
