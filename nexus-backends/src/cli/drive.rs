//! One process of a turn: passes its lines to the translator and its events to the sink, and ends it.

use std::{collections::BTreeMap, path::Path, time::Duration};

use futures::FutureExt as _;
use nexus_core::{
    ErrorKind, EventSink, FinishReason, Limit, PendingInput, Phase, ProcessExit, ProcessReport, Session,
    SteeredTurn, Survivor, ToolAccess, ToolCallRecord, ToolCallStatus, TurnRequest,
    harness::{Checked, Failure, is_submitted, over_limit, over_limit_with, sleep_until},
    lenient_json,
    turn::{InputReceived, ToolOrigin, Unrecognized},
};
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::time::Instant;

use super::asks::{Asks, HostReply};
use super::caller_tools::CallerTools;
use super::refusal::of_want;
use super::state::TurnState;
use super::translator::{ProcessEnd, Repair, Step, StopRequest, Translator, TurnOutcome};
use nexus_process::lines::{Line, LineEnding};
use nexus_process::spawn::{Exit, ExitStatus, Polite, Process, Stop};

/// Longest time that a process may continue to write after a request to stop.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Maximum number of calls beyond the budget, if the process does not show when the model received the result of the
/// first. Source: our own bound, above the number of calls in one response.
const MAX_OVERRUN: u32 = 64;

/// Maximum number of free calls that search for the caller's tools. Source: our own bound, far above the need of a
/// model.
const MAX_FREE_FINDS: usize = 64;

/// Time of silence after which the translator polls its other sources, and the interval of these polls.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Longest wait before a retry that the turn accepts. After a longer wait a router can use another backend. Source: our
/// own choice. It is longer than the waits that programs choose by themselves when their vendor names no time.
const LONGEST_RETRY_DELAY: Duration = Duration::from_secs(60);

/// Longest time for the answers to the last requests of a turn. Source: our own choice; the known agents answer at once.
const FAREWELL: Duration = Duration::from_secs(2);

/// Number of lines read before events, limits and cancellation are handled.
const LINES_PER_ROUND: usize = 64;

/// Size of lines with unsent events at which reading pauses, in bytes. Source: our own bound.
const UNSENT_BYTES: usize = 8 << 20;

/// Number of bytes of an unreadable line that are retained.
const UNREADABLE_HEAD_BYTES: usize = 4 << 10;

/// Drives one process to its end.
pub(super) struct Drive<'a> {
    pub(super) process: &'a Process,
    pub(super) translator: &'a mut dyn Translator,
    pub(super) tools: Option<&'a CallerTools>,
    /// Session of the turn, which asks the host for approvals.
    pub(super) session: &'a Session,
    /// Approval requests and questions that the host has not answered.
    pub(super) asks: Asks<'a>,
    /// Inputs for the agent while its turn runs.
    pub(super) steered: &'a SteeredTurn,
    /// Inputs that were written to the process and are not confirmed.
    pub(super) handed: Handed,
    pub(super) home: Option<&'a Path>,
    pub(super) request: &'a TurnRequest,
    pub(super) turn: &'a mut TurnState,
    pub(super) events: &'a mut dyn EventSink,
    /// True once the process has sent a request to the model.
    pub(super) has_asked: bool,
    /// Bytes of the lines read since the sink last had no pending events.
    pub(super) unsent_bytes: usize,
}

/// Inputs by their numbers. Dropping it returns them to the queue.
#[derive(Default)]
pub(super) struct Handed {
    inputs: BTreeMap<u64, PendingInput>,
    next: u64,
}

/// End of a process that did not fail.
pub(super) enum FinishedProcess {
    /// The process gave a usable answer.
    Answered {
        /// Reason why the model stopped.
        finish: FinishReason,
        /// Structured value, if the request has a schema.
        output: Option<Value>,
    },
    /// The answer is unusable and the process cannot ask again, so a new process does.
    AskAgain {
        /// Instruction for the model.
        instruction: String,
    },
}

/// Phase of a process.
enum ProcessPhase {
    /// The turn runs.
    Running,
    /// The process has answered or failed, and should answer the last requests before its input is closed.
    Closing { decision: Result<FinishedProcess, Failure>, until: Instant },
    /// The process has answered or failed, and should exit by itself.
    Finishing { decision: Result<FinishedProcess, Failure>, until: Instant },
    /// The process has received a request to stop, and may continue to write until `until`.
    Stopping { decision: Result<FinishedProcess, Failure>, asked: StopRequest, until: Instant },
}

