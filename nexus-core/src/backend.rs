//! The backend trait, and the host objects of a turn.

use std::path::{Path, PathBuf};
use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::future::BoxFuture;

use crate::{
    approval::Approver,
    availability::Availability,
    before_retry::BeforeRetry,
    budget::Budget,
    cancel::CancelToken,
    capabilities::Capabilities,
    capabilities::Support,
    error::TurnError,
    file_changes::FileChanges,
    forget::{ForgetError, Forgotten},
    id::BackendId,
    model_list::{ModelListError, ModelListing},
    scope::{ParticipantScope, Session, TurnSession},
    steering::{SteeredTurn, Steering},
    tool::{NoTools, ToolRouter},
    trace_context::TraceContext,
    turn::{EventSink, ResumeHandle, TurnRequest, TurnResult},
};

/// Runs turns on one kind of agent.
///
/// # Contract
///
/// **Life.** Work begins when the future of [`run_turn`](Self::run_turn) is first polled, and stops when the future is
/// dropped. When the drop returns, no process, task or connection of the turn is left, and the turn's result is lost. A
/// cancelled [`CancelToken`] stops the work politely, then by force. The turn then returns
/// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) with its partial result, and the error names processes that could
/// not be ended. One backend value runs any number of concurrent turns, which are isolated from each other.
///
/// **Before any cost.** A request that needs more than the [`Capabilities`] is
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported); a missing working directory is
/// [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest). If an access level cannot be enforced, the turn is
/// rejected; it never runs with wider access. Effort is clamped to the vendor's range, and the clamp is reported.
///
/// **Events.** Events arrive in the order in which they happened, and none follows the return. If a retry, a repair or a
/// fallback replaces a message, [`TurnEvent::MessageVoided`](crate::TurnEvent::MessageVoided) voids it, and it does
/// not appear in the result; other text is delivered once. A slow [`EventSink`] loses only display deltas, never a
/// tool event or the record, and it delays neither cancellation nor the deadline. An event that the backend does not
/// understand is reported as [`TurnEvent::Unrecognized`](crate::TurnEvent::Unrecognized), never dropped.
///
/// **Input.** With [`Capabilities::steering`], input by the host's [`Steering`] reaches the model between its tool
/// calls, in order and once. [`TurnEvent::InputReceived`](crate::TurnEvent::InputReceived) reports each input when it is
/// passed on. Input that was not passed on is refused at the turn's end. A backend that cannot be steered refuses input
/// immediately. A turn calls [`TurnHost::steered`] first; [`RunningTurn`](crate::harness::RunningTurn) does so.
///
/// **Outcome.** The outcome follows from the vendor's structured record, never from the model's words, and never from the
/// exit code alone. An answer that breaks off, an error in place of the answer, or a missing answer is an error. The error
/// contains the output before the failure.
///
/// **Forgetting.** [`forget`](Self::forget) deletes the data that the backend stores of a conversation. All handles of
/// one conversation are equivalent, from earlier and from later turns. After one of them is forgotten, resuming any of
/// them is [`ErrorKind::ConversationLost`](crate::ErrorKind::ConversationLost). Callers may pass any handle: a handle that
/// this backend did not create deletes nothing. A conversation with a running turn is not deleted. If the handle itself
/// contains the conversation ([`ForgetSupport::InHandle`](crate::ForgetSupport::InHandle)), nothing is stored, and
/// copies of the handle stay valid. `forget` does not delete data on a vendor's server.
///
/// **Secrets.** No secret appears in an event, a result, an error, a log or an argument list.
///
/// The methods that a turn needs have no defaults, because a wrapper could forget to forward them. Extension methods are in
/// [`ExecutionBackendExt`](crate::ExecutionBackendExt).
/// # Implementing it
///
/// [`RunningTurn`](crate::harness::RunningTurn) implements most of the contract: admission, limits, cancellation, the
/// record, and the sink. This backend calls no model, and answers immediately; [`harness`](crate::harness) shows a backend
/// that calls a model, repairs and waits.
/// ```
/// use async_trait::async_trait;
/// use nexus_core::{
///     AccessSupport, Availability, BackendId, Capabilities, ErrorKind, EventSink, ExecutionBackend,
///     ExecutionBackendExt as _, FinishReason, ForgetError, Forgotten, LoopMode, ResumeHandle, AccessEnforcer, TurnError,
///     TurnHost, TurnRequest, TurnResult,
///     harness::RunningTurn, turn::MessageEnded,
/// };
///
/// /// Counts the words of its prompt.
/// #[derive(Debug)]
/// struct WordCounter {
///     id: BackendId,
/// }
///
/// #[async_trait]
/// impl ExecutionBackend for WordCounter {
///     fn id(&self) -> &BackendId {
///         &self.id
///     }
///
///     // `RunningTurn::begin` rejects every request that needs more than is declared here.
///     fn capabilities(&self) -> Capabilities {
///         let mut capabilities = Capabilities::new(LoopMode::Native);
///         capabilities.access.scoped_only = AccessSupport::Kept(AccessEnforcer::None);
///         capabilities
///     }
///
///     async fn probe(&self) -> Availability {
///         Availability::ready(None)
///     }
///
///     async fn run_turn(
///         &self,
///         request: TurnRequest,
///         host: TurnHost,
///         events: &mut dyn EventSink,
///     ) -> Result<TurnResult, TurnError> {
///         let mut turn = RunningTurn::begin(&self.id, &self.capabilities(), request, host, events)?;
///         let words = turn.request.prompt_text().split_whitespace().count();
///         turn.event(MessageEnded::new("answer".into(), format!("{words} words")));
///         turn.end(Ok((FinishReason::Stop, None))).await
///     }
///
///     // It stores no conversation.
///     async fn forget(&self, _handle: &ResumeHandle) -> Result<Forgotten, ForgetError> {
///         Err(ForgetError::Unsupported { backend: self.id.clone() })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), TurnError> {
/// let counter = WordCounter { id: BackendId::new("word-counter") };
/// assert_eq!(counter.run_text(TurnRequest::new("How many are these?")).await?.text, "4 words");
///
/// let with_system = TurnRequest::new("And now?").with_system("Be brief.");
/// assert_eq!(counter.run_text(with_system).await.unwrap_err().kind(), ErrorKind::Unsupported);
/// # Ok(())
/// # }
/// ```
///
/// The conformance suite of `nexus-turn-testkit` verifies this contract for any implementation.
#[async_trait]
pub trait ExecutionBackend: fmt::Debug + Send + Sync + 'static {
    /// Returns the id of this backend, for logs, errors and `nexus.yaml`.
    fn id(&self) -> &BackendId;

    /// Returns the abilities of this backend. They never change for a given value.
    fn capabilities(&self) -> Capabilities;

    /// Checks if a turn could start now, without a model call or a side effect. It may contact a server.
    async fn probe(&self) -> Availability;

    /// Runs one turn to its end.
    ///
    /// # Errors
    ///
    /// Every [`ErrorKind`](crate::ErrorKind) except `Exhausted`, which only a router returns.
    async fn run_turn(
        &self,
        request: TurnRequest,
        host: TurnHost,
        events: &mut dyn EventSink,
    ) -> Result<TurnResult, TurnError>;

    /// Returns true if this backend can continue the conversation of a handle. Default: true for its own handles. A backend
    /// whose handles contain the whole conversation can continue those of its siblings too.
    fn can_resume(&self, handle: &ResumeHandle) -> bool {
        handle.backend() == self.id()
    }

    /// Deletes the data that this backend stores of a conversation. Needs no model call and no credential. A second call returns
    /// [`Forgotten::WasGone`].
    ///
    /// # Errors
    ///
    /// [`ForgetError::InvalidHandle`], [`InUse`](ForgetError::InUse), [`Unsupported`](ForgetError::Unsupported): nothing was deleted.
    /// [`Failed`](ForgetError::Failed): a part may be deleted.
    async fn forget(&self, handle: &ResumeHandle) -> Result<Forgotten, ForgetError>;

    /// Lists the models that the backend's server offers, without a model call. No turn uses it. A wrapper forwards it.
    ///
    /// # Errors
    ///
    /// [`ModelListError::Unsupported`], the default, or [`ModelListError::Failed`].
    async fn models(&self) -> Result<ModelListing, ModelListError> {
        Err(ModelListError::Unsupported { backend: self.id().clone(), advice: None })
    }

    /// Returns the files of a project that this backend adds to the instructions of a turn with file access in `folder`, such as
    /// `AGENTS.md`, in their order. Default: none. A program that this backend starts may read further files by itself. A wrapper
    /// forwards it. Blocks.
    fn project_instructions(&self, _folder: &Path) -> Vec<PathBuf> {
        Vec::new()
    }
}

