//! Messages with the end of a turn, and with the result of forgetting a conversation.

use std::{io, path::PathBuf, sync::Arc};

use nexus_core::{
    BackendId, Effects, ErrorKind, ForgetError, Forgotten, Partial, Retry, TurnError, TurnResult,
    error::{ProcessReport, Skipped},
};
use serde::{Deserialize, Serialize};

use super::StoredObject;

/// End of a turn: either `result` or `error`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WireOutcome {
    /// Result of a successful turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<Box<TurnResult>>,
    /// Error of a failed turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<Box<WireError>>,
    /// Bundle of the changes, if files travelled and the turn changed them. Since version 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) change: Option<StoredObject>,
}

/// A [`TurnError`] as data.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WireError {
    kind: ErrorKind,
    backend: BackendId,
    retry: Retry,
    message: Option<String>,
    partial: Partial,
    process: Option<ProcessReport>,
    skipped: Vec<Skipped>,
    /// The causes, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    causes: Vec<String>,
}

impl From<Result<TurnResult, TurnError>> for WireOutcome {
    fn from(outcome: Result<TurnResult, TurnError>) -> Self {
        let (result, error) = match outcome {
            Ok(result) => (Some(Box::new(result)), None),
            Err(error) => (None, Some(Box::new(WireError::of(&error)))),
        };
        Self { result, error, change: None }
    }
}

impl WireOutcome {
    /// Adds the turn's change of the travelling files.
    pub(crate) fn with_change(self, change: Option<StoredObject>) -> Self {
        Self { change, ..self }
    }

    /// Returns the result or the error. `None` if the message has neither or both.
    pub(crate) fn into_outcome(self) -> Option<Result<TurnResult, TurnError>> {
        match (self.result, self.error) {
            (Some(result), None) => Some(Ok(*result)),
            (None, Some(error)) => Some(Err(error.into_error())),
            _ => None,
        }
    }

    /// Returns the backend that ran the turn, and the turn's effects.
    pub(crate) fn of_whom(&self) -> Option<(BackendId, Effects)> {
        match (&self.result, &self.error) {
            (Some(result), _) => Some((result.provenance.backend.clone(), result.effects)),
            (_, Some(error)) => Some((error.backend.clone(), error.partial.effects)),
            _ => None,
        }
    }
}

impl WireError {
    fn of(error: &TurnError) -> Self {
        let mut causes = Vec::new();
        let mut cause = std::error::Error::source(error);
        while let Some(next) = cause.filter(|_| causes.len() < 8) {
            causes.push(next.to_string());
            cause = next.source();
        }
        Self {
            kind: error.kind(),
            backend: error.backend().clone(),
            retry: error.retry(),
            message: error.message().map(str::to_owned),
            partial: error.partial().clone(),
            process: error.process().cloned(),
            skipped: error.skipped().to_vec(),
            causes,
        }
    }

    fn into_error(self) -> TurnError {
        let Self { kind, backend, retry, message, partial, process, skipped, causes } = self;
        let mut error =
            TurnError::new(kind, backend).with_retry(retry).with_partial(partial).with_skipped(skipped);
        if let Some(message) = message {
            error = error.with_message(message);
        }
        if let Some(process) = process {
            error = error.with_process(process);
        }
        match causes
            .into_iter()
            .rev()
            .fold(None, |source, text| Some(RemoteCause { text, source: source.map(Box::new) }))
        {
            Some(cause) => error.with_source(cause),
            None => error,
        }
    }
}

/// Cause of an error in another process.
#[derive(Debug)]
struct RemoteCause {
    text: String,
    source: Option<Box<Self>>,
}

impl std::fmt::Display for RemoteCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for RemoteCause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|cause| cause as _)
    }
}

/// Result of forgetting a conversation.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WireForget {
    Done(Forgotten),
    InvalidHandle,
    InUse,
    Unsupported,
    NoBackend { reason: String },
    Failed { place: PathBuf, reason: String },
}

impl From<Result<Forgotten, ForgetError>> for WireForget {
    fn from(outcome: Result<Forgotten, ForgetError>) -> Self {
        match outcome {
            Ok(forgotten) => Self::Done(forgotten),
            Err(ForgetError::InvalidHandle { .. }) => Self::InvalidHandle,
            Err(ForgetError::InUse { .. }) => Self::InUse,
            Err(ForgetError::Unsupported { .. }) => Self::Unsupported,
            Err(ForgetError::NoBackend { reason, .. }) => Self::NoBackend { reason },
            Err(ForgetError::Failed { place, source, .. }) => {
                Self::Failed { place, reason: source.to_string() }
            }
            Err(error) => Self::NoBackend { reason: error.to_string() },
        }
    }
}

impl WireForget {
    pub(crate) fn into_outcome(self, backend: &BackendId) -> Result<Forgotten, ForgetError> {
        let backend = backend.clone();
        match self {
            Self::Done(forgotten) => Ok(forgotten),
            Self::InvalidHandle => Err(ForgetError::InvalidHandle { backend }),
            Self::InUse => Err(ForgetError::InUse { backend }),
            Self::Unsupported => Err(ForgetError::Unsupported { backend }),
            Self::NoBackend { reason } => Err(ForgetError::NoBackend { backend, reason }),
            Self::Failed { place, reason } => {
                Err(ForgetError::Failed { backend, place, source: Arc::new(io::Error::other(reason)) })
            }
        }
    }
}
