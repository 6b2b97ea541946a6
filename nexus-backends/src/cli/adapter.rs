//! What each vendor's CLI supplies to the one driver of delegated turns: how it is started, and a state
//! machine that reads its output. While the process runs, a conversation may look at the record that the CLI
//! keeps in its home, and does no other input or output, so that a transcript in and events out is its test.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use nexus_core::{
    AppliedEffort, Availability, BackendId, Capabilities, Cost, FinishReason, ModelId, Phase, ProcessExit,
    ResumeHandle, TurnEvent, TurnRequest, Usage, harness::Failure, redact::Redactor,
};
use serde_json::Value;

use super::caller_tools::CallerTools;
use super::lent::Lent;
use super::startup::Queue;
use nexus_process::private_home::PrivateHome;
use nexus_process::run_registry::RunEntry;
use nexus_process::spawn::Invocation;

/// A vendor's CLI: what it can do, whether it is there, and how one process of it is prepared.
#[async_trait]
pub(crate) trait Cli: std::fmt::Debug + Send + Sync + 'static {
    /// Reads the output of one process.
    type Conversation: Conversation;

    /// As [`ExecutionBackend::capabilities`](nexus_core::ExecutionBackend::capabilities).
    fn capabilities(&self) -> Capabilities;

    /// As [`ExecutionBackend::probe`](nexus_core::ExecutionBackend::probe).
    async fn probe(&self) -> Availability;

    /// Makes everything ready for one process: version checked, credential borrowed, home written, arguments
    /// and environment built. Nothing is spent yet.
    ///
    /// The request has been held against [`Cli::capabilities`] and its working directory exists.
    async fn prepare(
        &self,
        plan: &TurnPlan,
        attempt: Attempt,
    ) -> Result<Prepared<Self::Conversation>, Failure>;
}

/// A turn as the driver hands it to a CLI.
#[derive(Debug)]
pub(crate) struct TurnPlan {
    /// The backend that runs it.
    pub(crate) backend: BackendId,
    /// The run: its homes are made here, so that a crash leaves nothing; its name marks every process.
    pub(crate) ledger: RunEntry,
    /// What was asked.
    pub(crate) request: Arc<TurnRequest>,
    /// The effort asked for, clamped to the backend's range.
    pub(crate) effort: Option<AppliedEffort>,
    /// The caller's tools, if there are any.
    pub(crate) tools: Option<CallerTools>,
    /// Where the process works: the request's directory made absolute, or an empty private one.
    pub(crate) working_directory: PathBuf,
    /// Whether the working directory is a private one that the request did not name.
    pub(crate) is_private_directory: bool,
    /// The folder of everything that Nexus keeps: `sessions` in it outlives a turn.
    pub(crate) nexus_home: PathBuf,
}

/// How long a turn without a deadline is taken to last, when a credential is borrowed for it.
const USUAL_LIFETIME: Duration = Duration::from_secs(3600);

/// The folder of the logins, below `$NEXUS_HOME`.
const LOGINS: &str = "auth";

impl TurnPlan {
    /// How long a credential borrowed for the turn should live.
    pub(crate) fn lifetime(&self) -> Duration {
        self.request.limits.deadline.unwrap_or(USUAL_LIFETIME)
    }

    /// The folder with the logins of Nexus's own, by each name it goes by: no tool of a model has any business there.
    /// It may not exist.
    pub(crate) fn login_folders(&self) -> Vec<PathBuf> {
        let home = std::path::absolute(&self.nexus_home).unwrap_or_else(|_| self.nexus_home.clone());
        let named = home.join(LOGINS);
        let real = named.canonicalize().or_else(|_| io::Result::Ok(home.canonicalize()?.join(LOGINS)));
        let real = real.ok().filter(|real| *real != named);
        [named].into_iter().chain(real).collect()
    }
}

/// Which process of the turn is prepared.
#[derive(Debug)]
pub(crate) enum Attempt {
    /// The first.
    First,
    /// The conversation to resume was lost, and the request says to start afresh.
    Fresh,
    /// One that asks again, because the answer did not have the shape asked for.
    Repair {
        /// What the model is told.
        instruction: String,
        /// Where the conversation goes on, as [`Step::resume`] named it.
        resume: ResumeHandle,
        /// The home of the process before, with its session in it.
        home: Option<PrivateHome>,
    },
}