/// Implements the trait for a pointer to a backend.
macro_rules! backend_behind {
    ($($pointer:ident),*) => {$(
        #[async_trait]
        impl<T: ExecutionBackend + ?Sized> ExecutionBackend for $pointer<T> {
            fn id(&self) -> &BackendId {
                (**self).id()
            }

            fn capabilities(&self) -> Capabilities {
                (**self).capabilities()
            }

            async fn probe(&self) -> Availability {
                (**self).probe().await
            }

            // Written out as `async_trait` would write it, without a second future around the first, which
            // would store the request for as long as the turn lasts.
            fn run_turn<'s, 'e, 't>(
                &'s self,
                request: TurnRequest,
                host: TurnHost,
                events: &'e mut dyn EventSink,
            ) -> BoxFuture<'t, Result<TurnResult, TurnError>>
            where
                's: 't,
                'e: 't,
                Self: 't,
            {
                (**self).run_turn(request, host, events)
            }

            fn can_resume(&self, handle: &ResumeHandle) -> bool {
                (**self).can_resume(handle)
            }

            async fn forget(&self, handle: &ResumeHandle) -> Result<Forgotten, ForgetError> {
                (**self).forget(handle).await
            }

            async fn models(&self) -> Result<ModelListing, ModelListError> {
                (**self).models().await
            }

            fn project_instructions(&self, folder: &Path) -> Vec<PathBuf> {
                (**self).project_instructions(folder)
            }
        }
    )*};
}
backend_behind!(Arc, Box);

