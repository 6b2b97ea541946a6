//! What reads the output of one process: a state machine, lines in, [`Step`]s out.
//!
//! While the process runs, a translator may look at the record that the CLI keeps in its home, and does no other input
//! or output, so that a recorded transcript is its whole test.

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

    /// The turn is to stop. Says how the process is asked politely.
    fn interrupt(&mut self, step: &mut Step) -> StopRequest;

    /// The answer does not have the shape asked for. Says who asks again; with [`Repair::SameProcess`], the
    /// question is in `step`.
    fn repair(&mut self, instruction: &str, step: &mut Step) -> Repair;

    /// The phase the turn is in, which chooses the idle limit.
    fn phase(&self) -> Phase;

    /// The model has been silent for a while, or the turn is about to end because of it. Looks at what the program says of it
    /// elsewhere than in its lines: in its record, or on standard error, of which `stderr_tail` gives the end so far.
    ///
    /// Default: it says nothing elsewhere.
    fn look(&mut self, stderr_tail: &dyn Fn() -> String, step: &mut Step) {
        let _ = (stderr_tail, step);
    }

    /// The host has answered a question of [`Step::ask`]. What is not answered when the turn stops never is: whoever waits for it
    /// is told by [`Translator::interrupt`].
    ///
    /// Default: nothing is ever asked.
    fn approved(&mut self, question: u64, answer: Result<(), Denial>, step: &mut Step) {
        let _ = (question, answer, step);
    }

    /// The caller's tools were listed, or one of them was called or has answered.
    ///
    /// Default: that is of no interest.
    fn tools_changed(&mut self, step: &mut Step) {
        let _ = step;
    }

    /// Whether something that was said to the agent may be handed to the process now: while a call runs, so that the model is asked
    /// once more after it. Asked after every line.
    ///
    /// Default: never, as is right for a CLI that cannot be steered.
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

    /// How long the process may take to end by itself once it has answered and its input is closed. Default: 10 s, since some wait for
    /// background work.
    fn exit_grace(&self) -> Duration {
        Duration::from_secs(10)
    }

    /// The tool of the program's own by which its model finds the caller's tools, if they are not simply offered to
    /// it. Calls of it cost nothing in [`ToolAccess::ScopedOnly`](nexus_core::ToolAccess::ScopedOnly).
    ///
    /// Default: there is none.
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

/// How a process ended.
#[non_exhaustive]
#[derive(Debug)]
pub struct ProcessEnd<'a> {
    /// The exit status.
    pub exit: Option<ProcessExit>,
    /// The end of standard error, redacted.
    pub stderr_tail: &'a str,
    /// The home of the process, with the vendor's record in it.
    pub home: Option<&'a Path>,
    /// Whether the process was stopped by us.
    pub was_stopped: bool,
}

/// How a process is asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopRequest {
    /// By what the translator wrote to its standard input.
    Written,
    /// By the signals that every process gets.
    Signals,
}

/// Who asks the model again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// The running process.
    SameProcess,
    /// A new one, that resumes the conversation.
    NewProcess,
}

/// What follows from a line: the translator fills it, the driver carries it out and empties it.
#[non_exhaustive]
#[derive(Debug, Default)]
pub struct Step {
    /// What happened.
    pub events: Vec<TurnEvent>,
    /// What to write to standard input, in order.
    pub writes: Vec<Bytes>,
    /// Close standard input, after the writes.
    pub close_stdin: bool,
    /// The turn's usage so far, as the vendor reports it for the whole turn.
    pub usage: Option<Usage>,
    /// The turn's cost so far.
    pub cost: Option<Cost>,
    /// Where the conversation can be resumed.
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
    /// How long the program waits before the retry that was reported last, where that is learnt later than the retry.
    pub retry_delay: Option<Duration>,
    /// Calls of the program's own tools that the host has to approve, each with the number by which it is answered.
    pub asks: Vec<(u64, ApprovalRequest)>,
    /// Inputs that the process says to have taken: the next request to the model has them.
    pub delivered: Vec<u64>,
    /// Inputs that the process did not take.
    pub returned: Vec<u64>,
    /// How the turn ended.
    pub outcome: Option<TurnOutcome>,
    /// Whether a process that failed is stopped at once: nothing that it goes on to do is wanted.
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

/// How a turn ended, by the vendor's structured record.
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
    /// There is none.
    Failed(Failure),
}
