//! One run of git: its pipes, its time, and the end of all that it started.

use std::{
    io::{self, Read, Write},
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU8, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use nexus_core::CancelToken;
use rustix::process::{Pid, Signal, kill_process_group};

use super::{TreeError, TreeErrorKind};

/// How much of what git says of a failure is kept, in bytes.
const MAX_STDERR: usize = 8 << 10;
/// How soon a cancelled caller is noticed.
const CANCEL_PAUSE: Duration = Duration::from_millis(20);

const RUNS: u8 = 0;
const TIMED_OUT: u8 = 1;
const CANCELLED: u8 = 2;

/// A running git. It and all that it started are killed when this is dropped before [`finish`](Self::finish).
#[derive(Debug)]
pub(super) struct Running {
    name: String,
    shared: Arc<Shared>,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<JoinHandle<Vec<u8>>>,
    watchdog: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

#[derive(Debug)]
struct Shared {
    /// Gone once it was waited for: from then on its id may be another process's.
    child: Mutex<Option<Child>>,
    stopped: AtomicU8,
}

/// How git ended.
#[derive(Debug)]
pub(super) struct Ended {
    name: String,
    status: ExitStatus,
    stderr: String,
}

impl Running {
    /// Starts it. `name` is for messages: "git diff-tree".
    pub(super) fn start(
        mut command: Command,
        name: String,
        time_limit: Duration,
        cancel: Option<CancelToken>,
    ) -> io::Result<Self> {
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let stderr = child.stderr.take().map(|stderr| thread::spawn(move || first_bytes(stderr)));
        let shared = Arc::new(Shared { child: Mutex::new(Some(child)), stopped: AtomicU8::new(RUNS) });
        let (done, watched) = mpsc::channel();
        let watching = Arc::clone(&shared);
        let watchdog =
            thread::spawn(move || watching.watch(&watched, Instant::now() + time_limit, cancel.as_ref()));
        Ok(Self { name, shared, stdin, stdout, stderr, watchdog: Some((done, watchdog)) })
    }

    /// Its standard input.
    pub(super) fn input(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// Its standard output.
    pub(super) fn output(&mut self) -> Option<ChildStdout> {
        self.stdout.take()
    }

    /// Waits for its end. What nobody has read of its output is read and thrown away.
    pub(super) fn finish(mut self) -> Result<Ended, TreeError> {
        drop(self.stdin.take());
        if let Some(mut stdout) = self.stdout.take() {
            let _ = io::copy(&mut stdout, &mut io::sink());
        }
        let stderr = self.stderr.take().and_then(|reader| reader.join().ok()).unwrap_or_default();
        let status = self.shared.wait(&self.name)?;
        self.end_watchdog();
        let stopped = match self.shared.stopped.load(Ordering::Acquire) {
            TIMED_OUT => Some((TreeErrorKind::TimedOut, "did not end in time and was killed")),
            CANCELLED => Some((TreeErrorKind::Cancelled, "was cancelled")),
            _ => None,
        };
        if let Some((kind, what)) = stopped {
            return Err(TreeError::new(kind, format!("{} {what}", self.name)));
        }
        Ok(Ended { name: std::mem::take(&mut self.name), status, stderr: readable(&stderr) })
    }

    /// Feeds it `input`, reads at most `max_bytes` of what it writes, and waits for its end.
    pub(super) fn run(mut self, input: &[u8], max_bytes: u64) -> Result<(Ended, Vec<u8>), TreeError> {
        let mut bytes = Vec::new();
        let (stdin, stdout) = (self.input(), self.output());
        let read = thread::scope(|scope| {
            if let Some(mut stdin) = stdin {
                // Git may end before it has read everything; how it ended says why.
                scope.spawn(move || drop(stdin.write_all(input)));
            }
            let Some(mut stdout) = stdout else { return Ok(true) };
            stdout.by_ref().take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
            let fits = bytes.len() as u64 <= max_bytes;
            if !fits {
                self.shared.kill();
            }
            io::Result::Ok(fits)
        });
        let name = self.name.clone();
        let fits =
            read.map_err(|error| TreeError::from_io(Path::new(&name), "cannot be read from", error))?;
        if !fits {
            let message = format!("{name} gave more than {max_bytes} bytes");
            return Err(TreeError::new(TreeErrorKind::TooLarge, message));
        }
        Ok((self.finish()?, bytes))
    }

    fn end_watchdog(&mut self) {
        if let Some((done, watchdog)) = self.watchdog.take() {
            drop(done);
            let _ = watchdog.join();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.watchdog.is_some() {
            self.shared.kill();
            let _ = self.shared.wait(&self.name);
            self.end_watchdog();
        }
    }
}

impl Shared {
    fn kill(&self) {
        let child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let pid = child.as_ref().and_then(|child| i32::try_from(child.id()).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // It has ended by itself.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }

    fn wait(&self, name: &str) -> Result<ExitStatus, TreeError> {
        let mut pause = Duration::from_micros(200);
        loop {
            {
                let mut slot = self.child.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(child) = slot.as_mut() else {
                    return Err(TreeError::new(TreeErrorKind::Git, format!("{name} has ended already")));
                };
                let ended = child.try_wait();
                if !matches!(ended, Ok(None)) {
                    *slot = None;
                }
                match ended {
                    Ok(Some(status)) => return Ok(status),
                    Ok(None) => {}
                    Err(error) => {
                        return Err(TreeError::from_io(Path::new(name), "cannot be waited for", error));
                    }
                }
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        }
    }

    /// Kills it when its time is over or the caller cancels, unless it is done before.
    fn watch(&self, done: &mpsc::Receiver<()>, deadline: Instant, cancel: Option<&CancelToken>) {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let reason = match cancel {
                Some(cancel) if cancel.is_cancelled() => CANCELLED,
                _ if left.is_zero() => TIMED_OUT,
                _ => RUNS,
            };
            if reason != RUNS {
                self.stopped.store(reason, Ordering::Release);
                return self.kill();
            }
            let pause = if cancel.is_some() { left.min(CANCEL_PAUSE) } else { left };
            if done.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    }
}

impl Ended {
    /// Its exit code; `None` if a signal ended it.
    pub(super) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// What it said on standard error, shortened.
    pub(super) fn stderr(&self) -> &str {
        &self.stderr
    }

    /// What it said if it ended by itself and without success. One that was killed is an error, and says nothing.
    pub(super) fn refusal(self) -> Result<Option<String>, TreeError> {
        match self.status.code() {
            Some(0) => Ok(None),
            Some(_) => Ok(Some(self.stderr)),
            None => Err(self.failure()),
        }
    }

    /// Whether it succeeded; else what it said.
    pub(super) fn success(self) -> Result<(), TreeError> {
        if self.status.success() {
            return Ok(());
        }
        Err(self.failure())
    }

    /// What it said, as an error.
    pub(super) fn failure(self) -> TreeError {
        let (name, stderr) = (&self.name, self.stderr.trim());
        if let Some(signal) = self.status.signal() {
            return TreeError::new(
                TreeErrorKind::Git,
                format!("{name} was ended by signal {signal}: try again"),
            );
        }
        let has = |part: &str| stderr.contains(part);
        // Of its configuration git does not say why it could not be written; that it could be made shows that it may be.
        let is_cut_off = has("failed to write new configuration file");
        let kind = if has("No space left on device") || has("Disk quota exceeded") || is_cut_off {
            TreeErrorKind::NoSpace
        } else if has("Permission denied") || has("Read-only file system") {
            TreeErrorKind::PermissionDenied
        } else if has("unknown repository extension") || has("Expected git repo version") {
            TreeErrorKind::GitTooOld
        } else if has("missing") || has("unable to read") || has("bad object") || has("could not fetch") {
            TreeErrorKind::MissingObject
        } else {
            TreeErrorKind::Git
        };
        let way_out = match kind {
            TreeErrorKind::GitTooOld => {
                ": the repository is of a kind that this git does not know; install a newer git (reftable needs 2.45)"
            }
            TreeErrorKind::NoSpace if is_cut_off => ": the disk is full",
            TreeErrorKind::MissingObject => {
                ": objects are fetched by nobody but you; `git fetch --refetch` gets all"
            }
            _ => "",
        };
        TreeError::new(kind, format!("{name} failed: {stderr}{way_out}"))
    }
}

/// Why a git whose pipe is closed has ended, or `otherwise` if it does not say.
pub(super) fn reason(running: Option<Running>, otherwise: TreeError) -> TreeError {
    match running.map(Running::finish) {
        Some(Err(error)) => error,
        Some(Ok(ended)) if ended.code() != Some(0) => ended.failure(),
        _ => otherwise,
    }
}

/// The first bytes; the rest is read and thrown away, so that nobody waits for room in the pipe.
fn first_bytes(mut from: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = from.by_ref().take(MAX_STDERR as u64).read_to_end(&mut bytes);
    let _ = io::copy(&mut from, &mut io::sink());
    bytes
}

fn readable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim().chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}
