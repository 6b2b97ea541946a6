//! The concurrency limit of a backend: permits for turns, in the order of arrival.
//!
//! A queue counts the turns of this process. The slots of a [`HoldStore`](crate::hold::HoldStore) count those of all
//! processes.

use std::{
    collections::{BTreeMap, VecDeque},
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use nexus_core::BackendId;
use tokio::sync::{Mutex as AsyncMutex, MutexGuard as AsyncMutexGuard, oneshot};

/// The queues of one router, by backend. They survive a reload, which may change the limits.
#[derive(Debug, Default)]
pub(crate) struct Queues(Mutex<BTreeMap<BackendId, Arc<BackendQueue>>>);

impl Queues {
    /// Sets the limits on concurrent turns. A backend without an entry is unlimited.
    pub(crate) fn arrange(&self, limits: &BTreeMap<BackendId, NonZeroUsize>) {
        let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for backend in limits.keys() {
            queues.entry(backend.clone()).or_default();
        }
        // A backend without a limit retains its queue, because turns may still wait in it.
        for (backend, queue) in queues.iter() {
            queue.set_limit(limits.get(backend).map_or(usize::MAX, |limit| limit.get()));
        }
    }

    /// Returns the queue of a backend, if the backend ever had a limit.
    pub(crate) fn of(&self, backend: &BackendId) -> Option<Arc<BackendQueue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(backend).cloned()
    }
}

/// Queue of one backend.
#[derive(Debug, Default)]
pub(crate) struct BackendQueue {
    state: Mutex<PermitCounts>,
    /// Locked by the one turn of this process that competes with other processes for a slot.
    line: AsyncMutex<()>,
}

/// Number of permits in use, and the turns that wait for a permit.
#[derive(Debug, Default)]
struct PermitCounts {
    limit: usize,
    running: usize,
    waiting: VecDeque<oneshot::Sender<TurnPermit>>,
}

/// A permit for one turn. Its drop releases the permit.
#[derive(Debug)]
pub(crate) struct TurnPermit(Option<Arc<BackendQueue>>);

/// Result of a request for a permit.
#[derive(Debug)]
pub(crate) enum Entered {
    /// The turn has a permit.
    Now(TurnPermit),
    /// The turn waits in the queue, and the channel delivers the permit. Dropping the receiver gives up the wait.
    Wait(oneshot::Receiver<TurnPermit>),
}

impl BackendQueue {
    /// Takes a permit, or joins the end of the queue.
    pub(crate) fn enter(self: &Arc<Self>) -> Entered {
        let mut state = self.lock();
        // Turns that gave up still have a sender in the queue.
        state.waiting.retain(|waiting| !waiting.is_closed());
        // A new turn must not overtake the turns that already wait.
        if state.running < state.limit && state.waiting.is_empty() {
            state.running += 1;
            return Entered::Now(TurnPermit(Some(Arc::clone(self))));
        }
        let (sender, receiver) = oneshot::channel();
        state.waiting.push_back(sender);
        Entered::Wait(receiver)
    }

    /// Returns the limit on concurrent turns.
    pub(crate) fn limit(&self) -> usize {
        self.lock().limit
    }

