//! A roster of seats that all get the same request at once, each through its own binding and lens.
//!
//! What a seat says is for the caller to read: give the request an output schema, and each answer is a
//! checked value. Here it is only told who answered. A seat that fails, or answers nothing, is a
//! [`Vote::None`], never an approval; and two seats that fell to one vendor are one opinion, so that
//! [`PanelOutcome::spread`] counts vendors and not seats.

use std::{
    collections::BTreeSet,
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll},
};

use nexus_core::{
    BackendId, ErrorKind, EventEnvelope, EventQueue, Limit, TurnError, TurnHost, TurnRequest, TurnResult,
    VendorId,
};
use serde::{Deserialize, Serialize};

use crate::{
    binding::with_lens,
    config::{Configuration, FallbackRule, PanelSeat, Target},
    router::Router,
    run::Route,
    work_kind::{KindError, WorkKind},
};

/// A place in a panel.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    /// Counts from zero, in the order of the file.
    pub index: usize,
    /// The group that fills it.
    pub group: String,
    /// The name of its lens.
    pub lens: Option<String>,
}

impl fmt::Display for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.lens {
            Some(lens) => write!(f, "{} ({lens})", self.group),
            None => f.write_str(&self.group),
        }
    }
}

/// An event of one seat's turn.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeatEvent {
    /// The seat's index.
    pub seat: usize,
    /// The event, numbered and timed within the seat's own turn.
    pub event: EventEnvelope,
}

/// Takes the events of a panel. Any closure that takes a [`SeatEvent`] is one that is always ready.
pub trait PanelSink: Send {
    /// Whether one more event can be taken now. `Pending` must wake the task once it can.
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()>;

    /// Takes one event. Called only after [`PanelSink::poll_ready`] said so; must not block.
    fn accept(&mut self, event: SeatEvent);
}

impl<F: FnMut(SeatEvent) + Send> PanelSink for F {
    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    fn accept(&mut self, event: SeatEvent) {
        self(event);
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

/// What became of a panel.
#[non_exhaustive]
#[derive(Debug)]
pub struct PanelOutcome {
    /// The panel's name.
    pub panel: String,
    /// Every seat, in the order of the file.
    pub seats: Vec<SeatOutcome>,
}

impl PanelOutcome {
    /// The seats that answered, and their answers.
    pub fn answers(&self) -> impl Iterator<Item = (&SeatOutcome, &TurnResult)> {
        self.seats.iter().filter_map(|seat| match seat.vote() {
            Vote::Answer(result) => Some((seat, result)),
            Vote::None(_) => None,
        })
    }

    /// The vendors that really answered, each once.
    pub fn spread(&self) -> BTreeSet<&VendorId> {
        self.answers().filter_map(|(seat, _)| seat.vendor.as_ref()).collect()
    }
}

impl Router {
    /// Runs every seat of a panel at once, with the same request; each seat adds its binding and its lens.
    ///
    /// `panel` is a type that is bound to a panel, or the panel's own name. `host` is asked once per seat for
    /// its tools and its cancellation. A seat is a participant: give each a session of its own
    /// ([`TurnHost::with_session`]), for what hosts share, as clones of one do, is one budget and one list of decisions. Turns
    /// of one session still have a token each. Dropping the future stops every seat.
    ///
    /// # Errors
    ///
    /// [`KindError`], if there is no such panel. What goes wrong in a seat is in its outcome.
    pub async fn run_panel(
        &self,
        panel: impl Into<WorkKind>,
        request: TurnRequest,
        mut host: impl FnMut(&Seat) -> TurnHost + Send,
        events: &mut dyn PanelSink,
    ) -> Result<PanelOutcome, KindError> {
        let configuration = self.configuration();
        let (name, rule) = panel_of(&configuration, &panel.into())?;
        let places = configuration.panels.get(&name).map(Vec::as_slice).unwrap_or_default();
        let mut running: Vec<RunningSeat<'_>> = Vec::with_capacity(places.len());
        for (index, place) in places.iter().enumerate() {
            let seat = Seat {
                index,
                group: place.binding.group.clone(),
                lens: place.lens.as_ref().map(|(name, _)| name.clone()),
            };
            let host = host(&seat);
            let request = match &place.lens {
                Some((_, text)) => with_lens(request.clone(), text),
                None => request.clone(),
            };
            let label = format!("{name}[{index}]");
            running.push(self.start_seat(&configuration, label, place, rule, seat, (request, host)));
        }
        poll_fn(|context| poll_seats(&mut running, events, context)).await;
        let seats = running.into_iter().filter_map(|seat| seat.into_outcome(&configuration)).collect();
        Ok(PanelOutcome { panel: name, seats })
    }

    fn start_seat<'a>(
        &'a self,
        configuration: &'a Configuration,
        label: String,
        place: &'a PanelSeat,
        rule: FallbackRule,
        seat: Seat,
        (request, host): (TurnRequest, TurnHost),
    ) -> RunningSeat<'a> {
        let queue = EventQueue::default();
        let mut sink = queue.clone();
        let turn = Box::pin(async move {
            let route = Route { configuration, name: &label, binding: &place.binding, rule };
            self.run_route(route, request, host, &mut sink).await
        });
        RunningSeat { seat, turn, queue, outcome: None }
    }
}

