//! Child of one pump: its pipes, its identity, and its exit.

use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdin};
use std::time::{Duration, Instant};

use super::exit::ExitStatus;
use crate::containment::Enclosure;
use crate::process_tree::{ProcessIdentity, identity_of};

/// Child, and this program's ends of its pipes.
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
        // Do this in the serving thread, which is idle until the child writes something.
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

    /// Determines the identity of the child, which must happen before it is reaped.
    pub(super) fn identify(&mut self) {
        if self.identity.is_none() && self.status.is_none() {
            self.identity = identity_of(self.child.id());
            self.identity.into_iter().for_each(|identity| self.hold.begin_with(identity));
        }
        self.identified = true;
    }

    /// Reaps the child if it has ended. Returns true if it has.
    pub(super) fn look_for_exit(&mut self) -> bool {
        self.identify();
        match self.child.try_wait() {
            Ok(None) => return false,
            Ok(Some(status)) => self.status = Some(status.into()),
            Err(_) => self.status = Some(ExitStatus::Unknown),
        }
        true
    }

    /// Reaps the killed child. A separate waiter takes over a child that cannot be killed.
    pub(super) fn reap(&mut self, patience: Duration) {
        let until = Instant::now() + patience;
        // Without a readable `/proc` the containment could not see the child. The child's id is also the id of its
        // group, and stays reserved until the child is reaped.
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

/// Returns a descriptor that becomes readable when the process ends.
#[cfg(target_os = "linux")]
fn exit_signal(pid: u32) -> Option<OwnedFd> {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).ok()?)?;
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
fn exit_signal(_pid: u32) -> Option<OwnedFd> {
    None
}
