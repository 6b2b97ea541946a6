//! Every process that one child brought into being, also those that walked away from it.
//!
//! A descendant is known by any of these traces. It has the run's [mark](crate::containment), which is inherited and
//! cannot be scrubbed. It is a child of one that is known. It is in a process group or session that a known one leads. It
//! carries the run's marker, `NEXUS_RUN=<run id>`, in its environment. Where a child could not be marked: nobody may
//! read its environment, and neither its parent nor its start say that it is somebody else's.
//!
//! A child that is to [end with this program](crate::spawn::Invocation::end_with_host) has its mark before its first
//! instruction. Any other is marked some microseconds after it was started, and so is what it started meanwhile; what it
//! starts, scrubs and orphans within that time leaves none of these traces. A namespace or a cgroup holds that too.
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

use snapshot::{Carries, ProcessRow, carries};
pub(crate) use snapshot::{
    Snapshot, boot_id, children_of, for_each_from, has_children, identity_of, live, state_of,
};

use crate::containment::core_limit::forbid_core_dumps;
use crate::containment::tag::RunTag;
use crate::run_id::RunId;

/// The variable that every child of a run carries.
pub const RUN_MARKER: &str = "NEXUS_RUN";

/// How often to look again while somebody shows no environment.
const LOOKS_AT_THE_EMPTY: usize = 3;
/// How often to look again while somebody was alive when listed and dead when looked at: what it started meanwhile is not in
/// the list.
const LOOKS_AT_THE_VANISHED: usize = 4;
/// How often to look again while somebody is dead and not yet ours to reap.
const LOOKS_AT_CORPSES: usize = 40;
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
    /// The one process that a waiter of ours reaps.
    child: Option<u32>,
    tag: RunTag,
    /// Whether whoever belongs to the run is known to have its mark.
    is_marked: bool,
    /// Whether orphans come to this program, so that nobody else has to be looked at.
    is_below_us: bool,
    /// Those that were seen dead.
    dead: HashSet<u32>,
    /// Whether the last look was short of something to look with, so that somebody may be there who was not seen.
    is_unsure: bool,
}

