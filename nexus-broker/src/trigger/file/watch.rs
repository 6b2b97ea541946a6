//! Watching the files of all triggers.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use serde_json::{Value, json};
use tokio::{sync::Notify, time::Instant};

use super::{
    super::{
        document::{Trigger, TriggerId},
        firing::{hashed, is_final},
        schedule::{FileSchedule, TriggerSchedule},
        time::whole_milli,
        triggers::Triggers,
    },
    scan::{FileScan, FileStamp, watched_folder},
    settle::{Settled, Settling},
};
use crate::error::BrokerError;

/// How often files are looked at of whose changes the system does not tell: their folder is missing, or cannot be watched.
const LOOK_FOR: Duration = Duration::from_secs(2);
/// How often the others are, as the system may lose word of a change.
const LOOK_ANYWAY: Duration = Duration::from_secs(60);
/// How long after a firing that failed it is tried again.
const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// Most paths of changes that are kept apart; with more, everything is looked at.
const MAX_TOUCHED: usize = 1000;
/// Most files that a firing names.
const MAX_NAMED: usize = 100;

/// Watches the files of all triggers, and fires.
#[derive(Debug)]
pub(in super::super) struct FileWatch<'t> {
    triggers: &'t Triggers,
    read_every: Duration,
}

/// What the system told of.
#[derive(Debug, Default)]
struct Touched {
    paths: Mutex<(HashSet<PathBuf>, bool)>,
    wake: Notify,
}

/// The files of one trigger.
#[derive(Debug)]
struct WatchedFiles {
    trigger: Trigger,
    settling: Option<Settling>,
    /// The files of the state that was decided on. None if that was before this process.
    files: Option<BTreeMap<String, FileStamp>>,
    /// When the system last told of a change that was not yet looked at.
    touched: Option<Instant>,
    look_at: Instant,
    /// The folder that the system watches, as it was then.
    folder: Option<(u64, u64)>,
    /// What was told of last that went wrong.
    told: Option<String>,
}

