//! The session that decides on calls if a turn runs on another machine than its caller.

use std::fmt;

use async_trait::async_trait;

use super::Denial;
use crate::approval::ApprovalRequest;
use crate::tool::{ToolCall, ToolResult};

/// The caller's session of a turn, as seen from another machine on which the turn runs.
///
/// The caller retains its [`Session`]: tools, scope, budget, approver and decisions. The other machine opens a session by
/// [`Session::remote`], which forwards all calls through this trait. The caller answers them with the session that it [opened
/// for the turn], by the methods named below. So the decisions, their record, and the answers for the model are the same as
/// for a turn beside its caller.
///
/// Requests arrive in order: a withdrawal reaches the caller before all later calls.
/// ```
/// use std::sync::Arc;
/// use async_trait::async_trait;
/// use nexus_core::{
///     ApprovalRequest, Denial, ParticipantScope, RemoteSession, Session, Tool, ToolCall, ToolResult, Toolbox, TurnHost,
///     TurnRequest, TurnSession,
/// };
///
/// /// Stands for a connection to the caller.
/// #[derive(Debug)]
/// struct Connection(TurnSession);
///
/// #[async_trait]
/// impl RemoteSession for Connection {
///     async fn call(&self, call: ToolCall) -> Result<ToolResult, Denial> {
///         self.0.try_call(self.0.token(), call).await
///     }
///
///     async fn approve(&self, request: ApprovalRequest) -> Result<(), Denial> {
///         self.0.approve(request).await
///     }
///
///     fn withdraw(&self, tool: &str) {
///         self.0.withdraw(tool);
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let tools = Toolbox::new().with(Tool::without_arguments("noon", "Says when.", || async { "12:00" }));
/// let session = Session::mint("clerk", ParticipantScope::unrestricted(), Arc::new(tools));
/// let host = TurnHost::new().with_session(Arc::clone(&session));
///
/// // Where the turn runs.
/// let connection = Connection(host.open_turn(&TurnRequest::new("When is it?")));
/// let remote = Session::remote("clerk", session.definitions().to_vec(), Arc::new(connection));
/// assert_eq!(remote.call(remote.token(), ToolCall::new("1", "noon", ().into())).await, ToolResult::text("12:00"));
/// assert!(remote.call(remote.token(), ToolCall::new("2", "midnight", ().into())).await.is_error);
///
/// // Where its caller is.
/// assert_eq!(session.decisions(), remote.decisions());
/// # }
/// ```
///
/// [`Session`]: super::Session
/// [`Session::remote`]: super::Session::remote
/// [opened for the turn]: crate::TurnHost::open_turn
#[async_trait]
pub trait RemoteSession: fmt::Debug + Send + Sync + 'static {
    /// Lets the caller decide on a call and answer it, by [`Session::try_call`](super::Session::try_call).
    /// Calls are passed on in the order in which their futures are first polled. Dropping a future cancels its
    /// call: its work should end.
    ///
    /// A call whose answer is lost in transit is a [`ToolResult::error`] and not a denial, because the call may have run.
    ///
    /// # Errors
    ///
    /// [`Denial`]: the tool did not run.
    async fn call(&self, call: ToolCall) -> Result<ToolResult, Denial>;

    /// Lets the caller decide on a call of a program's own tool, by [`Session::approve`](super::Session::approve). An answer
    /// that is lost in transit counts as a refusal.
    ///
    /// # Errors
    ///
    /// [`Denial`]: the call must not run.
    async fn approve(&self, request: ApprovalRequest) -> Result<(), Denial>;

    /// Reports to the caller that a tool cannot be offered to the model: [`Session::withdraw`](super::Session::withdraw).
    /// Does not wait.
    fn withdraw(&self, tool: &str);
}
