//! Reads the output of one process: a state machine, lines in, [`Step`]s out.
//!
//! While the process runs, a translator may read the record that the CLI writes in its home. It does no other
//! input or output, so that a recorded transcript is its whole test.

use std::{path::Path, time::Duration};

use bytes::Bytes;
use nexus_core::{
    AppliedEffort, ApprovalRequest, Cost, Denial, FinishReason, ModelId, Phase, ProcessExit, ResumeHandle,
    TurnEvent, Usage,
    harness::{Failure, ModelCall},
    lenient_json::{self, Halves, Repaired, Repairs},
    turn::{RepairedLine, Unrecognized},
};
use serde_json::Value;

/// Reads the output of one process and says what to do about it.
pub trait Translator: std::fmt::Debug + Send {
    /// The process runs: what to write first, beyond what the invocation feeds it anyway.
    fn open(&mut self, step: &mut Step);

    /// Reads a whole line of standard output, without its end of line. Returns whether it was understood; if not, nothing has
    /// changed.
    fn read_line(&mut self, line: OutputLine<'_>, step: &mut Step) -> bool;

    /// The event for a line that is not understood.
    ///
    /// Default: the line word for word, without a name.
    fn unrecognized(&self, line: &[u8]) -> Unrecognized {
        Unrecognized::of_line(None, line)
    }

    /// Handles a line that begins like this and cannot be read: ends the turn if a line of its type does, answers a request,
    /// and notes that a piece of the answer is lost.
    ///
    /// Default: nothing depends on one line.
    fn unreadable(&mut self, beginning: &[u8], step: &mut Step) {
        let _ = (beginning, step);
    }

    /// Handles a whole line of standard output: as it came or, if it is not understood, after a repair.
    fn line(&mut self, line: &[u8], step: &mut Step) {
        if line.iter().all(u8::is_ascii_whitespace)
            || self.read_line(OutputLine { bytes: line, repairs: None }, step)
        {
            return;
        }
        if let Some(Repaired { text, repairs }) = lenient_json::repair(line)
            && self.read_line(OutputLine { bytes: text.as_bytes(), repairs: Some(&repairs) }, step)
        {
            return step.event(RepairedLine::new(line, &repairs));
        }
        step.event(self.unrecognized(line));
        self.unreadable(line, step);
    }

    /// Handles a stop of the turn. Returns the polite way to stop the process.
    fn interrupt(&mut self, step: &mut Step) -> StopRequest;

    /// The answer does not have the shape asked for. Says who asks again; with [`Repair::SameProcess`], the
    /// question is in `step`.
    fn repair(&mut self, instruction: &str, step: &mut Step) -> Repair;

    /// The phase the turn is in, which chooses the idle limit.
    fn phase(&self) -> Phase;

    /// Handles silence of the model, also when the turn is about to end because of it. Reads the program's
    /// other reports: its record, or standard error, of which `stderr_tail` returns the end so far.
    ///
    /// Default: the program has no other reports.
    fn look(&mut self, stderr_tail: &dyn Fn() -> String, step: &mut Step) {
        let _ = (stderr_tail, step);
    }

    /// Handles the host's answer to a question of [`Step::ask`]. A question that is open when the turn stops
    /// never gets an answer: [`Translator::interrupt`] handles that.
    ///
    /// Default: the translator never asks.
    fn approved(&mut self, question: u64, answer: Result<(), Denial>, step: &mut Step) {
        let _ = (question, answer, step);
    }

    /// The caller's tools were listed, or one of them was called or has answered.
    ///
    /// Default: that is of no interest.
    fn tools_changed(&mut self, step: &mut Step) {
        let _ = step;
    }

    /// Returns true if the process accepts an input for its agent now: while a call runs, so that another model
    /// call follows it. Called after every line.
    ///
    /// Default: false, as is right for a CLI that cannot be steered.
    fn takes_input(&self) -> bool {
        false
    }

    /// Says something to the agent, as [`Translator::takes_input`] allowed. What becomes of it is in [`Step::delivered`] and
    /// [`Step::returned`], under the same number; without a word it is not delivered.
    ///
    /// Default: nothing is ever said.
    fn input(&mut self, number: u64, text: &str, step: &mut Step) {
        let _ = (text, number);
        step.returned.push(number);
    }

    /// Longest time until the process exits by itself after its answer, once its input is closed. Default: 10
    /// s, since some wait for background work.
    fn exit_grace(&self) -> Duration {
        Duration::from_secs(10)
    }

    /// The program's own tool by which its model finds the caller's tools, if they are not simply in its list.
    /// Calls of it cost nothing in [`ToolAccess::ScopedOnly`](nexus_core::ToolAccess::ScopedOnly).
    ///
    /// Default: `None`.
    fn tool_search(&self) -> Option<&'static str> {
        None
    }

