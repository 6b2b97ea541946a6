//! Purpose of a turn.

use std::fmt;

use nexus_core::{BackendId, ErrorKind, TurnError};
use serde::{Deserialize, Serialize};

/// Purpose of a turn: the name of a type in `nexus.yaml`, or its tier and phase.
///
/// ```
/// use nexus_router::WorkKind;
///
/// assert_eq!(WorkKind::from("executor").to_string(), "executor");
/// assert_eq!(WorkKind::from(("execution", "implement")).to_string(), "execution/implement");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum WorkKind {
    /// Name of a type.
    Named(String),
    /// Tier and phase of a type.
    TierAndPhase {
        /// Level of the work.
        tier: String,
        /// Step of the process.
        phase: String,
    },
}

impl fmt::Display for WorkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::TierAndPhase { tier, phase } => write!(f, "{tier}/{phase}"),
        }
    }
}

impl From<&str> for WorkKind {
    fn from(name: &str) -> Self {
        Self::Named(name.to_owned())
    }
}

impl From<String> for WorkKind {
    fn from(name: String) -> Self {
        Self::Named(name)
    }
}

impl From<&Self> for WorkKind {
    fn from(kind: &Self) -> Self {
        kind.clone()
    }
}

impl From<(&str, &str)> for WorkKind {
    fn from((tier, phase): (&str, &str)) -> Self {
        Self::TierAndPhase { tier: tier.to_owned(), phase: phase.to_owned() }
    }
}

/// A work-kind that the configuration does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownKind {
    /// The requested work-kind.
    pub kind: WorkKind,
    /// The work-kind that was probably meant.
    pub suggestion: Option<String>,
}

impl fmt::Display for UnknownKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown work-kind \"{}\"", self.kind)?;
        match &self.suggestion {
            Some(suggestion) => write!(f, "; did you mean {suggestion:?}?"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for UnknownKind {}

/// Error for a work-kind that does not exist or is used in the wrong way.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KindError {
    /// The configuration does not have the work-kind.
    Unknown(UnknownKind),
    /// The work-kind is a panel. Use [`Router::run_panel`](crate::Router::run_panel).
    IsPanel {
        /// The work-kind.
        kind: WorkKind,
        /// The panel.
        panel: String,
    },
    /// The work-kind is not a panel. Use [`Router::run_turn`](crate::Router::run_turn).
    IsNoPanel {
        /// The work-kind.
        kind: WorkKind,
    },
}

impl KindError {
    /// Returns the work-kind.
    pub fn kind(&self) -> &WorkKind {
        match self {
            Self::Unknown(unknown) => &unknown.kind,
            Self::IsPanel { kind, .. } | Self::IsNoPanel { kind } => kind,
        }
    }
}

impl From<UnknownKind> for KindError {
    fn from(unknown: UnknownKind) -> Self {
        Self::Unknown(unknown)
    }
}

impl From<KindError> for TurnError {
    fn from(error: KindError) -> Self {
        Self::new(ErrorKind::InvalidRequest, BackendId::new(error.kind().to_string()))
            .with_message(error.to_string())
    }
}

impl fmt::Display for KindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(unknown) => unknown.fmt(f),
            Self::IsPanel { kind, panel } => {
                write!(f, "\"{kind}\" is the panel {panel:?}, not a single turn")
            }
            Self::IsNoPanel { kind } => write!(f, "\"{kind}\" is a single turn, not a panel"),
        }
    }
}

impl std::error::Error for KindError {}
