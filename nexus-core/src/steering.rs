//! Steering: input for an agent while its turn runs.

use std::{
    collections::VecDeque,
    fmt,
    future::Future,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, oneshot};

use crate::capabilities::Support;

/// Longest text of one input, in bytes. Source: our own bound.
const MAX_BYTES: usize = 64 << 10;

/// Maximum number of inputs that wait at once, including inputs whose delivery is not confirmed. Source: our own bound.
const MAX_WAITING: usize = 64;

/// Sends input to the agent of a turn while the turn runs. Clones send to the same turn.
///
/// Pass it to one turn with [`TurnHost::with_steering`](crate::TurnHost::with_steering). Input that is sent before the turn
/// begins waits for it. An input reaches the model between its tool calls: the model's next request contains it as the user's
/// words, after the answers to the calls. Inputs arrive in order, and none is delivered twice. A model that is writing its
/// answer is not interrupted. An answer ends the turn even if inputs wait; those inputs are not delivered.
///
/// [`Steering::send`] returns the fate of each input: [`InputDelivery::Delivered`], or
/// [`InputDelivery::NotDelivered`] with the reason. At most 64 inputs of at most 64 KiB each wait at once.
///
/// **Fallback.** Inputs that wait when a backend fails wait for the backend that takes the turn over. Inputs
/// that the failed backend received stand at the end of the next backend's prompt: their sender gets one
/// confirmation, and the backend that answers has read them. A backend that cannot be steered
/// ([`Capabilities::steering`](crate::Capabilities::steering)) refuses all inputs that wait or arrive while it
/// runs.
///
/// [`TurnEvent::InputReceived`](crate::TurnEvent::InputReceived) has the delivered input, without the secrets
/// of the turn.
///
/// ```
/// use nexus_core::{InputDelivery, NotDelivered, Steering, TurnHost};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let steering = Steering::new();
/// let host = TurnHost::new().with_steering(steering.clone());
/// let sent = steering.send("Leave the tests alone.");
/// // Meanwhile a turn runs with the host. It ends, without another tool call.
/// drop(host.steered(nexus_core::Support::Yes));
/// assert_eq!(sent.await, InputDelivery::NotDelivered(NotDelivered::TurnEnded));
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Steering(Arc<InputChannel>);

/// Queue of inputs, shared by the turn and the senders.
#[derive(Default)]
struct InputChannel {
    state: Mutex<QueuedInputs>,
    arrived: Notify,
}

/// Inputs that the turn has not taken yet, and counters of the inputs and layers.
#[derive(Default)]
struct QueuedInputs {
    /// Inputs in the order in which they were sent.
    waiting: VecDeque<QueuedInput>,
    sent: u64,
    /// Number of inputs that a backend took but neither delivered nor returned.
    taken: usize,
    /// Layers that run the turn now, such as a router and a backend below it.
    layers: usize,
    /// Number of running layers that cannot be steered.
    deaf_layers: usize,
    is_over: bool,
}

/// An input that the turn has not taken yet.
struct QueuedInput {
    number: u64,
    text: String,
    answer: oneshot::Sender<InputDelivery>,
}

impl QueuedInput {
    /// Reports the end of the input to its sender. Ignores a sender that dropped its receiver.
    fn end(self, delivery: InputDelivery) {
        let _ = self.answer.send(delivery);
    }
}

/// Fate of an input.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "delivery", content = "because")]
pub enum InputDelivery {
    /// The input was passed on in this turn: the next request to the model contains it.
    Delivered,
    /// The input was not delivered. A program that was killed or died may still have read it.
    NotDelivered(NotDelivered),
}

/// Reason why an input was not delivered.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotDelivered {
    /// The turn ended before the next model call.
    TurnEnded,
    /// The backend that runs the turn cannot be steered.
    Unsupported,
    /// The maximum number of inputs already waits.
    Full,
    /// The input is longer than 64 KiB.
    TooLong,
    /// The input is empty.
    Empty,
}

