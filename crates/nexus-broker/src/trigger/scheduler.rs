//! Fires triggers by time, by reports and by files, for as long as the broker runs.

use std::{
    collections::HashSet,
    sync::Mutex,
    time::{Duration, SystemTime},
};

use nexus_core::CancelToken;
use tokio::time::Instant;

use super::{
    completion::CompletionLog,
    document::Trigger,
    file::FileWatch,
    firing::TriggerFiring,
    schedule::TriggerSchedule,
    timed,
    triggers::{TriggerList, Triggers},
};
use crate::{
    error::BrokerError,
    store::{burst, changed},
};

/// Settings of a scheduler.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct SchedulerSettings {
    /// Longest sleep before the scheduler reads the clock again, which may have stepped or stopped meanwhile. A second by
    /// default.
    pub look_every: Duration,
    /// Interval at which it reads the triggers, for changes by other brokers and programs, and the log for
    /// reports. Two seconds by default. If the store [notices](crate::BrokerStore::changes) its changes, the scheduler reads after a
    /// change, but no more often than this.
    pub read_every: Duration,
}

/// Interval at which the triggers are read if the store notices its changes.
const READ_ANYWAY: Duration = Duration::from_secs(60);

impl SchedulerSettings {
    /// Returns the time from one read of the triggers to the next, if their store may have changed or has not.
    fn read_after(&self, may_have_changed: bool) -> Duration {
        if may_have_changed { self.read_every } else { READ_ANYWAY.max(self.read_every) }
    }
}

impl Default for SchedulerSettings {
    fn default() -> Self {
        Self { look_every: Duration::from_secs(1), read_every: Duration::from_secs(2) }
    }
}

/// Fires the triggers of a store by time, by reports of agents and by files. Any number of schedulers may run on one store:
/// each occurrence fires once. Events and webhooks need no scheduler.
///
/// If the clock steps back, nothing fires until it reaches its old time, so nothing fires twice. If the clock was far ahead,
/// switch a trigger off and on ([`Triggers::set_enabled`]): it then starts from now.
#[derive(Debug)]
pub struct Scheduler {
    triggers: Triggers,
    settings: SchedulerSettings,
    completions: CompletionLog,
    /// Damaged documents that were logged, each with its text at that time.
    told: Mutex<HashSet<(String, String)>>,
}

/// Result of a look at the triggers.
#[non_exhaustive]
#[derive(Clone, Debug, Default)]
pub struct SchedulerLook {
    /// Firings that were due, even if another broker was first.
    pub firings: Vec<TriggerFiring>,
    /// Failures. The next look tries these triggers again.
    pub failures: Vec<BrokerError>,
    /// Time at which the next trigger is due, by the clock.
    pub next_run: Option<SystemTime>,
    /// True if the log has more reports to read.
    pub more: bool,
}

impl Scheduler {
    /// Creates a scheduler. It does nothing before [`run`](Self::run) or [`look`](Self::look).
    pub fn new(triggers: Triggers, settings: SchedulerSettings) -> Self {
        Self { triggers, settings, completions: CompletionLog::default(), told: Mutex::default() }
    }

    /// Fires the triggers that are due now, by time and by reports, and returns the time of the next. Reads every trigger.
    ///
    /// # Errors
    ///
    /// The triggers cannot be listed. A failure of one trigger does not stop the others, and is in the returned look.
    pub async fn look(&self) -> Result<SchedulerLook, BrokerError> {
        let list = self.triggers.list().await?;
        self.tell(&list);
        Ok(self.fire_due(&list.triggers).await)
    }

    /// Runs until it is cancelled. Failures are logged, and tried again.
    pub async fn run(&self, cancel: &CancelToken) {
        let files = FileWatch::new(&self.triggers, self.settings.read_every);
        tokio::select! {
            // `biased`: poll the cancellation first, so that a cancelled scheduler fires no trigger.
            biased;
            () = cancel.cancelled() => {}
            ((), ()) = async { tokio::join!(self.run_times(), files.run()) } => {}
        }
    }

