//! Approval: calls of an agent that need consent, and the host that decides on them.

use std::{fmt, future::Future, panic::AssertUnwindSafe, path::PathBuf, sync::Arc, time::Duration};

use futures::{FutureExt as _, future::BoxFuture};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{id::ParticipantId, turn::ToolOrigin};

/// Default wait for an answer.
const TIME_LIMIT: Duration = Duration::from_secs(300);

/// Kind of action that a call needs approval for.
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
    /// It calls a tool of the caller's that was marked with
    /// [`ToolDefinition::needs_approval`](crate::ToolDefinition::needs_approval).
    Tool,
    /// Anything else, or it is not known what.
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
    /// The tool.
    pub tool: String,
    /// Owner of the tool.
    pub origin: ToolOrigin,
    /// Kind of action.
    pub action: ApprovalAction,
    /// The program's own title of the call, such as the command line.
    pub title: Option<String>,
    /// The files that it names, if the program names any. A command may touch others.
    pub paths: Vec<PathBuf>,
    /// The arguments.
    pub arguments: Value,
}

impl ApprovalRequest {
    /// A call of a tool of the program's own. The session that asks fills in whose it is.
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

    /// Says what the program calls it.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Names the files.
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
    /// This call may be made. It holds for no other.
    Granted,
    /// It may not.
    Refused {
        /// Why, for the model.
        reason: Option<String>,
    },
}

/// Why a call was not approved.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "because")]
pub enum NotApproved {
    /// The host said no.
    Refused {
        /// Why, for the model.
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

/// Asks the host about calls that need an approval: set by
/// [`TurnHost::with_approver`](crate::TurnHost::with_approver).
///
/// It decides on calls of the caller's tools that are marked with
/// [`ToolDefinition::needs_approval`](crate::ToolDefinition::needs_approval), on every backend. It also decides
/// on calls of a program's own tools that the access level neither allows nor forbids, on backends with
/// [`Capabilities::approvals`](crate::Capabilities::approvals). A call that the level forbids is never
/// presented, so no approval can allow it. An approved command may do everything that its user may, if the
/// program has no sandbox of its own. A call is refused without an approver, after the approver's time limit (5
/// minutes by default), and if the approver panics; the model gets the refusal and continues.
/// [`Session::decisions`](crate::Session::decisions) records every answer.
///
/// Several calls may wait at the same time; submitting an answer waits for them. The turn's deadline, its limit
/// on silent tools and its cancellation apply meanwhile, and drop the approver's future. A turn that ends so
/// counts the effects of the call as if it had been made.
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
    time_limit: Duration,
}

type Ask = dyn Fn(ApprovalRequest) -> BoxFuture<'static, Approval> + Send + Sync;

impl Approver {
    /// Asks by `ask`.
    pub fn new<A, F>(ask: A) -> Self
    where
        A: Fn(ApprovalRequest) -> F + Send + Sync + 'static,
        F: Future<Output = Approval> + Send + 'static,
    {
        Self { ask: Arc::new(move |request| ask(request).boxed()), time_limit: TIME_LIMIT }
    }

    /// Waits for each answer for at most so long. Default: 5 minutes.
    #[must_use]
    pub fn with_time_limit(mut self, time_limit: Duration) -> Self {
        self.time_limit = time_limit;
        self
    }

    /// Asks about one call.
    ///
    /// # Errors
    ///
    /// [`NotApproved`]: the call may not be made.
    pub(crate) async fn approve(&self, request: ApprovalRequest) -> Result<(), NotApproved> {
        let ask = Arc::clone(&self.ask);
        // Also the making of the future may panic, so that happens inside.
        let asked = AssertUnwindSafe(async move { ask(request).await }).catch_unwind();
        match tokio::time::timeout(self.time_limit, asked).await {
            Ok(Ok(Approval::Granted)) => Ok(()),
            Ok(Ok(Approval::Refused { reason })) => Err(NotApproved::Refused { reason }),
            Ok(Err(_panic)) => Err(NotApproved::Failed),
            Err(_elapsed) => Err(NotApproved::TimedOut),
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