fn panel_of(configuration: &Configuration, kind: &WorkKind) -> Result<(String, FallbackRule), KindError> {
    let unknown = match configuration.work_type(kind) {
        Ok(work_type) => match &work_type.target {
            Target::Panel(panel) => return Ok((panel.clone(), work_type.fallback)),
            Target::Binding(_) => KindError::IsNoPanel { kind: kind.clone() },
        },
        Err(unknown) => unknown.into(),
    };
    match kind {
        WorkKind::Named(name) if configuration.panels.contains_key(name) => {
            Ok((name.clone(), FallbackRule::default()))
        }
        _ => Err(unknown),
    }
}

type SeatTurn<'a> = Pin<Box<dyn Future<Output = Result<TurnResult, TurnError>> + Send + 'a>>;

struct RunningSeat<'a> {
    seat: Seat,
    turn: SeatTurn<'a>,
    queue: EventQueue,
    outcome: Option<Result<TurnResult, TurnError>>,
}

impl RunningSeat<'_> {
    fn was_stopped(&self) -> bool {
        let stops = |kind| matches!(kind, ErrorKind::Cancelled | ErrorKind::LimitReached(Limit::Deadline));
        matches!(&self.outcome, Some(Err(error)) if stops(error.kind()))
    }

    fn into_outcome(self, configuration: &Configuration) -> Option<SeatOutcome> {
        let outcome = self.outcome?;
        let backend = match &outcome {
            Ok(result) => result.provenance.backend.clone(),
            Err(error) => error.backend().clone(),
        };
        let vendor = configuration.vendor(&backend).cloned();
        Some(SeatOutcome { seat: self.seat, backend, vendor, outcome })
    }
}

/// Drives every seat, and hands their events on. A slow sink costs the seats display deltas, not time.
fn poll_seats(
    seats: &mut [RunningSeat<'_>],
    events: &mut dyn PanelSink,
    context: &mut Context<'_>,
) -> Poll<()> {
    let mut all_ended = true;
    for seat in seats.iter_mut() {
        if seat.outcome.is_none() {
            match seat.turn.as_mut().poll(context) {
                Poll::Ready(outcome) => seat.outcome = Some(outcome),
                Poll::Pending => all_ended = false,
            }
        }
    }
    // Nobody who wants the panel to stop waits for a sink that is not ready.
    let all_stopped = seats.iter().all(RunningSeat::was_stopped);
    for seat in seats.iter_mut() {
        while !seat.queue.is_empty() {
            if events.poll_ready(context).is_pending() {
                return if all_stopped { Poll::Ready(()) } else { Poll::Pending };
            }
            if let Some(event) = seat.queue.pop() {
                events.accept(SeatEvent { seat: seat.seat.index, event });
            }
        }
    }
    if all_ended { Poll::Ready(()) } else { Poll::Pending }
}