    async fn run_times(&self) {
        let mut list = TriggerList::default();
        let mut read_at = None;
        let (mut changes, mut has_changed) = (self.triggers.store_changes(), false);
        // A failure that repeats every second is logged once.
        let mut failing = HashSet::new();
        loop {
            let now = Instant::now();
            let is_due = |at: Instant| now >= at + self.settings.read_after(has_changed || changes.is_none());
            if read_at.is_none_or(is_due) {
                // Set this before the read, so that an unreadable store is polled no more often than a readable one.
                (read_at, has_changed) = (Some(now), false);
                match self.triggers.list().await {
                    Ok(read) => {
                        self.tell(&read);
                        list = read;
                    }
                    Err(error) => {
                        tracing::warn!(%error, "the triggers cannot be read");
                        has_changed = true;
                    }
                }
            }
            let look = self.fire_due(&list.triggers).await;
            let now_failing: HashSet<_> = look.failures.iter().map(ToString::to_string).collect();
            for failure in now_failing.difference(&failing) {
                tracing::warn!(failure, "a trigger did not fire");
            }
            failing = now_failing;
            if !look.firings.is_empty() || look.more {
                // The next runs of these triggers have changed: read them again.
                read_at = None;
            }
            if look.failures.is_empty() && read_at.is_none() {
                tokio::task::yield_now().await;
                continue;
            }
            let read_in = read_at.map_or(Duration::ZERO, |at| {
                (at + self.settings.read_after(has_changed || changes.is_none()))
                    .saturating_duration_since(now)
            });
            let until = match look.next_run {
                Some(next) => {
                    let until = next.duration_since(self.triggers.now()).unwrap_or_default();
                    // At least a millisecond, so that a trigger that stays due cannot cause a busy loop.
                    until.max(Duration::from_millis(1)).min(self.settings.look_every)
                }
                // Without a time to wait for, steps of the clock do not matter.
                None if look.failures.is_empty() => read_in.max(Duration::from_millis(1)),
                None => self.settings.look_every,
            };
            tokio::select! {
                () = tokio::time::sleep(until) => {}
                () = changed(&mut changes), if !has_changed => {
                    has_changed = true;
                    burst().await;
                }
                () = self.triggers.times_changed() => read_at = None,
            }
        }
    }

    async fn fire_due(&self, triggers: &[Trigger]) -> SchedulerLook {
        let mut look = SchedulerLook::default();
        let mut completions = Vec::new();
        for trigger in triggers.iter().filter(|trigger| trigger.enabled) {
            match trigger.schedule {
                TriggerSchedule::Cron(_) | TriggerSchedule::At(_) => {
                    if let Some(next) = trigger.next_run.filter(|&next| next > self.triggers.now()) {
                        look.next_run = Some(look.next_run.map_or(next, |first| first.min(next)));
                        continue;
                    }
                    if let Err(error) = self.fire_timed(trigger, &mut look).await {
                        look.failures.push(error);
                    }
                }
                TriggerSchedule::Completion(_) => completions.push(trigger),
                _ => {}
            }
        }
        match self.completions.look(&self.triggers, &completions, &mut look.firings).await {
            Ok(more) => look.more = more,
            Err(error) => look.failures.push(error),
        }
        look
    }

    /// Fires a trigger by its current document, as it may have changed since the triggers were listed.
    async fn fire_timed(&self, listed: &Trigger, look: &mut SchedulerLook) -> Result<(), BrokerError> {
        let Some(trigger) = self.triggers.find(&listed.id).await? else { return Ok(()) };
        timed::fire_due(&self.triggers, &trigger, &mut look.firings).await
    }

    /// Logs each damaged document once.
    fn tell(&self, list: &TriggerList) {
        let mut told = self.told.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let now: HashSet<_> =
            list.damaged.iter().map(|(key, error)| (key.clone(), error.message.clone())).collect();
        for (key, problem) in now.difference(&told) {
            tracing::warn!(key, problem, "a trigger does not fire, because its document cannot be read");
        }
        *told = now;
    }
}