impl fmt::Display for NotDelivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TurnEnded => f.write_str("the turn ended before the delivery"),
            Self::Unsupported => f.write_str("the backend cannot be steered"),
            Self::Full => write!(f, "{MAX_WAITING} inputs are already waiting"),
            Self::TooLong => write!(f, "it is longer than {MAX_BYTES} bytes"),
            Self::Empty => f.write_str("it is empty"),
        }
    }
}

/// Future of an input's end. Dropping it does not withdraw the input.
#[must_use = "an input that was not delivered is lost unless it is sent again"]
#[derive(Debug)]
pub struct SentInput(oneshot::Receiver<InputDelivery>);

impl Future for SentInput {
    type Output = InputDelivery;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // `unconstrained`: an answered input must be ready immediately, even if Tokio's task budget is used up.
        let answered = pin!(tokio::task::unconstrained(&mut self.0)).poll(context);
        // A closed channel means that no backend can deliver the input any more.
        answered.map(|answer| answer.unwrap_or(InputDelivery::NotDelivered(NotDelivered::TurnEnded)))
    }
}

impl Steering {
    /// Creates a sender without a turn.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends `text` immediately, even if the returned future is never polled. The future completes with the end of the input.
    pub fn send(&self, text: impl Into<String>) -> SentInput {
        let text = text.into();
        let (answer, sent) = oneshot::channel();
        let mut state = self.state();
        // Check under the lock, so that an input is either queued before the turn ends or refused.
        let refusal = if text.trim().is_empty() {
            Some(NotDelivered::Empty)
        } else if text.len() > MAX_BYTES {
            Some(NotDelivered::TooLong)
        } else if let Some(closed) = state.closed() {
            Some(closed)
        } else {
            // Taken inputs count too, because they return to the queue if their delivery fails.
            (state.waiting.len() + state.taken >= MAX_WAITING).then_some(NotDelivered::Full)
        };
        let number = state.sent;
        state.sent += 1;
        let input = QueuedInput { number, text, answer };
        match refusal {
            Some(why) => input.end(InputDelivery::NotDelivered(why)),
            None => state.waiting.push_back(input),
        }
        // Release the lock before the wake, because the woken task takes it.
        drop(state);
        self.0.arrived.notify_waiters();
        SentInput(sent)
    }

    /// Returns true if the turn has ended, so that nothing can be sent any more.
    pub fn is_over(&self) -> bool {
        self.state().is_over
    }

    fn state(&self) -> MutexGuard<'_, QueuedInputs> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_back(&self, input: QueuedInput) {
        let mut state = self.state();
        state.taken = state.taken.saturating_sub(1);
        if let Some(why) = state.closed() {
            return input.end(InputDelivery::NotDelivered(why));
        }
        // `waiting` is sorted by number, so a returned input gets its old place.
        let place = state.waiting.partition_point(|other| other.number < input.number);
        state.waiting.insert(place, input);
        // Release the lock before the wake, because the woken task takes it.
        drop(state);
        self.0.arrived.notify_waiters();
    }
}

impl QueuedInputs {
    /// Returns the reason why no input is accepted now, if any.
    fn closed(&self) -> Option<NotDelivered> {
        match (self.is_over, self.deaf_layers) {
            (true, _) => Some(NotDelivered::TurnEnded),
            (false, 0) => None,
            (false, _) => Some(NotDelivered::Unsupported),
        }
    }

    fn refuse_waiting(&mut self) {
        let Some(why) = self.closed() else { return };
        self.waiting.drain(..).for_each(|input| input.end(InputDelivery::NotDelivered(why)));
    }
}

impl fmt::Debug for Steering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Steering")
            .field("waiting", &state.waiting.len())
            .field("is_over", &state.is_over)
            .finish_non_exhaustive()
    }
}