impl ProcessTree {
    /// A tree of which only the marker is known.
    #[must_use]
    pub fn of_run(run: RunId) -> Self {
        Self {
            tag: RunTag::of(&run),
            run,
            known: HashMap::new(),
            groups: HashSet::new(),
            sessions: HashSet::new(),
            oldest_start_ticks: 0,
            child: None,
            is_marked: false,
            is_below_us: false,
            dead: HashSet::new(),
            is_unsure: false,
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

    /// Says that every process of the tree has the run's mark.
    pub(crate) fn marked(mut self, is_marked: bool) -> Self {
        self.is_marked = is_marked;
        self
    }

    /// Says that this program is the subreaper of the whole tree.
    pub(crate) fn below_us(mut self) -> Self {
        self.is_below_us = true;
        self
    }

    /// Says who the first process of the tree is: nothing older can belong to it. What it started before it could be limited
    /// is limited.
    pub fn begin_with(&mut self, child: ProcessIdentity) {
        self.limit_from(child.pid);
        self.oldest_start_ticks = child.start_ticks;
        self.remember(child);
    }

    /// Marks a process and everyone below it, if it was marked itself, and forbids them core dumps.
    pub(crate) fn limit_from(&self, pid: u32) {
        for_each_from(pid, |pid| {
            if self.is_marked {
                self.tag.mark(pid);
            }
            forbid_core_dumps(pid);
        });
    }

    /// Adds a process that is known to belong to the run, for example from the run registry.
    pub fn remember(&mut self, identity: ProcessIdentity) {
        self.known.insert(identity.pid, identity.start_ticks);
    }

    /// Every process of the run that is alive now, by every trace. A zombie is not alive; one that
    /// the kernel gave us to reap is reaped.
    #[must_use]
    pub fn alive(&mut self) -> Vec<LiveProcess> {
        // A process in the middle of an exec shows no environment for a moment. Where somebody
        // shows none, nobody is called gone at the first look. A corpse comes to us once its parent is one.
        for attempt in 0..LOOKS_AT_CORPSES {
            let snapshot = if self.is_below_us { Snapshot::below_us() } else { Snapshot::now() };
            self.is_unsure = !snapshot.is_whole;
            let look = self.absorb(&snapshot);
            // Ids of the run's come after the child's.
            let has_vanished =
                look.has_newly_dead || self.child.is_some_and(|child| snapshot.last_vanished > child);
            let is_unclear = look.undecided && attempt < LOOKS_AT_THE_EMPTY
                || has_vanished && attempt < LOOKS_AT_THE_VANISHED
                || look.corpses
                || self.is_unsure;
            if !look.alive.is_empty() || !is_unclear {
                return look.alive.into_iter().map(ProcessRow::live).collect();
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        Vec::new()
    }

    /// Whether the last look was short of descriptors or memory: who was not seen then may still be there.
    #[must_use]
    pub fn is_unsure(&self) -> bool {
        self.is_unsure
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
    /// Returns who is still alive, as far as [could be seen](Self::is_unsure).
    #[must_use]
    pub fn kill(&mut self, patience: Duration) -> Vec<LiveProcess> {
        #[cfg(not(target_os = "linux"))]
        self.signal_group(Signal::KILL);
        let until = Instant::now() + patience;
        let mut pause = Duration::from_micros(500);
        loop {
            let alive = self.alive();
            if alive.is_empty() && !self.is_unsure {
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
    fn absorb<'a>(&mut self, snapshot: &'a Snapshot) -> LiveProcesses<'a> {
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
        let mut unread: Vec<bool> = vec![true; snapshot.rows.len()];
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
                if !belongs && std::mem::take(&mut unread[index]) {
                    match self.shows(row) {
                        Carries::Yes => belongs = true,
                        Carries::Nothing => undecided = true,
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
        let (alive, dead): (Vec<&ProcessRow>, Vec<&ProcessRow>) = rows.partition(|row| row.is_alive());
        let newly_dead = dead.iter().filter(|row| self.dead.insert(row.pid)).count();
        let corpses = self.reap_adopted(&dead);
        LiveProcesses {
            alive,
            undecided,
            has_newly_dead: newly_dead > 0,
            corpses: self.is_below_us && corpses,
        }
    }

    /// Whether a process shows by itself that it is of the run.
    fn shows(&self, row: &ProcessRow) -> Carries {
        let mark = self.tag.is_on(row.pid);
        if mark == Some(true) {
            return Carries::Yes;
        }
        if !row.is_alive() || row.parent == KERNEL_PARENT {
            return Carries::No;
        }
        match carries(row.pid, RUN_MARKER, self.run.as_str()) {
            Some(shown) => shown,
            // Nobody may read it. Where the mark says nothing, it is of the run until shown otherwise: by a parent that is
            // not, or by its start, which the caller has compared. Without a known start, as in a sweep, only the mark counts.
            None if self.is_marked && mark.is_some() => Carries::No,
            None if self.oldest_start_ticks > 0 && row.is_orphan() => Carries::Yes,
            None => Carries::No,
        }
    }

    /// Reaps orphans that the kernel handed to this process, which happens where the host is the
    /// first process of a container or a subreaper. The direct child is left to its own waiter.
    /// Returns whether somebody is left who is dead.
    fn reap_adopted(&self, dead: &[&ProcessRow]) -> bool {
        let Some(child) = self.child else { return false };
        let mut left = false;
        for row in dead.iter().filter(|row| row.pid != child) {
            let is_reaped = row.parent == std::process::id()
                && pid(row.pid).is_some_and(|pid| {
                    rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::NOHANG).is_ok()
                });
            left |= !is_reaped;
        }
        left
    }

    #[cfg(not(target_os = "linux"))]
    fn signal_group(&self, signal: Signal) {
        if let Some(group) = self.child.and_then(pid) {
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }
}

/// Processes that a look at the system found alive.
struct LiveProcesses<'a> {
    alive: Vec<&'a ProcessRow>,
    /// Whether somebody young enough showed no environment at all.
    undecided: bool,
    /// Whether somebody is dead who was not at the look before.
    has_newly_dead: bool,
    /// Whether somebody is dead, and will come to us to be reaped.
    corpses: bool,
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
        // Kernels before 5.3, or no descriptor left: the id cannot be reused between these two lines but by a full round
        // of all ids.
        Err(rustix::io::Errno::NOSYS | rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) => {
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
