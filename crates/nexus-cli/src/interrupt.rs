//! Signals that end the command.

use std::{
    io,
    process::ExitCode,
    sync::atomic::{AtomicU8, Ordering},
};

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Number of the last signal. Source: POSIX: SIGINT is 2.
static LAST: AtomicU8 = AtomicU8::new(2);
/// Offset that a shell adds to the number of the signal that ended a program.
const EXIT_SIGNAL: u8 = 128;

/// Exit code of an interrupted command: the code that a shell reports for a program ended by the same signal.
pub(crate) fn exit_code() -> ExitCode {
    ExitCode::from(EXIT_SIGNAL + LAST.load(Ordering::Relaxed))
}

/// Returns true if the last signal was Ctrl-C, which stops a piece of work and not the command.
pub(crate) fn was_ctrl_c() -> bool {
    // Source: POSIX: SIGINT is 2.
    LAST.load(Ordering::Relaxed) == 2
}

/// Returns true if the last signal was the end of the terminal. A shell and the kernel may both send it.
pub(crate) fn was_hangup() -> bool {
    // Source: POSIX: SIGHUP is 1.
    LAST.load(Ordering::Relaxed) == 1
}

/// Waits for Ctrl-C, for the end of the terminal, or for a termination signal. Signals from before the call are lost: a caller that works
/// between two waits, such as a loop, uses [`Interrupts`].
///
/// # Errors
///
/// The process cannot listen for signals.
pub(crate) async fn interrupted() -> io::Result<()> {
    Interrupts::listen()?.next().await
}

/// The signals of [`interrupted`] from its creation on. Signals between two calls of `next` are not lost.
#[cfg(unix)]
pub(crate) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    /// `None` under `nohup`, which ignores the end of the terminal.
    hangup: Option<Signal>,
}

#[cfg(unix)]
impl Interrupts {
    pub(crate) fn listen() -> io::Result<Self> {
        // A program under `nohup` ignores this signal, and a handler would undo that.
        let hangup = if is_hangup_ignored() { None } else { Some(signal(SignalKind::hangup())?) };
        let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Self { interrupt, terminate, hangup })
    }

    pub(crate) async fn next(&mut self) -> io::Result<()> {
        let came = tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
            Some(_) = async { self.hangup.as_mut()?.recv().await } => SignalKind::hangup(),
        };
        LAST.store(u8::try_from(came.as_raw_value()).unwrap_or(2), Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(not(unix))]
pub(crate) struct Interrupts;

#[cfg(not(unix))]
impl Interrupts {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    pub(crate) async fn next(&mut self) -> io::Result<()> {
        tokio::signal::ctrl_c().await
    }
}

/// Returns true if this program was started with SIGHUP ignored. The first call decides: a handler would change the answer.
#[cfg(unix)]
fn is_hangup_ignored() -> bool {
    static IGNORED: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| {
        // Source: proc_pid_status(5): a mask in which bit 0 is signal 1, SIGHUP.
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or_default().trim();
        u64::from_str_radix(mask, 16).is_ok_and(|mask| mask & 1 == 1)
    });
    *IGNORED
}