/// A steerable turn from the view of the code that runs it. [`TurnHost::steered`](crate::TurnHost::steered) creates it before
/// anything else of the turn, and it is dropped at the turn's end. Dropping the outermost one ends the turn, and waiting inputs
/// are not delivered.
#[derive(Debug)]
pub struct SteeredTurn {
    steering: Option<Steering>,
    support: Support,
}

impl SteeredTurn {
    /// Begins the turn of `steering`, run by a backend with this support. Without `steering` no input arrives.
    pub(crate) fn begin(steering: Option<Steering>, support: Support) -> Self {
        if let Some(steering) = &steering {
            let mut state = steering.state();
            state.layers += 1;
            state.deaf_layers += usize::from(!support.is_yes());
            // A layer that cannot be steered takes no input, so end the waiting ones now.
            state.refuse_waiting();
        }
        Self { steering, support }
    }

    /// Takes the next waiting input.
    pub fn take(&self) -> Option<PendingInput> {
        let steering = self.steering.as_ref()?;
        let mut state = steering.state();
        let input = state.waiting.pop_front()?;
        state.taken += 1;
        Some(PendingInput { steering: steering.clone(), input: Some(input) })
    }

    /// Completes once an input waits. Never completes if the turn is not steered. The caller may drop the future at any time.
    pub async fn arrived(&self) {
        let Some(steering) = &self.steering else { return std::future::pending().await };
        loop {
            let mut arrived = pin!(steering.0.arrived.notified());
            // Register before the check, so that no input is missed in between.
            arrived.as_mut().enable();
            if !steering.state().waiting.is_empty() {
                return;
            }
            arrived.await;
        }
    }
}

impl Drop for SteeredTurn {
    fn drop(&mut self) {
        let Some(steering) = &self.steering else { return };
        let mut state = steering.state();
        state.layers = state.layers.saturating_sub(1);
        if !self.support.is_yes() {
            state.deaf_layers = state.deaf_layers.saturating_sub(1);
        }
        // Only the outermost layer ends the turn, because another backend may take over from an inner one.
        if state.layers == 0 {
            state.is_over = true;
            state.refuse_waiting();
        }
    }
}

/// An input on its way to the model. If it is dropped before [`PendingInput::delivered`], it returns to its place in the queue,
/// for the backend that takes over.
#[must_use = "an undelivered input is reported to its sender"]
pub struct PendingInput {
    steering: Steering,
    /// `None` once the input is delivered.
    input: Option<QueuedInput>,
}

impl PendingInput {
    /// Returns the text of the input.
    pub fn text(&self) -> &str {
        self.input.as_ref().map(|input| input.text.as_str()).unwrap_or_default()
    }

    /// Confirms the delivery to the sender, and returns the text for
    /// [`TurnEvent::InputReceived`](crate::TurnEvent::InputReceived).
    pub fn delivered(mut self) -> String {
        let Some(mut input) = self.input.take() else { return String::new() };
        let mut state = self.steering.state();
        state.taken = state.taken.saturating_sub(1);
        // Release the lock before the sender wakes.
        drop(state);
        let text = std::mem::take(&mut input.text);
        input.end(InputDelivery::Delivered);
        text
    }
}

impl Drop for PendingInput {
    fn drop(&mut self) {
        if let Some(input) = self.input.take() {
            self.steering.give_back(input);
        }
    }
}