/// What the system watches.
struct SystemWatch {
    watcher: Option<RecommendedWatcher>,
    folders: HashMap<PathBuf, bool>,
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
        loop {
            let now = Instant::now();
            if read_at <= now {
                read_at = now + self.read_every;
                match self.triggers.list().await {
                    Ok(list) => self.take_up(&mut watched, list.triggers),
                    Err(error) => tracing::warn!(%error, "the triggers cannot be read"),
                }
                system.keep(&watched);
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
                () = self.triggers.files_changed() => read_at = Instant::now(),
            }
        }
    }

    /// Begins with triggers that are new or other than they were, and ends with those that are gone.
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
                told: None,
            });
        }
    }

    async fn look(&self, system: &mut SystemWatch, files: &mut WatchedFiles) {
        let TriggerSchedule::File(schedule) = files.trigger.schedule.clone() else { return };
        let interval = schedule.poll_milliseconds.map(Duration::from_millis);
        // What changes from here on is told of, or found.
        let is_watched = interval.is_none() && system.has(watched_folder(&schedule), schedule.recursive);
        let touched = files.touched.take();
        let scan = match scanned(&schedule).await {
            Ok(scan) => {
                files.told = None;
                scan
            }
            Err(error) => {
                files.tell(&format!("its files cannot be looked at: {error}"));
                files.look_at = Instant::now() + interval.unwrap_or(LOOK_FOR);
                return;
            }
        };
        if interval.is_none() && (!is_watched || files.folder != scan.folder) {
            // The folder has come, or another has its name.
            let watching = system.watch(&schedule, scan.folder.is_some());
            if let Err(error) = &watching {
                files.tell(&format!("the system does not tell of changes, so it is looked at: {error}"));
            }
            let is_new = watching.is_ok() && files.folder != scan.folder;
            files.folder = scan.folder.filter(|_| watching.is_ok());
            if is_new && files.folder.is_some() {
                // Something may have changed before it was watched.
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

    /// Fires if it is time. Says after what time to look again, where that is soon.
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
            match self.triggers.firer().put(&trigger, &change.occurrence, Some(change.data)).await {
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

    /// Writes the state that was decided on, for whoever watches after this process.
    async fn decided(
        &self,
        id: &TriggerId,
        before: Option<&str>,
        state: &str,
        fired: bool,
    ) -> Result<(), BrokerError> {
        let now = whole_milli(self.triggers.now());
        let change = self.triggers.firer().change(id, |trigger| {
            // Another broker may be ahead.
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

async fn scanned(schedule: &FileSchedule) -> io::Result<FileScan> {
    let schedule = schedule.clone();
    let scan = tokio::task::spawn_blocking(move || FileScan::of(&schedule)).await;
    scan.unwrap_or_else(|error| Err(io::Error::other(error.to_string())))
}

impl WatchedFiles {
    fn schedule(&self) -> Option<&FileSchedule> {
        match &self.trigger.schedule {
            TriggerSchedule::File(schedule) => Some(schedule),
            _ => None,
        }
    }

    fn quiet(&self) -> Duration {
        Duration::from_millis(self.schedule().map_or(0, |schedule| schedule.quiet_milliseconds))
    }

    /// Whether word of a path is of these files.
    fn concerns(&self, path: &Path) -> bool {
        self.schedule().is_some_and(|schedule| {
            let folder = watched_folder(schedule);
            path.starts_with(&schedule.path) || folder == path
        })
    }

    /// Logs what is wrong, once.
    fn tell(&mut self, problem: &str) {
        if self.told.as_deref() != Some(problem) {
            tracing::warn!(trigger = %self.trigger.id, problem, "a trigger watches no files");
            self.told = Some(problem.to_owned());
        }
    }
}

/// What fires.
struct FileChange {
    occurrence: String,
    data: Value,
}

impl FileChange {
    /// What fires when `before` has become `state`. None if nothing does, as for a deletion that is not asked for.
    fn between(
        known: Option<&BTreeMap<String, FileStamp>>,
        scan: &FileScan,
        schedule: &FileSchedule,
        before: &str,
        state: &str,
    ) -> Option<Self> {
        let mut data = json!({ "path": schedule.path });
        let Some(known) = known else {
            if scan.files.is_empty() && !schedule.deleted {
                return None;
            }
            // States without a file are all alike.
            let occurrence = if scan.files.is_empty() {
                hashed(format!("{before}>{state}").as_bytes())[..32].to_owned()
            } else {
                state.to_owned()
            };
            if !schedule.folder {
                // There is only one that can have changed.
                data["files"] = scan.files.iter().map(|(path, stamp)| written(path, stamp)).collect();
            }
            return Some(Self { occurrence, data });
        };
        let changed = scan.files.iter().filter(|(path, stamp)| known.get(*path) != Some(stamp));
        let changed: Vec<_> = changed.collect();
        let mut deleted: Vec<_> = known.iter().filter(|(path, _)| !scan.files.contains_key(*path)).collect();
        if !schedule.deleted {
            deleted.clear();
        }
        if changed.is_empty() && deleted.is_empty() {
            return None;
        }
        let occurrence = if deleted.is_empty() {
            state.to_owned()
        } else {
            let gone: Vec<_> = deleted.iter().map(|(path, stamp)| format!("{path:?}{stamp:?}")).collect();
            hashed(format!("{state}-{}", gone.join("\n")).as_bytes())[..32].to_owned()
        };
        let count = changed.len() + deleted.len();
        let named = changed.iter().map(|(path, stamp)| written(path, stamp));
        let named = named.chain(deleted.iter().map(|(path, _)| json!({ "path": path, "change": "deleted" })));
        data["files"] = named.take(MAX_NAMED).collect();
        if count > MAX_NAMED {
            data["further_files"] = (count - MAX_NAMED).into();
        }
        Some(Self { occurrence, data })
    }
}

fn written(path: &str, stamp: &FileStamp) -> Value {
    json!({ "path": path, "change": "written", "size": stamp.len })
}

impl Touched {
    /// Takes what the system told of. Its thread is held up by nothing else.
    fn told(&self, event: notify::Result<notify::Event>) {
        let mut paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            // To look at a file is to open it.
            Ok(event) if event.kind.is_access() => return,
            Ok(event) if !event.need_rescan() && paths.0.len() + event.paths.len() <= MAX_TOUCHED => {
                paths.0.extend(event.paths);
            }
            _ => paths.1 = true,
        }
        drop(paths);
        self.wake.notify_one();
    }

    fn take(&self) -> (HashSet<PathBuf>, bool) {
        std::mem::take(&mut *self.paths.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl SystemWatch {
    fn new(touched: &Arc<Touched>) -> Self {
        let touched = Arc::clone(touched);
        let watcher = notify::recommended_watcher(move |event| touched.told(event));
        if let Err(error) = &watcher {
            tracing::warn!(%error, "the system does not tell of changes of files: they are looked at");
        }
        Self { watcher: watcher.ok(), folders: HashMap::new() }
    }

    fn has(&self, folder: &Path, recursive: bool) -> bool {
        self.folders.get(folder).is_some_and(|&watched| watched || !recursive)
    }

    /// Watches the folder of a trigger anew, whatever was watched by its name.
    fn watch(&mut self, schedule: &FileSchedule, is_there: bool) -> notify::Result<()> {
        let folder = watched_folder(schedule);
        let watched = self.folders.remove(folder);
        let recursive = schedule.recursive || watched == Some(true);
        let Some(watcher) = &mut self.watcher else {
            return Err(notify::Error::generic("there is no watcher"));
        };
        if watched.is_some() {
            // What is gone is not watched any more.
            let _ = watcher.unwatch(folder);
        }
        if !is_there {
            return Ok(());
        }
        let mode = if recursive { RecursiveMode::Recursive } else { RecursiveMode::NonRecursive };
        watcher.watch(folder, mode)?;
        self.folders.insert(folder.to_owned(), recursive);
        Ok(())
    }

    /// Ends with folders of no trigger.
    fn keep(&mut self, watched: &HashMap<TriggerId, WatchedFiles>) {
        let needed: HashSet<_> =
            watched.values().filter_map(WatchedFiles::schedule).map(watched_folder).collect();
        let gone: Vec<_> =
            self.folders.keys().filter(|folder| !needed.contains(folder.as_path())).cloned().collect();
        for folder in gone {
            self.folders.remove(&folder);
            if let Some(watcher) = &mut self.watcher {
                let _ = watcher.unwatch(&folder);
            }
        }
    }
}
