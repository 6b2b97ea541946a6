//! Creates, lists and deletes triggers, and fires them for events.

use std::{sync::Arc, time::SystemTime};

use nexus_core::Clock;
use serde_json::Value;
use tokio::sync::{Notify, watch};

use nexus_files::rfc3339;

use super::{
    cron::CronTimes,
    document::{NewTrigger, Trigger, TriggerId},
    due::Occurrences,
    file::FileScan,
    firing::{TriggerFirer, TriggerFiring, named},
    schedule::TriggerSchedule,
    targets::TriggerTargets,
};
use crate::{
    error::{BrokerError, BrokerErrorKind},
    store::{BrokerStore, DocumentKind, ExpectedRevision},
};

/// Longest id of an event, in bytes.
const MAX_EVENT_ID_BYTES: usize = 256;

/// The triggers of a store: creates, lists, switches and deletes them, and sends events to them. Cheap to clone.
///
/// Several of these may work on one store. Triggers by time, file or report fire only while a
/// [`Scheduler`](super::Scheduler) runs.
#[derive(Clone, Debug)]
pub struct Triggers {
    firer: TriggerFirer,
    machine: Option<Arc<str>>,
    changed: Arc<Changed>,
}

/// Notifies the parts of a scheduler that triggers were changed in this process.
#[derive(Debug, Default)]
struct Changed {
    times: Notify,
    files: Notify,
}

/// List of triggers.
#[non_exhaustive]
#[derive(Clone, Debug, Default)]
pub struct TriggerList {
    /// Readable triggers, by their ids.
    pub triggers: Vec<Trigger>,
    /// Keys of the unreadable documents, each with the error. They fire nothing.
    pub damaged: Vec<(String, BrokerError)>,
}

impl Triggers {
    /// Creates access to the triggers of a store.
    pub fn new(store: Arc<dyn BrokerStore>, clock: Arc<dyn Clock>, targets: Arc<dyn TriggerTargets>) -> Self {
        Self { firer: TriggerFirer { store, clock, targets }, machine: None, changed: Arc::default() }
    }

    /// Sets the name of this machine, for a store that brokers of several machines share. Triggers of type `file` that are
    /// created here then watch only this machine's files. This broker ignores the `file` triggers of other machines.
    #[must_use]
    pub fn on_machine(mut self, name: &str) -> Self {
        self.machine = Some(name.into());
        self
    }

    /// Creates a trigger. It fires for events from now on.
    ///
    /// # Errors
    ///
    /// [`Invalid`](BrokerErrorKind::Invalid) for a trigger that can never fire,
    /// [`Conflict`](BrokerErrorKind::Conflict) if a trigger has this id.
    pub async fn create(&self, new: NewTrigger) -> Result<Trigger, BrokerError> {
        let mut trigger = new.made_at(self.firer.clock.now());
        if let TriggerSchedule::File(schedule) = &mut trigger.schedule
            && schedule.machine.is_none()
        {
            schedule.machine = self.machine().map(ToOwned::to_owned);
        }
        trigger.check()?;
        trigger.decided_state = self.state_of_files(&trigger).await?;
        trigger.next_run = next_run(&trigger);
        if trigger.decided().is_some() && trigger.next_run.is_none() {
            return Err(BrokerError::invalid(
                "the time of the trigger has passed",
                "choose a time in the future",
            ));
        }
        let value = trigger.to_value();
        let written = self.firer.store.write(
            DocumentKind::Trigger,
            trigger.id.as_str(),
            ExpectedRevision::Absent,
            &value,
        );
        written.await.map_err(|error| match error.kind {
            BrokerErrorKind::Conflict => BrokerError::new(
                BrokerErrorKind::Conflict,
                format!("a trigger {} already exists", trigger.id),
                "delete the existing trigger, or choose another id",
            ),
            _ => error,
        })?;
        self.tell();
        Ok(trigger)
    }

