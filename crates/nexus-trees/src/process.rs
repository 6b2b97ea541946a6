//! One run of git: its pipes, its time limit, and the end of all processes that it started.
//!
//! A single thread communicates with it. Every wait covers a pipe or the exit, together with the time limit and the caller's
//! cancel token.

use std::{
    io::{self, Read as _, Write as _},
    os::{
        fd::OwnedFd,
        unix::process::{CommandExt as _, ExitStatusExt as _},
    },
    path::Path,
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use nexus_core::CancelToken;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, ioctl_fionbio},
    process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open},
};

use super::{TreeError, TreeErrorKind};

/// Maximum number of stored bytes of git's error output.
const MAX_STDERR: usize = 8 << 10;
/// Longest delay before a cancellation is noticed.
const CANCEL_PAUSE: Duration = Duration::from_millis(20);
/// Pause between two checks for the exit, on systems that cannot signal it.
const END_PAUSE: Duration = Duration::from_millis(2);
/// Number of bytes per read. Source: pipe(7), the capacity of a pipe.
const CHUNK: usize = 64 << 10;

/// Time limit and cancel token of one run of git.
#[derive(Clone, Debug)]
pub(super) struct GitBounds {
    deadline: Instant,
    cancel: Option<CancelToken>,
}

/// A running git. If this is dropped before [`finish`](Self::finish), git and all processes that it started are killed.
#[derive(Debug)]
pub(super) struct GitProcess {
    name: String,
    /// `None` once its exit was collected: from then on another process may have its id.
    child: Option<Child>,
    /// Process handle that becomes readable at the exit. `None` on a system without such handles.
    end: Option<OwnedFd>,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    said: Vec<u8>,
    bounds: GitBounds,
}

/// Exit of git.
#[derive(Debug)]
pub(super) struct GitExit {
    name: String,
    status: ExitStatus,
    stderr: String,
}

/// Pipe events that end a wait.
#[derive(Clone, Copy, Debug, Default)]
struct Awaited {
    room: bool,
    output: bool,
}

impl GitBounds {
    pub(super) fn new(time_limit: Duration, cancel: Option<CancelToken>) -> Self {
        Self { deadline: Instant::now() + time_limit, cancel }
    }

    /// Fails if the caller has cancelled or the time is over; otherwise returns the remaining time. `name` is for the
    /// message.
    pub(super) fn check(&self, name: &str) -> Result<Duration, TreeError> {
        if self.cancel.as_ref().is_some_and(CancelToken::is_cancelled) {
            return Err(TreeError::new(TreeErrorKind::Cancelled, format!("{name} was cancelled")));
        }
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let message = format!("{name} did not end in time and was killed");
            return Err(TreeError::new(TreeErrorKind::TimedOut, message));
        }
        Ok(self.cancel.as_ref().map_or(left, |_| left.min(CANCEL_PAUSE)))
    }
}

impl GitProcess {
    /// Starts the command. `name` is for messages: "git diff-tree".
    pub(super) fn start(mut command: Command, name: String, bounds: GitBounds) -> io::Result<Self> {
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let end = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let running = Self { name, child: Some(child), end, stdin, stdout, stderr, said: Vec::new(), bounds };
        // O_NONBLOCK would also apply to git if the ends shared a file description. The two ends of a pipe do not.
        running.stdin.as_ref().map_or(Ok(()), |pipe| ioctl_fionbio(pipe, true))?;
        running.stdout.as_ref().map_or(Ok(()), |pipe| ioctl_fionbio(pipe, true))?;
        running.stderr.as_ref().map_or(Ok(()), |pipe| ioctl_fionbio(pipe, true))?;
        Ok(running)
    }

    /// Sets new bounds for further work. Returns false if the process is unusable: it has ended, or wrote unexpected output.
    pub(super) fn go_on(&mut self, bounds: GitBounds) -> bool {
        self.bounds = bounds;
        let Some(stdout) = &self.stdout else { return false };
        let now = Timespec::default();
        matches!(poll(&mut [PollFd::new(stdout, PollFlags::IN)], Some(&now)), Ok(0))
    }

