//! Models that a backend's server offers.

use thiserror::Error;

use crate::id::{BackendId, ModelId};

/// A model that a server offers.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedModel {
    /// Name of the model in requests.
    pub id: ModelId,
    /// Size of its context window in tokens, if the server reports it.
    pub context_tokens: Option<u64>,
}

impl OfferedModel {
    /// Creates a model without a known context window.
    pub fn new(id: impl Into<ModelId>) -> Self {
        Self { id: id.into(), context_tokens: None }
    }

    /// Sets the size of the context window.
    #[must_use]
    pub fn with_context_tokens(mut self, tokens: Option<u64>) -> Self {
        self.context_tokens = tokens;
        self
    }
}

/// Models of a server's list, sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelListing {
    /// The models.
    pub models: Vec<OfferedModel>,
    /// False if the server has more models, because its list has further pages or is too long.
    pub is_complete: bool,
}

/// Reason why a backend lists no models.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ModelListError {
    /// The backend cannot list models.
    #[error("{backend} does not list models{}", after_colon(.advice.as_deref()))]
    Unsupported {
        /// The backend.
        backend: BackendId,
        /// Another way to see the models, such as a command of the vendor's program.
        advice: Option<String>,
    },
    /// The server gave no list.
    #[error("{backend} gave no list of models: {reason}")]
    Failed {
        /// The backend.
        backend: BackendId,
        /// The reason, with advice.
        reason: String,
    },
}

fn after_colon(advice: Option<&str>) -> String {
    advice.map(|advice| format!(": {advice}")).unwrap_or_default()
}
