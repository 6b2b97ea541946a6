//! Readiness of backends: a backend is ready if a turn on it would start.

use std::{collections::BTreeMap, time::SystemTime};

use nexus::{Availability, BackendId, ExecutionBackend, ExplainedChain, ExplainedTarget, Router, hold::Hold};
use nexus_files::rfc3339;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{availability, output::printable};

/// Reason why a turn without a model does not start.
pub(crate) const NO_MODEL: &str =
    "no model is named: set `model` in the settings of the backend, or in the types that use it";

/// A backend of a configuration.
pub(crate) struct Readiness {
    pub(crate) id: BackendId,
    /// Result of the probe. A backend that no type gives the model that it needs is unusable.
    pub(crate) availability: Availability,
    /// The hold that suspends it.
    pub(crate) hold: Option<Hold>,
}

/// Suspension of a backend.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct HeldBackend {
    /// Since when, as RFC 3339.
    since: String,
    /// Until when, as RFC 3339.
    until: String,
    /// True if the end is a guess, because the vendor named none.
    guessed: bool,
    /// The refusal, in the vendor's words where there are any.
    reason: String,
}

impl HeldBackend {
    pub(crate) fn of(hold: &Hold) -> Self {
        Self {
            since: rfc3339::seconds(hold.since),
            until: rfc3339::seconds(hold.until),
            guessed: hold.guessed,
            reason: hold.reason.clone(),
        }
    }
}

impl Readiness {
    /// Probes all backends at once, and reads their holds.
    pub(crate) async fn of_all(router: &Router) -> Vec<Self> {
        // Another process may have set a hold.
        let holds = router.refresh_holds().await;
        let now = SystemTime::now();
        let models = NamedModels::of(router);
        let backends = router.backends();
        let probed = backends.iter().map(|(id, backend)| {
            let hold = holds.iter().find(|hold| hold.backend == *id && hold.is_standing(now)).cloned();
            let models = &models;
            async move {
                let availability = models.judge(id, &**backend, backend.probe().await);
                Self { id: id.clone(), availability, hold }
            }
        });
        futures::future::join_all(probed).await
    }

    /// Returns true if a turn on it would start.
    pub(crate) fn is_ready(&self) -> bool {
        self.availability.is_ready() && self.hold.is_none()
    }

    /// Returns what was found, for a person. Further lines are indented by `indent`.
    pub(crate) fn words(&self, indent: &str) -> String {
        match &self.hold {
            Some(hold) => printable(&held_words(hold)),
            None => availability::words(&self.availability, indent),
        }
    }
}

/// Returns how long a backend is suspended, why, and how to end it.
pub(crate) fn held_words(hold: &Hold) -> String {
    format!("{} ({})", hold.spoken(SystemTime::now()), release_advice(&hold.backend))
}

/// Returns how a person ends a hold.
pub(crate) fn release_advice(backend: &BackendId) -> String {
    format!("`nexus hold release {backend}` ends this")
}

/// Backends that types use, each with a note whether a type names a model for it.
#[derive(Debug, Default)]
struct NamedModels {
    /// True if some type names one, by the backends that types use.
    named: BTreeMap<BackendId, bool>,
}

impl NamedModels {
    fn of(router: &Router) -> Self {
        let mut models = Self::default();
        for kind in router.kinds() {
            let Ok(explanation) = router.explain(kind.as_str()) else { continue };
            match &explanation.target {
                ExplainedTarget::Chain(chain) => models.add(chain),
                ExplainedTarget::Panel { seats, .. } => seats.iter().for_each(|seat| models.add(&seat.chain)),
                _ => {}
            }
        }
        models
    }

    fn add(&mut self, chain: &ExplainedChain) {
        for entry in &chain.entries {
            let is_named = entry.model.is_some() || chain.model.is_some();
            *self.named.entry(entry.backend.clone()).or_default() |= is_named;
        }
    }

    /// Returns the availability of a backend, judged by its need for a model too.
    fn judge(&self, id: &BackendId, backend: &dyn ExecutionBackend, found: Availability) -> Availability {
        let is_named = self.named.get(id).copied().unwrap_or_default();
        match found.is_ready() && backend.capabilities().needs_model && !is_named {
            true => Availability::Unusable { reason: NO_MODEL.to_owned() },
            false => found,
        }
    }
}
