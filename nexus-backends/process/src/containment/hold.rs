//! Processes of one child, under any kind of containment.

use std::time::Duration;

use rustix::process::Signal;

use super::cgroup::Cgroup;
use super::core_limit::forbid_core_dumps;
use super::namespace::{Namespace, signal_in_code};
use super::subreaper::Subreaper;
use super::tag::RunTag;
use crate::process_tree::{LiveProcess, ProcessIdentity, ProcessTree, has_children, send};
use crate::run_id::RunId;
use crate::spawn::ExitStatus;

/// Containment that is prepared for a child before it starts.
#[derive(Debug)]
pub(crate) enum Holding {
    Namespace,
    Cgroup(Cgroup),
    Subreaper(Subreaper),
    Search,
}

impl Holding {
    /// Contains the child that was just started, and marks it, so that a sweep finds it after the host was killed.
    pub(crate) fn take(self, run: &RunId, child: u32) -> Enclosure {
        let is_marked = RunTag::of(run).mark(child);
        forbid_core_dumps(child);
        let tree = || ProcessTree::below(run.clone(), child).marked(is_marked);
        // In a namespace or a cgroup, the launcher itself forbids core dumps before the program starts, and the
        // processes need no mark.
        match self {
            Self::Namespace => Enclosure::Namespace(Namespace::below(child)),
            Self::Cgroup(cgroup) => Enclosure::Cgroup(cgroup),
            Self::Subreaper(subreaper) => Enclosure::Subreaper(tree().below_us(), subreaper),
            Self::Search => Enclosure::Search(tree()),
        }
    }
}

/// Enclosure of one child's processes.
#[derive(Debug)]
pub(crate) enum Enclosure {
    /// A PID namespace.
    Namespace(Namespace),
    /// A cgroup.
    Cgroup(Cgroup),
    /// This program is the subreaper of the processes.
    Subreaper(ProcessTree, Subreaper),
    /// No enclosure; the processes are searched for.
    Search(ProcessTree),
}

impl Enclosure {
    /// Limits the processes that `child` started before it was limited itself, which happens on a busy machine.
    pub(crate) fn limit_the_early(&self, child: u32) {
        if let Self::Subreaper(tree, _) | Self::Search(tree) = self
            && has_children(child)
        {
            tree.limit_from(child);
        }
    }

    /// Sets the first process: no older process can belong to it.
    pub(crate) fn begin_with(&mut self, child: ProcessIdentity) {
        match self {
            Self::Subreaper(tree, _) | Self::Search(tree) => tree.begin_with(child),
            Self::Namespace(_) | Self::Cgroup(_) => {}
        }
    }

    /// Returns the live processes.
    pub(crate) fn alive(&mut self) -> Vec<LiveProcess> {
        match self {
            Self::Namespace(namespace) => namespace.alive(),
            Self::Cgroup(cgroup) => cgroup.alive(),
            Self::Subreaper(tree, _) | Self::Search(tree) => tree.alive(),
        }
    }

    /// Sends a signal to all processes, and returns their number.
    pub(crate) fn signal(&mut self, signal: Signal) -> usize {
        if let Self::Search(tree) | Self::Subreaper(tree, _) = self {
            return tree.signal(signal);
        }
        let alive = self.alive();
        alive.iter().for_each(|process| send(process.identity, signal));
        alive.len()
    }

    /// Kills all processes. Blocks for at most `patience`, and returns the processes that are left.
    pub(crate) fn kill(&mut self, patience: Duration) -> Vec<LiveProcess> {
        match self {
            Self::Namespace(namespace) => namespace.kill(patience),
            Self::Cgroup(cgroup) => cgroup.kill(patience),
            Self::Subreaper(tree, _) | Self::Search(tree) => tree.kill(patience),
        }
    }

    /// Returns true if the last search ran out of descriptors or memory, so it may have missed a process.
    pub(crate) fn is_unsure(&self) -> bool {
        match self {
            Self::Subreaper(tree, _) | Self::Search(tree) => tree.is_unsure(),
            Self::Namespace(_) | Self::Cgroup(_) => false,
        }
    }

    /// Returns the process that receives a polite signal. `child` is the process that was started.
    pub(crate) fn program(&self, child: Option<ProcessIdentity>) -> Option<ProcessIdentity> {
        match self {
            // Elsewhere the launcher becomes the program under the same process id.
            Self::Namespace(namespace) => namespace.program(),
            _ => child,
        }
    }

    /// Returns the program's own part of the first bytes on standard error.
    pub(crate) fn first_said<'a>(&self, said: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Namespace(_) => Namespace::without_greeting(said),
            _ => said,
        }
    }

    /// Returns the exit status of the program. `status` is that of the started process, which may be a
    /// launcher.
    pub(crate) fn status(&self, status: ExitStatus) -> ExitStatus {
        match self {
            Self::Namespace(_) => signal_in_code(status),
            _ => status,
        }
    }
}
