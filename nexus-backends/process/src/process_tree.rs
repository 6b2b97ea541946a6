//! Every process that descends from one child, including daemons that left its session and parent.
//!
//! Each of these traces identifies a descendant. It has the run's [mark](crate::containment), which is inherited and
//! cannot be removed. Its parent is a known process. It is in a process group or session that a known process leads.
//! Its environment has the run's marker, `NEXUS_RUN=<run id>`. If a child could not be marked, one more trace counts:
//! the environment is unreadable, and neither the parent nor the start time belongs to another run.
//!
//! A child that [ends with this program](crate::spawn::Invocation::end_with_host) has its mark before its first
//! instruction. Any other child is marked some microseconds after its start, together with the processes that it
//! started meanwhile. A process that it starts, scrubs and orphans within that time leaves none of these traces. A
//! namespace or a cgroup contains even such a process.
//!
//! A process is identified by its id *and* its start time, and signalled through a pidfd, so a reused id is never hit.
//!
//! Linux only, through `/proc`. On other systems only the child's process group is known, which is untested.

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

/// Variable that every child of a run has.
pub const RUN_MARKER: &str = "NEXUS_RUN";

/// Number of further looks while a process shows no environment, as during an exec or after its end.
const LOOKS_AT_THE_EMPTY: usize = 3;
/// Number of further looks after a process was listed alive and then found dead: the list lacks the processes that it
/// started meanwhile.
const LOOKS_AT_THE_VANISHED: usize = 4;
/// Number of further looks while a dead process is not yet a child of this program that it can reap.
const LOOKS_AT_CORPSES: usize = 40;
/// Parent of all kernel threads, which have no environment. Source: Linux, `kthreadd`.
const KERNEL_PARENT: u32 = 2;

/// Identity of a process, distinct from any other process with its id since the machine started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// The process id.
    pub pid: u32,
    /// Start time, in clock ticks since the machine started. Source: field 22 of `/proc/PID/stat`.
    pub start_ticks: u64,
}

/// A process that is still alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveProcess {
    /// Identity of the process.
    pub identity: ProcessIdentity,
    /// Name that the kernel stores, truncated to 15 bytes.
    pub name: String,
}

/// Processes of one run.
#[derive(Debug)]
pub struct ProcessTree {
    run: RunId,
    known: HashMap<u32, u64>,
    groups: HashSet<u32>,
    sessions: HashSet<u32>,
    /// Start time before which no process can belong to the run.
    oldest_start_ticks: u64,
    /// Process that another part of this program reaps.
    child: Option<u32>,
    tag: RunTag,
    /// True if every process of the run is known to have its mark.
    is_marked: bool,
    /// True if orphans become children of this program, so that only its descendants must be searched.
    is_below_us: bool,
    /// Processes that were seen dead.
    dead: HashSet<u32>,
    /// True if the last look ran out of descriptors or memory, so it may have missed a process.
    is_unsure: bool,
}

impl ProcessTree {
    /// Creates a tree of which only the marker is known.
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

    /// Creates the tree below a child that was just spawned, leads its own process group and is not yet reaped.
    #[must_use]
    pub fn below(run: RunId, child: u32) -> Self {
        let mut tree = Self::of_run(run);
        tree.groups.insert(child);
        tree.child = Some(child);
        tree
    }

    /// Sets if every process of the tree has the run's mark.
    pub(crate) fn marked(mut self, is_marked: bool) -> Self {
        self.is_marked = is_marked;
        self
    }

    /// Records that this program is the subreaper of the whole tree.
    pub(crate) fn below_us(mut self) -> Self {
        self.is_below_us = true;
        self
    }

    /// Sets the first process of the tree: no older process can belong to it. Limits the processes that it started
    /// before it could be limited itself.
    pub fn begin_with(&mut self, child: ProcessIdentity) {
        self.limit_from(child.pid);
        self.oldest_start_ticks = child.start_ticks;
        self.remember(child);
    }

    /// Forbids core dumps to a process and all processes below it. Also marks them, if the first process was marked.
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

