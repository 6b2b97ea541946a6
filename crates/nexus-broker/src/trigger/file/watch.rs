//! Watching the files of all triggers.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    path::Path,
    sync::Arc,
    time::Duration,
};

use tokio::{task::JoinHandle, time::Instant};

use nexus_files::rfc3339;

use super::{
    super::{
        document::{Trigger, TriggerId},
        firing::is_final,
        schedule::{FileSchedule, TriggerSchedule},
        triggers::Triggers,
    },
    change::FileChange,
    scan::{FileScan, FileStamp, watched_folder},
    settle::{Settled, Settling},
    system::{SystemWatch, Touched},
};
use crate::{
    error::BrokerError,
    store::{burst, changed},
};

/// Interval of the scans of files whose changes the system does not report, because their folder is missing or cannot be
/// watched.
const LOOK_FOR: Duration = Duration::from_secs(2);
/// Interval of the scans of all other files, because the system may lose a report.
const LOOK_ANYWAY: Duration = Duration::from_secs(60);
/// Time after which a running scan does not block the others any more, as on a file system that does not answer.
const LOOK_WITHIN: Duration = Duration::from_secs(2);
/// Pause before a failed firing is repeated.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Watches the files of all triggers, and fires the triggers.
#[derive(Debug)]
pub(in super::super) struct FileWatch<'t> {
    triggers: &'t Triggers,
    read_every: Duration,
}

/// The files of one trigger.
#[derive(Debug)]
struct WatchedFiles {
    trigger: Trigger,
    settling: Option<Settling>,
    /// Files of the last decided state. None if an earlier process decided it.
    files: Option<BTreeMap<String, FileStamp>>,
    /// Time of the last reported change that needs a scan.
    touched: Option<Instant>,
    look_at: Instant,
    /// Device and number of the watched folder, as of the start of the watch.
    folder: Option<(u64, u64)>,
    /// Scan that is running.
    scan: Option<JoinHandle<io::Result<FileScan>>>,
    /// True if the scan took too long, so that its result may be outdated.
    is_late: bool,
    /// Failure that was logged last.
    told: Option<String>,
}

impl<'t> FileWatch<'t> {
    pub(in super::super) fn new(triggers: &'t Triggers, read_every: Duration) -> Self {
        Self { triggers, read_every }
    }

