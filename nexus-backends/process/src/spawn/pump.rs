//! Thread that serves one process: reads both output pipes, writes the input pipe, and brings the whole tree to its
//! end.
//!
//! The thread waits for all pipes, a change of the child and requests of the consumer in one `poll`. While the consumer
//! has enough lines, the thread leaves further lines in the pipe, and serves everything else.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use tracing::Span;

use super::bounds::Bounds;
use super::error::StdinError;
use super::exit::{EndedBy, Exit, ExitStatus};
use super::kept::KeptOutput;
use super::serving::Serving;
use super::shared::ChildChannel;
use super::stop::{Polite, Stop};
use super::watch::EndWatch;
use crate::capture::{Capture, OutputStream};
use crate::containment::Enclosure;
use crate::lines::{Line, LineSplitter};
use crate::process_tree::send;
use crate::run_registry::RunEntry;

/// Delay between the spawn and the record of the child's identity in its run file. Reading about a process while it
/// starts slows its start; until then its marker identifies it.
const IDENTIFY_AFTER: Duration = Duration::from_millis(2);
/// Pause between two checks of the tree while it is being stopped.
const STOP_LOOK_EVERY: Duration = Duration::from_millis(20);
/// Pause between two checks for an exit, on kernels that do not announce it.
const EXIT_LOOK_EVERY: Duration = Duration::from_millis(10);
/// Longest duration of the last kill. It ends as soon as no process is left, which takes a while on a busy
/// machine.
const KILL_PATIENCE: Duration = Duration::from_secs(3);
/// Bytes that are read from one pipe before the consumer is notified.
const READ_AT_ONCE_BYTES: usize = 256 << 10;
/// Number of additional bytes that may wait for the consumer while the child is being stopped. It leaves room for the
/// last output, after the output that blocked the child. Source: our own bound, several times the size of a pipe.
const LAST_WORDS_BYTES: usize = 4 << 20;
/// Maximum capacity of a pipe, unless its owner is privileged. Source: pipe(7), `pipe-max-size`.
const PIPE_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct Pump {
    shared: Arc<ChildChannel>,
    woken: OwnedFd,
    /// Spare descriptor. It is freed at the end, so that `/proc` can be read even if the program has no descriptor
    /// left.
    spare: Option<OwnedFd>,
    bounds: Bounds,
    entry: Option<RunEntry>,
    capture: Option<Capture>,
    watch: Option<EndWatch>,
    span: Span,
    started: Instant,
    splitter: LineSplitter,
    lines: Vec<Line>,
    stderr_buffer: Vec<u8>,
    /// True if the child has written to standard error.
    has_said: bool,
    /// True while lines stay in the pipe because the consumer has enough to read.
    is_paused: bool,
    /// Number of the last finished check of the pipes that the consumer requested.
    looks_taken: u64,
}

/// Phase of a stop.
#[derive(Debug)]
enum StopPhase {
    /// A polite step is running; `left` are the remaining steps.
    Polite { left: std::vec::IntoIter<(Polite, Duration)>, until: Instant, stop: Stop },
    /// SIGTERM was sent.
    Terminating { until: Instant, stop: Stop },
}

impl Pump {
    /// Creates a pump. The second descriptor is the spare one.
    pub(super) fn new(
        shared: Arc<ChildChannel>,
        [woken, spare]: [OwnedFd; 2],
        bounds: Bounds,
        entry: Option<RunEntry>,
        capture: Option<Capture>,
        span: Span,
        started: Instant,
    ) -> Self {
        let splitter = LineSplitter::new(bounds.line_bytes);
        Self {
            shared,
            woken,
            spare: Some(spare),
            bounds,
            entry,
            capture,
            watch: None,
            span,
            started,
            splitter,
            lines: Vec::new(),
            stderr_buffer: Vec::new(),
            has_said: false,
            is_paused: false,
            looks_taken: 0,
        }
    }

    /// Sets the watch over the running process.
    pub(super) fn watched(mut self, watch: Option<EndWatch>) -> Self {
        self.watch = watch;
        self
    }