/// Objects that exist only while the turn of a request runs.
///
/// The caller's tools are always behind a [`Session`]: no backend receives the tools themselves. Clones share the session, its budget
/// and its decisions. Give each participant that must be distinguished, such as a seat of a panel, a session of its own.
///
/// ```
/// use std::sync::Arc;
/// use nexus_core::{ParticipantScope, Session, Tool, Toolbox, TurnHost, scope::Brief};
///
/// let tools = Toolbox::new()
///     .with(Tool::without_arguments("read_notes", "Reads the notes.", || async { "none yet" }).read_only())
///     .with(Tool::without_arguments("publish", "Publishes them.", || async {}));
/// let brief = Brief::new(std::env::temp_dir()).tool("read_*".parse()?);
/// let scope = ParticipantScope::assemble(&brief, None, None)?;
/// let session = Session::mint_with_budget("reader", scope, Arc::new(tools), 20);
/// let host = TurnHost::new().with_session(Arc::clone(&session));
/// assert_eq!(host.session().definitions().len(), 1);
/// // Run any number of turns with the host. Then see what was called:
/// for decision in session.decisions() {
///     println!("{} {} {:?}", decision.tool, decision.arguments, decision.outcome);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct TurnHost {
    session: Arc<Session>,
    /// Token by which the caller stops the turn.
    pub cancel: CancelToken,
    /// Context of the turn's span, for the programs that run the turn. It is not sent to servers, because those belong to other
    /// people.
    pub trace_context: Option<TraceContext>,
    /// Hook that reverts the changes of a failed attempt, for the fallback rule `restore`. A backend does not use it.
    pub before_retry: Option<BeforeRetry>,
    /// Hook that reports the changes in the turn's files, for the fallback rule `continue`. A backend does not use it.
    pub file_changes: Option<FileChanges>,
    /// Decides on calls that need approval. The session of the turn uses it ([`TurnHost::open_turn`]).
    pub approver: Option<Approver>,
    /// Sends input to the agent while the turn runs. A backend reads it with [`TurnHost::steered`].
    pub steering: Option<Steering>,
    /// Budget that this turn shares with others. The router enforces it and passes no budget to a backend.
    pub budget: Option<Budget>,
    /// Longest time that the turn may wait, in all, for backends that refuse turns until a time. `None` if it does not wait. A backend
    /// does not use it.
    pub longest_wait: Option<Duration>,
    /// Problems that the caller found before the turn, such as tools that are missing. The router reports them as the first events.
    /// A backend does not use them.
    pub warnings: Vec<String>,
}

impl TurnHost {
    /// Creates a host without tools, and with a cancel token of its own.
    pub fn new() -> Self {
        Self {
            session: unscoped(Arc::new(NoTools)),
            cancel: CancelToken::new(),
            trace_context: None,
            before_retry: None,
            file_changes: None,
            approver: None,
            steering: None,
            budget: None,
            longest_wait: None,
            warnings: Vec::new(),
        }
    }

    /// Offers all of these tools to the agent, on every path. To restrict the agent to a scope, use [`TurnHost::with_session`].
    #[must_use]
    pub fn with_tools(mut self, tools: Arc<dyn ToolRouter>) -> Self {
        self.session = unscoped(tools);
        self
    }

    /// Offers the tools in a session's scope. Afterwards the session has the calls and the decisions.
    #[must_use]
    pub fn with_session(mut self, session: Arc<Session>) -> Self {
        self.session = session;
        self
    }

    /// Stops the turn when `cancel` is cancelled.
    #[must_use]
    pub fn with_cancel(mut self, cancel: CancelToken) -> Self {
        self.cancel = cancel;
        self
    }

