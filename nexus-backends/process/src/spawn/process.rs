//! The handle on one running process.

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
/// All methods take `&self`, so that reading, waiting and stopping may go on side by side. Each
/// future may be dropped at any time and asked for again: no line is lost.
///
/// Dropping the handle kills the whole tree with SIGKILL and reaps the child *before* the drop
/// returns. That blocks for a few milliseconds, and for two seconds at most.
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

/// A child to be started, and what it is served by.
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
    /// Starts a child and serves it from a thread of its own. If the thread cannot be started, neither is the
    /// child.
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
            kept: start.watch.as_ref().map(|watch| [(); 2].map(|()| KeptOutput::new(watch.kept_bytes))),
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
        // Any child that need not be started by the serving thread is there sooner if it is started first.
        let is_in_thread = start.is_in_thread;
        let (born, started) = std::sync::mpsc::sync_channel(1);
        // If the starting thread is gone, no receiver waits and no handle exists; the sender learns it by
        // `kill_now`.
        let tell = move |spawned| drop(born.send(spawned));
        if !is_in_thread {
            tell(Ok(birth.spawn().map_err(refused)?));
        }
        // It moves into the thread through a slot, so that a thread that cannot be started does not take it along.
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

    /// The id of the process that was started: the child, or in a namespace what waits for it outside.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The run that every process of the tree is marked with.
    #[must_use]
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// The span of this process, for events that belong to it.
    #[must_use]
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// Returns the next line of standard output as the child wrote it, or `None` at its end. A line may contain
    /// secrets that were lent to the child: the caller removes them before it passes the line on.
    ///
    /// Unread lines wait: up to [`Bounds::queue_bytes`] here, the rest in the child's pipe, and then the child
    /// waits too. No line is dropped.
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

    /// The next line if one has already been handed over. It may give nothing while more is
    /// waiting; [`next_line`](Self::next_line) is what ends a loop.
    #[must_use]
    pub fn ready_line(&self) -> Option<Line> {
        self.batch.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Returns true if lines wait that the child had written before this call. Such a child is not silent: it
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

    /// The end of standard error so far, redacted.
    #[must_use]
    pub fn stderr_tail(&self) -> String {
        let tail = self.shared.lock().stderr.clone();
        tail.redacted(&self.redactor)
    }

    /// Takes the stored standard output and standard error of a process whose output is
    /// [kept](super::Invocation::keep_output). They are available once, after the process has ended.
    #[must_use]
    pub fn take_kept(&self) -> [KeptOutput; 2] {
        self.shared.lock().kept.take().unwrap_or_default()
    }

    /// The child's standard input.
    #[must_use]
    pub fn stdin(&self) -> StdinWriter {
        StdinWriter { shared: Arc::clone(&self.shared) }
    }

    /// Waits for the end: the child is reaped, its output is read to its end or its grace time is over, and its
    /// remaining descendants are killed. Lines may still wait to be read after that.
    ///
    /// A child that writes more than [`Bounds::queue_bytes`] and its pipe take does not end before they are
    /// read: read [`next_line`](Self::next_line) to its end first, or at the same time.
    pub async fn wait(&self) -> Exit {
        self.shared.until(&self.shared.ended, |state| state.exit.clone()).await
    }

    /// Stops the whole tree, and waits for the end as [`wait`](Self::wait) does. The stop goes on
    /// if this future is dropped. A second stop replaces what is left of the first.
    ///
    /// Meanwhile a little more is read than [`Bounds::queue_bytes`], so that a child that waited for its reader can say its
    /// last words.
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
        // The thread bounds its own work. Were it gone with its work undone, the tree is still ours
        // to end.
        if pump.join().is_err() {
            let _ = ProcessTree::of_run(self.run.clone()).kill(DROP_PATIENCE);
        }
    }
}

impl StdinWriter {
    /// Writes all of `bytes`, and returns when the child's pipe has taken them. If the future is
    /// dropped they are written all the same; two writes never mix.
    ///
    /// # Errors
    ///
    /// A [`StdinError`] if not all of them could be written.
    pub async fn write(&self, bytes: impl Into<Bytes>) -> Result<(), StdinError> {
        let target = self.enqueue(bytes.into())?;
        self.shared
            .until(&self.shared.stdin, |state| {
                if state.stdin.written >= target { Some(Ok(())) } else { state.stdin.closed.map(Err) }
            })
            .await
    }

    /// Ends the input once everything given so far is written.
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

/// A child that no thread serves yet. It is killed if its start fails.
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
            let _ = hold.kill(DROP_PATIENCE);
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
