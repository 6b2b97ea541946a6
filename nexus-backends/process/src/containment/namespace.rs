//! A PID namespace that ends with its parent.
//!
//! Two programs of util-linux make it, in 2 ms: `setpriv` has the kernel kill the next one when the thread that started it
//! is gone; `unshare` enters the namespace and has the kernel kill it in turn. A shell is its first process, since a vendor's
//! program would not reap what others orphan. `bwrap` takes as long, and would take privileges away from root and
//! from programs with a set-user-id bit.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::parent_death::program_of_the_system;
use crate::process_tree::{LiveProcess, ProcessIdentity, Snapshot, children_of, identity_of, send, state_of};
use crate::spawn::ExitStatus;

/// Runs the command as its child and stays the first process, which reaps orphans. Messages of the shell
/// itself, such as "Killed", are kept out of the program's output. Shells export the unset variables on their
/// own. The script forbids core dumps because the host may be too late for that: a process in the middle of its
/// fork passes on the limits that it had before.
///
/// `setpriv` and `unshare` ask the kernel for a signal on the parent's death, which the kernel does not send if
/// the parent is already gone. So the first process writes [`GREETING`], a line that only a live host reads,
/// and ends with an error otherwise.
const FIRST_PROCESS: &str = r#"unset PWD OLDPWD SHLVL; exec 3>&2 2>/dev/null; echo >&3 || exit 1; ulimit -c 0; (exec "$@" 2>&3 3>&-); exit $?"#;
/// First byte on standard error, written by the launcher and not by the program.
const GREETING: u8 = b'\n';
/// Longest time that a process may take to stop after SIGSTOP.
const STOP_PATIENCE: Duration = Duration::from_millis(50);
/// Exit codes from here on say by which signal a program was ended. Source: POSIX, shell command language, 2.8.2.
const SIGNAL_CODES: i32 = 128;

/// The programs that make a namespace.
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

    /// The program to start, and its arguments before those of the child.
    pub(crate) fn command(&self) -> (&Path, Vec<OsString>) {
        let mut arguments: Vec<OsString> =
            vec!["--pdeathsig".into(), "KILL".into(), self.unshare.clone().into()];
        if self.with_user_namespace {
            arguments.extend(["--user", "--map-current-user"].map(Into::into));
        }
        // Mounts of the host's still arrive, those from inside stay there.
        let rest = ["--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "slave"];
        arguments.extend(rest.into_iter().chain(["/bin/sh", "-c", FIRST_PROCESS, "sh"]).map(Into::into));
        (&self.setpriv, arguments)
    }
}

/// The processes of one namespace, seen from outside.
///
/// What was started stays outside and waits; its one child is the first process inside, and everybody else's ancestor.
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

    /// Everyone inside but the first.
    pub(crate) fn alive(&self) -> Vec<LiveProcess> {
        self.first().map(|first| Snapshot::below(first.pid).alive()).unwrap_or_default()
    }

    /// Ends the first process, and with it all others. Returns the processes that are left after `patience`:
    /// the kernel cannot kill them.
    pub(crate) fn kill(&self, patience: Duration) -> Vec<LiveProcess> {
        let until = Instant::now() + patience;
        let Some(outer) = identity_of(self.outer) else { return Vec::new() };
        loop {
            match self.first() {
                Some(first) => send(first, Signal::KILL),
                None => self.kill_unborn(outer),
            }
            // It waits for the first, and the first is gone only after everyone inside.
            if matches!(state_of(self.outer), None | Some(b'Z' | b'X')) {
                return Vec::new();
            }
            if Instant::now() >= until {
                return Snapshot::below(self.outer).alive();
            }
            std::thread::sleep(Duration::from_micros(300));
        }
    }

    /// Ends what has no child yet, and must not get one meanwhile.
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

/// Turns the exit code of a launcher into the status of the program: a shell, or bubblewrap, which follows the
/// same rule. Some programs end on their own with such a code when they receive a polite signal, and they keep
/// it: only signals that no program handles in that way become signals.
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
