//! A tool call without a result yet.

use std::{
    fmt,
    future::{Future, ready},
};

use futures::{FutureExt as _, future::BoxFuture};

use crate::{
    CallId, Denial, Effects, Session, ToolCall, ToolResult,
    turn::{ToolCallArguments, ToolCallFinished, ToolCallStarted, ToolCallStatus, ToolOrigin},
};

/// A tool call of the model without a result yet, for [`RunningTurn::run_calls`](super::RunningTurn::run_calls).
pub struct PendingCall<'a> {
    call: ToolCall,
    answers: AnswerSource<'a>,
}

/// Source of a call's result.
enum AnswerSource<'a> {
    /// A tool of the caller, if the session allows the call.
    Caller(&'a Session),
    /// A tool of the backend.
    Harness(Effects, BoxFuture<'a, ToolResult>),
    /// No tool: the call is denied, for this reason.
    Denied(ToolOrigin, String),
}

/// Call with a decision.
pub(super) struct DecidedCall<'a> {
    pub(super) started: ToolCallStarted,
    pub(super) arguments: ToolCallArguments,
    pub(super) answer: BoxFuture<'a, CallResult>,
}

/// Result of a call.
pub(super) struct CallResult {
    pub(super) result: ToolResult,
    is_denied: bool,
}

impl<'a> PendingCall<'a> {
    /// Creates a call of a caller's tool. When the call runs, the session decides on it and then runs the tool.
    ///
    /// Malformed arguments are passed on as a JSON string, and the session reports the fault to the model.
    pub fn of_caller(session: &'a Session, call: ToolCall) -> Self {
        Self { call, answers: AnswerSource::Caller(session) }
    }

    /// Creates an allowed call of the backend's own tool, which may have these `effects`.
    pub fn of_harness(
        call: ToolCall,
        effects: Effects,
        answer: impl Future<Output = ToolResult> + Send + 'a,
    ) -> Self {
        Self { call, answers: AnswerSource::Harness(effects, Box::pin(answer)) }
    }

    /// Creates a denied call. The model gets the `reason`.
    pub fn denied(origin: ToolOrigin, call: ToolCall, reason: impl Into<String>) -> Self {
        Self { call, answers: AnswerSource::Denied(origin, reason.into()) }
    }

    /// Returns true for a call of the backend's own tool.
    pub(super) fn is_own(&self) -> bool {
        matches!(self.answers, AnswerSource::Harness(..) | AnswerSource::Denied(ToolOrigin::Harness, _))
    }

    /// Returns true for a call that may submit the answer.
    pub(super) fn is_terminal(&self) -> bool {
        matches!(self.answers, AnswerSource::Caller(session) if session.is_terminal(&self.call.name))
    }

    /// Lets the session decide on the call now.
    pub(super) fn decide(self) -> DecidedCall<'a> {
        let Self { call, answers } = self;
        let (origin, effects, answer): (_, _, BoxFuture<'a, CallResult>) = match answers {
            AnswerSource::Caller(session) => {
                // The call comes from the turn's own loop and not from outside, so it carries no token.
                match session.authorize(session.token(), &call.name, &call.arguments) {
                    Ok(permit) => {
                        let effects = permit.definition().effects;
                        let answer = session.answer(call.call.clone(), permit);
                        (ToolOrigin::Caller, effects, Box::pin(answer.map(CallResult::of_caller)))
                    }
                    Err(denial) => {
                        // The tool does not run, so its possible effects must not prevent a fallback.
                        (ToolOrigin::Caller, Effects::None, CallResult::denied(denial.to_string()))
                    }
                }
            }
            AnswerSource::Harness(effects, answer) => {
                (ToolOrigin::Harness, effects, Box::pin(answer.map(CallResult::of_tool)))
            }
            AnswerSource::Denied(origin, reason) => (origin, Effects::None, CallResult::denied(reason)),
        };
        let ToolCall { call, name, arguments } = call;
        DecidedCall {
            started: ToolCallStarted::new(call.clone(), name, origin, effects),
            arguments: ToolCallArguments::new(call, arguments),
            answer,
        }
    }
}

impl CallResult {
    fn of_tool(result: ToolResult) -> Self {
        Self { result, is_denied: false }
    }

    fn of_caller(answered: Result<ToolResult, Denial>) -> Self {
        match answered {
            Ok(result) => Self::of_tool(result),
            // The session can still deny a call that it allowed, for example if the host refuses the
            // approval.
            Err(denial) => Self { result: ToolResult::error(denial.to_string()), is_denied: true },
        }
    }

    fn denied<'a>(reason: String) -> BoxFuture<'a, Self> {
        Box::pin(ready(Self { result: ToolResult::error(reason), is_denied: true }))
    }

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
        f.debug_struct("PendingCall").field("call", &self.call).finish_non_exhaustive()
    }
}
