//! A seat: one participant that is asked through a binding of its own and, if it has one, a lens.
//!
//! The seats of a panel come from the configuration ([`Router::seats`]); a program composes others from a [`Binding`].
//! [`Router::run_panel`] asks all seats of a panel the same; a program that asks each something else, or wants each answer as it
//! comes, runs them one by one with [`Router::run_seat`].

use std::fmt;

use nexus_core::{BackendId, EventSink, TurnError, TurnHost, TurnRequest, TurnResult, VendorId};
use serde::{Deserialize, Serialize};

use crate::{
    binding::{Binding, with_lens},
    config::{Configuration, FallbackRule, Target},
    router::Router,
    run::Route,
    work_kind::{KindError, WorkKind},
};

/// One participant of a panel or of a debate: which backends may fill it, and what it is told to look for.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    /// Position among its fellows, from zero.
    pub index: usize,
    /// The backends that may fill it, the model and the effort.
    pub binding: Binding,
    /// What it is told to look for.
    pub lens: Option<Lens>,
    /// When another backend of the binding may take over.
    pub fallback: FallbackRule,
}

/// A point of view: a text that is added to what the system text says.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lens {
    /// Its name in the configuration.
    pub name: String,
    /// The text.
    pub text: String,
}

impl Lens {
    /// A lens of this name and text.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into() }
    }
}

impl Seat {
    /// A seat at this position, filled by the backends of a binding.
    pub fn new(index: usize, binding: Binding) -> Self {
        Self { index, binding, lens: None, fallback: FallbackRule::default() }
    }

    /// Sets what it is told to look for.
    #[must_use]
    pub fn with_lens(mut self, lens: Lens) -> Self {
        self.lens = Some(lens);
        self
    }

    /// Sets when another backend of the binding may take over.
    #[must_use]
    pub fn with_fallback(mut self, fallback: FallbackRule) -> Self {
        self.fallback = fallback;
        self
    }

    /// The same seat without one backend, to ask it again on the next one of its group. `None` if no other is left.
    #[must_use]
    pub fn without(&self, backend: &BackendId) -> Option<Self> {
        let mut seat = self.clone();
        seat.binding.chain.retain(|listed| listed != backend);
        (!seat.binding.chain.is_empty()).then_some(seat)
    }
}

impl fmt::Display for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.lens {
            Some(lens) => write!(f, "{} ({})", self.binding.group, lens.name),
            None => f.write_str(&self.binding.group),
        }
    }
}

/// What became of one seat.
#[non_exhaustive]
#[derive(Debug)]
pub struct SeatOutcome {
    /// The seat.
    pub seat: Seat,
    /// The backend that decided.
    pub backend: BackendId,
    /// The company behind it, where one answered.
    pub vendor: Option<VendorId>,
    /// How its turn ended.
    pub outcome: Result<TurnResult, TurnError>,
}

/// What a seat has to say.
#[derive(Debug)]
pub enum Vote<'a> {
    /// An answer. What it says is for the caller to read.
    Answer(&'a TurnResult),
    /// Nothing, for this reason. It is no approval.
    None(String),
}

impl SeatOutcome {
    /// What the seat has to say.
    pub fn vote(&self) -> Vote<'_> {
        match &self.outcome {
            Ok(result) if result.output.is_none() && result.text.trim().is_empty() => {
                Vote::None(format!("{} answered nothing", self.backend))
            }
            Ok(result) => Vote::Answer(result),
            Err(error) => Vote::None(error.to_string()),
        }
    }
}

impl Router {
    /// The seats of a panel, in the order of the file.
    ///
    /// `panel` is a type that is bound to a panel, or the panel's own name.
    ///
    /// # Errors
    ///
    /// [`KindError`], if there is no such panel.
    pub fn seats(&self, panel: impl Into<WorkKind>) -> Result<Vec<Seat>, KindError> {
        Ok(self.configuration().panel_seats(&panel.into())?.1)
    }

    /// Runs one turn of a seat: its binding fills in what the request leaves open, its lens is added to the system text.
    ///
    /// A backend of its binding that the configuration does not have is passed over. What goes wrong is in the outcome.
    pub async fn run_seat(
        &self,
        seat: &Seat,
        request: TurnRequest,
        host: TurnHost,
        events: &mut dyn EventSink,
    ) -> SeatOutcome {
        self.run_seat_of(&self.configuration(), seat, request, host, events).await
    }

    pub(crate) async fn run_seat_of(
        &self,
        configuration: &Configuration,
        seat: &Seat,
        request: TurnRequest,
        host: TurnHost,
        events: &mut dyn EventSink,
    ) -> SeatOutcome {
        let request = match &seat.lens {
            Some(lens) => with_lens(request, &lens.text),
            None => request,
        };
        let name = format!("seat {} of {}", seat.index, seat.binding.group);
        let route = Route { configuration, name: &name, binding: &seat.binding, rule: seat.fallback };
        let outcome = self.run_route(route, request, host, events).await;
        let backend = match &outcome {
            Ok(result) => result.provenance.backend.clone(),
            Err(error) => error.backend().clone(),
        };
        let vendor = configuration.vendor(&backend).cloned();
        SeatOutcome { seat: seat.clone(), backend, vendor, outcome }
    }
}

impl Configuration {
    /// The name and the seats of the panel that a work-kind is bound to, or that has its name.
    pub(crate) fn panel_seats(&self, kind: &WorkKind) -> Result<(String, Vec<Seat>), KindError> {
        let (name, fallback) = match (self.work_type(kind), kind) {
            (Ok(work_type), _) if let Target::Panel(panel) = &work_type.target => {
                (panel.clone(), work_type.fallback)
            }
            (_, WorkKind::Named(name)) if self.panels.contains_key(name) => {
                (name.clone(), FallbackRule::default())
            }
            (Ok(_), _) => return Err(KindError::IsNoPanel { kind: kind.clone() }),
            (Err(unknown), _) => return Err(unknown.into()),
        };
        let places = self.panels.get(&name).map(Vec::as_slice).unwrap_or_default();
        let seats = places.iter().enumerate().map(|(index, place)| Seat {
            index,
            binding: place.binding.clone(),
            lens: place.lens.as_ref().map(|(name, text)| Lens::new(name, text)),
            fallback,
        });
        let seats = seats.collect();
        Ok((name, seats))
    }
}
