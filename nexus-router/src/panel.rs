//! A roster of seats that all get the same request at once, each through its own binding and lens.
//!
//! What a seat says is for the caller to read: give the request an output schema, and each answer is a
//! checked value. Here it is only told who answered. A seat that fails, or answers nothing, is a
//! [`Vote::None`], never an approval; and two seats that fell to one vendor are one opinion, so that
//! [`PanelOutcome::spread`] counts vendors and not seats.

use std::{
    collections::BTreeSet,
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll},
};

use nexus_core::{ErrorKind, EventEnvelope, EventQueue, Limit, TurnHost, TurnRequest, TurnResult, VendorId};
use serde::{Deserialize, Serialize};

use crate::{
    router::Router,
    seat::{Seat, SeatOutcome, Vote},
    work_kind::{KindError, WorkKind},
};

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
    /// What became of these seats.
    pub fn new(panel: impl Into<String>, seats: Vec<SeatOutcome>) -> Self {
        Self { panel: panel.into(), seats }
    }

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
    /// ```
    /// use std::sync::Arc;
    /// use nexus_core::{BuildContext, ErrorKind, Registry, TurnHost, TurnRequest};
    /// use nexus_router::{Router, SeatEvent, Vote};
    /// # use nexus_core::{
    /// #     AccessSupport, Availability, BackendId, Capabilities, EventSink, ExecutionBackend, FinishReason, LoopMode, Sandbox,
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
    /// #         capabilities.access.scoped_only = AccessSupport::Kept(Sandbox::None);
    /// #         capabilities
    /// #     }
    /// #     async fn probe(&self) -> Availability {
    /// #         Availability::ready(None)
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
    /// let panel = router.run_panel("reviewer", request, |_seat| TurnHost::new(), &mut events).await?;
    ///
    /// for seat in &panel.seats {
    ///     match seat.vote() {
    ///         Vote::Answer(result) => println!("{}: {}", seat.seat, result.text),
    ///         // No vote is no approval.
    ///         Vote::None(reason) => println!("{}: no vote, since {reason}", seat.seat),
    ///     }
    /// }
    /// assert_eq!(panel.answers().count(), 1);
    /// # Ok(())
    /// # }
    /// ```
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
        let (panel, seats) = configuration.panel_seats(&panel.into())?;
        let mut running: Vec<RunningSeat<'_>> = Vec::with_capacity(seats.len());
        for seat in &seats {
            let queue = EventQueue::default();
            let (request, host, mut sink) = (request.clone(), host(seat), queue.clone());
            let configuration = &configuration;
            let turn =
                Box::pin(
                    async move { self.run_seat_of(configuration, seat, request, host, &mut sink).await },
                );
            running.push(RunningSeat { index: seat.index, turn, queue, outcome: None });
        }
        poll_fn(|context| poll_seats(&mut running, events, context)).await;
        let seats = running.into_iter().filter_map(|seat| seat.outcome).collect();
        Ok(PanelOutcome { panel, seats })
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
                events.accept(SeatEvent { seat: seat.index, event });
            }
        }
    }
    if all_ended { Poll::Ready(()) } else { Poll::Pending }
}
