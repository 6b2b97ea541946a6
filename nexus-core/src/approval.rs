//! Approval: the host's consent to single calls of an agent.

use std::{fmt, future::Future, panic::AssertUnwindSafe, path::PathBuf, sync::Arc, time::Duration};

use futures::{FutureExt as _, future::BoxFuture};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    id::ParticipantId,
    question::{AgentQuestion, QuestionReply},
    turn::ToolOrigin,
};

/// Default time limit for an answer.
const TIME_LIMIT: Duration = Duration::from_secs(300);

/// Kind of the action that needs approval.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalAction {
    /// It reads files.
    Read,
    /// It writes, moves or deletes files.
    Write,
    /// It runs a program.
    Execute,
    /// It loads something from the network.
    Fetch,
    /// It calls a caller's tool that was marked with
    /// [`ToolDefinition::needs_approval`](crate::ToolDefinition::needs_approval).
    Tool,
    /// Another or unknown action.
    Other,
}

/// One call that waits for an approval.
///
/// Its texts come from the model and from the vendor's program: before you show them to a person, escape
/// everything that a terminal or a page would treat as more than text.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// Participant of the session.
    pub participant: ParticipantId,
    /// Name of the tool.
    pub tool: String,
    /// Owner of the tool.
    pub origin: ToolOrigin,
    /// Kind of action.
    pub action: ApprovalAction,
    /// The program's title for the call, such as the command line.
    pub title: Option<String>,
    /// Files that the program names, if any. A command may touch others.
    pub paths: Vec<PathBuf>,
    /// The arguments.
    pub arguments: Value,
}

impl ApprovalRequest {
    /// Creates a request for a call of a program's own tool. The session fills in the participant.
    pub fn of_harness(tool: impl Into<String>, action: ApprovalAction, arguments: Value) -> Self {
        Self {
            participant: "".into(),
            tool: tool.into(),
            origin: ToolOrigin::Harness,
            action,
            title: None,
            paths: Vec::new(),
            arguments,
        }
    }

    /// Sets the program's title for the call.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the files that the program names.
    #[must_use]
    pub fn with_paths(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        self.paths.extend(paths);
        self
    }
}

/// The host's decision on a call that waits for an approval.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Approval {
    /// The call may run. The approval covers no other call.
    Granted,
    /// The call must not run.
    Refused {
        /// Reason for the refusal, for the model.
        reason: Option<String>,
    },
}

/// Reason why a call was not approved.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "because")]
pub enum NotApproved {
    /// The host refused the call.
    Refused {
        /// Reason for the refusal, for the model.
        reason: Option<String>,
    },
    /// The host did not answer in time.
    TimedOut,
    /// The host's approver panicked.
    Failed,
    /// The host has no approver.
    NobodyAsked,
    /// No answer yet, or the turn ended without an answer.
    Unanswered,
}

/// Requests the host's consent to calls that need approval. It is set by
/// [`TurnHost::with_approver`](crate::TurnHost::with_approver).
///
/// The approver decides on calls of the caller's tools that are marked with
/// [`ToolDefinition::needs_approval`](crate::ToolDefinition::needs_approval), on every backend. It also decides
/// on calls of a program's own tools that the access level neither allows nor forbids, on backends with
/// [`Capabilities::approvals`](crate::Capabilities::approvals). A call that the level forbids is never
/// presented, so no approval can allow it. An approved command may do everything that its user may, if the
/// program has no sandbox of its own. A call is refused without an approver, after the approver's time limit (5
/// minutes by default), and if the approver panics; the model gets the refusal and continues.
/// [`Session::decisions`](crate::Session::decisions) records every answer.
///
/// Several calls may wait at the same time; submitting an answer waits for them. The turn's deadline, its limit
/// on silent tools and its cancellation apply meanwhile. Each of them drops the approver's future, and the turn
/// then counts the effects of the call as if it had run.
///
/// The future is polled within the turn. A future that blocks its thread, for example by reading from a
/// terminal, blocks the turn and all of its limits: do such work on a thread of its own.
///
/// ```
/// use nexus_core::{Approval, ApprovalAction, Approver, TurnHost};
///
/// let host = TurnHost::new().with_approver(Approver::new(|request| async move {
///     match request.action {
///         ApprovalAction::Fetch => Approval::Granted,
///         _ => Approval::Refused { reason: Some("nobody is at the desk".into()) },
///     }
/// }));
/// # let _ = host;
/// ```
#[derive(Clone)]
pub struct Approver {
    ask: Arc<Ask>,
    answer: Option<Arc<AnswerQuestion>>,
    time_limit: Duration,
}

