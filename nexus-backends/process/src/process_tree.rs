//! Every process that one child brought into being, also those that walked away from it.
//!
//! A descendant is known by any of three traces. It is a child of one that is known (so each is
//! remembered as it is seen, and stays known after its parent is gone). It is in a process group or
//! session that a known one leads. Or it carries the run's marker, `NEXUS_RUN=<run id>`, in its
//! environment. A process that forks twice, starts a session, and scrubs its environment within the
//! few milliseconds between two looks leaves none of them, and no unprivileged means finds it.
//!
//! A process is told apart by its id *and* its start time, and signalled through a pidfd, so that a
//! reused id is never hit.
//!
//! Linux only, by `/proc`. Elsewhere there is the child's process group alone, which is unproven.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

mod snapshot;

use snapshot::{Carries, Row, Snapshot, carries};
pub(crate) use snapshot::{boot_id, identity_of};

use crate::run_id::RunId;

/// The variable that every child of a run carries.
pub const RUN_MARKER: &str = "NEXUS_RUN";

/// How often to look again while somebody shows no environment.
const LOOKS_AT_THE_EMPTY: usize = 3;
/// The parent of all kernel threads, which have no environment. Source: Linux, `kthreadd`.
const KERNEL_PARENT: u32 = 2;

/// A process, told apart from any other that ever had its id since the machine started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// The process id.
    pub pid: u32,
    /// When it started, in clock ticks since the machine did. Source: field 22 of `/proc/PID/stat`.
    pub start_ticks: u64,
}

/// A process that is still alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveProcess {
    /// Which one it is.
    pub identity: ProcessIdentity,
    /// Its name as the kernel keeps it, cut to 15 bytes.
    pub name: String,
}

/// The processes of one run.
#[derive(Debug)]
pub struct ProcessTree {
    run: RunId,
    known: HashMap<u32, u64>,
    groups: HashSet<u32>,
    sessions: HashSet<u32>,
    /// Nothing older can belong to the run.
    oldest_start_ticks: u64,
    /// A snapshot from before says nothing about this tree.
    begun: Instant,
    /// The one process that a waiter of ours reaps.
    child: Option<u32>,
}

impl ProcessTree {
    /// A tree of which only the marker is known.
    #[must_use]
    pub fn of_run(run: RunId) -> Self {
        Self {
            run,
            known: HashMap::new(),
            groups: HashSet::new(),
            sessions: HashSet::new(),
            oldest_start_ticks: 0,
            begun: Instant::now(),
            child: None,
        }
    }

    /// The tree below a child just spawned, which leads its own process group and is not yet
    /// reaped.
    #[must_use]
    pub fn below(run: RunId, child: u32) -> Self {
        let mut tree = Self::of_run(run);
        tree.groups.insert(child);
        tree.child = Some(child);
        tree
    }

    /// Says who the first process of the tree is: nothing older can belong to it.
    pub fn begin_with(&mut self, child: ProcessIdentity) {
        self.oldest_start_ticks = child.start_ticks;
        self.remember(child);
    }

    /// Adds a process that is known to belong to the run, for example from its ledger.
    pub fn remember(&mut self, identity: ProcessIdentity) {
        self.known.insert(identity.pid, identity.start_ticks);
    }

    /// Looks around and remembers whom it sees. Cheap: looks of several trees within a few
    /// milliseconds share one reading of `/proc`.
    ///
    /// Returns how long the reading took.
    pub fn look(&mut self) -> Duration {
        let snapshot = Snapshot::recent(Duration::from_millis(20), self.begun);
        self.absorb(&snapshot, Marker::Ignored);
        snapshot.cost
    }