/// Everything that one process needs.
#[derive(Debug)]
pub(crate) struct Prepared<C> {
    /// The process to be. The driver adds the ledger entry, the redactor, the record and the line bound.
    pub(crate) invocation: Invocation,
    /// Reads its output.
    pub(crate) conversation: C,
    /// Its hermetic home; lives until the conversation has ended and its record was read.
    pub(crate) home: Option<PrivateHome>,
    /// Takes what was lent out of the output.
    pub(crate) redactor: Redactor,
    /// What the process is lent.
    pub(crate) lent: Lent,
    /// What it waits for before it starts.
    pub(crate) queue: Queue,
    /// The version of the program, if it is known before it runs.
    pub(crate) version: Option<String>,
    /// What the caller should know before the turn starts, such as an untested version.
    pub(crate) warnings: Vec<String>,
}

/// Reads the output of one process and says what to do about it.
pub(crate) trait Conversation: std::fmt::Debug + Send {
    /// The process runs: what to write first, beyond what the invocation feeds it anyway.
    fn open(&mut self, step: &mut Step);

    /// A whole line of standard output, without its end of line.
    fn line(&mut self, line: &[u8], step: &mut Step);

    /// The turn is to stop. Says how the process is asked politely.
    fn interrupt(&mut self, step: &mut Step) -> Polite;

    /// The answer does not have the shape asked for. Says who asks again; with [`Repair::SameProcess`], the
    /// question is in `step`.
    fn repair(&mut self, instruction: &str, step: &mut Step) -> Repair;

    /// The phase the turn is in, which chooses the idle limit.
    fn phase(&self) -> Phase;

    /// The tool of the program's own by which its model finds the caller's, where they are not simply offered to it.
    fn finder(&self) -> Option<&'static str> {
        None
    }

    /// The process is gone and its output was read to the end. Reads the vendor's record where it keeps one,
    /// and gives the verdict if no line did.
    fn ended(&mut self, end: &ProcessEnd<'_>, step: &mut Step);
}

/// How a process ended.
#[derive(Debug)]
pub(crate) struct ProcessEnd<'a> {
    /// The exit status.
    pub(crate) exit: Option<ProcessExit>,
    /// The end of standard error, redacted.
    pub(crate) stderr_tail: &'a str,
    /// The home of the process, with the vendor's record in it.
    pub(crate) home: Option<&'a Path>,
    /// Whether the process was stopped by us.
    pub(crate) was_stopped: bool,
}

/// How a process is asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Polite {
    /// By what the conversation wrote to its standard input.
    Written,
    /// Not at all: go on to the signals that every process gets.
    No,
}

/// Who asks the model again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repair {
    /// The running process.
    SameProcess,
    /// A new one, that resumes the conversation.
    NewProcess,
}

/// What follows from a line: the conversation fills it, the driver carries it out and empties it.
#[derive(Debug, Default)]
pub(crate) struct Step {
    /// What happened.
    pub(crate) events: Vec<TurnEvent>,
    /// What to write to standard input, in order.
    pub(crate) writes: Vec<Bytes>,
    /// Close standard input, after the writes.
    pub(crate) close_stdin: bool,
    /// The turn's usage so far, as the vendor reports it for the whole turn.
    pub(crate) usage: Option<Usage>,
    /// The turn's cost so far.
    pub(crate) cost: Option<Cost>,
    /// Where the conversation can be taken up again.
    pub(crate) resume: Option<ResumeHandle>,
    /// The model, as the vendor names it.
    pub(crate) model: Option<ModelId>,
    /// The version, as the program names it.
    pub(crate) version: Option<String>,
    /// The effort that the vendor was given, where its model takes less than the backend's range.
    pub(crate) effort: Option<AppliedEffort>,
    /// Model calls so far, where the vendor shows them.
    pub(crate) model_calls: Option<u32>,
    /// How the turn ended.
    pub(crate) verdict: Option<Verdict>,
    /// Whether a process that failed is stopped at once: nothing that it goes on to do is wanted.
    pub(crate) stops: bool,
}

impl Step {
    /// Adds an event.
    pub(crate) fn event(&mut self, event: impl Into<TurnEvent>) {
        self.events.push(event.into());
    }

    /// Adds something to write.
    pub(crate) fn write(&mut self, bytes: impl Into<Bytes>) {
        self.writes.push(bytes.into());
    }

    /// The turn ended with an answer.
    pub(crate) fn answered(&mut self, finish: FinishReason) {
        self.verdict = Some(Verdict::Answered { finish, output: None });
    }

    /// The turn failed, and the process must do nothing more.
    pub(crate) fn failed_and_stops(&mut self, failure: Failure) {
        self.stops = true;
        self.failed(failure);
    }

    /// The turn failed.
    pub(crate) fn failed(&mut self, failure: Failure) {
        self.verdict = Some(Verdict::Failed(failure));
    }
}

/// How a turn ended, by the vendor's structured record.
#[derive(Debug)]
pub(crate) enum Verdict {
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