    /// Serves `child` until all processes in `hold` have ended.
    pub(super) fn serve(mut self, child: Child, hold: Enclosure) {
        let shared = Arc::clone(&self.shared);
        let started = self.started;
        // Waiting consumers must be released even if this thread panics.
        let last_word = LastWord { shared: &shared, started };
        let mut serving = Serving::new(child, hold);
        let exit = self.run_to_the_end(&mut serving);
        match (&self.entry, serving.identity) {
            (Some(entry), _) if serving.hold.is_unsure() => entry.leave_to_sweep(),
            (Some(entry), Some(identity)) => entry.remove_child(identity),
            _ => {}
        }
        if let Some(capture) = self.capture.take() {
            capture.finish(&exit);
        }
        tracing::debug!(
            parent: &self.span,
            status = ?exit.status,
            ended_by = ?exit.ended_by,
            left_behind = exit.left_behind.len(),
            survivors = exit.survivors.len(),
            elapsed_ms = u64::try_from(exit.elapsed.as_millis()).unwrap_or(u64::MAX),
            "process ended"
        );
        // Dropping the watch makes it check once more.
        drop(self.watch.take());
        // Close the pipes before the end is announced, because a consumer may then count descriptors.
        drop(serving);
        last_word.say(exit);
    }

    fn run_to_the_end(&mut self, serving: &mut Serving) -> Exit {
        let mut stopping: Option<StopPhase> = None;
        let mut ended_by = EndedBy::Itself;
        // Time at which reading of the output is abandoned, after the child has ended.
        let mut drained_by: Option<Instant> = None;
        let mut next_look = self.started;
        loop {
            let now = Instant::now();
            let (kill_now, stop, looks_asked) = {
                let mut state = self.shared.lock();
                (state.kill_now, state.stop.take(), state.looks_asked)
            };
            // The drop of the `Process` waits for this thread, so end everything at once.
            if kill_now {
                ended_by = EndedBy::Drop;
                return self.finish(serving, ended_by, KILL_PATIENCE);
            }
            let is_running = drained_by.is_none();
            if is_running && self.bounds.time_limit.is_some_and(|limit| now >= self.started + limit) {
                ended_by = EndedBy::TimeLimit;
                return self.finish(serving, ended_by, KILL_PATIENCE);
            }
            if is_running && let Some(ended) = self.watch(serving, now, &mut next_look) {
                return self.finish(serving, ended, KILL_PATIENCE);
            }
            if !serving.identified && (stop.is_some() || now >= self.started + IDENTIFY_AFTER) {
                self.identify(serving);
            }
            if let Some(stop) = stop {
                // After the exit, a stop ends only the descendants that the program left behind.
                if is_running {
                    ended_by = EndedBy::Stop;
                }
                let left = stop.polite.clone().into_iter();
                stopping = Some(StopPhase::Polite { left, until: now, stop });
            }
            match stopping.take() {
                Some(step) => match self.advance(step, serving, now) {
                    Ok(next) => stopping = Some(next),
                    Err(patience) => return self.finish(serving, ended_by, patience),
                },
                None => {
                    // A descendant may hold the pipes open long after the program has ended, so wait only for the grace
                    // time.
                    let is_drained = serving.stdout.is_none() && serving.stderr.is_none();
                    if let Some(until) = &mut drained_by {
                        if is_drained || now >= *until && !self.holds_up(serving) {
                            return self.finish(serving, ended_by, KILL_PATIENCE);
                        }
                        if self.is_paused {
                            *until = now + self.bounds.drain_grace;
                        }
                    }
                }
            }
            // Every change wakes the poll, so any long timeout works without a deadline.
            let mut until = now + Duration::from_secs(3600);
            if serving.status.is_none() {
                if !serving.identified {
                    until = until.min(self.started + IDENTIFY_AFTER);
                }
                if serving.exit_signal.is_none() {
                    until = until.min(now + EXIT_LOOK_EVERY);
                }
                if let Some(limit) = self.bounds.time_limit {
                    until = until.min(self.started + limit);
                }
                if self.watch.is_some() {
                    until = until.min(next_look);
                }
            }
            match &stopping {
                Some(StopPhase::Polite { until: step, .. }) => until = until.min(*step),
                Some(StopPhase::Terminating { until: step, .. }) => {
                    until = until.min(*step).min(now + STOP_LOOK_EVERY);
                }
                None => {}
            }
            until = until.min(drained_by.unwrap_or(until));
            let is_asked = looks_asked > self.looks_taken;
            if is_asked {
                until = now;
            }
            let extra = if stopping.is_some() { LAST_WORDS_BYTES } else { 0 };
            let patience = until.saturating_duration_since(now);
            let may_have_exited = self.wait_for_something(serving, patience, extra);
            if is_asked {
                self.looks_taken = looks_asked;
                self.shared.lock().looks_taken = looks_asked;
                self.shared.lines.notify_waiters();
            }
            if may_have_exited && serving.status.is_none() && serving.look_for_exit() {
                drained_by = Some(Instant::now() + self.bounds.drain_grace);
            }
        }
    }

