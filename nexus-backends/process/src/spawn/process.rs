//! Handle of one running process.

use std::collections::VecDeque;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tracing::Span;

use super::bounds::Bounds;
use super::error::{SpawnError, StdinError};
use super::exit::Exit;
use super::kept::KeptOutput;
use super::pump::Pump;
use super::shared::{ChildChannel, ChildState, LineQueue, StdinState};
use super::stdin::StdinMode;
use super::stop::Stop;
use super::watch::EndWatch;
use crate::capture::Capture;
use crate::containment::{Containment, Enclosure, Holding};
use crate::executable::Executable;
use crate::lines::Line;
use crate::process_tree::ProcessTree;
use crate::run_id::RunId;
use crate::run_registry::RunEntry;
use nexus_core::redact::{Redactor, Tail};

/// Longest time that a drop may block while it kills, if the serving thread is gone.
const DROP_PATIENCE: Duration = Duration::from_secs(1);

/// One process with everything that it starts.
///
/// All methods take `&self`, so reading, waiting and stopping may run concurrently. Each future may be dropped and
/// created again at any time; no line is lost.
///
/// Dropping the handle kills the whole tree with SIGKILL and reaps the child *before* the drop returns. The drop blocks
/// for a few milliseconds, and for at most two seconds.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    run: RunId,
    containment: Containment,
    shared: Arc<ChildChannel>,
    batch: Mutex<VecDeque<Line>>,
    redactor: Redactor,
    pump: Option<JoinHandle<()>>,
    span: Span,
}

/// Writes to a child's standard input. Clones write to the same input.
#[derive(Clone, Debug)]
pub struct StdinWriter {
    shared: Arc<ChildChannel>,
}

/// Child to start, with everything that its serving thread needs.
pub(super) struct Start {
    pub(super) command: Command,
    pub(super) holding: Holding,
    pub(super) containment: Containment,
    pub(super) is_in_thread: bool,
    pub(super) executable: Executable,
    pub(super) stdin: StdinMode,
    pub(super) bounds: Bounds,
    pub(super) run: RunId,
    pub(super) entry: Option<RunEntry>,
    pub(super) redactor: Redactor,
    pub(super) capture: Option<Capture>,
    pub(super) watch: Option<EndWatch>,
}

impl Process {
    /// Starts a child and serves it from a separate thread. If the thread cannot be started, the child is not started
    /// either.
    pub(super) fn start(start: Start) -> Result<Self, SpawnError> {
        let Start { command, holding, containment, executable, stdin, bounds, run, .. } = start;
        let span = tracing::info_span!(
            "spawn",
            pid = tracing::field::Empty,
            executable = %executable.file_name().display(),
            containment = %containment,
        );
        let state = ChildState {
            queue: LineQueue::new(bounds.queue_bytes),
            stderr: Tail::new(bounds.stderr_tail_bytes),
            kept: start
                .watch
                .as_ref()
                .and_then(|watch| watch.kept_bytes)
                .map(|bytes| [(); 2].map(|()| KeptOutput::new(bytes))),
            stdin: StdinState::of(stdin),
            kill_now: false,
            stop: None,
            exit: None,
            looks_asked: 0,
            looks_taken: 0,
        };
        let refused = |source| SpawnError::of(&executable, source);
        let system = |source| SpawnError::System { executable: executable.path().to_owned(), source };
        let (woken, wake) = std::io::pipe().map_err(system)?;
        rustix::io::ioctl_fionbio(&woken, true).map_err(|error| system(error.into()))?;
        let spare = woken.try_clone().map_err(system)?;
        let shared = Arc::new(ChildChannel::new(state, wake.into()));
        let at = Instant::now();
        let pump = Pump::new(
            Arc::clone(&shared),
            [woken.into(), spare.into()],
            bounds,
            start.entry,
            start.capture,
            span.clone(),
            at,
        )
        .watched(start.watch);

        let mut birth = Birth { unborn: Some((command, holding)), child: None, run: run.clone() };
        // A child that the serving thread need not start is started first, because it then runs sooner.
        let is_in_thread = start.is_in_thread;
        let (born, started) = std::sync::mpsc::sync_channel(1);
        // If the starting thread is gone, no receiver and no handle exist. The serving thread learns that through
        // `kill_now`.
        let tell = move |spawned| drop(born.send(spawned));
        if !is_in_thread {
            tell(Ok(birth.spawn().map_err(refused)?));
        }
        // The slot owns `birth`: if the thread cannot be started, `birth` survives in `slot` and not in the dropped
        // closure.
        let slot = Arc::new(Mutex::new(birth));
        let taken = Arc::clone(&slot);
        let serve = move || {
            let served = {
                let mut birth = taken.lock().unwrap_or_else(PoisonError::into_inner);
                if is_in_thread {
                    tell(birth.spawn());
                }
                birth.child.take()
            };
            drop(taken);
            if let Some((child, hold)) = served {
                pump.serve(child, hold);
            }
        };
        let named = std::thread::Builder::new().name("nexus-spawn".to_owned()).stack_size(256 << 10);
        let thread = named.spawn(serve).map_err(system)?;
        let gone = || system(std::io::ErrorKind::BrokenPipe.into());
        let pid = started.recv().map_err(|_| gone())?.map_err(refused)?;
        span.record("pid", pid);
        Ok(Self {
            pid,
            run,
            containment,
            shared,
            batch: Mutex::default(),
            redactor: start.redactor,
            pump: Some(thread),
            span,
        })
    }