    /// Lists the triggers.
    pub async fn list(&self) -> Result<TriggerList, BrokerError> {
        let mut list = TriggerList::default();
        for document in self.firer.store.documents(DocumentKind::Trigger).await? {
            match Trigger::read(&document.key, &document.value) {
                Ok(trigger) => list.triggers.push(trigger),
                Err(error) => list.damaged.push((document.key, error)),
            }
        }
        list.triggers.sort_by(|one, two| one.id.cmp(&two.id));
        Ok(list)
    }

    /// Returns a trigger. Fails with [`Unknown`](BrokerErrorKind::Unknown) for an unknown id.
    pub async fn trigger(&self, id: &TriggerId) -> Result<Trigger, BrokerError> {
        self.find(id).await?.ok_or_else(|| unknown(id))
    }

    /// Switches a trigger on or off. A trigger that is switched on starts from now: earlier events do not fire
    /// it.
    ///
    /// # Errors
    ///
    /// [`Unknown`](BrokerErrorKind::Unknown) for an unknown id; [`Invalid`](BrokerErrorKind::Invalid) for a
    /// trigger whose only time has passed.
    pub async fn set_enabled(&self, id: &TriggerId, enabled: bool) -> Result<Trigger, BrokerError> {
        let now = rfc3339::cut_to_millis(self.firer.clock.now());
        let mut state = None;
        if enabled {
            let found = self.trigger(id).await?;
            if let TriggerSchedule::At(at) = &found.schedule
                && at.time <= now
                && !found.enabled
            {
                return Err(BrokerError::invalid(
                    format!("the time of the trigger {id} has passed"),
                    "delete it, and create a trigger with a time in the future",
                ));
            }
            state = self.state_of_files(&found).await?;
        }
        let changed = self.firer.change(id, |trigger| {
            if enabled && !trigger.enabled {
                trigger.decided_until = trigger.decided().map(|_| now);
                trigger.decided_in_log = None;
                trigger.decided_state.clone_from(&state);
                trigger.created_at = now;
            }
            trigger.enabled = enabled;
            trigger.next_run = if enabled { next_run(trigger) } else { None };
        });
        let trigger = changed.await?.ok_or_else(|| unknown(id))?;
        self.tell();
        Ok(trigger)
    }

    /// Deletes a trigger, even if its document cannot be read. Its waiting messages stay, and so does the
    /// secret of a webhook ([`WebhookSecrets::delete`](super::WebhookSecrets::delete)).
    ///
    /// Fails with [`Unknown`](BrokerErrorKind::Unknown) for an unknown id.
    pub async fn delete(&self, id: &TriggerId) -> Result<(), BrokerError> {
        let store = &self.firer.store;
        if store.document(DocumentKind::Trigger, id.as_str()).await?.is_none() {
            return Err(unknown(id));
        }
        store.delete(DocumentKind::Trigger, id.as_str(), ExpectedRevision::Anything).await?;
        self.tell();
        Ok(())
    }

