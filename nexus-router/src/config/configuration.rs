//! A checked configuration: every name is resolved, and every backend is built.

use std::{collections::BTreeMap, num::NonZeroUsize, path::PathBuf, sync::Arc};

use nexus_core::{BackendId, ExecutionBackend, ResumeHandle, VendorId};
use serde_json::{Map, Value};

use super::{
    error::Problem,
    nearest,
    schema::{Distinct, FallbackRule},
};
use crate::{
    binding::Binding,
    spending::SpendingBudget,
    work_kind::{UnknownKind, WorkKind},
};

/// The router's configuration until the next reload.
#[derive(Debug)]
pub(crate) struct Configuration {
    pub(crate) backends: BTreeMap<BackendId, Arc<ConfiguredBackend>>,
    pub(crate) types: Vec<WorkType>,
    pub(crate) panels: BTreeMap<String, Roster>,
    /// Portable names of models, in the order of the file.
    pub(crate) models: Vec<String>,
    /// Budgets of turns, in the order of the file.
    pub(crate) budgets: Vec<SpendingBudget>,
    /// Sections for programs above the router, by key.
    pub(crate) sections: BTreeMap<&'static str, Value>,
    /// Base of relative paths in the configuration.
    pub(crate) base_directory: PathBuf,
    /// Problems that do not prevent loading but are probably mistakes.
    pub(crate) warnings: Vec<Problem>,
}

/// A backend with its settings from the configuration.
#[derive(Debug)]
pub(crate) struct ConfiguredBackend {
    pub(crate) id: BackendId,
    pub(crate) state: EntryState,
    /// `None` for a backend that is not part of this build.
    pub(crate) vendor: Option<VendorId>,
    pub(crate) parked: Option<String>,
    pub(crate) max_turns_at_once: Option<NonZeroUsize>,
    /// Inputs of its construction, so that a reload builds only changed backends.
    pub(crate) built_from: Option<BuiltFrom>,
}

/// Inputs of a built backend.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BuiltFrom {
    /// `None` for a backend that the program registered.
    pub(crate) kind: Option<String>,
    pub(crate) settings: Map<String, Value>,
    pub(crate) base_directory: PathBuf,
    /// `None` for a backend whose turns run here.
    pub(crate) pool: Option<PoolBuiltFrom>,
    /// The section that shares logins, if the file has it.
    pub(crate) shared_logins: Option<Value>,
}

/// The pool in which a backend's turns run, and the settings for reaching it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PoolBuiltFrom {
    pub(crate) name: String,
    pub(crate) section: Option<Value>,
}

/// State of a backend.
#[derive(Debug)]
pub(crate) enum EntryState {
    Built(Arc<dyn ExecutionBackend>),
    /// The kind is missing from this build, for this reason.
    Absent(String),
}

impl ConfiguredBackend {
    /// Returns true if the backend is part of this build and not parked.
    pub(crate) fn is_runnable(&self) -> bool {
        self.parked.is_none() && matches!(self.state, EntryState::Built(_))
    }

    /// The backend, if it is part of this build.
    pub(crate) fn backend(&self) -> Option<&Arc<dyn ExecutionBackend>> {
        match &self.state {
            EntryState::Built(backend) => Some(backend),
            EntryState::Absent(_) => None,
        }
    }
}

/// A work-kind and its target.
#[derive(Clone, Debug)]
pub(crate) struct WorkType {
    pub(crate) name: String,
    pub(crate) tier_and_phase: Option<(String, String)>,
    pub(crate) fallback: FallbackRule,
    pub(crate) target: Target,
}

/// Target of a work-kind.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Binding(Binding),
    Panel(String),
}

/// Default number of vendors that must answer in a panel.
pub(crate) const DEFAULT_MIN_VENDORS: usize = 2;

/// The seats of a panel, and the required number of vendors.
#[derive(Clone, Debug)]
pub(crate) struct Roster {
    pub(crate) seats: Vec<PanelSeat>,
    pub(crate) min_vendors: usize,
    pub(crate) distinct: Option<Distinct>,
}

/// One seat of a panel.
#[derive(Clone, Debug)]
pub(crate) struct PanelSeat {
    pub(crate) binding: Binding,
    pub(crate) lens: Option<(String, String)>,
}

impl Configuration {
    /// Returns the type that a work-kind names.
    pub(crate) fn work_type(&self, kind: &WorkKind) -> Result<&WorkType, UnknownKind> {
        let found = self.types.iter().find(|known| match kind {
            WorkKind::Named(name) => known.name == *name,
            WorkKind::TierAndPhase { tier, phase } => {
                known.tier_and_phase.as_ref().is_some_and(|(t, p)| t == tier && p == phase)
            }
        });
        found.ok_or_else(|| {
            let suggestion = match kind {
                WorkKind::Named(name) => nearest(name, self.types.iter().map(|known| known.name.as_str())),
                WorkKind::TierAndPhase { .. } => {
                    let pairs: Vec<String> = self.types.iter().filter_map(WorkType::pair).collect();
                    nearest(&kind.to_string(), pairs.iter().map(String::as_str))
                }
            };
            UnknownKind { kind: kind.clone(), suggestion }
        })
    }

    /// Returns the entries of a chain, in order. A checked chain contains only known ids.
    pub(crate) fn chain<'a>(
        &'a self,
        binding: &'a Binding,
    ) -> impl Iterator<Item = &'a Arc<ConfiguredBackend>> {
        binding.chain.iter().filter_map(|id| self.backends.get(id))
    }

    /// Returns the backend of a chain that continues the conversation of a handle: the backend that created the handle, or else
    /// the first one that can run, if it can continue that conversation. A later one would take over although the order of the
    /// chain prefers another, which may have another price.
    pub(crate) fn resumer<'a>(
        &'a self,
        binding: &'a Binding,
        handle: &ResumeHandle,
    ) -> Option<&'a Arc<ConfiguredBackend>> {
        let owner = self.chain(binding).find(|entry| entry.id == *handle.backend());
        let first = || self.chain(binding).find(|entry| entry.is_runnable());
        let runnable_owner = owner.filter(|entry| entry.is_runnable());
        let another =
            || first().filter(|entry| entry.backend().is_some_and(|backend| backend.can_resume(handle)));
        // If no backend can resume it, return the owner: the turn then fails with the reason why the owner cannot run.
        runnable_owner.or_else(another).or(owner)
    }

    /// Returns the vendor of a backend.
    pub(crate) fn vendor(&self, backend: &BackendId) -> Option<&VendorId> {
        self.backends.get(backend)?.vendor.as_ref()
    }
}

impl WorkType {
    fn pair(&self) -> Option<String> {
        let (tier, phase) = self.tier_and_phase.as_ref()?;
        Some(format!("{tier}/{phase}"))
    }
}