    /// Returns the containment of the child and its descendants.
    #[must_use]
    pub fn containment(&self) -> Containment {
        self.containment
    }

    /// Returns the id of the started process. That is the child, or the process outside of the child's PID namespace
    /// that waits for the child.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the run whose mark every process of the tree has.
    #[must_use]
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// Returns the span of this process, for events that belong to it.
    #[must_use]
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// Returns the next line of standard output as the child wrote it, or `None` at its end. A line may contain secrets
    /// that were lent to the child, so the caller must redact it before it passes the line on.
    ///
    /// Unread lines wait: up to [`Bounds::queue_bytes`] here, and the rest in the child's pipe, which then blocks the
    /// child. No line is dropped.
    pub async fn next_line(&self) -> Option<Line> {
        if let Some(line) = self.ready_line() {
            return Some(line);
        }
        let next = self.shared.until(&self.shared.lines, |state| {
            let mut batch = self.batch.lock().unwrap_or_else(PoisonError::into_inner);
            let makes_room = batch.is_empty() && state.queue.take(&mut batch);
            match batch.pop_front() {
                Some(line) => Some((Some(line), makes_room)),
                None => state.queue.closed.then_some((None, makes_room)),
            }
        });
        let (line, makes_room) = next.await;
        if makes_room {
            self.shared.wake();
        }
        line
    }

