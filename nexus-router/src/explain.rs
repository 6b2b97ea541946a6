//! Explains which backends would run a turn, without a process, a network access or a model call.
//!
//! It uses the router's knowledge: the configuration, and the holds as last seen ([`Router::refresh_holds`]).
//! It does not check if a program is installed or logged in; [`probe`](nexus_core::ExecutionBackend::probe)
//! does.

use std::{fmt, time::SystemTime};

use nexus_core::{BackendId, Effort, ModelId, TurnHost, TurnRequest, VendorId};
use serde::{Deserialize, Serialize};

use crate::{
    binding::{Binding, with_lens},
    config::{Configuration, ConfiguredBackend, EntryState, FallbackRule, Target},
    hold::{Hold, HoldEnd},
    router::Router,
    work_kind::{KindError, WorkKind},
};

/// The backends that would run a turn of one work-kind, with the reasons.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// Name of the type.
    pub kind: String,
    /// Tier of the type, if the file sets it.
    pub tier: Option<String>,
    /// Phase of the type, if the file sets it.
    pub phase: Option<String>,
    /// Rule for a fallback to another backend.
    pub fallback: FallbackRule,
    /// Backends or panel that the type names.
    pub target: ExplainedTarget,
    /// Time of the explanation.
    pub as_of: SystemTime,
}

/// Target of a work-kind.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExplainedTarget {
    /// One chain.
    Chain(ExplainedChain),
    /// A panel.
    Panel {
        /// Name of the panel.
        name: String,
        /// Number of vendors that must answer.
        min_vendors: usize,
        /// Seats, in order.
        seats: Vec<ExplainedSeat>,
    },
}

impl ExplainedTarget {
    /// Returns the chain, or the chains of all seats.
    pub fn chains(&self) -> impl Iterator<Item = &ExplainedChain> {
        let (chain, seats) = match self {
            Self::Chain(chain) => (Some(chain), [].as_slice()),
            Self::Panel { seats, .. } => (None, seats.as_slice()),
        };
        chain.into_iter().chain(seats.iter().map(|seat| &seat.chain))
    }
}

/// One seat of a panel.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedSeat {
    /// Name of the seat's lens.
    pub lens: Option<String>,
    /// Backends that may fill the seat.
    pub chain: ExplainedChain,
}

/// One chain.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedChain {
    /// Name of the group.
    pub group: String,
    /// The model, by the group's name for it.
    pub model: Option<ModelId>,
    /// The effort.
    pub effort: Option<Effort>,
    /// Backends, in order.
    pub entries: Vec<ExplainedEntry>,
}

/// One backend of a chain.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedEntry {
    /// The backend.
    pub backend: BackendId,
    /// Vendor of the backend, if the backend is part of this build.
    pub vendor: Option<VendorId>,
    /// The model's name at this backend, if it differs from the chain's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelId>,
    /// Limit on concurrent turns, if the configuration sets one.
    pub max_turns_at_once: Option<usize>,
    /// Verdict on the backend.
    pub verdict: Verdict,
}

/// Verdict on one backend of a chain.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The router tries this backend first.
    First,
    /// The router tries this backend if no earlier one could run.
    Next,
    /// The hold's time is over. The turn tests whether the backend works again.
    Probe {
        /// The refusal that caused the hold.
        reason: String,
    },
    /// A hold suspends the backend.
    Held {
        /// The refusal that caused the hold, in the vendor's words where there are any.
        reason: String,
        /// End of the hold.
        until: SystemTime,
        /// True if `until` is our guess.
        guessed: bool,
        /// The time that the vendor named, if it is later than the longest hold.
        named_until: Option<SystemTime>,
    },
    /// The configuration parks the backend.
    Parked {
        /// Reason for parking it.
        reason: String,
    },
    /// The backend is missing from this build.
    Absent {
        /// Reason why it is missing.
        reason: String,
    },
    /// The backend lacks an ability that the request needs.
    Unsupported {
        /// The missing ability.
        need: String,
    },
}

impl Verdict {
    /// Returns true if the router would try this backend, provided that no earlier backend could run.
    pub fn is_tried(&self) -> bool {
        matches!(self, Self::First | Self::Next | Self::Probe { .. })
    }
}

impl Router {
    /// Explains which backends would run a turn of this work-kind.
    ///
    /// # Errors
    ///
    /// [`KindError`] if the work-kind does not exist.
    pub fn explain(&self, kind: impl Into<WorkKind>) -> Result<Explanation, KindError> {
        self.explain_for(kind, None)
    }

    /// Explains which backends would run this request. A backend may lack an ability that the request needs.
    ///
    /// # Errors
    ///
    /// [`KindError`] if the work-kind does not exist.
    pub fn explain_request(
        &self,
        kind: impl Into<WorkKind>,
        request: &TurnRequest,
        host: &TurnHost,
    ) -> Result<Explanation, KindError> {
        self.explain_for(kind, Some((request, host)))
    }

    fn explain_for(
        &self,
        kind: impl Into<WorkKind>,
        request: Option<(&TurnRequest, &TurnHost)>,
    ) -> Result<Explanation, KindError> {
        let configuration = self.configuration();
        let work_type = configuration.work_type(&kind.into())?;
        let target = match &work_type.target {
            Target::Binding(binding) => {
                ExplainedTarget::Chain(self.explain_chain(&configuration, binding, request))
            }
            Target::Panel(name) => {
                let roster = &configuration.panels[name];
                let seats = roster.seats.iter().map(|seat| {
                    let lensed = match (&seat.lens, request) {
                        (Some((_, text)), Some((request, _))) => Some(with_lens(request.clone(), text)),
                        _ => None,
                    };
                    let request = request.map(|(request, host)| (lensed.as_ref().unwrap_or(request), host));
                    ExplainedSeat {
                        lens: seat.lens.as_ref().map(|(name, _)| name.clone()),
                        chain: self.explain_chain(&configuration, &seat.binding, request),
                    }
                });
                ExplainedTarget::Panel {
                    name: name.clone(),
                    min_vendors: roster.min_vendors,
                    seats: seats.collect(),
                }
            }
        };
        let (tier, phase) = work_type.tier_and_phase.clone().unzip();
        Ok(Explanation {
            kind: work_type.name.clone(),
            tier,
            phase,
            fallback: work_type.fallback,
            target,
            as_of: self.holds_state().now(),
        })
    }

