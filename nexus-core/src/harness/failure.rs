//! Why a turn has no answer, before the backend's name and the partial are added.

use std::time::{Duration, SystemTime};

use crate::{BackendId, ErrorKind, Retry, TurnError};

use crate::credential_source::CredentialError;

/// Why a turn failed: a [`TurnError`] before its backend and its partial are known.
///
/// A [`CredentialError`] converts: unreachable issuers are [`ErrorKind::Transport`], answers of theirs that cannot be read
/// [`ErrorKind::Protocol`], everything else [`ErrorKind::Unauthenticated`].
#[derive(Debug)]
pub struct Failure {
    /// Named for what the caller can do.
    pub kind: ErrorKind,
    /// Time at which the same request may be tried again.
    pub retry: Retry,
    /// Message, in the vendor's words or ours, without secrets.
    pub message: Option<String>,
    /// The cause.
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Failure {
    /// A failure that no retry mends.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, retry: Retry::Never, message: Some(message.into()), source: None }
    }

    /// The caller cancelled the turn while it ran.
    pub fn cancelled() -> Self {
        Self::new(ErrorKind::Cancelled, "by the caller")
    }

    /// The turn ran out of time `elapsed` after it began: `kind` is what [`Watch::ran_out`](super::Watch::ran_out) returned.
    pub fn out_of_time(kind: ErrorKind, elapsed: Duration) -> Self {
        Self::new(kind, format!("after {:.1} s", elapsed.as_secs_f64())).with_named_retry(None)
    }

    /// A failure with the message of `error` and of its causes, outermost first, joined by colons.
    pub fn of(kind: ErrorKind, error: &(dyn std::error::Error + 'static)) -> Self {
        let mut words = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            words = format!("{words}: {error}");
            cause = error.source();
        }
        Self::new(kind, words)
    }

    /// States when the same request may be tried again by the policy of every backend, [`Retry::after_failure`]: `named` is
    /// the vendor's own time, if it named one. A time that no vendor means is cut, and the message says so: 24 hours are
    /// believed, and 400 days for a plan that is used up.
    #[must_use]
    pub fn with_named_retry(mut self, named: Option<Retry>) -> Self {
        self.retry = Retry::after_failure(self.kind, named);
        if let Some((capped, longest)) = self.retry.capped(self.kind, SystemTime::now()) {
            self.retry = capped;
            let words = self.message.get_or_insert_default();
            let hours = longest.as_secs() / 3_600;
            words.push_str(&format!(" (the named time is too far away; {hours} hours are assumed)"));
        }
        self
    }

    /// Sets the time at which the same request may be tried again, in place of the policy's.
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

    /// The error of `backend`, with an empty partial. [`TurnLog::into_error`](super::TurnLog::into_error) adds the partial.
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