    /// Returns every live process of the run, by all traces. A zombie is not alive; a zombie that became a child of
    /// this program is reaped.
    #[must_use]
    pub fn alive(&mut self) -> Vec<LiveProcess> {
        // During an exec a process shows no environment for a moment, so one look is not enough to call it gone. A dead
        // process can be reaped here only once its parent is dead too.
        for attempt in 0..LOOKS_AT_CORPSES {
            let snapshot = if self.is_below_us { Snapshot::below_us() } else { Snapshot::now() };
            self.is_unsure = !snapshot.is_whole;
            let look = self.absorb(&snapshot);
            // Processes of the run have higher ids than the child.
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

    /// Returns true if the last look ran out of descriptors or memory, so a missed process may still exist.
    #[must_use]
    pub fn is_unsure(&self) -> bool {
        self.is_unsure
    }

    /// Sends `signal` to every process of the run, and returns their number.
    pub fn signal(&mut self, signal: Signal) -> usize {
        #[cfg(not(target_os = "linux"))]
        self.signal_group(signal);
        let alive = self.alive();
        for process in &alive {
            send(process.identity, signal);
        }
        alive.len()
    }

    /// Kills every process of the run: lists, kills, and lists again until none is left or `patience` has passed.
    /// Blocks for at most that time.
    ///
    /// Returns the processes that are still alive, as far as they [could be seen](Self::is_unsure).
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

    /// Adds every newly seen descendant, and returns the live ones.
    fn absorb<'a>(&mut self, snapshot: &'a Snapshot) -> LiveProcesses<'a> {
        let start_of: HashMap<u32, u64> =
            snapshot.rows.iter().map(|row| (row.pid, row.start_ticks)).collect();
        // The id of a group stays reserved while the group has a member. An empty group, or a group with another
        // leader, is no longer a trace.
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

    /// Decides if a process itself shows that it belongs to the run.
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
            // The environment is unreadable. If every process of the run has a mark, a process whose limits are readable
            // and show no mark does not belong to it. Otherwise an orphan belongs to the run; the caller has compared its
            // start time. If no start time is known, as in a sweep, only the mark counts.
            None if self.is_marked && mark.is_some() => Carries::No,
            None if self.oldest_start_ticks > 0 && row.is_orphan() => Carries::Yes,
            None => Carries::No,
        }
    }

    /// Reaps orphans that became children of this process. This happens if the host is the first process of a
    /// container, or a subreaper. Leaves the direct child to its own waiter. Returns true if a dead process is left.
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

/// Processes that one look at the system found alive.
struct LiveProcesses<'a> {
    alive: Vec<&'a ProcessRow>,
    /// True if a process that may belong to the run showed no environment. It may have ended after it was listed, and may
    /// have started others that are not in the list.
    undecided: bool,
    /// True if a process died since the last look.
    has_newly_dead: bool,
    /// True if a dead process will become a child of this program, which must reap it.
    corpses: bool,
}

fn pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// Sends `signal` to exactly this process, or does nothing if it is gone.
#[cfg(target_os = "linux")]
pub(crate) fn send(identity: ProcessIdentity, signal: Signal) {
    use rustix::process::{PidfdFlags, kill_process, pidfd_open, pidfd_send_signal};
    let Some(pid) = pid(identity.pid) else { return };
    match pidfd_open(pid, PidfdFlags::empty()) {
        // The descriptor is bound to the current owner of the id; the start time identifies that process.
        Ok(descriptor) => {
            if identity_of(identity.pid) == Some(identity) {
                let _ = pidfd_send_signal(&descriptor, signal);
            }
        }
        // Kernels before 5.3, or no descriptor is left. The id could be reused between these two lines only after a
        // full round of all ids.
        Err(rustix::io::Errno::NOSYS | rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) => {
            if identity_of(identity.pid) == Some(identity) {
                let _ = kill_process(pid, signal);
            }
        }
        Err(_) => {}
    }
}

/// Sends `signal` to the process with this id, because other systems offer no stronger identity here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn send(identity: ProcessIdentity, signal: Signal) {
    if let Some(pid) = pid(identity.pid) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Found by a gate: a middle process ended after it was listed and before it was examined, and its child was missed.
    #[test]
    fn a_process_that_ends_after_it_was_listed_leads_to_a_further_look() {
        for is_reaped in [false, true] {
            let mut process = std::process::Command::new("sleep").arg("20").spawn().unwrap();
            // Marked: a process of this user that may not be examined while it starts is then not taken for an orphan
            // of the run.
            let mut tree = ProcessTree::of_run(RunId::new()).marked(true);
            tree.oldest_start_ticks = identity_of(process.id()).unwrap().start_ticks;
            let mut snapshot = Snapshot::now();
            snapshot.rows.retain(|row| row.pid == process.id());
            // While it is being started it shows no environment.
            let until = Instant::now() + Duration::from_secs(60);
            while tree.absorb(&snapshot).undecided {
                assert!(Instant::now() < until, "it is alive, and shows that it is not of this run");
                std::thread::sleep(Duration::from_millis(1));
            }

            process.kill().unwrap();
            if is_reaped {
                process.wait().unwrap();
            } else {
                while state_of(process.id()) != Some(b'Z') {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            assert!(tree.absorb(&snapshot).undecided, "is reaped: {is_reaped}");
            let _ = process.wait();
        }
    }
}