    /// Watches until it is dropped.
    pub(in super::super) async fn run(&self) {
        let touched = Arc::new(Touched::default());
        let mut system = SystemWatch::new(&touched);
        let mut watched: HashMap<TriggerId, WatchedFiles> = HashMap::new();
        let mut read_at = Instant::now();
        let mut changes = self.triggers.store_changes();
        let rest = if changes.is_some() { LOOK_ANYWAY.max(self.read_every) } else { self.read_every };
        let mut last_read = None;
        loop {
            let now = Instant::now();
            if read_at <= now {
                (read_at, last_read) = (now + rest, Some(now));
                match self.triggers.list().await {
                    Ok(list) => self.take_up(&mut watched, list.triggers),
                    Err(error) => {
                        tracing::warn!(%error, "the triggers cannot be read");
                        read_at = now + self.read_every;
                    }
                }
                system.keep(watched.values().filter_map(WatchedFiles::schedule)).await;
            }
            let (paths, all) = touched.take();
            for files in watched.values_mut() {
                if all || paths.iter().any(|path| files.concerns(path)) {
                    files.touched = Some(now);
                    files.look_at = now + files.quiet();
                }
            }
            for files in watched.values_mut().filter(|files| files.look_at <= now) {
                self.look(&mut system, files).await;
            }
            let next = watched.values().map(|files| files.look_at).fold(read_at, Instant::min);
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                () = touched.wake.notified() => {}
                () = changed(&mut changes) => {
                    read_at = read_at.min(last_read.map_or(now, |last| last + self.read_every));
                    burst().await;
                }
                () = self.triggers.files_changed() => read_at = Instant::now(),
            }
        }
    }

    /// Starts new and changed triggers, and stops deleted ones.
    fn take_up(&self, watched: &mut HashMap<TriggerId, WatchedFiles>, triggers: Vec<Trigger>) {
        let mut here: HashMap<TriggerId, Trigger> = HashMap::new();
        for trigger in triggers {
            let TriggerSchedule::File(schedule) = &trigger.schedule else { continue };
            let is_here =
                schedule.machine.is_none() || schedule.machine.as_deref() == self.triggers.machine();
            if trigger.enabled && is_here {
                here.insert(trigger.id.clone(), trigger);
            }
        }
        // A changed or recreated trigger starts again, because its decided state belongs to other files.
        watched.retain(|id, files| {
            here.get(id).is_some_and(|trigger| {
                trigger.schedule == files.trigger.schedule && trigger.created_at == files.trigger.created_at
            })
        });
        for (id, trigger) in here {
            watched.entry(id).or_insert_with(|| WatchedFiles {
                trigger,
                settling: None,
                files: None,
                touched: None,
                look_at: Instant::now(),
                folder: None,
                scan: None,
                is_late: false,
                told: None,
            });
        }
    }

    async fn look(&self, system: &mut SystemWatch, files: &mut WatchedFiles) {
        let TriggerSchedule::File(schedule) = files.trigger.schedule.clone() else { return };
        let interval = schedule.poll_milliseconds.map(Duration::from_millis);
        // Note this before the scan: a change after this line is either reported or found by the scan.
        let is_watched = interval.is_none() && system.has(watched_folder(&schedule), schedule.recursive);
        let touched = files.touched.take();
        let scan = match files.scanned(&schedule).await {
            Some(Ok(scan)) => {
                files.told = None;
                scan
            }
            None => {
                files.tell("the file system of its files does not respond");
                files.touched = touched;
                files.look_at = Instant::now() + LOOK_FOR;
                return;
            }
            Some(Err(error)) => {
                files.tell(&format!("its files cannot be listed: {error}"));
                files.look_at = Instant::now() + interval.unwrap_or(LOOK_FOR);
                return;
            }
        };
        if interval.is_none() && (!is_watched || files.folder != scan.folder) {
            // The folder was created, or another folder has its name.
            let watching = system.watch(&schedule, scan.folder.is_some()).await;
            if let Err(error) = &watching {
                files.tell(&format!(
                    "the operating system does not report changes, so the files are polled: \
                    {error}"
                ));
            }
            let is_new = watching.is_ok() && files.folder != scan.folder;
            files.folder = scan.folder.filter(|_| watching.is_ok());
            if is_new && files.folder.is_some() {
                // Scan again: something may have changed before the watch began.
                files.look_at = Instant::now();
                files.touched = touched;
                return;
            }
        }
        let rest = interval.unwrap_or(if files.folder.is_some() { LOOK_ANYWAY } else { LOOK_FOR });
        let now = Instant::now();
        let after = match self.decide(files, &schedule, scan, touched, now).await {
            Ok(wait) => wait.map_or(rest, |wait| interval.map_or(wait, |interval| wait.min(interval))),
            Err(error) => {
                files.tell(&error.to_string());
                AFTER_FAILURE
            }
        };
        files.look_at = now + after;
    }

    /// Fires if the files have been quiet for long enough. Returns the time until the next scan, if that is soon.
    async fn decide(
        &self,
        files: &mut WatchedFiles,
        schedule: &FileSchedule,
        scan: FileScan,
        touched: Option<Instant>,
        now: Instant,
    ) -> Result<Option<Duration>, BrokerError> {
        let state = scan.fingerprint();
        let quiet = files.quiet();
        let id = files.trigger.id.clone();
        if files.settling.is_none() {
            let Some(trigger) = self.triggers.find(&id).await? else { return Ok(None) };
            let decided = trigger.decided_state.clone();
            if decided.is_none() {
                self.decided(&id, None, &state, false).await?;
            }
            let decided = decided.unwrap_or_else(|| state.clone());
            if decided == state {
                files.files = Some(scan.files.clone());
            }
            files.settling = Some(Settling::new(decided));
        }
        let Some(settling) = &mut files.settling else { return Ok(None) };
        let touched = if scan.is_changing { Some(now) } else { touched };
        match settling.observe(now, &state, touched, quiet) {
            Settled::Same => return Ok(None),
            Settled::Wait(wait) => return Ok(Some(wait)),
            Settled::Quiet => {}
        }
        let before = settling.decided().to_owned();
        if let Some(change) = FileChange::between(files.files.as_ref(), &scan, schedule, &before, &state) {
            let Some(trigger) = self.triggers.find(&id).await?.filter(|trigger| trigger.enabled) else {
                return Ok(None);
            };
            match self.triggers.firer().put(&trigger, &change.occurrence, Some(change.data), None).await {
                // Every further attempt would fail too, so count this state as decided.
                Err(error) if is_final(&error) => {
                    tracing::warn!(trigger = %id, %error, "a trigger did not fire");
                }
                put => drop(put?),
            }
            self.decided(&id, Some(&before), &state, true).await?;
        } else {
            self.decided(&id, Some(&before), &state, false).await?;
        }
        files.files = Some(scan.files);
        settling.decide(state);
        Ok(None)
    }

    /// Stores the decided state, for the process that watches after this one.
    async fn decided(
        &self,
        id: &TriggerId,
        before: Option<&str>,
        state: &str,
        fired: bool,
    ) -> Result<(), BrokerError> {
        let now = rfc3339::cut_to_millis(self.triggers.now());
        let change = self.triggers.firer().change(id, |trigger| {
            // Another broker may have stored a newer state: replace only our own previous one.
            if trigger.decided_state.as_deref() == before || fired {
                trigger.decided_state = Some(state.to_owned());
            }
            if fired {
                trigger.last_run = trigger.last_run.max(Some(now));
            }
        });
        change.await.map(drop)
    }
}