impl Drive<'_> {
    /// Drives the process to its end. On return, all processes of the tree have ended, except the survivors in the report.
    pub(super) async fn run(mut self) -> Result<FinishedProcess, Failure> {
        let mut step = Step::default();
        self.translator.open(&mut step);
        let mut state = self.apply(&mut step, ProcessPhase::Running);
        let mut next_look = Instant::now() + LOOK_EVERY;
        let mut submitted: Option<Instant> = None;
        loop {
            if let (ProcessPhase::Running, true) = (&state, self.is_submitted()) {
                let since = *submitted.get_or_insert_with(Instant::now);
                if self.has_reported_submission() || since.elapsed() >= LAST_WORDS {
                    let ended = FinishedProcess::Answered { finish: FinishReason::Submitted, output: None };
                    state = self.stop(Ok(ended));
                }
            }
            let wake = match &state {
                ProcessPhase::Running => {
                    let report = submitted.map(|since| (since + LAST_WORDS).into_std());
                    self.turn.watch.next().into_iter().chain([next_look.into_std()]).chain(report).min()
                }
                ProcessPhase::Closing { until, .. }
                | ProcessPhase::Finishing { until, .. }
                | ProcessPhase::Stopping { until, .. } => Some(until.into_std()),
            };
            let is_running = matches!(state, ProcessPhase::Running);
            let may_read = self.may_read(is_running);
            tokio::select! {
                // `biased`: check the cancellation and the time limits first, so that a process with much output
                // cannot delay them.
                biased;
                () = self.turn.cancel.cancelled(), if !matches!(state, ProcessPhase::Stopping { .. }) => {
                    // An answer that has already arrived is not discarded.
                    if let ProcessPhase::Closing { .. } | ProcessPhase::Finishing { .. } = state {
                        break;
                    }
                    state = self.interrupt(Failure::cancelled());
                }
                () = sleep_until(wake) => {
                    if !is_running {
                        state = match state {
                            ProcessPhase::Closing { decision, .. } => self.exiting(decision),
                            _ => break,
                        };
                        continue;
                    }
                    let ran_out = self.ran_out().await;
                    // Look before the turn is interrupted: the record may contain the reason of the silence, or the
                    // outcome.
                    if ran_out.is_some() || next_look <= Instant::now() {
                        state = self.look(&mut step);
                        next_look = Instant::now() + LOOK_EVERY;
                    }
                    if let (Some(kind), ProcessPhase::Running) = (ran_out, &state) {
                        state = self.interrupt(self.turn.out_of_time(kind));
                    }
                }
                () = self.turn.log.outbox.flush(self.events), if !self.turn.log.outbox.is_empty() => {}
                line = self.process.next_line(), if may_read => match line {
                    Some(line) => {
                        state = self.lines(line, state);
                        next_look = Instant::now() + LOOK_EVERY;
                    }
                    None => break,
                },
                Some((question, answer)) = self.asks.next(), if is_running && !self.asks.is_empty() => {
                    match answer {
                        Some(HostReply::Approval(answer)) => {
                            self.translator.approved(question, answer, &mut step);
                        }
                        Some(HostReply::Question(reply)) => self.translator.replied(question, reply, &mut step),
                        None => {}
                    }
                    self.heard();
                    state = self.apply(&mut step, state);
                }
                () = self.steered.arrived(), if is_running && self.translator.takes_input() => {
                    state = self.hand_inputs(state);
                }
                () = change_of(self.tools), if is_running => {
                    self.translator.tools_changed(&mut step);
                    self.heard();
                    state = self.apply(&mut step, state);
                    if let (Some(failure), ProcessPhase::Running) = (self.over_limit(), &state) {
                        state = self.interrupt(failure);
                    }
                }
            }
        }
        self.finish(state).await
    }

    /// Reads a line, and all lines that are already queued after it.
    fn lines(&mut self, first: Line, mut state: ProcessPhase) -> ProcessPhase {
        let mut step = Step::default();
        let mut next = Some(first);
        for _ in 0..LINES_PER_ROUND {
            let Some(line) = next else { break };
            self.line(&line, &mut step);
            self.said();
            state = self.apply(&mut step, state);
            // Try after each line, because the process may accept inputs only for a moment.
            state = self.hand_inputs(state);
            next = match state {
                ProcessPhase::Running if self.may_read(true) => self.process.ready_line(),
                _ => return state,
            };
        }
        if let Some(line) = next {
            self.line(&line, &mut step);
            state = self.apply(&mut step, state);
        }
        state
    }

    /// Returns true if more lines may be read. Reading pauses while many events wait for a slow sink; the process then
    /// blocks once its pipe is full. After the process has ended, reading continues, so that the sink does not hold up
    /// its last lines.
    fn may_read(&mut self, is_running: bool) -> bool {
        let outbox = &self.turn.log.outbox;
        if outbox.is_empty() {
            self.unsent_bytes = 0;
        }
        match is_running {
            true => !outbox.is_half_full() && self.unsent_bytes < UNSENT_BYTES,
            false => self.unsent_bytes < 3 * UNSENT_BYTES,
        }
    }

    /// Returns the expired time limit; `None` if no limit has expired. A process with unread lines was not silent, because it waits
    /// for this program.
    async fn ran_out(&mut self) -> Option<ErrorKind> {
        match self.turn.watch.ran_out() {
            Some(ErrorKind::Starved(_)) if self.process.has_unread_lines().await => {
                self.heard();
                None
            }
            ran_out => ran_out,
        }
    }

    /// Sends the caller's inputs to the process while it accepts them.
    fn hand_inputs(&mut self, mut state: ProcessPhase) -> ProcessPhase {
        let mut step = Step::default();
        while let ProcessPhase::Running = state {
            let Some(input) = self.translator.takes_input().then(|| self.steered.take()).flatten() else {
                break;
            };
            let number = self.handed.next;
            self.handed.next += 1;
            self.translator.input(number, input.text(), &mut step);
            self.handed.inputs.insert(number, input);
            state = self.apply(&mut step, state);
        }
        state
    }

    /// Moves the events of a step into the record.
    fn absorb(&mut self, step: &mut Step) {
        self.turn.stats.absorb(step, &mut self.turn.log);
        for number in step.delivered.drain(..) {
            if let Some(input) = self.handed.inputs.remove(&number) {
                self.turn.log.event(InputReceived::new(input.delivered()));
            }
        }
        for number in step.returned.drain(..) {
            self.handed.inputs.remove(&number);
        }
    }

    /// Lets the translator read its sources other than the lines.
    fn look(&mut self, step: &mut Step) -> ProcessPhase {
        let process = self.process;
        self.translator.look(&|| process.stderr_tail(), step);
        self.apply(step, ProcessPhase::Running)
    }

    fn line(&mut self, line: &Line, step: &mut Step) {
        self.unsent_bytes += line.bytes.len();
        let is_whole = match line.ending {
            LineEnding::Newline => true,
            // The last line may lack its line end, or be cut. Only complete JSON proves that it is whole.
            LineEnding::EndOfOutput => lenient_json::from_slice::<IgnoredAny>(&line.bytes).is_ok(),
            LineEnding::Truncated { .. } => false,
        };
        if is_whole {
            return self.translator.line(&line.bytes, step);
        }
        let total = match line.ending {
            LineEnding::Truncated { total_bytes } => total_bytes,
            _ => line.bytes.len() as u64,
        };
        let head = line.bytes.get(..UNREADABLE_HEAD_BYTES).unwrap_or(&line.bytes);
        let raw = Value::String(String::from_utf8_lossy(head).into_owned());
        step.event(Unrecognized::new(None, raw).truncated_from(total));
        // If the output ends within a line, the end of the process decides the outcome instead.
        if !matches!(line.ending, LineEnding::EndOfOutput) {
            self.translator.unreadable(head, step);
        }
    }

    /// Executes a step.
    fn apply(&mut self, step: &mut Step, state: ProcessPhase) -> ProcessPhase {
        self.absorb(step);
        let is_closing = step.close_stdin;
        self.write(step);
        self.ask(step);
        match state {
            ProcessPhase::Closing { decision, .. } if is_closing => return self.exiting(decision),
            ProcessPhase::Closing { .. } | ProcessPhase::Finishing { .. } => return state,
            _ => {}
        }
        let outcome = step.outcome.take();
        if let ProcessPhase::Stopping { decision, asked, until } = state {
            // The process has reported its outcome, so do not wait for more output.
            let until = if outcome.is_some() { Instant::now() } else { until };
            return ProcessPhase::Stopping { decision, asked, until };
        }
        if let Some(failure) = self.over_limit() {
            return match outcome {
                Some(_) => self.finishing(Err(failure)),
                None => self.interrupt(failure),
            };
        }
        match outcome {
            None => match self.turn.log.retry_cause.beyond(LONGEST_RETRY_DELAY) {
                Some(failure) => self.interrupt(failure),
                None => ProcessPhase::Running,
            },
            // Without the intended tools, no further action of the process is wanted.
            Some(TurnOutcome::Failed(failure))
                if step.stops || failure.kind == ErrorKind::ToolsUnavailable =>
            {
                self.interrupt(failure)
            }
            Some(TurnOutcome::Failed(failure)) => self.finishing(Err(failure)),
            Some(TurnOutcome::Answered { finish, output }) => self.answered(finish, output, step),
        }
    }

    /// Puts the approval requests and questions of a step to the host, and withdraws others.
    fn ask(&mut self, step: &mut Step) {
        let session = self.session;
        let is_asking = !step.asks.is_empty() || !step.questions.is_empty();
        for (number, request) in step.asks.drain(..) {
            self.asks.push(number, async move { HostReply::Approval(session.approve(request).await) });
        }
        for (number, question) in step.questions.drain(..) {
            self.asks.push(number, async move { HostReply::Question(session.question(question).await) });
        }
        for number in step.withdrawn.drain(..) {
            self.asks.withdraw(number);
        }
        if is_asking {
            // Enter the phase `Tool`: until the host answers, its time limits apply.
            self.heard();
        }
    }

    fn answered(&mut self, finish: FinishReason, output: Option<Value>, step: &mut Step) -> ProcessPhase {
        let instruction = match self.turn.answer.check(output, &mut self.turn.log) {
            Checked::Fits(output) => return self.finishing(Ok(FinishedProcess::Answered { finish, output })),
            Checked::Useless(failure) => return self.finishing(Err(failure)),
            Checked::AskAgain(instruction) => instruction,
        };
        match self.translator.repair(&instruction, step) {
            Repair::NewProcess => self.finishing(Ok(FinishedProcess::AskAgain { instruction })),
            Repair::SameProcess => {
                self.turn.log.provenance.attempts += 1;
                self.turn.log.model_asked();
                self.write(step);
                self.heard();
                ProcessPhase::Running
            }
        }
    }

    fn finishing(&mut self, decision: Result<FinishedProcess, Failure>) -> ProcessPhase {
        self.asks.clear();
        let mut step = Step::default();
        let waits = self.translator.closing(&mut step);
        self.absorb(&mut step);
        self.write(&mut step);
        if waits {
            return ProcessPhase::Closing { decision, until: Instant::now() + FAREWELL };
        }
        self.exiting(decision)
    }

    /// Closes the input of a process that should exit by itself.
    fn exiting(&self, decision: Result<FinishedProcess, Failure>) -> ProcessPhase {
        self.process.stdin().close();
        ProcessPhase::Finishing { decision, until: Instant::now() + self.translator.exit_grace() }
    }

    fn write(&self, step: &mut Step) {
        let stdin = self.process.stdin();
        for bytes in step.writes.drain(..) {
            // One poll queues the bytes. If the child no longer reads, its exit shows that.
            let _ = stdin.write(bytes).now_or_never();
        }
        if std::mem::take(&mut step.close_stdin) {
            stdin.close();
        }
    }

    /// Handles output of the process. While a caller's tool runs or a question to the host is open, the turn is in the phase `Tool`,
    /// even if the process does not report it.
    fn heard(&mut self) {
        if !self.has_asked && self.translator.phase() != Phase::Start {
            self.has_asked = true;
            self.turn.log.model_asked();
        }
        let is_busy = !self.asks.is_empty() || self.tools.is_some_and(CallerTools::are_busy);
        self.turn.watch.heard(if is_busy { Phase::Tool } else { self.translator.phase() });
    }

    /// Handles a line of the process. If the model is active again, it has received the results of its calls.
    fn said(&mut self) {
        self.heard();
        if let Some(tools) = self.tools
            && !tools.are_busy()
            && self.translator.phase() != Phase::Tool
        {
            self.turn.overrun.told(tools.session());
        }
    }

    /// Returns true if the answer was submitted, and no tool of the caller is running any more.
    fn is_submitted(&self) -> bool {
        self.tools.is_some_and(|tools| !tools.are_busy() && is_submitted(tools.session(), self.request))
    }

    /// Returns true if the process has reported the end of the call that submitted the answer. It would then call the
    /// model again, so it must be stopped.
    fn has_reported_submission(&self) -> bool {
        let mut calls = self.turn.log.recorder.tool_calls().iter();
        calls.any(|call| {
            call.origin == ToolOrigin::Caller
                && call.status == ToolCallStatus::Succeeded
                && self.tools.is_some_and(|tools| tools.session().is_terminal(&call.name))
        })
    }

    /// Returns the failure for the first exceeded limit. The session counts calls of the caller's tools, and the record
    /// counts calls of the process's own.
    fn over_limit(&self) -> Option<Failure> {
        if let Some(failure) = self.turn.stats.unknown_cost(&self.turn.log, &self.request.limits) {
            return Some(failure);
        }
        let Some(tools) = self.tools else { return over_limit(&self.turn.log, &self.request.limits) };
        if let Some(failure) = self.turn.overrun.check(tools.session()) {
            return Some(failure);
        }
        if tools.session().over_budget_calls() > MAX_OVERRUN {
            let reason = "the budget is used up, but the model keeps calling tools";
            return Some(Failure::new(ErrorKind::LimitReached(Limit::ToolCalls), reason));
        }
        let calls = self.turn.log.recorder.tool_calls();
        // A model that finds its tools only by a search must not pay for that, up to a bound.
        let (finding, others): (Vec<_>, Vec<_>) = calls
            .iter()
            .filter(|call| call.origin == ToolOrigin::Harness)
            .partition(|call| self.finds_tools(call));
        let own = others.len() + finding.len().saturating_sub(MAX_FREE_FINDS);
        over_limit_with(own + tools.session().calls_made() as usize, &self.turn.log, &self.request.limits)
    }

    /// Returns true if the process's own call is the search with which its model finds the caller's tools, at a level
    /// without other tools. Such calls are free.
    fn finds_tools(&self, call: &ToolCallRecord) -> bool {
        self.request.tool_access == ToolAccess::ScopedOnly
            && self.translator.tool_search() == Some(call.name.as_str())
            && matches!(call.status, ToolCallStatus::Unfinished | ToolCallStatus::Succeeded)
    }

    /// Requests the process to stop because of the failure `cause`.
    fn interrupt(&mut self, cause: Failure) -> ProcessPhase {
        self.stop(Err(cause))
    }

    /// Requests the process to stop. The turn ends with `decision`.
    fn stop(&mut self, decision: Result<FinishedProcess, Failure>) -> ProcessPhase {
        self.asks.clear();
        let mut step = Step::default();
        let asked = self.translator.interrupt(&mut step);
        self.absorb(&mut step);
        self.write(&mut step);
        // Signals follow at once, but a written request needs time for an answer.
        let patience = if asked == StopRequest::Written { LAST_WORDS } else { Duration::ZERO };
        ProcessPhase::Stopping { decision, asked, until: Instant::now() + patience }
    }

    /// Ends the process and evaluates its end.
    async fn finish(mut self, state: ProcessPhase) -> Result<FinishedProcess, Failure> {
        let (exit, was_stopped) = self.end_process(&state).await;
        // Lines that were read before the end are still queued, and may contain the outcome.
        while let Some(line) = self.process.next_line().now_or_never().flatten() {
            self.last_line(&line);
        }
        let status = match exit.status {
            ExitStatus::Code(code) => ProcessExit::Code(code),
            ExitStatus::Signal(signal) => ProcessExit::Signal(signal),
            ExitStatus::Unknown => ProcessExit::Unknown,
        };
        let stderr_tail = self.process.stderr_tail();
        let mut step = Step::default();
        let end = ProcessEnd { exit: Some(status), stderr_tail: &stderr_tail, home: self.home, was_stopped };
        self.translator.ended(&end, &mut step);
        let outcome = step.outcome.take();
        self.absorb(&mut step);
        let survivors =
            exit.survivors.iter().map(|one| Survivor::new(one.identity.pid, &*one.name)).collect();
        let report = ProcessReport::new(Some(status), stderr_tail.as_str()).with_survivors(survivors);
        self.turn.log.process = Some(report);

        let ended = match state {
            ProcessPhase::Closing { decision, .. }
            | ProcessPhase::Stopping { decision, .. }
            | ProcessPhase::Finishing { decision, .. } => decision,
            ProcessPhase::Running => self.judge(outcome, status),
        };
        ended.map_err(|failure| of_want(failure, &stderr_tail))
    }

    /// Waits for a process that is already ending, and stops any other.
    async fn end_process(&mut self, state: &ProcessPhase) -> (Exit, bool) {
        let process = self.process;
        let stop = match state {
            ProcessPhase::Stopping { asked: StopRequest::Written, .. } => {
                Stop::new().politely(Polite::CloseStdin, Duration::from_secs(1))
            }
            ProcessPhase::Stopping { asked: StopRequest::Signals, .. } => Stop::new(),
            ProcessPhase::Running | ProcessPhase::Closing { .. } | ProcessPhase::Finishing { .. } => {
                if let ProcessPhase::Closing { .. } = state {
                    process.stdin().close();
                }
                let grace = match state {
                    ProcessPhase::Finishing { until, .. } => until.saturating_duration_since(Instant::now()),
                    _ => self.translator.exit_grace(),
                };
                let cancel = self.turn.cancel.clone();
                let ending = async {
                    tokio::select! {
                        exit = process.wait() => Some(exit),
                        () = tokio::time::sleep(grace.max(Duration::from_millis(200))) => None,
                        () = cancel.cancelled() => None,
                    }
                };
                if let Some(exit) = self.reading(ending).await {
                    return (exit, false);
                }
                Stop::new().politely(Polite::Interrupt, Duration::from_secs(1))
            }
        };
        (self.reading(process.stop(stop)).await, true)
    }

    /// Reads lines for the record until `end` completes. Otherwise the process could block on its output, and its last
    /// lines would be lost.
    async fn reading<T>(&mut self, end: impl Future<Output = T>) -> T {
        let process = self.process;
        let mut end = std::pin::pin!(end);
        let mut has_more = true;
        loop {
            let may_read = has_more && self.may_read(false);
            tokio::select! {
                // `biased`: check the end first, so that a process with much output cannot delay it.
                biased;
                ended = &mut end => return ended,
                line = process.next_line(), if may_read => match line {
                    Some(line) => self.last_line(&line),
                    None => has_more = false,
                },
            }
        }
    }

    /// Reads a line only for the record, because the outcome is decided.
    fn last_line(&mut self, line: &Line) {
        let mut step = Step::default();
        self.line(line, &mut step);
        self.absorb(&mut step);
    }

    /// Returns the outcome of a process that ended by itself.
    fn judge(
        &mut self,
        outcome: Option<TurnOutcome>,
        status: ProcessExit,
    ) -> Result<FinishedProcess, Failure> {
        if let Some(failure) = self.over_limit() {
            return Err(failure);
        }
        match outcome {
            Some(TurnOutcome::Failed(failure)) => Err(failure),
            Some(TurnOutcome::Answered { finish, output }) => {
                let mut step = Step::default();
                let instruction = match self.turn.answer.check(output, &mut self.turn.log) {
                    Checked::Fits(output) => return Ok(FinishedProcess::Answered { finish, output }),
                    Checked::Useless(failure) => return Err(failure),
                    Checked::AskAgain(instruction) => instruction,
                };
                match self.translator.repair(&instruction, &mut step) {
                    Repair::NewProcess => Ok(FinishedProcess::AskAgain { instruction }),
                    Repair::SameProcess => {
                        Err(Failure::new(ErrorKind::OutputInvalid, "the process has ended and cannot retry"))
                    }
                }
            }
            None => Err(Failure::new(ErrorKind::Crashed, status.to_string())),
        }
    }
}

/// Waits until a call of the caller's tools is decided or ends. Waits forever if the caller has no tools.
async fn change_of(tools: Option<&CallerTools>) {
    match tools {
        Some(tools) => tools.changed().await,
        None => std::future::pending().await,
    }
}
