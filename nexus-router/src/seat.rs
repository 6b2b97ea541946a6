//! A seat: one participant with a binding of its own and, optionally, a lens.
//!
//! The seats of a panel come from the configuration ([`Router::seats`]); a program composes others from a
//! work-kind ([`Router::seat`]) or from a [`Binding`] of its own. [`Router::run_seat`] runs one of them,
//! [`Router::run_panel`] several.

use std::fmt;

use nexus_core::{BackendId, EventSink, Support, TurnError, TurnHost, TurnRequest, TurnResult, VendorId};
use serde::{Deserialize, Serialize};

use crate::{
    binding::{Binding, with_lens},
    config::{FallbackRule, Target},
    fallback::is_silent,
    router::Router,
    run::TurnRoute,
    work_kind::{KindError, WorkKind},
};

/// One participant of a panel or of a debate: the backends that may fill it, and its lens.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    /// Position among its fellows, from zero.
    pub index: usize,
    /// The backends that may fill it, the model and the effort.
    pub binding: Binding,
    /// Its special point of view.
    pub lens: Option<Lens>,
    /// Rule for another backend of the binding to take over.
    pub fallback: FallbackRule,
    /// True if the next backend of its binding runs once more after a missing vote.
    #[serde(default)]
    pub asks_again: bool,
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
        Self { index, binding, lens: None, fallback: FallbackRule::default(), asks_again: false }
    }

    /// Sets its special point of view.
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

    /// Lets the next backend of the binding run once more if the first one gives no vote: it answered nothing,
    /// declined, broke off, or failed in another way that is not the caller's own decision. The turn continues:
    /// one stream of events, one set of limits, and the usage of the first attempt is in the outcome. A write
    /// ends it, by the seat's fallback rule.
    #[must_use]
    pub fn asking_again(mut self) -> Self {
        self.asks_again = true;
        self
    }

    /// The same seat without one backend, to ask it again later on another one of its group. `None` if no other is left.
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

/// Result of one seat.
#[non_exhaustive]
#[derive(Debug)]
pub struct SeatOutcome {
    /// The seat.
    pub seat: Seat,
    /// The backend that decided.
    pub backend: BackendId,
    /// The company behind it, where one answered.
    pub vendor: Option<VendorId>,
    /// End of its turn.
    pub outcome: Result<TurnResult, TurnError>,
}

/// Vote of a seat.
#[derive(Debug)]
pub enum Vote<'a> {
    /// An answer. What it says is for the caller to read.
    Answer(&'a TurnResult),
    /// No vote, for this reason. It is never an approval.
    None(String),
}

impl SeatOutcome {
    /// Creates the result of a seat that `backend` filled, for example a result that was stored before its
    /// program ended.
    pub fn new(
        seat: Seat,
        backend: BackendId,
        vendor: Option<VendorId>,
        outcome: Result<TurnResult, TurnError>,
    ) -> Self {
        Self { seat, backend, vendor, outcome }
    }

    /// Returns the vote of the seat.
    pub fn vote(&self) -> Vote<'_> {
        match &self.outcome {
            Ok(result) if is_silent(result) => Vote::None(format!("{} answered nothing", self.backend)),
            Ok(result) => Vote::Answer(result),
            Err(error) => Vote::None(error.to_string()),
        }
    }
}

impl Router {
    /// Returns the seats of a panel, in the order of the file.
    ///
    /// `panel` is a type that is bound to a panel, or the panel's own name.
    ///
    /// # Errors
    ///
    /// [`KindError`] if the panel does not exist.
    pub fn seats(&self, panel: impl Into<WorkKind>) -> Result<Vec<Seat>, KindError> {
        Ok(self.panel(panel)?.seats)
    }

    /// Returns a seat for a roster that a program composes: at this position, filled like a work-kind, with its
    /// fallback rule.
    ///
    /// # Errors
    ///
    /// [`KindError`] if the work-kind does not exist, or is a panel.
    pub fn seat(&self, index: usize, kind: impl Into<WorkKind>) -> Result<Seat, KindError> {
        let kind = kind.into();
        let configuration = self.configuration();
        let work_type = configuration.work_type(&kind)?;
        match &work_type.target {
            Target::Binding(binding) => {
                Ok(Seat::new(index, binding.clone()).with_fallback(work_type.fallback))
            }
            Target::Panel(panel) => Err(KindError::IsPanel { kind, panel: panel.clone() }),
        }
    }

    /// Runs one turn of a seat: its binding fills in what the request leaves open, its lens is added to the system text.
    ///
    /// A backend of its binding that the configuration does not have is passed over. What goes wrong is in the outcome.
    ///
    /// ```no_run
    /// use nexus_core::{EventEnvelope, TurnHost, TurnRequest};
    /// use nexus_router::{Router, Vote};
    ///
    /// # async fn debate(router: &Router) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut openings = Vec::new();
    /// for (index, kind) in ["skeptic", "advocate", "outsider"].into_iter().enumerate() {
    ///     let seat = router.seat(index, kind)?.asking_again();
    ///     let mut unwatched = |_: EventEnvelope| {};
    ///     let request = TurnRequest::new(format!("Open as the {kind}."));
    ///     let outcome = router.run_seat(&seat, request, TurnHost::new(), &mut unwatched).await;
    ///     if let Vote::Answer(opening) = outcome.vote() {
    ///         openings.push(opening.text.clone());
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run_seat(
        &self,
        seat: &Seat,
        request: TurnRequest,
        host: TurnHost,
        events: &mut dyn EventSink,
    ) -> SeatOutcome {
        let _steered = host.steered(Support::Yes);
        let configuration = self.configuration();
        let request = match &seat.lens {
            Some(lens) => with_lens(request, &lens.text),
            None => request,
        };
        let name = format!("seat {} of {}", seat.index, seat.binding.group);
        let route = TurnRoute {
            configuration: &configuration,
            name: &name,
            binding: &seat.binding,
            rule: seat.fallback,
            asks_again: seat.asks_again,
        };
        let outcome = self.run_route(route, request, host, events).await;
        let backend = match &outcome {
            Ok(result) => result.provenance.backend.clone(),
            Err(error) => error.backend().clone(),
        };
        let vendor = configuration.vendor(&backend).cloned();
        SeatOutcome { seat: seat.clone(), backend, vendor, outcome }
    }
}