impl WatchedFiles {
    /// Scans the files. Returns None if the scan takes too long. The next call then waits for the same scan, so that only
    /// one runs at a time.
    async fn scanned(&mut self, schedule: &FileSchedule) -> Option<io::Result<FileScan>> {
        let schedule = schedule.clone();
        let scan = self.scan.get_or_insert_with(|| {
            self.is_late = false;
            tokio::task::spawn_blocking(move || FileScan::of(&schedule))
        });
        let Ok(done) = tokio::time::timeout(LOOK_WITHIN, scan).await else {
            self.is_late = true;
            return None;
        };
        self.scan = None;
        Some(done.unwrap_or_else(|error| Err(io::Error::other(error.to_string()))).map(|mut scan| {
            // A late scan shows files as they were at an unknown time, so wait for another one.
            scan.is_changing |= self.is_late;
            scan
        }))
    }

    fn schedule(&self) -> Option<&FileSchedule> {
        match &self.trigger.schedule {
            TriggerSchedule::File(schedule) => Some(schedule),
            _ => None,
        }
    }

    fn quiet(&self) -> Duration {
        Duration::from_millis(self.schedule().map_or(0, |schedule| schedule.quiet_milliseconds))
    }

    /// Returns true if a reported path concerns these files.
    fn concerns(&self, path: &Path) -> bool {
        self.schedule().is_some_and(|schedule| {
            let folder = watched_folder(schedule);
            path.starts_with(&schedule.path) || folder == path
        })
    }

    /// Logs a problem, if it differs from the last one.
    fn tell(&mut self, problem: &str) {
        if self.told.as_deref() != Some(problem) {
            tracing::warn!(trigger = %self.trigger.id, problem, "a trigger watches no files");
            self.told = Some(problem.to_owned());
        }
    }
}
