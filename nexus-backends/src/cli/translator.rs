//! Translates the output of one process. A translator is a state machine that turns lines into [`Step`]s.
//!
//! While the process runs, a translator may read the record that the CLI writes in its home. It does no other input or
//! output, so a recorded transcript tests it completely.

use std::{path::Path, str, time::Duration};

use bytes::Bytes;
use nexus_core::{
    AgentQuestion, AppliedEffort, ApprovalRequest, Cost, Denial, FinishReason, ModelId, Phase, ProcessExit,
    QuestionReply, ResumeHandle, TurnEvent, Usage,
    harness::{Failure, ModelCall},
    lenient_json::{self, Halves, Repaired, Repairs},
    turn::{RepairedLine, Unrecognized},
};
use serde::Deserialize;
use serde_json::Value;

/// Translator of one process's output into events, writes and an outcome.
pub trait Translator: std::fmt::Debug + Send {
    /// Handles the start of the process. Writes its first input, in addition to the invocation's.
    fn open(&mut self, step: &mut Step);

    /// Reads a complete line of standard output, without its line end. Returns true if the line was understood;
    /// otherwise nothing has changed.
    fn read_line(&mut self, line: OutputLine<'_>, step: &mut Step) -> bool;

    /// Returns the event for a line that was not understood.
    ///
    /// Default: the unchanged line, without a name.
    fn unrecognized(&self, line: &[u8]) -> Unrecognized {
        Unrecognized::of_line(None, line)
    }

    /// Handles an unreadable line from its beginning. Ends the turn if lines of this type end it, answers a request,
    /// and records that a piece of the answer is lost.
    ///
    /// Default: nothing depends on a single line.
    fn unreadable(&mut self, beginning: &[u8], step: &mut Step) {
        let _ = (beginning, step);
    }

    /// Handles a complete line of standard output: unchanged or, if that was not understood, after a repair.
    fn line(&mut self, line: &[u8], step: &mut Step) {
        if line.iter().all(u8::is_ascii_whitespace)
            || self.read_line(OutputLine { bytes: line, repairs: None }, step)
        {
            return;
        }
        // A repair comes second, so that a sound line is neither copied nor changed.
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

    /// Handles an answer without the required shape. Returns the process that asks again; for [`Repair::SameProcess`],
    /// `step` contains the question.
    fn repair(&mut self, instruction: &str, step: &mut Step) -> Repair;

    /// Returns the phase of the turn, which selects the idle limit.
    fn phase(&self) -> Phase;

    /// Handles silence of the model, also when the turn is about to end because of it. Reads the program's other
    /// reports: its record, or standard error, whose end `stderr_tail` returns.
    ///
    /// Default: the program has no other reports.
    fn look(&mut self, stderr_tail: &dyn Fn() -> String, step: &mut Step) {
        let _ = (stderr_tail, step);
    }

    /// Handles the host's answer to a question of [`Step::ask`]. A question that is open when the turn stops never gets
    /// an answer; [`Translator::interrupt`] must handle it.
    ///
    /// Default: the translator never asks.
    fn approved(&mut self, question: u64, answer: Result<(), Denial>, step: &mut Step) {
        let _ = (question, answer, step);
    }

    /// Handles the host's answer to a question of [`Step::question`]. As with [`Translator::approved`], a question that is
    /// open when the turn stops never gets an answer.
    ///
    /// Default: the translator never asks.
    fn replied(&mut self, question: u64, reply: QuestionReply, step: &mut Step) {
        let _ = (question, reply, step);
    }

    /// Handles the end of the turn, after its answer or failure and before the input of the process is closed. Writes the
    /// last requests to the process. Returns true if the process should answer them first: a later step then sets
    /// [`Step::close_stdin`].
    ///
    /// Default: there are none.
    fn closing(&mut self, step: &mut Step) -> bool {
        let _ = step;
        false
    }

    /// Handles a change of the caller's tools: they were listed, or a call began or ended.
    ///
    /// Default: ignored.
    fn tools_changed(&mut self, step: &mut Step) {
        let _ = step;
    }

    /// Returns true if the process accepts an input for its agent now. It does while a call runs, because another model
    /// call follows. Called after every line.
    ///
    /// Default: false, for a CLI that does not support steering.
    fn takes_input(&self) -> bool {
        false
    }

    /// Writes an input for the agent, after [`Translator::takes_input`] returned true. A later step reports its number
    /// in [`Step::delivered`] or [`Step::returned`]. Without a report the input counts as not delivered.
    ///
    /// Default: returns the input.
    fn input(&mut self, number: u64, text: &str, step: &mut Step) {
        let _ = (text, number);
        step.returned.push(number);
    }

    /// Returns the longest time until the process exits by itself after its answer, once its input is closed. Default:
    /// 10 seconds, because some programs wait for background work.
    fn exit_grace(&self) -> Duration {
        Duration::from_secs(10)
    }

    /// Returns the program's own tool with which its model finds the caller's tools, if they are not in the model's
    /// list. Its calls are free at [`ToolAccess::ScopedOnly`](nexus_core::ToolAccess::ScopedOnly).
    ///
    /// Default: `None`.
    fn tool_search(&self) -> Option<&'static str> {
        None
    }

    /// Handles the end of the process, after all its output was read. Reads the vendor's record, and sets the outcome if no line did.
    fn ended(&mut self, end: &ProcessEnd<'_>, step: &mut Step);
}

/// A line of standard output.
#[derive(Clone, Copy, Debug)]
pub struct OutputLine<'l> {
    /// Content of the line, without its line end.
    pub bytes: &'l [u8],
    /// Repairs of the line; `None` if it is unchanged.
    pub repairs: Option<&'l Repairs>,
}

impl<'l> OutputLine<'l> {
    /// Reads the line as JSON.
    ///
    /// # Errors
    ///
    /// The error of `serde_json`.
    pub fn read<T: Deserialize<'l>>(&self) -> Result<T, serde_json::Error> {
        // One check of the whole line is cheaper than those that `serde_json` makes of each string in bytes.
        match str::from_utf8(self.bytes) {
            Ok(text) => serde_json::from_str(text),
            Err(_) => serde_json::from_slice(self.bytes),
        }
    }