type Ask = dyn Fn(ApprovalRequest) -> BoxFuture<'static, Approval> + Send + Sync;
type AnswerQuestion = dyn Fn(AgentQuestion) -> BoxFuture<'static, QuestionReply> + Send + Sync;

impl Approver {
    /// Creates an approver that calls `ask` for each request.
    pub fn new<A, F>(ask: A) -> Self
    where
        A: Fn(ApprovalRequest) -> F + Send + Sync + 'static,
        F: Future<Output = Approval> + Send + 'static,
    {
        Self { ask: Arc::new(move |request| ask(request).boxed()), answer: None, time_limit: TIME_LIMIT }
    }

    /// Lets `answer` answer the questions of a vendor's program, on backends whose program can ask them. Without it, the
    /// program learns that it cannot ask, and a question that it asks nevertheless is declined.
    ///
    /// A reply whose values do not fit the question is not passed on: it counts as declined. The time limit of the
    /// approver applies to each question.
    ///
    /// ```
    /// use nexus_core::{Approval, Approver, QuestionReply};
    ///
    /// let approver = Approver::new(|_| async { Approval::Refused { reason: None } })
    ///     .with_questions(|question| async move {
    ///         println!("{} ({} fields)", question.message, question.fields().len());
    ///         QuestionReply::declined("nobody is at the desk")
    ///     });
    /// assert!(approver.takes_questions());
    /// ```
    #[must_use]
    pub fn with_questions<A, F>(mut self, answer: A) -> Self
    where
        A: Fn(AgentQuestion) -> F + Send + Sync + 'static,
        F: Future<Output = QuestionReply> + Send + 'static,
    {
        self.answer = Some(Arc::new(move |question| answer(question).boxed()));
        self
    }

    /// Returns true if it answers questions.
    pub fn takes_questions(&self) -> bool {
        self.answer.is_some()
    }

    /// Sets the longest wait for each answer. Default: 5 minutes.
    #[must_use]
    pub fn with_time_limit(mut self, time_limit: Duration) -> Self {
        self.time_limit = time_limit;
        self
    }

    /// Requests the host's decision on one call.
    ///
    /// # Errors
    ///
    /// [`NotApproved`]: the call must not run.
    pub(crate) async fn approve(&self, request: ApprovalRequest) -> Result<(), NotApproved> {
        let ask = Arc::clone(&self.ask);
        // Create the future inside, because its creation may panic too.
        let asked = AssertUnwindSafe(async move { ask(request).await }).catch_unwind();
        match tokio::time::timeout(self.time_limit, asked).await {
            Ok(Ok(Approval::Granted)) => Ok(()),
            Ok(Ok(Approval::Refused { reason })) => Err(NotApproved::Refused { reason }),
            Ok(Err(_panic)) => Err(NotApproved::Failed),
            Err(_elapsed) => Err(NotApproved::TimedOut),
        }
    }

    /// Returns the host's answer to a question, whose values fit it.
    pub(crate) async fn question(&self, question: AgentQuestion) -> QuestionReply {
        let Some(answer) = self.answer.clone() else {
            return QuestionReply::declined("the host answers no questions");
        };
        // Clone the question, because the answer is checked against it.
        let asked = question.clone();
        let answered = AssertUnwindSafe(async move { answer(asked).await }).catch_unwind();
        match tokio::time::timeout(self.time_limit, answered).await {
            Ok(Ok(QuestionReply::Answered { values })) => match question.checked_values(values) {
                Ok(values) => QuestionReply::Answered { values },
                Err(problem) => QuestionReply::declined(format!("the answer does not fit: {problem}")),
            },
            Ok(Ok(reply)) => reply,
            Ok(Err(_panic)) => QuestionReply::declined("the approver failed"),
            Err(_elapsed) => QuestionReply::Cancelled,
        }
    }
}

impl fmt::Debug for Approver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Approver").field("time_limit", &self.time_limit).finish_non_exhaustive()
    }
}

impl fmt::Display for NotApproved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { reason: None } => f.write_str("it was refused"),
            Self::Refused { reason: Some(reason) } => write!(f, "it was refused: {reason}"),
            Self::TimedOut => f.write_str("the approver did not answer in time"),
            Self::Failed => f.write_str("the approver failed"),
            Self::NobodyAsked => f.write_str("the host has no approver to ask"),
            Self::Unanswered => f.write_str("there was no answer"),
        }
    }
}
