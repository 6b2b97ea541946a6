//! A roster of seats that run at once, each with its own binding and lens.
//!
//! The caller interprets the answers: give the request an output schema, and each answer is a checked value. The panel only reports
//! which seats and vendors answered. A seat that fails, or answers nothing, is a [`Vote::None`](crate::Vote::None), never an approval.
//! Two seats that fell back to one vendor count as one opinion: a panel's [minimum](Panel::min_vendors) counts the vendors that
//! answered, not the seats or the configured vendors. [`PanelOutcome::shortfall`] reports a minimum that was not met.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll},
};

use nexus_core::{ErrorKind, EventEnvelope, EventQueue, Limit, TurnHost, TurnRequest};
use serde::{Deserialize, Serialize};

use crate::{
    config::{Configuration, DEFAULT_MIN_VENDORS, FallbackRule, Target},
    panel_outcome::PanelOutcome,
    router::Router,
    seat::{Lens, Seat, SeatOutcome},
    work_kind::{KindError, WorkKind},
};

/// Several seats that run at once, from the configuration ([`Router::panel`]) or composed by a program.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Panel {
    /// Name of the panel.
    pub name: String,
    /// Seats of the panel.
    pub seats: Vec<Seat>,
    /// Number of vendors that must answer. Set it to 1 if one vendor is enough.
    pub min_vendors: usize,
}

impl Panel {
    /// Creates a panel of these seats. By default two vendors must answer.
    pub fn new(name: impl Into<String>, seats: impl IntoIterator<Item = Seat>) -> Self {
        Self { name: name.into(), seats: seats.into_iter().collect(), min_vendors: DEFAULT_MIN_VENDORS }
    }

    /// Sets the number of vendors that must answer.
    #[must_use]
    pub fn with_min_vendors(mut self, min_vendors: usize) -> Self {
        self.min_vendors = min_vendors;
        self
    }

    /// Lets the next backend of every seat without a vote run once: see [`Seat::asking_again`].
    #[must_use]
    pub fn asking_again(mut self) -> Self {
        self.seats = self.seats.into_iter().map(Seat::asking_again).collect();
        self
    }
}

/// An event of one seat's turn.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeatEvent {
    /// Index of the seat.
    pub seat: usize,
    /// The event, numbered and timed within the seat's turn.
    pub event: EventEnvelope,
}

/// Receiver of a panel's events. Any closure that takes a [`SeatEvent`] is a sink that is always ready and ignores the ends of seats.
pub trait PanelSink: Send {
    /// Returns `Ready` if the sink can take one more event. After `Pending` the sink must wake the task once it can.
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()>;

    /// Takes one event. The panel calls it only after [`PanelSink::poll_ready`] returned `Ready`. Must not block.
    fn accept(&mut self, event: SeatEvent);

    /// Called once when the turn of a seat has ended. Store votes here, so that a killed program retains the earlier ones. Other seats
    /// may still run. The call does not wait for a busy sink, so events that the sink has not taken follow later.
    fn ended(&mut self, outcome: &SeatOutcome);
}

impl<F: FnMut(SeatEvent) + Send> PanelSink for F {
    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    fn accept(&mut self, event: SeatEvent) {
        self(event);
    }

    fn ended(&mut self, _outcome: &SeatOutcome) {}
}

impl Router {
    /// Returns a panel of the configuration: by a type that is bound to it, or by its own name.
    ///
    /// # Errors
    ///
    /// [`KindError`] if the panel does not exist.
    pub fn panel(&self, panel: impl Into<WorkKind>) -> Result<Panel, KindError> {
        self.configuration().panel(&panel.into())
    }