    /// Passes the trace context to the programs that run the turn.
    #[must_use]
    pub fn with_trace_context(mut self, trace_context: impl Into<Option<TraceContext>>) -> Self {
        self.trace_context = trace_context.into();
        self
    }

    /// Lets `hook` restore the state before a failed attempt, before another backend gets the turn. Only the
    /// fallback rule `restore` needs and calls it.
    ///
    /// ```
    /// use nexus_core::{BeforeRetry, FailedAttempt, TurnHost};
    ///
    /// let host = TurnHost::new().with_before_retry(BeforeRetry::new(|attempt: FailedAttempt| async move {
    ///     println!("{} failed ({}): the tree goes back before {} runs", attempt.backend, attempt.reason, attempt.next);
    ///     // Restore the files that the attempt may have changed, and withdraw its submitted answer.
    ///     Ok::<(), std::io::Error>(())
    /// }));
    /// # let _ = host;
    /// ```
    #[must_use]
    pub fn with_before_retry(mut self, hook: BeforeRetry) -> Self {
        self.before_retry = Some(hook);
        self
    }

    /// Lets `hook` describe the changes in the turn's files for a backend that continues the work of another one. The fallback rule
    /// `continue` calls the hook. Without a hook that backend receives only the record of the calls.
    ///
    /// If files change during the run of a backend that reports no effects, the chain ends. A change by another program has the same
    /// result.
    #[must_use]
    pub fn with_file_changes(mut self, hook: FileChanges) -> Self {
        self.file_changes = Some(hook);
        self
    }

    /// Lets `approver` decide on calls that need approval. Without an approver every such call is denied.
    #[must_use]
    pub fn with_approver(mut self, approver: Approver) -> Self {
        self.approver = Some(approver);
        self
    }

    /// Lets `steering` send input to the agent while the turn runs. Use one `steering` per turn. If several hosts share it, for
    /// example as clones, each input goes to only one of their turns.
    #[must_use]
    pub fn with_steering(mut self, steering: Steering) -> Self {
        self.steering = Some(steering);
        self
    }

    /// Begins to accept or refuse steering input, for the code that runs the turn. The input ends when the returned value is dropped,
    /// so store the value until the turn's outcome is known. A layer above backends, such as a router, has a value of its own around
    /// those of the backends.
    #[must_use = "the turn ends for its senders when this is dropped"]
    pub fn steered(&self, support: Support) -> SteeredTurn {
        SteeredTurn::begin(self.steering.clone(), support)
    }

    /// Books the turn in a shared budget, and limits it by the rest of the budget. The router does both. A program without a router
    /// reserves and settles itself ([`Budget::reserve`]).
    #[must_use]
    pub fn with_budget(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Lets the turn wait where every backend that could run it refuses turns until a time, such as the reset of a plan. The turn goes
    /// on at that time, or as soon as one of them takes turns again. `longest` limits the waits of the turn together: a turn that
    /// would have to wait longer ends at once with the refusal. The turn's deadline does not include its waits.
    ///
    /// The router waits, and reports each wait as a [`WaitingForReset`](crate::turn::WaitingForReset) event. Work that an earlier
    /// backend left is handled as if another backend took over, so a turn waits only where that is allowed.
    #[must_use]
    pub fn with_longest_wait(mut self, longest: impl Into<Option<Duration>>) -> Self {
        self.longest_wait = longest.into();
        self
    }

    /// Reports problems that the caller found before the turn. The router sends each as a [`Warning`](crate::turn::Warning) event.
    #[must_use]
    pub fn with_warnings(mut self, warnings: impl IntoIterator<Item = String>) -> Self {
        self.warnings.extend(warnings);
        self
    }

    /// Returns the caller's session. A turn uses a session of its own: [`TurnHost::open_turn`].
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the caller's tools behind the caller's session, for a layer that wraps them. A backend opens a turn instead.
    pub fn tools(&self) -> Arc<dyn ToolRouter> {
        Session::router(&self.session)
    }

    /// Opens the session of one turn, from which a backend serves the caller's tools. The session ends when it is dropped. It
    /// enforces the limit on tool calls of `request` in addition to the session's own rules, and requests approvals from the host's
    /// approver.
    ///
    /// A layer that gives one request to several backends in turn must lower that limit by the number of earlier calls. The budget of
    /// the caller's session covers all of them.
    pub fn open_turn(&self, request: &TurnRequest) -> TurnSession {
        self.session.for_turn_asking(request.limits.tool_calls, self.approver.as_ref())
    }
}

/// Creates an unrestricted session for tools that came without one.
fn unscoped(tools: Arc<dyn ToolRouter>) -> Arc<Session> {
    Session::mint("caller", ParticipantScope::unrestricted(), tools)
}

impl Default for TurnHost {
    fn default() -> Self {
        Self::new()
    }
}