    /// Returns true if a surviving descendant may be blocked until the consumer reads.
    fn holds_up(&self, serving: &mut Serving) -> bool {
        self.is_paused && !serving.hold.alive().is_empty()
    }

    /// Checks the watch. Returns the reason to end the process; `None` if it may continue.
    fn watch(&mut self, serving: &mut Serving, now: Instant, next: &mut Instant) -> Option<EndedBy> {
        let watch = self.watch.as_mut()?;
        let written = |kept: &[KeptOutput; 2]| kept.iter().map(KeptOutput::total_bytes).sum::<u64>();
        if self.shared.lock().kept.as_ref().map_or(0, written) > watch.output_bytes {
            return Some(EndedBy::OutputLimit);
        }
        if now < *next {
            return None;
        }
        let is_over = (watch.look)(&mut serving.hold);
        // Count from the end of the check, so that a slow check leaves time for the pipes.
        *next = Instant::now() + watch.every;
        is_over.then_some(EndedBy::Watch)
    }

    fn identify(&self, serving: &mut Serving) {
        serving.identify();
        if let (Some(entry), Some(identity)) = (&self.entry, serving.identity) {
            entry.add_child(identity);
        }
    }

    /// Advances a stop as far as possible now. The error is the time limit of the final kill.
    fn advance(
        &mut self,
        step: StopPhase,
        serving: &mut Serving,
        now: Instant,
    ) -> Result<StopPhase, Duration> {
        match step {
            StopPhase::Polite { mut left, until, stop } => {
                if serving.status.is_none() {
                    if now < until {
                        return Ok(StopPhase::Polite { left, until, stop });
                    }
                    if let Some((polite, grace)) = left.next() {
                        self.ask(polite, serving);
                        return Ok(StopPhase::Polite { left, until: now + grace, stop });
                    }
                }
                if stop.terminate.is_zero() || serving.hold.signal(Signal::TERM) == 0 {
                    return Err(stop.kill);
                }
                Ok(StopPhase::Terminating { until: now + stop.terminate, stop })
            }
            StopPhase::Terminating { until, stop } => {
                if now >= until || serving.status.is_some() && serving.hold.alive().is_empty() {
                    return Err(stop.kill);
                }
                Ok(StopPhase::Terminating { until, stop })
            }
        }
    }

    fn ask(&self, polite: Polite, serving: &Serving) {
        match polite {
            Polite::Interrupt => {
                if let Some(program) = serving.hold.program(serving.identity) {
                    send(program, Signal::INT);
                }
            }
            Polite::Write(bytes) => {
                let stdin = &mut self.shared.lock().stdin;
                if stdin.closed.is_none() && !stdin.close_when_written && !bytes.is_empty() {
                    stdin.accepted += bytes.len() as u64;
                    stdin.pending.push_back(bytes);
                }
            }
            Polite::CloseStdin => self.shared.lock().stdin.close_when_written = true,
        }
    }

    /// Kills the remaining processes, reads the last output, and closes all pipes.
    fn finish(&mut self, serving: &mut Serving, ended_by: EndedBy, patience: Duration) -> Exit {
        // Free two descriptors, because the next step reads `/proc`.
        (self.spare, serving.exit_signal) = (None, None);
        serving.identify();
        let held = serving.status.is_some() && (serving.stdout.is_some() || serving.stderr.is_some());
        let (left_behind, survivors) = if serving.status.is_some() {
            let left = serving.hold.alive();
            let survivors = if left.is_empty() { Vec::new() } else { serving.hold.kill(patience) };
            (left, survivors)
        } else {
            (Vec::new(), serving.hold.kill(patience))
        };
        serving.reap(patience);
        // Read after the kill, because the last output of the processes is still in the pipes. Read only that much,
        // because a survivor may continue to write.
        let left = serving.stdout.as_ref().map(rustix::io::ioctl_fionread);
        let left = left.and_then(Result::ok).unwrap_or(PIPE_BYTES);
        self.read_stdout(serving, usize::try_from(left).unwrap_or(usize::MAX));
        self.read_stderr(serving);
        self.close_stdout(serving);
        serving.stderr = None;
        self.close_stdin(serving, StdinError::ClosedByChild);
        Exit {
            status: serving.hold.status(serving.status.unwrap_or(ExitStatus::Unknown)),
            ended_by,
            output_held_open: held,
            left_behind,
            survivors,
            elapsed: self.started.elapsed(),
        }
    }