    /// Runs the seats of a panel at once, each like [`Router::run_seat`], all with one configuration.
    ///
    /// `ask` returns the request of each seat, with its tools and cancellation. A seat is a participant: give each a
    /// session of its own ([`TurnHost::with_session`]), because hosts with a common session, such as clones, share one
    /// budget and one list of decisions. Turns of one session still have a token each. Seats that share a
    /// [`Budget`](nexus_core::Budget) and set no limit of their own get equal shares of its rest. The outcome of a
    /// seat has its failure. Dropping the future stops every seat.
    /// ```
    /// use std::sync::Arc;
    /// use nexus_core::{BuildContext, ErrorKind, Registry, TurnHost, TurnRequest};
    /// use nexus_router::{Router, Seat, SeatEvent, Vote};
    /// # use nexus_core::{
    /// #     AccessSupport, Availability, BackendId, Capabilities, EventSink, ExecutionBackend, FinishReason, LoopMode, AccessEnforcer,
    /// #     TurnError, TurnResult, harness::{Failure, RunningTurn}, turn::MessageEnded,
    /// # };
    /// # #[derive(Debug)]
    /// # struct Scripted(BackendId, Result<&'static str, ErrorKind>);
    /// # #[async_trait::async_trait]
    /// # impl ExecutionBackend for Scripted {
    /// #     fn id(&self) -> &BackendId {
    /// #         &self.0
    /// #     }
    /// #     fn capabilities(&self) -> Capabilities {
    /// #         let mut capabilities = Capabilities::new(LoopMode::Native);
    /// #         capabilities.system = nexus_core::Support::Yes;
    /// #         capabilities.access.scoped_only = AccessSupport::Kept(AccessEnforcer::None);
    /// #         capabilities
    /// #     }
    /// #     async fn probe(&self) -> Availability {
    /// #         Availability::ready(None)
    /// #     }
    /// #     async fn forget(&self, _handle: &nexus_core::ResumeHandle) -> Result<nexus_core::Forgotten, nexus_core::ForgetError> {
    /// #         Err(nexus_core::ForgetError::Unsupported { backend: self.0.clone() })
    /// #     }
    /// #     async fn run_turn(
    /// #         &self, request: TurnRequest, host: TurnHost, events: &mut dyn EventSink,
    /// #     ) -> Result<TurnResult, TurnError> {
    /// #         let mut turn = RunningTurn::begin(&self.0, &self.capabilities(), request, host, events)?;
    /// #         let outcome = self.1.map(|text| {
    /// #             turn.event(MessageEnded::new("m".into(), text));
    /// #             (FinishReason::Stop, None)
    /// #         });
    /// #         let failed = |kind| Failure::new(kind, "the vendor is down");
    /// #         turn.end(outcome.map_err(failed)).await
    /// #     }
    /// # }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let alpha = Scripted("alpha".into(), Ok("An empty slice gives NaN."));
    /// # let beta = Scripted("beta".into(), Err(ErrorKind::VendorFailure));
    /// let router = Router::builder(Registry::new(), BuildContext::in_home("home"))
    ///     .backend(Arc::new(alpha))
    ///     .backend(Arc::new(beta))
    ///     .from_value(serde_json::json!({
    ///         "groups": { "first": ["alpha"], "second": ["beta"] },
    ///         "types": { "reviewer": { "panel": "review" } },
    ///         "panels": { "review": [{ "group": "first", "lens": "inputs" }, { "group": "second" }] },
    ///         "lenses": { "inputs": "Probe empty and negative inputs." },
    ///     }))?;
    ///
    /// let request = TurnRequest::new("Review: fn mean(v: &[f64]) -> f64 { v.iter().sum::<f64>() / v.len() as f64 }");
    /// let mut events = |event: SeatEvent| println!("seat {}: {:?}", event.seat, event.event.event);
    /// let ask = |_seat: &Seat| (request.clone(), TurnHost::new());
    /// let panel = router.run_panel(&router.panel("reviewer")?, ask, &mut events).await;
    ///
    /// for seat in &panel.seats {
    ///     match seat.vote() {
    ///         Vote::Answer(result) => println!("{}: {}", seat.seat, result.text),
    ///         // A missing vote is never an approval.
    ///         Vote::None(reason) => println!("{}: no vote, since {reason}", seat.seat),
    ///     }
    /// }
    /// let shortfall = panel.shortfall().expect("a panel needs two vendors by default");
    /// println!("{shortfall}");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run_panel(
        &self,
        panel: &Panel,
        mut ask: impl FnMut(&Seat) -> (TurnRequest, TurnHost) + Send,
        events: &mut dyn PanelSink,
    ) -> PanelOutcome {
        let pinned = &self.snapshot();
        // Request all turns before one runs, because the shares of a budget depend on all of them.
        let mut asked: Vec<_> = panel.seats.iter().map(&mut ask).collect();
        share_budgets(&mut asked);
        let running = panel.seats.iter().zip(asked).map(|(seat, (request, host))| {
            let queue = EventQueue::default();
            let mut sink = queue.clone();
            let turn = Box::pin(async move { pinned.run_seat(seat, request, host, &mut sink).await });
            RunningSeat { index: seat.index, turn, queue, outcome: None }
        });
        let mut running: Vec<_> = running.collect();
        poll_fn(|context| poll_seats(&mut running, events, context)).await;
        let outcomes = running.into_iter().filter_map(|seat| seat.outcome);
        PanelOutcome::new(panel.name.as_str(), panel.min_vendors, outcomes.collect())
    }
}