    /// Returns the next line if it has already arrived here. May return `None` while more lines are waiting, so use
    /// [`next_line`](Self::next_line) to detect the end.
    #[must_use]
    pub fn ready_line(&self) -> Option<Line> {
        self.batch.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Returns true if lines are waiting that the child had written before this call. Such a child is not silent: it
    /// may be blocked until they are read.
    pub async fn has_unread_lines(&self) -> bool {
        let asked = {
            let mut state = self.shared.lock();
            state.looks_asked += 1;
            state.looks_asked
        };
        self.shared.wake();
        let looked = self.shared.until(&self.shared.lines, |state| {
            (state.looks_taken >= asked || state.queue.closed).then_some(!state.queue.is_empty())
        });
        looked.await || !self.batch.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Returns the end of standard error so far, redacted.
    #[must_use]
    pub fn stderr_tail(&self) -> String {
        let tail = self.shared.lock().stderr.clone();
        tail.redacted(&self.redactor)
    }

    /// Returns the output so far of a process whose output is [kept](super::Invocation::keep_output). Empty after
    /// [`take_kept`](Self::take_kept).
    #[must_use]
    pub fn kept(&self) -> [KeptOutput; 2] {
        self.shared.lock().kept.clone().unwrap_or_default()
    }

    /// Takes the stored standard output and standard error of a process whose output is
    /// [kept](super::Invocation::keep_output). They are available once, after the process has ended.
    #[must_use]
    pub fn take_kept(&self) -> [KeptOutput; 2] {
        self.shared.lock().kept.take().unwrap_or_default()
    }

    /// Returns the writer of the child's standard input.
    #[must_use]
    pub fn stdin(&self) -> StdinWriter {
        StdinWriter { shared: Arc::clone(&self.shared) }
    }

    /// Waits for the end. By then the child is reaped, its output is read to the end or its grace time is over, and its
    /// remaining descendants are killed. Unread lines may still be waiting.
    ///
    /// A child that writes more than [`Bounds::queue_bytes`] and its pipe can hold does not end before the lines are
    /// read. Read [`next_line`](Self::next_line) to its end first, or concurrently.
    pub async fn wait(&self) -> Exit {
        self.shared.until(&self.shared.ended, |state| state.exit.clone()).await
    }

    /// Stops the whole tree, and waits for the end like [`wait`](Self::wait). The stop continues if this future is
    /// dropped. A second stop replaces the rest of the first.
    ///
    /// During the stop slightly more than [`Bounds::queue_bytes`] is read, so that a blocked child can write its last
    /// output.
    pub async fn stop(&self, stop: Stop) -> Exit {
        self.shared.lock().stop = Some(stop);
        self.shared.wake();
        self.wait().await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.shared.lock().kill_now = true;
        self.shared.wake();
        let Some(pump) = self.pump.take() else { return };
        // The thread bounds its own work. If it panicked, the tree must be ended here.
        if pump.join().is_err() {
            let _ = ProcessTree::of_run(self.run.clone()).kill(DROP_PATIENCE);
        }
    }
}

impl StdinWriter {
    /// Writes all of `bytes`, and returns when the child's pipe has accepted them. If the future is dropped, they are
    /// still written. Two writes never mix.
    ///
    /// # Errors
    ///
    /// A [`StdinError`] if not all bytes could be written.
    pub async fn write(&self, bytes: impl Into<Bytes>) -> Result<(), StdinError> {
        let target = self.enqueue(bytes.into())?;
        self.shared
            .until(&self.shared.stdin, |state| {
                if state.stdin.written >= target { Some(Ok(())) } else { state.stdin.closed.map(Err) }
            })
            .await
    }

    /// Ends the input once all bytes given so far are written.
    pub fn close(&self) {
        self.shared.lock().stdin.close_when_written = true;
        self.shared.wake();
    }

    fn enqueue(&self, bytes: Bytes) -> Result<u64, StdinError> {
        let target = {
            let stdin = &mut self.shared.lock().stdin;
            if let Some(error) = stdin.closed {
                return Err(error);
            }
            if stdin.close_when_written {
                return Err(StdinError::ClosedByUs);
            }
            stdin.accepted += bytes.len() as u64;
            stdin.pending.extend((!bytes.is_empty()).then_some(bytes));
            stdin.accepted
        };
        self.shared.wake();
        Ok(target)
    }
}

/// Child that no thread serves yet. It is killed if its start fails.
struct Birth {
    unborn: Option<(Command, Holding)>,
    child: Option<(Child, Enclosure)>,
    run: RunId,
}

impl Birth {
    /// Returns the id of the child.
    fn spawn(&mut self) -> std::io::Result<u32> {
        let (mut command, holding) = self.unborn.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
        let child = command.spawn()?;
        let pid = child.id();
        self.child = Some((child, holding.take(&self.run, pid)));
        Ok(pid)
    }
}

impl Drop for Birth {
    fn drop(&mut self) {
        if let Some((mut child, mut hold)) = self.child.take() {
            // The serving thread did not take over the child, so no other code ends and reaps it.
            let _ = hold.kill(DROP_PATIENCE);
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
