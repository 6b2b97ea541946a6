//! Binding of a work-kind, and its application to a request.

use std::collections::BTreeMap;

use nexus_core::{BackendId, Effort, ModelId, TurnRequest};
use serde::{Deserialize, Serialize};

/// The backends, model and effort chosen for a work-kind.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// Name of the group.
    pub group: String,
    /// Backends of the group, in the order in which the router tries them.
    pub chain: Vec<BackendId>,
    /// The model, by the group's name for it. `None` leaves the choice to the backend.
    pub model: Option<ModelId>,
    /// The model's name at each backend that uses a different name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub own_models: BTreeMap<BackendId, ModelId>,
    /// The effort. `None` leaves it to the vendor.
    pub effort: Option<Effort>,
}

impl Binding {
    /// Creates a binding from backends that a program chose, tried in this order. `group` is their name in
    /// messages.
    pub fn new(group: impl Into<String>, chain: impl IntoIterator<Item = BackendId>) -> Self {
        Self {
            group: group.into(),
            chain: chain.into_iter().collect(),
            model: None,
            own_models: BTreeMap::new(),
            effort: None,
        }
    }

    /// Sets the model for every backend without a name of its own for it.
    #[must_use]
    pub fn with_model(mut self, model: impl Into<Option<ModelId>>) -> Self {
        self.model = model.into();
        self
    }

    /// Sets one backend's own name for the model.
    #[must_use]
    pub fn with_own_model(mut self, backend: impl Into<BackendId>, model: impl Into<ModelId>) -> Self {
        self.own_models.insert(backend.into(), model.into());
        self
    }

    /// Returns a backend's name for the model.
    pub fn model_of(&self, backend: &BackendId) -> Option<&ModelId> {
        self.own_models.get(backend).or(self.model.as_ref())
    }

    /// Sets the effort.
    #[must_use]
    pub fn with_effort(mut self, effort: impl Into<Option<Effort>>) -> Self {
        self.effort = effort.into();
        self
    }

    /// Returns the request for a backend, with the binding's model and effort. Values in the request win.
    pub(crate) fn apply(&self, mut request: TurnRequest, backend: &BackendId) -> TurnRequest {
        request.model = request.model.or_else(|| self.model_of(backend).cloned());
        request.effort = request.effort.or(self.effort);
        request
    }
}

/// Returns the request with the lens's text appended to its system text.
pub(crate) fn with_lens(mut request: TurnRequest, lens: &str) -> TurnRequest {
    request.system = Some(match request.system {
        Some(system) if !system.trim().is_empty() => format!("{system}\n\n{lens}"),
        _ => lens.to_owned(),
    });
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_requests_own_choice_wins() {
        let binding = Binding::new("g", []).with_model(ModelId::new("bound")).with_effort(Effort::High);
        let request = binding.apply(TurnRequest::new("x").with_model("own"), &"alpha".into());
        assert_eq!(request.model, Some("own".into()));
        assert_eq!(request.effort, Some(Effort::High));
    }

    #[test]
    fn a_lens_stands_after_the_system_text() {
        let request = with_lens(TurnRequest::new("x").with_system("Be brief."), "Look at the edges.");
        assert_eq!(request.system.as_deref(), Some("Be brief.\n\nLook at the edges."));
        assert_eq!(with_lens(TurnRequest::new("x"), "L").system.as_deref(), Some("L"));
    }
}