/// Prints no text, because the text may contain anything.
impl fmt::Debug for PendingInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingInput").field("bytes", &self.text().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn begin(steering: &Steering, support: Support) -> SteeredTurn {
        SteeredTurn::begin(Some(steering.clone()), support)
    }

    fn end(sent: SentInput) -> Option<InputDelivery> {
        sent.now_or_never()
    }

    fn not(why: NotDelivered) -> Option<InputDelivery> {
        Some(InputDelivery::NotDelivered(why))
    }

    #[test]
    fn what_is_taken_in_order_is_delivered_once() {
        let steering = Steering::new();
        let first = steering.send("a");
        let turn = begin(&steering, Support::Yes);
        let second = steering.send("b");
        assert_eq!(turn.take().unwrap().delivered(), "a");
        assert_eq!(turn.take().unwrap().delivered(), "b");
        assert!(turn.take().is_none());
        drop(turn);
        assert_eq!(
            (end(first), end(second)),
            (Some(InputDelivery::Delivered), Some(InputDelivery::Delivered))
        );
    }

    #[test]
    fn what_an_attempt_gives_back_goes_to_the_next_in_its_old_place() {
        let steering = Steering::new();
        let router = begin(&steering, Support::Yes);
        let sent = ["a", "b", "c"].map(|text| steering.send(text));
        let attempt = begin(&steering, Support::Yes);
        let (a, b) = (attempt.take().unwrap(), attempt.take().unwrap());
        drop((b, a, attempt));
        let attempt = begin(&steering, Support::Yes);
        let texts: Vec<_> = std::iter::from_fn(|| attempt.take()).map(PendingInput::delivered).collect();
        assert_eq!(texts, ["a", "b", "c"]);
        drop((attempt, router));
        assert!(sent.into_iter().all(|sent| end(sent) == Some(InputDelivery::Delivered)));
    }

    #[test]
    fn the_end_of_the_turn_is_the_end_of_what_waits_and_of_what_is_given_back_later() {
        let steering = Steering::new();
        let turn = begin(&steering, Support::Yes);
        let (taken, waiting) = (steering.send("a"), steering.send("b"));
        let pending = turn.take().unwrap();
        drop(turn);
        assert_eq!(end(waiting), not(NotDelivered::TurnEnded));
        drop(pending);
        assert_eq!(end(taken), not(NotDelivered::TurnEnded));
        assert_eq!(end(steering.send("c")), not(NotDelivered::TurnEnded));
        assert!(steering.is_over());
    }

    #[test]
    fn who_cannot_be_steered_refuses_at_once_and_only_as_long_as_it_runs() {
        let steering = Steering::new();
        let router = begin(&steering, Support::Yes);
        let before = steering.send("a");
        let deaf = begin(&steering, Support::No);
        assert_eq!(end(before), not(NotDelivered::Unsupported));
        assert_eq!(end(steering.send("b")), not(NotDelivered::Unsupported));
        drop(deaf);
        let after = steering.send("c");
        assert_eq!(begin(&steering, Support::Yes).take().unwrap().delivered(), "c");
        assert_eq!(end(after), Some(InputDelivery::Delivered));
        drop(router);
    }

    #[test]
    fn a_flood_and_what_is_too_long_or_empty_is_refused() {
        let steering = Steering::new();
        let turn = begin(&steering, Support::Yes);
        let _sent: Vec<_> = (0..MAX_WAITING).map(|_| steering.send("a")).collect();
        assert_eq!(end(steering.send("b")), not(NotDelivered::Full));
        // What is taken still counts.
        let pending = turn.take().unwrap();
        assert_eq!(end(steering.send("b")), not(NotDelivered::Full));
        let _ = pending.delivered();
        assert_eq!(end(steering.send("b")), None);
        assert_eq!(end(steering.send("x".repeat(MAX_BYTES + 1))), not(NotDelivered::TooLong));
        assert_eq!(end(steering.send(" \n")), not(NotDelivered::Empty));
    }

    #[tokio::test]
    async fn an_arrival_is_seen_whether_it_came_before_or_after() {
        let steering = Steering::new();
        let turn = begin(&steering, Support::Yes);
        assert!(turn.arrived().now_or_never().is_none());
        let mut sent = None;
        tokio::join!(turn.arrived(), async { sent = Some(steering.send("a")) });
        assert!(end(sent.unwrap()).is_none());
        assert!(turn.arrived().now_or_never().is_some());
        assert!(SteeredTurn::begin(None, Support::Yes).arrived().now_or_never().is_none());
    }
}
