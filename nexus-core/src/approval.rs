//! Approval: what an agent may do only if somebody says so, and who is asked.

use std::{fmt, future::Future, panic::AssertUnwindSafe, path::PathBuf, sync::Arc, time::Duration};

use futures::{FutureExt as _, future::BoxFuture};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{id::ParticipantId, turn::ToolOrigin};

/// How long an answer is waited for where nothing else was set.
const TIME_LIMIT: Duration = Duration::from_secs(300);

/// What a call is for whose approval is asked for.
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
/// What it says comes from the model, and from the vendor's program: whoever shows it to a person takes care of what a terminal or
/// a page would take for more than text.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// Whose session it is.
    pub participant: ParticipantId,
    /// The tool.
    pub tool: String,
    /// Whose tool it is.
    pub origin: ToolOrigin,
    /// What it is for.
    pub action: ApprovalAction,
    /// What the program calls it, such as the command line.
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

/// What the host says of a call that waits for an approval.
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
    /// There is no answer yet, or the turn ended before there was one.
    Unanswered,
}

/// Asks the host about calls that need an approval: set by [`TurnHost::with_approver`](crate::TurnHost::with_approver).
///
/// Asked are the calls of the caller's tools that are marked with
/// [`ToolDefinition::needs_approval`](crate::ToolDefinition::needs_approval), on every backend; and calls of a program's own tools
/// that its access level neither allows nor forbids, on the backends whose
/// [`Capabilities::approvals`](crate::Capabilities::approvals) say so. What a level forbids is not asked, so no yes allows it; but a
/// command that is approved may do whatever its user may, where the program has no sandbox of its own. Without an approver, when it does not answer within its time limit (5 minutes unless set), and when it
/// panics, the answer is no; the model is told, and goes on. Every answer is in [`Session::decisions`](crate::Session::decisions).
///
/// Several calls may wait at the same time; an answer that is to be handed in waits for them. The turn's deadline, its limit on the
/// silence of tools and its cancellation hold meanwhile, and the question's future is dropped then. A turn that ends so counts the effects
/// of the call as if it had been made.
///
/// The future is polled within the turn: one that blocks its thread, as by reading from a terminal, holds up the turn and every limit of
/// it. Put such work on a thread of its own.
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
            Self::TimedOut => f.write_str("nobody answered in time"),
            Self::Failed => f.write_str("the approver failed"),
            Self::NobodyAsked => f.write_str("there is nobody to ask"),
            Self::Unanswered => f.write_str("there was no answer"),
        }
    }
}