    /// Every process of the run that is alive now, by every trace. A zombie is not alive; one that
    /// the kernel gave us to reap is reaped.
    #[must_use]
    pub fn alive(&mut self) -> Vec<LiveProcess> {
        // A process in the middle of an exec shows no environment for a moment. Where somebody
        // shows none, nobody is called gone at the first look.
        for _ in 0..LOOKS_AT_THE_EMPTY {
            let snapshot = Snapshot::now();
            let look = self.absorb(&snapshot, Marker::Read);
            if !look.alive.is_empty() || !look.undecided {
                return look.alive.into_iter().map(Row::live).collect();
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        Vec::new()
    }

    /// Sends `signal` to every process of the run, and says how many there were.
    pub fn signal(&mut self, signal: Signal) -> usize {
        #[cfg(not(target_os = "linux"))]
        self.signal_group(signal);
        let alive = self.alive();
        for process in &alive {
            send(process.identity, signal);
        }
        alive.len()
    }

    /// Kills every process of the run: lists, kills, and lists again until none is left or
    /// `patience` is used up. Blocks for that long at most.
    ///
    /// Returns who is still alive.
    #[must_use]
    pub fn kill(&mut self, patience: Duration) -> Vec<LiveProcess> {
        #[cfg(not(target_os = "linux"))]
        self.signal_group(Signal::KILL);
        let until = Instant::now() + patience;
        let mut pause = Duration::from_micros(500);
        loop {
            let alive = self.alive();
            if alive.is_empty() {
                return alive;
            }
            for process in &alive {
                send(process.identity, Signal::KILL);
            }
            if Instant::now() >= until {
                return alive;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// Adds every newly seen descendant, and returns those that are alive.
    fn absorb<'a>(&mut self, snapshot: &'a Snapshot, marker: Marker) -> Look<'a> {
        let start_of: HashMap<u32, u64> =
            snapshot.rows.iter().map(|row| (row.pid, row.start_ticks)).collect();
        // The id of a group stays taken while the group has a member. One that is empty, or is led
        // by somebody else, is no trace any more.
        let ours = |id: u32, known: &HashMap<u32, u64>| match (start_of.get(&id), known.get(&id)) {
            (Some(start), Some(known)) => start == known,
            (Some(_), None) => false,
            (None, _) => true,
        };
        self.groups.retain(|id| ours(*id, &self.known) && snapshot.rows.iter().any(|row| row.group == *id));
        self.sessions
            .retain(|id| ours(*id, &self.known) && snapshot.rows.iter().any(|row| row.session == *id));

        let mut found = vec![false; snapshot.rows.len()];
        let mut unread: Vec<bool> = vec![marker == Marker::Read; snapshot.rows.len()];
        let mut undecided = false;
        loop {
            let mut grew = false;
            for (index, row) in snapshot.rows.iter().enumerate() {
                if found[index] || row.start_ticks < self.oldest_start_ticks || row.pid == std::process::id()
                {
                    continue;
                }
                let parent_known = self
                    .known
                    .get(&row.parent)
                    .is_some_and(|known| start_of.get(&row.parent).is_some_and(|start| start == known));
                let mut belongs = self.known.get(&row.pid) == Some(&row.start_ticks)
                    || parent_known
                    || self.groups.contains(&row.group)
                    || self.sessions.contains(&row.session);
                if !belongs && row.is_alive() && std::mem::take(&mut unread[index]) {
                    match carries(row.pid, RUN_MARKER, self.run.as_str()) {
                        Carries::Yes => belongs = true,
                        Carries::Nothing => undecided |= row.parent != KERNEL_PARENT,
                        Carries::No => {}
                    }
                }
                if belongs {
                    found[index] = true;
                    grew = true;
                    self.known.insert(row.pid, row.start_ticks);
                    if row.group == row.pid {
                        self.groups.insert(row.pid);
                    }
                    if row.session == row.pid {
                        self.sessions.insert(row.pid);
                    }
                }
            }
            if !grew {
                break;
            }
        }
        let rows = snapshot.rows.iter().zip(found).filter_map(|(row, found)| found.then_some(row));
        let (alive, dead): (Vec<&Row>, Vec<&Row>) = rows.partition(|row| row.is_alive());
        if marker == Marker::Read {
            self.reap_adopted(&dead);
        }
        Look { alive, undecided }
    }

    /// Reaps orphans that the kernel handed to this process, which happens where the host is the
    /// first process of a container or a subreaper. The direct child is left to its own waiter.
    fn reap_adopted(&self, dead: &[&Row]) {
        let Some(child) = self.child else { return };
        let adopted = dead.iter().filter(|row| row.parent == std::process::id() && row.pid != child);
        for pid in adopted.filter_map(|row| pid(row.pid)) {
            let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::NOHANG);
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn signal_group(&self, signal: Signal) {
        if let Some(group) = self.child.and_then(pid) {
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }
}

/// Who was seen alive.
struct Look<'a> {
    alive: Vec<&'a Row>,
    /// Whether somebody young enough showed no environment at all.
    undecided: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Marker {
    Ignored,
    Read,
}

fn pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// Sends `signal` to exactly this process, or to nobody if it is gone.
#[cfg(target_os = "linux")]
pub(crate) fn send(identity: ProcessIdentity, signal: Signal) {
    use rustix::process::{PidfdFlags, kill_process, pidfd_open, pidfd_send_signal};
    let Some(pid) = pid(identity.pid) else { return };
    match pidfd_open(pid, PidfdFlags::empty()) {
        // The descriptor is bound to whoever has the id now; the start time says who that is.
        Ok(descriptor) => {
            if identity_of(identity.pid) == Some(identity) {
                let _ = pidfd_send_signal(&descriptor, signal);
            }
        }
        // Kernels before 5.3: the id cannot be reused between these two lines but by a full round
        // of all ids.
        Err(rustix::io::Errno::NOSYS) => {
            if identity_of(identity.pid) == Some(identity) {
                let _ = kill_process(pid, signal);
            }
        }
        Err(_) => {}
    }
}

/// Sends `signal` to the process, as far as its id tells it.
#[cfg(not(target_os = "linux"))]
pub(crate) fn send(identity: ProcessIdentity, signal: Signal) {
    if let Some(pid) = pid(identity.pid) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}
