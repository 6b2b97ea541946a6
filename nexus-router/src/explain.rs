//! Explains which backends would run a turn, without a process, a network access or a model call.
//!
//! It uses the router's knowledge: the configuration, and the holds as last seen ([`Router::refresh_holds`]).
//! It does not know if a program is installed or logged in; that is the job of
//! [`probe`](nexus_core::ExecutionBackend::probe).

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
    /// The type's name.
    pub kind: String,
    /// Its tier, if the file names it.
    pub tier: Option<String>,
    /// Its phase, if the file names it.
    pub phase: Option<String>,
    /// Rule for another backend to take a turn over.
    pub fallback: FallbackRule,
    /// Its target.
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
        /// Its name.
        name: String,
        /// Number of vendors that must answer.
        min_vendors: usize,
        /// Its seats, in order.
        seats: Vec<ExplainedSeat>,
    },
}

/// One seat of a panel.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedSeat {
    /// The name of its lens.
    pub lens: Option<String>,
    /// Backends that may fill it.
    pub chain: ExplainedChain,
}

/// One chain.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedChain {
    /// The group.
    pub group: String,
    /// The model, as the group calls it.
    pub model: Option<ModelId>,
    /// The effort.
    pub effort: Option<Effort>,
    /// Its backends, in order.
    pub entries: Vec<ExplainedEntry>,
}

/// One backend of a chain.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedEntry {
    /// The backend.
    pub backend: BackendId,
    /// The company behind it, where it is part of this build.
    pub vendor: Option<VendorId>,
    /// The model, if the backend calls it otherwise than the chain says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelId>,
    /// Turns that it may run at once.
    pub max_turns_at_once: Option<usize>,
    /// The verdict on it.
    pub verdict: Verdict,
}

/// Verdict on one backend of a chain.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is tried first.
    First,
    /// It is tried if none before it could run.
    Next,
    /// It is tried to find out whether its hold is over.
    Probe {
        /// The refusal that caused the hold.
        reason: String,
    },
    /// It is suspended by a hold.
    Held {
        /// The refusal that caused the hold, in the vendor's words where there are any.
        reason: String,
        /// Until when.
        until: SystemTime,
        /// True if the time is our guess.
        guessed: bool,
        /// The time that the vendor named, if it is later than the longest hold.
        named_until: Option<SystemTime>,
    },
    /// The file parks it.
    Parked {
        /// Why.
        reason: String,
    },
    /// It is not part of this build.
    Absent {
        /// Why.
        reason: String,
    },
    /// It does not have what the request needs.
    Unsupported {
        /// The missing ability.
        need: String,
    },
}

impl Verdict {
    /// Returns true if a turn would reach it, provided that no earlier backend could run.
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

    /// Explains which backends would run this very request, whose needs not every backend may meet.
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

    /// Returns the verdict on an entry that is reached; [`Verdict::First`] if it would be tried.
    fn verdict(&self, entry: &ConfiguredBackend, request: Option<(&TurnRequest, &TurnHost)>) -> Verdict {
        if let Some(reason) = &entry.parked {
            return Verdict::Parked { reason: reason.clone() };
        }
        let backend = match &entry.state {
            EntryState::Built(backend) => backend,
            EntryState::Absent(reason) => return Verdict::Absent { reason: reason.clone() },
        };
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
