//! The child of one pump: our ends of its pipes, who it is, and how it ended.

use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdin};
use std::time::{Duration, Instant};

use super::exit::ExitStatus;
use crate::containment::Enclosure;
use crate::process_tree::{ProcessIdentity, identity_of};

/// The child and our ends of its pipes.
#[derive(Debug)]
pub(super) struct Serving {
    child: Child,
    pub(super) exit_signal: Option<OwnedFd>,
    pub(super) stdin: Option<ChildStdin>,
    pub(super) stdout: Option<OwnedFd>,
    pub(super) stderr: Option<OwnedFd>,
    pub(super) hold: Enclosure,
    pub(super) status: Option<ExitStatus>,
    pub(super) identity: Option<ProcessIdentity>,
    pub(super) identified: bool,
}

impl Serving {
    pub(super) fn new(mut child: Child, hold: Enclosure) -> Self {
        let pid = child.id();
        // In this thread, which has nothing to do until the child says something.
        hold.limit_the_early(pid);
        let nonblocking = |descriptor: OwnedFd| {
            let _ = rustix::io::ioctl_fionbio(&descriptor, true);
            descriptor
        };
        let stdin = child.stdin.take();
        if let Some(stdin) = &stdin {
            let _ = rustix::io::ioctl_fionbio(stdin, true);
        }
        Self {
            exit_signal: exit_signal(pid),
            stdin,
            stdout: child.stdout.take().map(|stdout| nonblocking(stdout.into())),
            stderr: child.stderr.take().map(|stderr| nonblocking(stderr.into())),
            hold,
            status: None,
            identity: None,
            identified: false,
            child,
        }
    }

    /// Learns who the child is. That must be before it is reaped.
    pub(super) fn identify(&mut self) {
        if self.identity.is_none() && self.status.is_none() {
            self.identity = identity_of(self.child.id());
            self.identity.into_iter().for_each(|identity| self.hold.begin_with(identity));
        }
        self.identified = true;
    }

    /// Reaps the child if it has ended. Returns whether it has.
    pub(super) fn look_for_exit(&mut self) -> bool {
        self.identify();
        match self.child.try_wait() {
            Ok(None) => return false,
            Ok(Some(status)) => self.status = Some(status.into()),
            Err(_) => self.status = Some(ExitStatus::Unknown),
        }
        true
    }

    /// Reaps the killed child. A waiter of its own gets a child that cannot die.
    pub(super) fn reap(&mut self, patience: Duration) {
        let until = Instant::now() + patience;
        // Without a readable `/proc` the containment could not see the child. Its id is also its group's, and
        // stays reserved until here.
        if self.status.is_none()
            && !self.look_for_exit()
            && let Some(group) = rustix::process::Pid::from_raw(self.child.id().cast_signed())
        {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        while self.status.is_none() && !self.look_for_exit() {
            if Instant::now() >= until {
                return;
            }
            std::thread::sleep(Duration::from_micros(500));
        }
    }
}

/// Becomes readable when the process ends.
#[cfg(target_os = "linux")]
fn exit_signal(pid: u32) -> Option<OwnedFd> {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).ok()?)?;
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
fn exit_signal(_pid: u32) -> Option<OwnedFd> {
    None
}