    /// The process is gone and its output was read to the end. Reads the vendor's record where it keeps one,
    /// and gives the outcome if no line did.
    fn ended(&mut self, end: &ProcessEnd<'_>, step: &mut Step);
}

/// A line of standard output.
#[derive(Clone, Copy, Debug)]
pub struct OutputLine<'l> {
    /// The line, without its end of line.
    pub bytes: &'l [u8],
    /// The repairs, if it is not as it came.
    pub repairs: Option<&'l Repairs>,
}

impl OutputLine<'_> {
    /// Halves of characters at the ends of the text that the line brings.
    pub fn halves(&self) -> Halves {
        self.repairs.map(|repairs| repairs.halves).unwrap_or_default()
    }

    /// The reason why no permission may rest on the line.
    pub fn flaw(&self) -> Option<String> {
        match self.repairs {
            Some(repairs) => Some(repairs.to_string()),
            None => lenient_json::read_message(self.bytes).ok()?.flaw,
        }
    }
}

/// End of a process.
#[non_exhaustive]
#[derive(Debug)]
pub struct ProcessEnd<'a> {
    /// The exit status.
    pub exit: Option<ProcessExit>,
    /// The end of standard error, redacted.
    pub stderr_tail: &'a str,
    /// The home of the process, with the vendor's record in it.
    pub home: Option<&'a Path>,
    /// True if Nexus stopped the process.
    pub was_stopped: bool,
}

/// Request to a process to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopRequest {
    /// By what the translator wrote to its standard input.
    Written,
    /// By the signals that every process gets.
    Signals,
}

/// Process that asks the model again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// The running process.
    SameProcess,
    /// A new one, that resumes the conversation.
    NewProcess,
}

/// Results of a line: the translator fills it, the driver carries it out and empties it.
#[non_exhaustive]
#[derive(Debug, Default)]
pub struct Step {
    /// Events, in order.
    pub events: Vec<TurnEvent>,
    /// Bytes for standard input, in order.
    pub writes: Vec<Bytes>,
    /// Close standard input, after the writes.
    pub close_stdin: bool,
    /// The turn's usage so far, as the vendor reports it for the whole turn.
    pub usage: Option<Usage>,
    /// The turn's cost so far.
    pub cost: Option<Cost>,
    /// Handle with which the conversation can be resumed.
    pub resume: Option<ResumeHandle>,
    /// The model, as the vendor names it.
    pub model: Option<ModelId>,
    /// The version, as the program names it.
    pub version: Option<String>,
    /// The effort that the vendor was given, where its model takes less than the backend's range.
    pub effort: Option<AppliedEffort>,
    /// Model calls so far, where the vendor shows them.
    pub model_calls: Option<u32>,
    /// Model calls that are over, where no message of theirs states its usage or why the model stopped: for the trace.
    pub model_calls_ended: Vec<ModelCall>,
    /// The vendor's name of the conversation: for the trace.
    pub conversation: Option<String>,
    /// The program's wait before the retry that was reported last, where it is known later than the retry.
    pub retry_delay: Option<Duration>,
    /// Calls of the program's own tools that the host has to approve, each with the number by which it is answered.
    pub asks: Vec<(u64, ApprovalRequest)>,
    /// Inputs that the process says to have taken: the next request to the model has them.
    pub delivered: Vec<u64>,
    /// Inputs that the process did not take.
    pub returned: Vec<u64>,
    /// Outcome of the turn.
    pub outcome: Option<TurnOutcome>,
    /// True if a failed process is stopped at once: its further actions are not wanted.
    pub stops: bool,
}

impl Step {
    /// Adds an event.
    pub fn event(&mut self, event: impl Into<TurnEvent>) {
        self.events.push(event.into());
    }

    /// Adds something to write.
    pub fn write(&mut self, bytes: impl Into<Bytes>) {
        self.writes.push(bytes.into());
    }

    /// Asks the host about a call. The answer comes with [`Translator::approved`], under the same number.
    pub fn ask(&mut self, question: u64, request: ApprovalRequest) {
        self.asks.push((question, request));
    }

    /// The turn ended with an answer.
    pub fn answered(&mut self, finish: FinishReason) {
        self.outcome = Some(TurnOutcome::Answered { finish, output: None });
    }

    /// The turn failed, and the process must do nothing more.
    pub fn failed_and_stops(&mut self, failure: Failure) {
        self.stops = true;
        self.failed(failure);
    }

    /// The turn failed.
    pub fn failed(&mut self, failure: Failure) {
        self.outcome = Some(TurnOutcome::Failed(failure));
    }
}

/// Outcome of a turn, from the vendor's structured record.
#[derive(Debug)]
pub enum TurnOutcome {
    /// The last message is the answer.
    Answered {
        /// Why the model stopped.
        finish: FinishReason,
        /// The value that the vendor says fits the schema, if it names one apart from the text. It is
        /// checked again.
        output: Option<Value>,
    },
    /// A failure.
    Failed(Failure),
}
