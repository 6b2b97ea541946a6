//! Check of a whole configuration: its backends, and the types that could run on them.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::SystemTime,
};

use nexus::{
    Availability, BackendId, ExecutionBackend, ExplainedChain, ExplainedTarget, Explanation, Router,
};

use super::{
    check::Check,
    readiness::Readiness,
    runs_on::{NO_MODEL, RunsOn},
};
use crate::{command_error::CommandError, output::printable};

/// Result of the check of a configuration. It starts programs for their versions, and calls no model.
pub(crate) struct Survey {
    pub(crate) backends: Vec<Readiness>,
    pub(crate) types: Vec<TypeReadiness>,
}

/// A type of the configuration.
pub(crate) struct TypeReadiness {
    pub(crate) kind: String,
    /// Backends that would run a turn of it now: one for each seat of a panel.
    pub(crate) runs_on: Vec<RunsOn>,
    pub(crate) explanation: Explanation,
}

impl Survey {
    /// Probes all backends at once, reads their holds, and decides which types could run.
    pub(crate) async fn of(router: &Router) -> Result<Self, CommandError> {
        // Another process may have set a hold.
        let holds = router.refresh_holds().await;
        let now = SystemTime::now();
        let mut explanations = Vec::new();
        for kind in router.kinds() {
            let explanation =
                router.explain(kind.as_str()).map_err(|error| CommandError::failed(error.to_string()))?;
            explanations.push((kind, explanation));
        }
        let models = NamedModels::of(explanations.iter().map(|(_, explanation)| explanation));
        let backends = router.backends();
        // Probe all backends at once, because each probe waits for a program or a server.
        let probed = backends.iter().map(|(id, backend)| {
            let hold = holds.iter().find(|hold| hold.backend == *id && hold.is_standing(now)).cloned();
            let models = &models;
            async move {
                let availability = models.judge(id, &**backend, backend.probe().await);
                let mode = backend.capabilities().mode;
                Readiness { id: id.clone(), availability, hold, is_used: models.named.contains_key(id), mode }
            }
        });
        let found = futures::future::join_all(probed).await;
        let needs_model: BTreeSet<BackendId> = backends
            .iter()
            .filter(|(_, backend)| backend.capabilities().needs_model)
            .map(|(id, _)| id.clone())
            .collect();
        let availability: BTreeMap<_, _> =
            found.iter().map(|backend| (&backend.id, &backend.availability)).collect();
        let types = explanations
            .into_iter()
            .map(|(kind, explanation)| TypeReadiness {
                runs_on: RunsOn::of(&explanation.target, &availability, &needs_model),
                kind,
                explanation,
            })
            .collect();
        Ok(Self { backends: found, types })
    }

    /// Returns true if a turn of at least one type would start. Without types, a ready backend is enough.
    pub(crate) fn would_start(&self) -> bool {
        match self.types.is_empty() {
            true => self.backends.iter().any(Readiness::is_ready),
            false => self.types.iter().any(|kind| kind.obstacle().is_none()),
        }
    }
}

impl TypeReadiness {
    /// Returns the reason why a turn of the type would not start. `None` if it would.
    pub(crate) fn obstacle(&self) -> Option<String> {
        let ready = || self.runs_on.iter().filter(|runs| runs.backend.is_some());
        match &self.explanation.target {
            ExplainedTarget::Panel { min_vendors, .. } => {
                let vendors: BTreeSet<_> = ready().map(|runs| &runs.vendor).collect();
                (vendors.len() < *min_vendors)
                    .then(|| format!("{min_vendors} vendors must answer, but only {} could", vendors.len()))
            }
            // A target that this version does not know has no chains, and does not count as an obstacle.
            _ => (!self.runs_on.is_empty() && ready().next().is_none())
                .then(|| "no backend could run it".to_owned()),
        }
    }

    /// Returns the check of the type.
    pub(crate) fn check(&self) -> Check {
        let subject = format!("type {}", self.kind);
        match self.obstacle() {
            None => {
                let runs_on = self.runs_on.iter().filter_map(|runs| runs.backend.as_ref());
                let runs_on: Vec<_> = runs_on.map(BackendId::as_str).collect();
                Check::ok(subject, format!("would run on {}", runs_on.join(", ")))
            }
            Some(obstacle) => {
                let of_chain =
                    |runs: &RunsOn| runs.to_string().trim_start_matches([':', ',', ' ']).to_owned();
                let chains: Vec<_> = self.runs_on.iter().map(of_chain).collect();
                let detail = match chains.as_slice() {
                    // The text of a single chain begins with the obstacle, so do not repeat it.
                    [chain] if chain.starts_with(&obstacle) => chain.clone(),
                    chains => format!("{obstacle} ({})", chains.join("; ")),
                };
                Check::failed(subject, printable(&detail))
                    .fixed_by("prepare one of its backends, or name others in its group")
            }
        }
    }
}

/// Backends that types use, each with a note whether a type names a model for it.
#[derive(Debug, Default)]
struct NamedModels {
    /// True if some type names one, by the backends that types use.
    named: BTreeMap<BackendId, bool>,
}

impl NamedModels {
    fn of<'e>(explanations: impl Iterator<Item = &'e Explanation>) -> Self {
        let mut models = Self::default();
        for explanation in explanations {
            explanation.target.chains().for_each(|chain| models.add(chain));
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
