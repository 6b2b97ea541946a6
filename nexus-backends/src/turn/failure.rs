//! Why a turn has no answer, before the backend's name and the partial are added.

use nexus_core::{BackendId, ErrorKind, Retry, TurnError};

use crate::auth::CredentialError;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Named for what the caller can do.
    pub(crate) kind: ErrorKind,
    /// When the same request may be tried again.
    pub(crate) retry: Retry,
    /// What happened, in the vendor's words or ours.
    pub(crate) message: Option<String>,
    /// The cause.
    pub(crate) source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Failure {
    /// A failure that no retry mends.
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, retry: Retry::Never, message: Some(message.into()), source: None }
    }

    /// A failure that an error of ours tells all about: its words, then those of its causes.
    pub(crate) fn of(kind: ErrorKind, error: &(dyn std::error::Error + 'static)) -> Self {
        let mut words = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            words = format!("{words}: {error}");
            cause = error.source();
        }
        Self::new(kind, words)
    }

    /// States when the same request may be tried again.
    #[must_use]
    pub(crate) fn with_retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Adds the cause.
    #[must_use]
    pub(crate) fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// As an error of `backend`.
    pub(crate) fn into_error(self, backend: BackendId) -> TurnError {
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
