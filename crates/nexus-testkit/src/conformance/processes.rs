//! The processes of a turn: their arguments and environments, and their end.
//!
//! Only systems with `/proc` are supported; on others these promises are not checked.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Pause between two scans.
const INTERVAL: Duration = Duration::from_millis(15);

/// One process. Its start time distinguishes it from a later process with the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Process {
    pub(super) pid: u32,
    start: u64,
}

/// Observations of a process.
#[derive(Clone, Debug, Default)]
pub(super) struct Sight {
    /// Its arguments, with NUL between them, all versions that were seen.
    pub(super) argv: Vec<u8>,
    /// Its environment, with NUL between the variables.
    pub(super) environment: Vec<u8>,
}

/// Looks at the processes that carry a mark, and at their descendants, until it is dropped.
#[derive(Debug)]
pub(super) struct ProcessWatch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    mark: Vec<u8>,
    seen: Mutex<BTreeMap<Process, Sight>>,
    stop: AtomicBool,
}

impl ProcessWatch {
    /// Returns true if processes can be observed on this system.
    pub(super) fn is_possible() -> bool {
        cfg!(target_os = "linux")
    }

    /// Begins to look for processes whose environment holds `mark`.
    pub(super) fn start(mark: &str) -> Self {
        let shared = Arc::new(Shared {
            mark: mark.as_bytes().to_vec(),
            seen: Mutex::default(),
            stop: AtomicBool::new(false),
        });
        let looker = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            while !looker.stop.load(Ordering::Relaxed) {
                looker.look();
                std::thread::sleep(INTERVAL);
            }
        });
        Self { shared, thread: Some(thread) }
    }

    /// All observations so far.
    pub(super) fn seen(&self) -> BTreeMap<Process, Sight> {
        self.shared.seen().clone()
    }

    /// Waits until nothing of what was seen is alive, for at most `patience`; returns what still is, each in
    /// words. A zombie that its parent should have collected counts.
    pub(super) async fn survivors(&self, patience: Duration) -> Vec<String> {
        let until = Instant::now() + patience;
        loop {
            self.shared.look();
            let alive = self.shared.alive();
            if alive.is_empty() || Instant::now() >= until {
                return alive;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for ProcessWatch {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the observer thread has already been printed.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn look(&self) {
        let table = table();
        let mut seen = self.seen();
        let known = |pid: u32, seen: &BTreeMap<Process, Sight>| {
            table.get(&pid).is_some_and(|status| seen.contains_key(&status.process))
        };
        for status in table.values() {
            if status.process.pid == std::process::id() {
                continue;
            }
            let environment = fs::read(format!("/proc/{}/environ", status.process.pid)).unwrap_or_default();
            let is_marked = contains(&environment, &self.mark);
            if !is_marked && !known(status.parent, &seen) && !seen.contains_key(&status.process) {
                continue;
            }
            let argv = fs::read(format!("/proc/{}/cmdline", status.process.pid)).unwrap_or_default();
            let sight = seen.entry(status.process).or_default();
            // A program may rewrite its arguments, so a secret may be in one version only.
            if !contains(&sight.argv, &argv) {
                sight.argv.extend_from_slice(&argv);
            }
            // A process that has ended shows no environment, and the earlier one counts.
            if !environment.is_empty() {
                sight.environment = environment;
            }
        }
    }

    fn alive(&self) -> Vec<String> {
        let seen = self.seen();
        let table = table();
        let ours = |pid: u32| {
            pid == std::process::id()
                || table.get(&pid).is_some_and(|parent| seen.contains_key(&parent.process))
        };
        let alive = seen.iter().filter_map(|(process, sight)| {
            let status = table.get(&process.pid).filter(|status| status.process == *process)?;
            // Ignore a zombie without a living parent of this run: the system reaps it, not the backend.
            if status.state == 'Z' && !ours(status.parent) {
                return None;
            }
            let argv = String::from_utf8_lossy(&sight.argv).replace('\0', " ");
            let argv = argv.chars().take(120).collect::<String>();
            Some(format!("{} ({}, parent {}): {argv}", process.pid, status.state, status.parent))
        });
        alive.collect()
    }

    fn seen(&self) -> MutexGuard<'_, BTreeMap<Process, Sight>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The processes with `path` among their arguments. Zombies have none.
pub(super) fn with_argument(path: &Path) -> Vec<u32> {
    let path = path.as_os_str().as_encoded_bytes();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has = |pid: &u32| {
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        arguments.split(|byte| *byte == 0).any(|argument| argument == path)
    };
    pids.filter(has).collect()
}

struct Status {
    process: Process,
    parent: u32,
    state: char,
}

/// Every process of the system, by number.
fn table() -> BTreeMap<u32, Status> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, status(pid)?))).collect()
}

/// Source: proc_pid_stat(5); the name may hold anything, so fields count from its last parenthesis.
fn status(pid: u32) -> Option<Status> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<_> = fields.split_whitespace().collect();
    Some(Status {
        // proc(5) counts fields from one, and two of them come before the parenthesis. So this is its field 22.
        process: Process { pid, start: fields.get(19)?.parse().ok()? },
        parent: fields.get(1)?.parse().ok()?,
        state: fields.first()?.chars().next()?,
    })
}

/// Returns true if `hay` contains `needle`.
pub(super) fn contains(hay: &[u8], needle: &[u8]) -> bool {
    needle.is_empty() || hay.windows(needle.len()).any(|window| window == needle)
}
