//! PID namespace that ends with its parent.
//!
//! Two programs of util-linux create it, in 2 ms. `setpriv` asks the kernel to kill the next program when the thread
//! that started it is gone. `unshare` enters the namespace, and asks the kernel to kill its child in turn. The first
//! process inside is a shell, because a vendor's program would not reap orphans. `bwrap` takes as long, but would
//! remove privileges from root and from programs with a set-user-id bit.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::parent_death::program_of_the_system;
use crate::process_tree::{LiveProcess, ProcessIdentity, Snapshot, children_of, identity_of, send, state_of};
use crate::spawn::ExitStatus;

/// Script of the first process. It runs the command as its child and stays the first process, which reaps orphans. It
/// keeps messages of the shell itself, such as "Killed", out of the program's output, and unsets variables that shells
/// export on their own. It forbids core dumps because the host may be too late for that: a process in the middle of its
/// fork passes on the limits that it had before.
///
/// `setpriv` and `unshare` ask the kernel for a signal on the parent's death, which the kernel does not send if the
/// parent is already gone. So the first process writes [`GREETING`], a line that only a live host reads, and exits with
/// an error if it cannot.
const FIRST_PROCESS: &str = r#"unset PWD OLDPWD SHLVL; exec 3>&2 2>/dev/null; echo >&3 || exit 1; ulimit -c 0; (exec "$@" 2>&3 3>&-); exit $?"#;
/// First byte on standard error, which the launcher writes, not the program.
const GREETING: u8 = b'\n';
/// Longest time that a process may need to stop after SIGSTOP.
const STOP_PATIENCE: Duration = Duration::from_millis(50);
/// First exit code that denotes a signal. Source: POSIX, shell command language, 2.8.2.
const SIGNAL_CODES: i32 = 128;

/// Programs that create a namespace.
#[derive(Clone, Debug)]
pub(crate) struct NamespaceLauncher {
    setpriv: PathBuf,
    unshare: PathBuf,
    with_user_namespace: bool,
}

impl NamespaceLauncher {
    pub(crate) fn find(with_user_namespace: bool) -> Option<Self> {
        let (setpriv, unshare) = (program_of_the_system("setpriv")?, program_of_the_system("unshare")?);
        Some(Self { setpriv, unshare, with_user_namespace })
    }

    /// Returns the program to start, and its arguments before those of the child.
    pub(crate) fn command(&self) -> (&Path, Vec<OsString>) {
        let mut arguments: Vec<OsString> =
            vec!["--pdeathsig".into(), "KILL".into(), self.unshare.clone().into()];
        if self.with_user_namespace {
            arguments.extend(["--user", "--map-current-user"].map(Into::into));
        }
        // Later mounts of the host become visible inside, but mounts from inside stay inside.
        let rest = ["--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "slave"];
        arguments.extend(rest.into_iter().chain(["/bin/sh", "-c", FIRST_PROCESS, "sh"]).map(Into::into));
        (&self.setpriv, arguments)
    }
}

/// Processes of one namespace, seen from outside.
///
/// The started process stays outside and waits. Its only child is the first process inside, and the ancestor of all
/// others.
#[derive(Debug)]
pub(crate) struct Namespace {
    /// The started process.
    outer: u32,
}

impl Namespace {
    pub(crate) fn below(outer: u32) -> Self {
        Self { outer }
    }

    fn first(&self) -> Option<ProcessIdentity> {
        children_of(self.outer).first().copied().and_then(identity_of)
    }

    /// Returns the first bytes of standard error without the greeting of the first process.
    pub(crate) fn without_greeting(said: &[u8]) -> &[u8] {
        said.strip_prefix(&[GREETING]).unwrap_or(said)
    }

    /// Returns the vendor's program, once it runs.
    pub(crate) fn program(&self) -> Option<ProcessIdentity> {
        children_of(self.first()?.pid).first().copied().and_then(identity_of)
    }

    /// Returns all live processes inside except the first.
    pub(crate) fn alive(&self) -> Vec<LiveProcess> {
        self.first().map(|first| Snapshot::below(first.pid).alive()).unwrap_or_default()
    }

    /// Kills the first process, and so all others. Returns the processes that are left after `patience`, which the
    /// kernel cannot kill.
    pub(crate) fn kill(&self, patience: Duration) -> Vec<LiveProcess> {
        let until = Instant::now() + patience;
        let Some(outer) = identity_of(self.outer) else { return Vec::new() };
        loop {
            match self.first() {
                Some(first) => send(first, Signal::KILL),
                None => self.kill_unborn(outer),
            }
            // The outer process waits for the first, which ends only after all others inside.
            if matches!(state_of(self.outer), None | Some(b'Z' | b'X')) {
                return Vec::new();
            }
            if Instant::now() >= until {
                return Snapshot::below(self.outer).alive();
            }
            std::thread::sleep(Duration::from_micros(300));
        }
    }

    /// Kills an outer process that has no child yet, and stops it first so that it gets none meanwhile.
    fn kill_unborn(&self, outer: ProcessIdentity) {
        let until = Instant::now() + STOP_PATIENCE;
        send(outer, Signal::STOP);
        while matches!(state_of(self.outer), Some(state) if !matches!(state, b'T' | b't' | b'Z' | b'X')) {
            if Instant::now() >= until {
                break;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        send(outer, if children_of(self.outer).is_empty() { Signal::KILL } else { Signal::CONT });
    }
}

/// Converts the exit code of a launcher into the status of the program. The launcher is a shell, or bubblewrap, which
/// follows the same rule. Some programs exit by themselves with such a code after a polite signal; they keep it. Only
/// signals that no program handles like this are converted.
pub(crate) fn signal_in_code(status: ExitStatus) -> ExitStatus {
    const CRASHES: [Signal; 9] = [
        Signal::KILL,
        Signal::SEGV,
        Signal::ABORT,
        Signal::BUS,
        Signal::ILL,
        Signal::FPE,
        Signal::TRAP,
        Signal::XCPU,
        Signal::XFSZ,
    ];
    match status {
        ExitStatus::Code(code) if CRASHES.iter().any(|signal| signal.as_raw() == code - SIGNAL_CODES) => {
            ExitStatus::Signal(code - SIGNAL_CODES)
        }
        other => other,
    }
}