    /// Waits for input, output, a change of the child, or the timeout, and handles the events. Reads output only if the
    /// consumer has room for it, with `extra` bytes beyond the limit. Returns true if the child may have ended.
    fn wait_for_something(&mut self, serving: &mut Serving, patience: Duration, extra: usize) -> bool {
        self.write_stdin(serving);
        let (feeding, room) = {
            let mut state = self.shared.lock();
            let room = state.queue.room(extra);
            // The consumer wakes this thread once it has made room.
            self.is_paused = room == 0 && serving.stdout.is_some();
            state.queue.is_waited_for = self.is_paused;
            (!state.stdin.pending.is_empty(), room)
        };
        let mut watched: Vec<(PollSource, BorrowedFd<'_>, PollFlags)> = Vec::with_capacity(5);
        watched.push((PollSource::Wake, self.woken.as_fd(), PollFlags::IN));
        if let (false, Some(stdout)) = (self.is_paused, &serving.stdout) {
            watched.push((PollSource::Stdout, stdout.as_fd(), PollFlags::IN));
        }
        if let Some(stderr) = &serving.stderr {
            watched.push((PollSource::Stderr, stderr.as_fd(), PollFlags::IN));
        }
        if let (true, Some(stdin)) = (feeding, &serving.stdin) {
            watched.push((PollSource::Stdin, stdin.as_fd(), PollFlags::OUT));
        }
        if let (None, Some(exit)) = (serving.status, &serving.exit_signal) {
            watched.push((PollSource::Exit, exit.as_fd(), PollFlags::IN));
        }
        let mut polled: Vec<PollFd<'_>> = watched
            .iter()
            .map(|(_, descriptor, flags)| PollFd::from_borrowed_fd(*descriptor, *flags))
            .collect();
        // Round up, so that the deadline has passed when `poll` returns.
        let timeout = Timespec::try_from(patience + Duration::from_micros(50)).ok();
        if poll(&mut polled, timeout.as_ref()).is_err() {
            return true;
        }
        let ready: Vec<PollSource> = watched
            .iter()
            .zip(&polled)
            .filter(|(_, polled)| !polled.revents().is_empty())
            .map(|((source, ..), _)| *source)
            .collect();
        for source in &ready {
            match source {
                PollSource::Wake => {
                    while rustix::io::read(&self.woken, &mut [0; 64]).is_ok_and(|count| count == 64) {}
                }
                PollSource::Stdout => self.read_stdout(serving, room.min(READ_AT_ONCE_BYTES)),
                PollSource::Stderr => self.read_stderr(serving),
                PollSource::Stdin => self.write_stdin(serving),
                PollSource::Exit => {}
            }
        }
        serving.exit_signal.is_none() || ready.contains(&PollSource::Exit)
    }

    /// Reads available output, up to about `bound` bytes, and passes the lines on.
    fn read_stdout(&mut self, serving: &mut Serving, bound: usize) {
        let Some(stdout) = &serving.stdout else { return };
        let mut total = 0;
        let mut ended = false;
        while total < bound {
            let space = self.splitter.space();
            let room = space.capacity() - space.len();
            match rustix::io::read(stdout, spare_capacity(space)) {
                Ok(0) => {
                    ended = true;
                    break;
                }
                Ok(count) => {
                    if let Some(capture) = &mut self.capture {
                        capture.write(OutputStream::Stdout, self.splitter.unsplit());
                    }
                    match &mut self.shared.lock().kept {
                        Some([kept, _]) => {
                            kept.push(self.splitter.unsplit());
                            self.splitter.forget();
                        }
                        None => self.splitter.split(&mut self.lines),
                    }
                    total += count;
                    if count < room.min(64 << 10) {
                        break;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    ended = true;
                    break;
                }
            }
        }
        if ended {
            self.close_stdout(serving);
        } else {
            self.hand_over(false);
        }
    }

    fn close_stdout(&mut self, serving: &mut Serving) {
        serving.stdout = None;
        self.splitter.finish(&mut self.lines);
        self.hand_over(true);
    }

    fn hand_over(&mut self, closed: bool) {
        if self.lines.is_empty() && !closed {
            return;
        }
        let has_change = {
            let queue = &mut self.shared.lock().queue;
            queue.closed |= closed;
            queue.extend(&mut self.lines) || closed
        };
        if has_change {
            self.shared.lines.notify_waiters();
        }
    }

    fn read_stderr(&mut self, serving: &mut Serving) {
        let Some(stderr) = &serving.stderr else { return };
        for _ in 0..4 {
            self.stderr_buffer.clear();
            self.stderr_buffer.reserve(16 << 10);
            match rustix::io::read(stderr, spare_capacity(&mut self.stderr_buffer)) {
                Ok(0) => {
                    serving.stderr = None;
                    return;
                }
                Ok(_) => {
                    let said = match std::mem::replace(&mut self.has_said, true) {
                        true => &*self.stderr_buffer,
                        false => serving.hold.first_said(&self.stderr_buffer),
                    };
                    if let Some(capture) = &mut self.capture {
                        capture.write(OutputStream::Stderr, said);
                    }
                    let mut state = self.shared.lock();
                    match &mut state.kept {
                        Some([_, kept]) => kept.push(said),
                        None => state.stderr.push(said),
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    serving.stderr = None;
                    return;
                }
            }
        }
    }

    /// Writes as much input as the child's pipe accepts.
    fn write_stdin(&mut self, serving: &mut Serving) {
        loop {
            let next: Option<Bytes> = {
                let state = self.shared.lock();
                state.stdin.pending.front().cloned()
            };
            let Some(stdin) = &mut serving.stdin else { return };
            let Some(mut bytes) = next else {
                if self.shared.lock().stdin.close_when_written {
                    self.close_stdin(serving, StdinError::ClosedByUs);
                }
                return;
            };
            match stdin.write(&bytes) {
                Ok(count) => {
                    bytes.advance(count);
                    let mut state = self.shared.lock();
                    state.stdin.written += count as u64;
                    if bytes.is_empty() {
                        state.stdin.pending.pop_front();
                    } else if let Some(front) = state.stdin.pending.front_mut() {
                        *front = bytes;
                    }
                    drop(state);
                    self.shared.stdin.notify_waiters();
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let reason = match error.kind() {
                        std::io::ErrorKind::BrokenPipe => StdinError::ClosedByChild,
                        kind => StdinError::System(kind),
                    };
                    self.close_stdin(serving, reason);
                    return;
                }
            }
        }
    }

    fn close_stdin(&self, serving: &mut Serving, reason: StdinError) {
        serving.stdin = None;
        {
            let stdin = &mut self.shared.lock().stdin;
            stdin.closed.get_or_insert(reason);
            stdin.pending.clear();
        }
        self.shared.stdin.notify_waiters();
    }
}

/// Source that the pump waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PollSource {
    Wake,
    Stdout,
    Stderr,
    Stdin,
    Exit,
}

/// Announces the end, even if the serving thread panics.
struct LastWord<'a> {
    shared: &'a ChildChannel,
    started: Instant,
}

impl LastWord<'_> {
    fn say(self, exit: Exit) {
        self.shared.lock().exit = Some(exit);
    }
}

impl Drop for LastWord<'_> {
    fn drop(&mut self) {
        {
            let mut state = self.shared.lock();
            state.queue.closed = true;
            state.stdin.closed.get_or_insert(StdinError::ClosedByChild);
            let elapsed = self.started.elapsed();
            state.exit.get_or_insert_with(|| Exit {
                status: ExitStatus::Unknown,
                ended_by: EndedBy::Itself,
                output_held_open: false,
                left_behind: Vec::new(),
                survivors: Vec::new(),
                elapsed,
            });
        }
        self.shared.lines.notify_waiters();
        self.shared.stdin.notify_waiters();
        self.shared.ended.notify_waiters();
    }
}