    /// Returns the split characters at the ends of the line's text.
    pub fn halves(&self) -> Halves {
        self.repairs.map(|repairs| repairs.halves).unwrap_or_default()
    }

    /// Returns the reason why no permission may be based on the line; `None` if it is reliable.
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
    /// Home of the process, with the vendor's record.
    pub home: Option<&'a Path>,
    /// True if Nexus stopped the process.
    pub was_stopped: bool,
}

/// Method of a request to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopRequest {
    /// The translator has written a request to standard input.
    Written,
    /// The driver must send the signals that it sends to every process.
    Signals,
}

/// Process that asks the model again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// The running process.
    SameProcess,
    /// A new process that resumes the conversation.
    NewProcess,
}

/// Results of a line. The translator fills the step; the driver executes and empties it.
#[non_exhaustive]
#[derive(Debug, Default)]
pub struct Step {
    /// Events, in order.
    pub events: Vec<TurnEvent>,
    /// Bytes for standard input, in order.
    pub writes: Vec<Bytes>,
    /// True to close standard input after the writes.
    pub close_stdin: bool,
    /// Usage of the turn so far, as the vendor reports it for the whole turn.
    pub usage: Option<Usage>,
    /// Cost of the turn so far.
    pub cost: Option<Cost>,
    /// Handle with which the conversation can be resumed.
    pub resume: Option<ResumeHandle>,
    /// Model, under the vendor's name.
    pub model: Option<ModelId>,
    /// Version that the program reports.
    pub version: Option<String>,
    /// Effort that was sent to the vendor, if its model supports less than the backend's range.
    pub effort: Option<AppliedEffort>,
    /// Number of model calls so far, if the vendor reports it.
    pub model_calls: Option<u32>,
    /// Ended model calls whose usage or stop reason no message states. Used for the trace.
    pub model_calls_ended: Vec<ModelCall>,
    /// Vendor's id of the conversation. Used for the trace.
    pub conversation: Option<String>,
    /// Wait before the retry that was reported last, if the program reports it later than the retry.
    pub retry_delay: Option<Duration>,
    /// Calls of the program's own tools that need the host's approval, each with the number of its answer.
    pub asks: Vec<(u64, ApprovalRequest)>,
    /// Questions of the program to the host, each with the number of its answer.
    pub questions: Vec<(u64, AgentQuestion)>,
    /// Numbers of approval requests and questions that need no answer any more.
    pub withdrawn: Vec<u64>,
    /// Inputs that the process has taken: its next request to the model contains them.
    pub delivered: Vec<u64>,
    /// Inputs that the process did not take.
    pub returned: Vec<u64>,
    /// Outcome of the turn.
    pub outcome: Option<TurnOutcome>,
    /// True if the process must be stopped at once after a failure, because its further actions are not wanted.
    pub stops: bool,
}

impl Step {
    /// Adds an event.
    pub fn event(&mut self, event: impl Into<TurnEvent>) {
        self.events.push(event.into());
    }

    /// Adds bytes to write.
    pub fn write(&mut self, bytes: impl Into<Bytes>) {
        self.writes.push(bytes.into());
    }

    /// Requests the host's approval of a call. [`Translator::approved`] gets the answer under the same number.
    pub fn ask(&mut self, question: u64, request: ApprovalRequest) {
        self.asks.push((question, request));
    }

    /// Puts a question to the host. [`Translator::replied`] gets the answer under the same number.
    pub fn question(&mut self, number: u64, question: AgentQuestion) {
        self.questions.push((number, question));
    }

    /// Ends the turn with an answer.
    pub fn answered(&mut self, finish: FinishReason) {
        self.outcome = Some(TurnOutcome::Answered { finish, output: None });
    }

    /// Ends the turn with a failure, and stops the process at once.
    pub fn failed_and_stops(&mut self, failure: Failure) {
        self.stops = true;
        self.failed(failure);
    }

    /// Ends the turn with a failure.
    pub fn failed(&mut self, failure: Failure) {
        self.outcome = Some(TurnOutcome::Failed(failure));
    }
}

/// Outcome of a turn, from the vendor's structured record.
#[derive(Debug)]
pub enum TurnOutcome {
    /// The last message is the answer.
    Answered {
        /// Reason why the model stopped.
        finish: FinishReason,
        /// Structured value, if the vendor reports one separately from the text. The driver validates it again.
        output: Option<Value>,
    },
    /// The turn failed.
    Failed(Failure),
}
