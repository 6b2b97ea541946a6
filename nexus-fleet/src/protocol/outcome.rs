//! How a turn ended, and what came of forgetting, as messages.

use std::{io, path::PathBuf, sync::Arc};

use nexus_core::{
    BackendId, Effects, ErrorKind, ForgetError, Forgotten, Partial, Retry, TurnError, TurnResult,
    error::{ProcessReport, Skipped},
};
use serde::{Deserialize, Serialize};

/// How a turn ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WireOutcome {
    /// It ended well.
    Result(Box<TurnResult>),
    /// It failed.
    Error(Box<WireError>),
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
        match outcome {
            Ok(result) => Self::Result(Box::new(result)),
            Err(error) => Self::Error(Box::new(WireError::of(&error))),
        }
    }
}

impl WireOutcome {
    pub(crate) fn into_outcome(self) -> Result<TurnResult, TurnError> {
        match self {
            Self::Result(result) => Ok(*result),
            Self::Error(error) => Err(error.into_error()),
        }
    }
}

impl WireError {
    /// Who failed, and what the turn may have changed.
    pub(crate) fn of_whom(&self) -> (BackendId, Effects) {
        (self.backend.clone(), self.partial.effects)
    }

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
            .fold(None, |source, text| Some(Cause { text, source: source.map(Box::new) }))
        {
            Some(cause) => error.with_source(cause),
            None => error,
        }
    }
}

/// A cause that happened elsewhere.
#[derive(Debug)]
struct Cause {
    text: String,
    source: Option<Box<Self>>,
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|cause| cause as _)
    }
}

/// What came of forgetting a conversation.
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
