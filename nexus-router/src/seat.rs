//! A seat: one participant with a binding of its own and, optionally, a lens.
//!
//! The seats of a panel come from the configuration ([`Router::seats`]); a program composes others from a work-kind
//! ([`Router::seat`]) or from a [`Binding`] of its own. [`Router::run_seat`] runs one seat, [`Router::run_panel`]
//! several.

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

/// One participant of a panel or a debate: the backends that may fill the seat, and its lens.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    /// Position in the panel, from zero.
    pub index: usize,
    /// Backends that may fill the seat, with model and effort.
    pub binding: Binding,
    /// The seat's lens.
    pub lens: Option<Lens>,
    /// Rule for a fallback to another backend of the binding.
    pub fallback: FallbackRule,
    /// True if the next backend of the binding runs once after a missing vote.
    #[serde(default)]
    pub asks_again: bool,
}

/// Text that gives a seat its focus. It is appended to the system text.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lens {
    /// Name of the lens in the configuration.
    pub name: String,
    /// Text of the lens.
    pub text: String,
}

impl Lens {
    /// Creates a lens.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into() }
    }
}

impl Seat {
    /// Creates a seat at this position, for the backends of a binding.
    pub fn new(index: usize, binding: Binding) -> Self {
        Self { index, binding, lens: None, fallback: FallbackRule::default(), asks_again: false }
    }

    /// Sets the lens.
    #[must_use]
    pub fn with_lens(mut self, lens: Lens) -> Self {
        self.lens = Some(lens);
        self
    }

    /// Sets the rule for a fallback to another backend of the binding.
    #[must_use]
    pub fn with_fallback(mut self, fallback: FallbackRule) -> Self {
        self.fallback = fallback;
        self
    }

    /// Lets the next backend of the binding run once if the first one gives no vote. That is: it answered nothing,
    /// declined, broke off, or failed in another way that is not the caller's own decision. Both attempts are one turn:
    /// one stream of events and one set of limits, and the outcome includes the usage of the first attempt. After a
    /// write the seat's fallback rule decides.
    #[must_use]
    pub fn asking_again(mut self) -> Self {
        self.asks_again = true;
        self
    }

    /// Returns the same seat without one backend, to run another backend of its group later. `None` if no other is left.
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
    /// The seat that ran.
    pub seat: Seat,
    /// Backend that answered or failed last.
    pub backend: BackendId,
    /// Vendor of the backend, if one answered.
    pub vendor: Option<VendorId>,
    /// Result or error of the seat's turn.
    pub outcome: Result<TurnResult, TurnError>,
}

/// Vote of a seat.
#[derive(Debug)]
pub enum Vote<'a> {
    /// An answer. The caller interprets its content.
    Answer(&'a TurnResult),
    /// No vote, for this reason. A missing vote is never an approval.
    None(String),
}

impl SeatOutcome {
    /// Creates the outcome of a seat that `backend` filled, for example from a stored result after a restart of the
    /// program.
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

    /// Returns a seat at this position with the binding and the fallback rule of a work-kind, for a roster that a
    /// program composes.
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

    /// Runs one turn of a seat. The binding sets the model and effort if the request does not. The lens is appended to
    /// the system text.
    ///
    /// The router skips backends of the binding that are not in the configuration. The outcome contains any error.
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
        // Begin first, so that input waits instead of being refused while no backend runs.
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