impl Configuration {
    /// Returns the panel that a work-kind is bound to, or the panel with its name.
    fn panel(&self, kind: &WorkKind) -> Result<Panel, KindError> {
        let (name, fallback) = match (self.work_type(kind), kind) {
            (Ok(work_type), _) if let Target::Panel(panel) = &work_type.target => (panel, work_type.fallback),
            (_, WorkKind::Named(name)) if self.panels.contains_key(name) => (name, FallbackRule::default()),
            (Ok(_), _) => return Err(KindError::IsNoPanel { kind: kind.clone() }),
            (Err(unknown), _) => return Err(unknown.into()),
        };
        let roster = &self.panels[name];
        let seats = roster.seats.iter().enumerate().map(|(index, place)| {
            let seat = Seat::new(index, place.binding.clone()).with_fallback(fallback);
            match &place.lens {
                Some((name, text)) => seat.with_lens(Lens::new(name, text)),
                None => seat,
            }
        });
        Ok(Panel::new(name, seats).with_min_vendors(roster.min_vendors))
    }
}

/// Gives seats with a common budget equal shares of it, because they reserve from it at the same time.
fn share_budgets(asked: &mut [(TurnRequest, TurnHost)]) {
    let budgets: Vec<_> = asked.iter().map(|(_, host)| host.budget.clone()).collect();
    for ((request, _), budget) in asked.iter_mut().zip(&budgets) {
        if let Some(budget) = budget {
            let turns = budgets.iter().flatten().filter(|other| other.is_same(budget)).count();
            budget.share(&mut request.limits, turns);
        }
    }
}

type SeatTurn<'a> = Pin<Box<dyn Future<Output = SeatOutcome> + Send + 'a>>;

struct RunningSeat<'a> {
    index: usize,
    turn: SeatTurn<'a>,
    queue: EventQueue,
    outcome: Option<SeatOutcome>,
}

impl RunningSeat<'_> {
    fn was_stopped(&self) -> bool {
        let stops = |kind| matches!(kind, ErrorKind::Cancelled | ErrorKind::LimitReached(Limit::Deadline));
        let outcome = self.outcome.as_ref().map(|seat| &seat.outcome);
        matches!(outcome, Some(Err(error)) if stops(error.kind()))
    }
}

/// Polls every seat, and forwards its events. A slow sink costs the seats display deltas, not time.
fn poll_seats(
    seats: &mut [RunningSeat<'_>],
    events: &mut dyn PanelSink,
    context: &mut Context<'_>,
) -> Poll<()> {
    let mut is_taken = true;
    for seat in seats.iter_mut() {
        let is_running = seat.outcome.is_none();
        if is_running && let Poll::Ready(outcome) = seat.turn.as_mut().poll(context) {
            seat.outcome = Some(outcome);
        }
        while is_taken && !seat.queue.is_empty() {
            is_taken = events.poll_ready(context).is_ready();
            if is_taken && let Some(event) = seat.queue.pop() {
                events.accept(SeatEvent { seat: seat.index, event });
            }
        }
        // Report the end after the seat's events if the sink takes them, but do not wait for a busy sink.
        if is_running && let Some(outcome) = &seat.outcome {
            events.ended(outcome);
        }
    }
    // A panel that the caller stops must not wait for a busy sink.
    let is_over = if is_taken {
        seats.iter().all(|seat| seat.outcome.is_some())
    } else {
        seats.iter().all(RunningSeat::was_stopped)
    };
    if is_over { Poll::Ready(()) } else { Poll::Pending }
}