    /// Sends an event to every trigger of type `event` that waits for this name. An event of the same id fires each of them once, for as
    /// long as the store knows the id ([`QueueLimits::remembered_for`](crate::QueueLimits::remembered_for)).
    ///
    /// # Errors
    ///
    /// The first failure, after every trigger was tried. The same call again is safe.
    pub async fn fire_event(
        &self,
        name: &str,
        event_id: &str,
        data: Option<Value>,
    ) -> Result<Vec<TriggerFiring>, BrokerError> {
        if event_id.is_empty() || event_id.len() > MAX_EVENT_ID_BYTES {
            return Err(BrokerError::invalid(
                format!("the id of the event has {} bytes", event_id.len()),
                format!(
                    "write 1 to {MAX_EVENT_ID_BYTES} bytes that are unique among the events of this name"
                ),
            ));
        }
        let mut firings = Vec::new();
        let mut failure = None;
        for trigger in self.list().await?.triggers {
            let TriggerSchedule::Event(event) = &trigger.schedule else { continue };
            if !trigger.enabled || event.name != name {
                continue;
            }
            match self.fire(&trigger, &named(event_id), data.clone()).await {
                Ok(firing) => firings.push(firing),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(firings), Err)
    }

    /// Fires a trigger for an event, and not for a time.
    pub(super) async fn fire(
        &self,
        trigger: &Trigger,
        occurrence: &str,
        data: Option<Value>,
    ) -> Result<TriggerFiring, BrokerError> {
        let firing = self.firer.put(trigger, occurrence, data, None).await?;
        let now = rfc3339::cut_to_millis(self.firer.clock.now());
        let moved = self.firer.change(&trigger.id, |trigger| {
            trigger.last_run = trigger.last_run.max(Some(now));
        });
        // The message is put. The time of the last firing is only information, so ignore a failure to store it.
        if let Err(error) = moved.await {
            tracing::debug!(trigger = %trigger.id, %error, "the last run of a trigger could not be stored");
        }
        Ok(firing)
    }

    /// Returns a trigger, if it exists.
    pub(super) async fn find(&self, id: &TriggerId) -> Result<Option<Trigger>, BrokerError> {
        let document = self.firer.store.document(DocumentKind::Trigger, id.as_str()).await?;
        document.map(|document| Trigger::read(&document.key, &document.value)).transpose()
    }

    pub(super) fn firer(&self) -> &TriggerFirer {
        &self.firer
    }

    pub(super) fn now(&self) -> SystemTime {
        self.firer.clock.now()
    }

    pub(super) fn machine(&self) -> Option<&str> {
        self.machine.as_deref()
    }

    fn tell(&self) {
        self.changed.times.notify_one();
        self.changed.files.notify_one();
    }

    /// Waits until a trigger was created, switched or deleted through this value or a clone of it. For triggers that fire by
    /// time.
    pub(super) async fn times_changed(&self) {
        self.changed.times.notified().await;
    }

    /// Returns a receiver of the changes of the store, if it notices them.
    pub(super) fn store_changes(&self) -> Option<watch::Receiver<()>> {
        self.firer().store.changes()
    }

    /// Does the same as [`times_changed`](Self::times_changed), for triggers that fire by files.
    pub(super) async fn files_changed(&self) {
        self.changed.files.notified().await;
    }

    /// Returns the current state of a trigger's files: later changes fire. None if the trigger has no files, or they are on
    /// another machine.
    async fn state_of_files(&self, trigger: &Trigger) -> Result<Option<String>, BrokerError> {
        let TriggerSchedule::File(schedule) = trigger.schedule.clone() else { return Ok(None) };
        if schedule.machine.as_deref() != self.machine() {
            return Ok(None);
        }
        let shown = schedule.path.display().to_string();
        let scan = tokio::task::spawn_blocking(move || FileScan::of(&schedule)).await;
        match scan.unwrap_or_else(|error| Err(std::io::Error::other(error.to_string()))) {
            Ok(scan) => Ok(Some(scan.fingerprint())),
            Err(error) => Err(BrokerError::invalid(
                format!("{shown} cannot be watched: {error}"),
                "name files that this program may read",
            )),
        }
    }
}

fn unknown(id: &TriggerId) -> BrokerError {
    BrokerError::unknown(format!("there is no trigger {id}"), "list the triggers to find its id")
}

/// Returns the time of the next firing, by the clock alone.
pub(super) fn next_run(trigger: &Trigger) -> Option<SystemTime> {
    let decided = trigger.decided()?;
    match &trigger.schedule {
        TriggerSchedule::Cron(schedule) => {
            let times = CronTimes::parse(&schedule.expression, &schedule.time_zone).ok()?;
            let next = Occurrences { times: &times, trigger: &trigger.id, schedule }.next(decided)?;
            Some(next.runs_at)
        }
        TriggerSchedule::At(at) => (at.time > decided).then_some(at.time),
        _ => None,
    }
}
