//! Triggers over a store in memory and a clock that steps as a test says.

mod completions;
mod documents;
mod files;
mod memory_store;
mod properties;
mod times;
mod tools;
mod webhooks;

use std::{
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use nexus_core::Clock;

pub(super) use self::memory_store::MemoryStore;
use super::{NewTrigger, Scheduler, SchedulerSettings, StoreTargets, Trigger, TriggerSchedule, Triggers};
use crate::message::{Envelope, Payload};

/// A clock that shows what it is set to, and goes on with the time of the runtime, which may be paused.
#[derive(Debug)]
pub(super) struct SetClock(Mutex<(SystemTime, tokio::time::Instant)>);

impl SetClock {
    pub(super) fn at(text: &str) -> Arc<Self> {
        Arc::new(Self(Mutex::new((time(text), tokio::time::Instant::now()))))
    }

    /// Steps to a time, either way.
    pub(super) fn set(&self, to: SystemTime) {
        *self.0.lock().unwrap() = (to, tokio::time::Instant::now());
    }

    pub(super) fn advance(&self, by: Duration) {
        let to = self.now() + by;
        self.set(to);
    }
}

impl Clock for SetClock {
    fn now(&self) -> SystemTime {
        let (set, at) = *self.0.lock().unwrap();
        set + at.elapsed()
    }
}

pub(super) fn time(text: &str) -> SystemTime {
    nexus_files::rfc3339::parse(text).unwrap()
}

/// A store, a clock, and the triggers over both.
pub(super) struct Bench {
    pub(super) store: Arc<MemoryStore>,
    pub(super) clock: Arc<SetClock>,
    pub(super) triggers: Triggers,
}

impl Bench {
    pub(super) fn at(text: &str) -> Self {
        let store = Arc::new(MemoryStore::new());
        let clock = SetClock::at(text);
        let triggers = Self::triggers(&store, &clock);
        Self { store, clock, triggers }
    }

    fn triggers(store: &Arc<MemoryStore>, clock: &Arc<SetClock>) -> Triggers {
        let targets = StoreTargets::new(Arc::clone(store) as _);
        Triggers::new(Arc::clone(store) as _, Arc::clone(clock) as _, Arc::new(targets))
    }

    /// The same store, as another process has it.
    pub(super) fn elsewhere(&self) -> Triggers {
        Self::triggers(&self.store, &self.clock)
    }

    /// A scheduler as another process has it.
    pub(super) fn scheduler(&self) -> Scheduler {
        Scheduler::new(self.elsewhere(), SchedulerSettings::default())
    }

    pub(super) async fn create(&self, schedule: TriggerSchedule) -> Trigger {
        self.triggers.create(NewTrigger::new("worker", schedule, "look")).await.unwrap()
    }

    /// The occurrences that fired, in order.
    pub(super) fn fired(&self) -> Vec<String> {
        let put = self.store.put_so_far();
        put.iter().filter_map(|(_, envelope)| occurrence(envelope)).collect()
    }
}

/// The occurrence of a firing. None for other messages.
pub(super) fn occurrence(envelope: &Envelope) -> Option<String> {
    match &envelope.payload {
        Payload::Trigger { occurrence, .. } => Some(occurrence.clone()),
        _ => None,
    }
}
