//! Ways in which a program can misbehave.

use std::{
    io::{Read as _, Write as _},
    os::unix::process::CommandExt as _,
    process::{Command, Stdio},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::stage::Stage;

/// Called by this name, the program stays for a while and ends: a grandchild that keeps pipes open.
pub(super) const LINGERER: &str = "nexus-fake-lingerer";

/// Lifetime of a process that does not end by itself, in seconds: longer than any test waits.
const LONG_SECONDS: u64 = 600;

/// A way in which a program can misbehave. "Before" means at the start of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Misbehaviour {
    /// Writes this many bytes of lines that mean nothing to its standard output, before.
    FloodsStdout {
        /// Number of bytes.
        bytes: u64,
    },
    /// Writes this many bytes to its standard error, before.
    FloodsStderr {
        /// Number of bytes.
        bytes: u64,
    },
    /// Writes one line of this many bytes, before: a JSON object of an unknown type.
    HugeLine {
        /// Number of bytes.
        bytes: u64,
    },
    /// Starts, before, a child that keeps the pipes open after the program has ended.
    GrandchildHoldsThePipe,
    /// Starts, before, a grandchild in its own session, whose parent has ended, and that ignores SIGTERM,
    /// SIGINT and SIGHUP.
    ForksAway,
    /// Ignores SIGTERM, SIGINT and SIGHUP.
    IgnoresSignals,
    /// Never reads its standard input.
    NeverReadsStdin,
    /// Closes its standard output once it has written this many bytes, and continues.
    ClosesStdout {
        /// Number of bytes.
        after_bytes: u64,
    },
    /// Dies by SIGKILL once it has written this many bytes.
    DiesAfter {
        /// Number of bytes.
        bytes: u64,
    },
    /// Leaves out the last line, and ends with exit code 0.
    NoLastLine,
    /// Runs for ten more minutes after its work.
    NeverExits,
    /// Connects to none of its MCP servers, and continues without them.
    ReachesNoServer,
    /// Does not report the tools of its model, although the vendor's program does.
    NamesNoTools,
    /// Gives its model one more tool than requested, and reports it.
    NamesAnotherTool,
    /// Waits this long, in milliseconds, before it does anything.
    StartsLate {
        /// Delay in milliseconds.
        after_ms: u64,
    },
}

/// Performs the misbehaviour at the start of the program.
pub(super) fn begin(misbehaviour: &[Misbehaviour], stage: &mut Stage) {
    for what in misbehaviour {
        match *what {
            Misbehaviour::StartsLate { after_ms } => std::thread::sleep(Duration::from_millis(after_ms)),
            Misbehaviour::FloodsStdout { bytes } => flood(bytes, |line| stage.write(line)),
            Misbehaviour::FloodsStderr { bytes } => flood(bytes, |line| {
                // Tests include a missing reader, so an error is expected.
                let _ = std::io::stderr().write_all(line);
            }),
            Misbehaviour::HugeLine { bytes } => huge_line(bytes, stage),
            Misbehaviour::GrandchildHoldsThePipe => start_lingerer(&["hold"], Stdio::inherit, false),
            Misbehaviour::ForksAway => start_lingerer(&["away"], Stdio::null, true),
            _ => {}
        }
    }
}

/// Performs the misbehaviour at the end of the program.
pub(super) fn end(misbehaviour: &[Misbehaviour]) {
    if misbehaviour.contains(&Misbehaviour::NeverExits) {
        std::thread::sleep(Duration::from_secs(LONG_SECONDS));
    }
}

/// Reports an error of the fake itself on standard error.
pub(super) fn complain(what: &str) {
    // If standard error is closed, no stream is left to report on.
    let _ = writeln!(std::io::stderr(), "fake cli: {what}");
}

fn flood(bytes: u64, mut write: impl FnMut(&[u8])) {
    let line = b"{\"type\":\"flood\",\"filler\":\"................................................\"}\n";
    let mut left = bytes;
    while left > 0 {
        write(line);
        left = left.saturating_sub(line.len() as u64);
    }
}

fn huge_line(bytes: u64, stage: &mut Stage) {
    let (head, tail) = (b"{\"type\":\"huge\",\"filler\":\"".as_slice(), b"\"}\n".as_slice());
    let filler = vec![b'x'; 64 << 10];
    stage.write(head);
    let mut left = bytes.saturating_sub((head.len() + tail.len()) as u64);
    while left > 0 {
        // Write in pieces, so that a line of any size needs little memory.
        let piece = filler.get(..usize::try_from(left).unwrap_or(usize::MAX)).unwrap_or(&filler);
        stage.write(piece);
        left -= piece.len() as u64;
    }
    stage.write(tail);
}

/// Starts a grandchild. `pipe` creates both of its pipes. If `waits`, waits for the end of the child.
fn start_lingerer(how: &[&str], pipe: fn() -> Stdio, waits: bool) {
    match lingerer(how).stdout(pipe()).stderr(pipe()).spawn() {
        // The child ends at once, so the grandchild loses its parent.
        Ok(mut child) if waits => drop(child.wait()),
        Ok(_) => {}
        Err(error) => complain(&format!("no grandchild: {error}")),
    }
}

fn lingerer(how: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap_or_default());
    // `main` recognises the grandchild by the name it was called by, like every role of this program.
    command.arg0(LINGERER).args(how).stdin(Stdio::null());
    command
}

/// Main function of a grandchild. Never returns.
pub(super) fn linger() -> ! {
    match std::env::args().nth(1).as_deref() {
        Some("away") => leave_a_deaf_child(),
        Some("deaf") => {
            Stage::ignore_signals_of_this_process();
            println!("deaf");
        }
        _ => {}
    }
    std::thread::sleep(Duration::from_secs(LONG_SECONDS));
    std::process::exit(0);
}

/// Main function of the process in the middle: starts its own session, and a child that outlives it. Never returns.
fn leave_a_deaf_child() -> ! {
    // `setsid` fails only for the leader of a group, which this process is not.
    let _ = rustix::process::setsid();
    match lingerer(&["deaf"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn() {
        Ok(mut child) => {
            // Wait until the child ignores signals. Otherwise it could be killed in its first moments.
            let mut word = [0; 4];
            if let Some(stdout) = &mut child.stdout {
                // An error means that the child has ended. Then the test that looks for it fails.
                let _ = stdout.read_exact(&mut word);
            }
        }
        Err(error) => complain(&format!("no grandchild: {error}")),
    }
    std::process::exit(0)
}
