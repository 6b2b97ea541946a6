//! A tool call that is decided on and not yet answered.

use std::{fmt, future::Future};

use futures::future::BoxFuture;

use crate::{
    CallId, Effects, Session, ToolCall, ToolResult,
    turn::{ToolCallArguments, ToolCallFinished, ToolCallStarted, ToolCallStatus, ToolOrigin},
};

/// A tool call of the model that is decided on and not yet answered, for [`RunningTurn::run_calls`](super::RunningTurn::run_calls).
pub struct PendingCall<'a> {
    pub(super) started: ToolCallStarted,
    pub(super) arguments: ToolCallArguments,
    /// Whether it was let through, to a tool that hands in the answer.
    pub(super) is_terminal: bool,
    pub(super) answer: BoxFuture<'a, Answer>,
}

/// How a call ended.
pub(super) struct Answer {
    pub(super) result: ToolResult,
    is_denied: bool,
}

impl<'a> PendingCall<'a> {
    /// A call of a tool of the caller's: the session decides on it now, and its tool is asked when the call runs.
    ///
    /// Arguments that are no JSON are passed as the JSON string that they are: the session tells the model what is wrong.
    pub fn of_caller(session: &'a Session, call: ToolCall) -> Self {
        let permit = match session.authorize(session.token(), &call.name, &call.arguments) {
            Ok(permit) => permit,
            Err(denial) => return Self::denied(ToolOrigin::Caller, call, denial.to_string()),
        };
        let tool = permit.definition();
        let answer = session.answer(call.call.clone(), permit);
        Self { is_terminal: tool.terminal, ..Self::running(ToolOrigin::Caller, call, tool.effects, answer) }
    }

    /// A call of a tool of the backend's own, which is let through and may change `effects`.
    pub fn of_harness(
        call: ToolCall,
        effects: Effects,
        answer: impl Future<Output = ToolResult> + Send + 'a,
    ) -> Self {
        Self::running(ToolOrigin::Harness, call, effects, answer)
    }

    /// A call that is not let through: the model is told the `reason`.
    pub fn denied(origin: ToolOrigin, call: ToolCall, reason: impl Into<String>) -> Self {
        let result = ToolResult::error(reason);
        let answer = async move { Answer { result, is_denied: true } };
        Self {
            answer: Box::pin(answer),
            ..Self::running(origin, call, Effects::None, std::future::pending())
        }
    }

    fn running(
        origin: ToolOrigin,
        ToolCall { call, name, arguments }: ToolCall,
        effects: Effects,
        answer: impl Future<Output = ToolResult> + Send + 'a,
    ) -> Self {
        Self {
            started: ToolCallStarted::new(call.clone(), name, origin, effects),
            arguments: ToolCallArguments::new(call, arguments),
            is_terminal: false,
            answer: Box::pin(async move { Answer { result: answer.await, is_denied: false } }),
        }
    }
}

impl Answer {
    pub(super) fn finished(&self, call: CallId) -> ToolCallFinished {
        let status = match (self.is_denied, self.result.is_error) {
            (true, _) => ToolCallStatus::Denied,
            (false, true) => ToolCallStatus::Failed,
            (false, false) => ToolCallStatus::Succeeded,
        };
        ToolCallFinished::new(call, status, self.result.content.clone())
    }
}

impl fmt::Debug for PendingCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingCall").field("started", &self.started).finish_non_exhaustive()
    }
}