    /// Writes to the standard input of git. Returns `false` if git reads no more: its exit has the reason.
    pub(super) fn write(&mut self, mut bytes: &[u8]) -> Result<bool, TreeError> {
        self.bounds.check(&self.name)?;
        while !bytes.is_empty() {
            let Some(stdin) = &mut self.stdin else { return Ok(false) };
            match stdin.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(Awaited { room: true, ..Awaited::default() })?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(false),
                Err(error) => return Err(self.unusable("cannot be written to", error)),
            }
        }
        Ok(true)
    }

    /// Reads from the standard output of git. Returns 0 at its end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, TreeError> {
        self.bounds.check(&self.name)?;
        loop {
            let Some(stdout) = &mut self.stdout else { return Ok(0) };
            match stdout.read(buffer) {
                Ok(read) => return Ok(read),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(Awaited { output: true, ..Awaited::default() })?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.unusable("cannot be read from", error)),
            }
        }
    }

    /// Writes `input`, passes the output to a function, and waits for the exit.
    pub(super) fn exchange(
        mut self,
        mut input: &[u8],
        mut take: impl FnMut(&[u8]) -> Result<(), TreeError>,
    ) -> Result<GitExit, TreeError> {
        let mut chunk = vec![0; CHUNK];
        loop {
            while let Some(stdin) = &mut self.stdin {
                match stdin.write(input) {
                    Ok(written) if written < input.len() => input = &input[written..],
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    // Either all input is written, or git ended before it read everything. Then its exit has the reason.
                    _ => self.stdin = None,
                }
            }
            let Some(stdout) = &mut self.stdout else { break };
            match stdout.read(&mut chunk) {
                Ok(0) => break,
                Ok(read) => {
                    self.bounds.check(&self.name)?;
                    take(&chunk[..read])?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(Awaited { room: self.stdin.is_some(), output: true })?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.unusable("cannot be read from", error)),
            }
        }
        self.finish()
    }

    /// Writes `input`, reads at most `max_bytes` of the output, and waits for the exit.
    pub(super) fn run(self, input: &[u8], max_bytes: u64) -> Result<(GitExit, Vec<u8>), TreeError> {
        let (name, mut bytes) = (self.name.clone(), Vec::new());
        let ended = self.exchange(input, |chunk| {
            if (bytes.len() + chunk.len()) as u64 > max_bytes {
                let message = format!("{name} returned more than {max_bytes} bytes");
                return Err(TreeError::new(TreeErrorKind::TooLarge, message));
            }
            bytes.extend_from_slice(chunk);
            Ok(())
        })?;
        Ok((ended, bytes))
    }

    /// Waits for the exit. Reads and discards the rest of the output.
    pub(super) fn finish(mut self) -> Result<GitExit, TreeError> {
        self.stdin = None;
        let mut chunk = [0; 4 << 10];
        while self.read(&mut chunk)? > 0 {}
        self.stdout = None;
        let status = loop {
            let ended = self.child.as_mut().map_or(Ok(None), Child::try_wait);
            match ended.map_err(|error| self.unusable("cannot be waited for", error))? {
                Some(status) => break status,
                None => self.wait(Awaited::default())?,
            }
        };
        self.child = None;
        self.hear();
        Ok(GitExit { name: std::mem::take(&mut self.name), status, stderr: readable(&self.said) })
    }

    /// Waits until an awaited pipe is ready. Without an awaited pipe, it waits for the exit.
    fn wait(&mut self, awaited: Awaited) -> Result<(), TreeError> {
        let mut left = self.bounds.check(&self.name)?;
        let mut waited = Vec::with_capacity(4);
        if let (Some(stderr), flags) = (&self.stderr, PollFlags::IN) {
            waited.push(PollFd::new(stderr, flags));
        }
        if let (Some(stdin), true) = (&self.stdin, awaited.room) {
            waited.push(PollFd::new(stdin, PollFlags::OUT));
        }
        if let (Some(stdout), true) = (&self.stdout, awaited.output) {
            waited.push(PollFd::new(stdout, PollFlags::IN));
        }
        if !awaited.room && !awaited.output {
            match &self.end {
                Some(end) => waited.push(PollFd::new(end, PollFlags::IN)),
                None => left = left.min(END_PAUSE),
            }
        }
        match poll(&mut waited, Timespec::try_from(left).ok().as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(self.unusable("cannot be waited for", error.into())),
        }
        self.hear();
        Ok(())
    }

    /// Reads the available error output. Keeps the first bytes and discards the rest, so that git never blocks on a full
    /// pipe.
    fn hear(&mut self) {
        let mut chunk = [0; 4 << 10];
        while let Some(stderr) = &mut self.stderr {
            match stderr.read(&mut chunk) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => self.stderr = None,
                Ok(read) => {
                    let room = MAX_STDERR.saturating_sub(self.said.len());
                    self.said.extend_from_slice(&chunk[..read.min(room)]);
                }
            }
        }
    }

    fn unusable(&self, what: &str, error: io::Error) -> TreeError {
        TreeError::from_io(Path::new(&self.name), what, error)
    }
}

impl Drop for GitProcess {
    fn drop(&mut self) {
        let Some(child) = &mut self.child else { return };
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            // This fails if the process group has already ended.
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let _ = child.wait();
    }
}

impl GitExit {
    /// Returns the exit code; `None` if a signal ended the process.
    pub(super) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Returns the error output, shortened.
    pub(super) fn stderr(&self) -> &str {
        &self.stderr
    }

    /// Returns the error output if git ended on its own without success. A killed process is an error.
    pub(super) fn refusal(self) -> Result<Option<String>, TreeError> {
        match self.status.code() {
            Some(0) => Ok(None),
            Some(_) => Ok(Some(self.stderr)),
            None => Err(self.failure()),
        }
    }

    /// Fails with the error output unless git succeeded.
    pub(super) fn success(self) -> Result<(), TreeError> {
        if self.status.success() {
            return Ok(());
        }
        Err(self.failure())
    }

    /// Returns the error output as an error.
    pub(super) fn failure(self) -> TreeError {
        let (name, stderr) = (&self.name, self.stderr.trim());
        if let Some(signal) = self.status.signal() {
            return TreeError::new(TreeErrorKind::Git, format!("signal {signal} ended {name}: try again"));
        }
        let has = |part: &str| stderr.contains(part);
        // Git does not report why it could not write its configuration. It was permitted to create the file, so the
        // disk must be full.
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
                ": this git does not support the format of the repository; install a newer git (reftable \
                needs 2.45)"
            }
            TreeErrorKind::NoSpace if is_cut_off => ": the disk is full",
            TreeErrorKind::MissingObject => {
                ": Nexus fetches no objects; run `git fetch --refetch` to get all"
            }
            _ => "",
        };
        TreeError::new(kind, format!("{name} failed: {stderr}{way_out}"))
    }
}

/// Returns the reason why git closed its pipe early, or `otherwise` if it succeeded.
pub(super) fn reason(running: GitProcess, otherwise: TreeError) -> TreeError {
    match running.finish() {
        Err(error) => error,
        Ok(ended) if ended.code() != Some(0) => ended.failure(),
        Ok(_) => otherwise,
    }
}

fn readable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim().chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}