    /// Waits for the right to compete with other processes. Turns get it in the order of their calls.
    pub(crate) async fn line(&self) -> AsyncMutexGuard<'_, ()> {
        self.line.lock().await
    }

    fn set_limit(self: &Arc<Self>, limit: usize) {
        self.lock().limit = limit;
        self.admit();
    }

    /// Gives free permits to the turns that have waited longest.
    fn admit(self: &Arc<Self>) {
        loop {
            let next = {
                let mut state = self.lock();
                if state.running >= state.limit {
                    return;
                }
                let Some(next) = state.waiting.pop_front() else {
                    return;
                };
                state.running += 1;
                next
            };
            // Send outside of the lock: dropping an unsent permit would lock again.
            if let Err(mut untaken) = next.send(TurnPermit(Some(Arc::clone(self)))) {
                untaken.0 = None;
                self.lock().running -= 1;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, PermitCounts> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TurnPermit {
    fn drop(&mut self) {
        if let Some(queue) = self.0.take() {
            queue.lock().running -= 1;
            queue.admit();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn queue(limit: usize) -> (Queues, Arc<BackendQueue>) {
        let queues = Queues::default();
        arrange(&queues, limit);
        let queue = queues.of(&"alpha".into()).unwrap();
        (queues, queue)
    }

    fn arrange(queues: &Queues, limit: usize) {
        queues.arrange(&BTreeMap::from([("alpha".into(), NonZeroUsize::new(limit).unwrap())]));
    }

    fn free(entered: Entered) -> TurnPermit {
        match entered {
            Entered::Now(permit) => permit,
            Entered::Wait(_) => panic!("there was no permit"),
        }
    }

    fn waits(entered: Entered) -> oneshot::Receiver<TurnPermit> {
        match entered {
            Entered::Wait(receiver) => receiver,
            Entered::Now(_) => panic!("there was a permit"),
        }
    }

    #[test]
    fn whoever_came_first_goes_first() {
        let (_queues, queue) = queue(1);
        let first = free(queue.enter());
        let (mut second, mut third) = (waits(queue.enter()), waits(queue.enter()));
        drop(first);
        let place = second.try_recv().unwrap();
        assert!(third.try_recv().is_err());
        drop(place);
        assert!(third.try_recv().is_ok());
    }

    #[test]
    fn a_place_whose_taker_left_goes_to_the_next() {
        let (_queues, queue) = queue(1);
        let first = free(queue.enter());
        let second = waits(queue.enter());
        let mut third = waits(queue.enter());
        drop(second);
        drop(first);
        let place = third.try_recv().unwrap();
        drop(place);
        drop(free(queue.enter()));
    }

    #[test]
    fn a_place_that_was_handed_over_and_never_taken_comes_back() {
        let (_queues, queue) = queue(1);
        let first = free(queue.enter());
        let second = waits(queue.enter());
        drop(first);
        drop(second);
        drop(free(queue.enter()));
    }

    #[test]
    fn more_places_admit_who_waits() {
        let (queues, queue) = queue(1);
        let _first = free(queue.enter());
        let mut second = waits(queue.enter());
        arrange(&queues, 2);
        assert!(second.try_recv().is_ok());
    }

    /// What may happen to a queue.
    #[derive(Clone, Debug)]
    enum Step {
        Enter,
        Leave(usize),
        GiveUp(usize),
        Resize(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => Just(Step::Enter),
            3 => (0..8_usize).prop_map(Step::Leave),
            1 => (0..8_usize).prop_map(Step::GiveUp),
            1 => (1..4_usize).prop_map(Step::Resize),
        ]
    }

    proptest! {
        #[test]
        fn no_place_is_lost_and_none_is_given_twice(steps in proptest::collection::vec(step(), 1..60)) {
            let (queues, queue) = queue(2);
            let (mut inside, mut waiting, mut limit) = (Vec::new(), VecDeque::new(), 2);
            for step in steps {
                match step {
                    Step::Enter => match queue.enter() {
                        Entered::Now(permit) => inside.push(permit),
                        Entered::Wait(number) => waiting.push_back(number),
                    },
                    Step::Leave(which) if !inside.is_empty() => {
                        inside.swap_remove(which % inside.len());
                    }
                    Step::GiveUp(which) if !waiting.is_empty() => {
                        let _ = waiting.remove(which % waiting.len());
                    }
                    Step::Resize(size) => {
                        arrange(&queues, size);
                        limit = size;
                    }
                    Step::Leave(_) | Step::GiveUp(_) => {}
                }
                // The permits that were handed over, in the order of the queue.
                let mut before_refused = true;
                waiting.retain_mut(|number| match number.try_recv() {
                    Ok(permit) => {
                        assert!(before_refused, "somebody was passed by");
                        inside.push(permit);
                        false
                    }
                    Err(_) => {
                        before_refused = false;
                        true
                    }
                });
                prop_assert!(waiting.is_empty() || inside.len() >= limit, "a permit is free, and a turn waits");
                prop_assert_eq!(queue.lock().running, inside.len());
            }
        }
    }
}