    fn explain_chain(
        &self,
        configuration: &Configuration,
        binding: &Binding,
        request: Option<(&TurnRequest, &TurnHost)>,
    ) -> ExplainedChain {
        let mut is_first = true;
        let requested = request.and_then(|(request, _)| request.model.clone());
        let entries = configuration.chain(binding).map(|entry| {
            let mut verdict = self.verdict(entry, request);
            if verdict.is_tried() {
                if !is_first && verdict == Verdict::First {
                    verdict = Verdict::Next;
                }
                is_first = false;
            }
            ExplainedEntry {
                backend: entry.id.clone(),
                vendor: entry.vendor.clone(),
                // A model in the request goes to every backend under the same name.
                model: binding.own_models.get(&entry.id).filter(|_| requested.is_none()).cloned(),
                max_turns_at_once: entry.max_turns_at_once.map(Into::into),
                verdict,
            }
        });
        let entries = entries.collect();
        let effort = request.and_then(|(request, _)| request.effort);
        ExplainedChain {
            group: binding.group.clone(),
            model: requested.or_else(|| binding.model.clone()),
            effort: effort.or(binding.effort),
            entries,
        }
    }

    /// Returns the verdict on an entry that the turn reaches; [`Verdict::First`] if the router would try it.
    fn verdict(&self, entry: &ConfiguredBackend, request: Option<(&TurnRequest, &TurnHost)>) -> Verdict {
        if let Some(reason) = &entry.parked {
            return Verdict::Parked { reason: reason.clone() };
        }
        let backend = match &entry.state {
            EntryState::Built(backend) => backend,
            EntryState::Absent(reason) => return Verdict::Absent { reason: reason.clone() },
        };
        // An explanation does not wait, so it uses the last known hold without access to the store.
        let hold = self.holds_state().peek(&entry.id);
        if let Some(hold) = &hold
            && hold.is_standing(self.holds_state().now())
        {
            let Hold { until, guessed, named_until, .. } = *hold;
            return Verdict::Held { reason: hold.reason.clone(), until, guessed, named_until };
        }
        if let Some((request, host)) = request
            && let Some(need) = backend.capabilities().unmet(request, host.session().definitions()).first()
        {
            return Verdict::Unsupported { need: need.to_string() };
        }
        match hold {
            Some(hold) => Verdict::Probe { reason: hold.reason },
            None => Verdict::First,
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if let (Some(tier), Some(phase)) = (&self.tier, &self.phase) {
            write!(f, " ({tier}/{phase})")?;
        }
        if self.fallback != FallbackRule::default() {
            write!(f, ", fallback {}", self.fallback.as_str())?;
        }
        match &self.target {
            ExplainedTarget::Chain(chain) => {
                f.write_str(" → ")?;
                chain.write(f, "  ", self.as_of)
            }
            ExplainedTarget::Panel { name, min_vendors, seats } => {
                let s = if *min_vendors == 1 { "" } else { "s" };
                write!(f, " → panel {name}, at least {min_vendors} vendor{s}")?;
                for (index, seat) in seats.iter().enumerate() {
                    write!(f, "\n  seat {index}")?;
                    if let Some(lens) = &seat.lens {
                        write!(f, " ({lens})")?;
                    }
                    f.write_str(" → ")?;
                    seat.chain.write(f, "    ", self.as_of)?;
                }
                Ok(())
            }
        }
    }
}

impl ExplainedChain {
    fn write(&self, f: &mut fmt::Formatter<'_>, indent: &str, as_of: SystemTime) -> fmt::Result {
        write!(f, "{}", self.group)?;
        if let Some(model) = &self.model {
            write!(f, ", model {model}")?;
        }
        if let Some(effort) = self.effort {
            write!(f, ", effort {effort}")?;
        }
        let width =
            self.entries.iter().map(|entry| entry.backend.as_str().chars().count()).max().unwrap_or(0);
        for (index, entry) in self.entries.iter().enumerate() {
            write!(f, "\n{indent}{}. {:width$}  ", index + 1, entry.backend.as_str())?;
            entry.verdict.write(f, as_of)?;
            if let Some(model) = &entry.model {
                write!(f, ", model {model}")?;
            }
            if let Some(places) = entry.max_turns_at_once {
                write!(f, " (at most {places} turns at once)")?;
            }
        }
        Ok(())
    }
}

impl Verdict {
    fn write(&self, f: &mut fmt::Formatter<'_>, as_of: SystemTime) -> fmt::Result {
        match self {
            Self::First => f.write_str("tried first"),
            Self::Next => f.write_str("used if no backend above it can run"),
            Self::Probe { reason } => write!(f, "probes whether the backend works again: {reason}"),
            Self::Held { reason, until, guessed, named_until } => {
                let end = HoldEnd { until: *until, guessed: *guessed, named_until: *named_until };
                write!(f, "skipped: {}: {reason}", end.spoken(as_of))
            }
            Self::Parked { reason } => write!(f, "skipped: parked: {reason}"),
            Self::Absent { reason } => write!(f, "skipped: {reason}"),
            Self::Unsupported { need } => write!(f, "skipped: does not support {need}"),
        }
    }
}
