//! Kinds of failures, named for what the caller can do next.

use serde::{Deserialize, Serialize};

/// Kind of a turn's failure, named for what the caller can do next.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The program is missing or cannot be run. Install it, or set its path.
    NotInstalled,
    /// No credential was found, or the vendor refused it. Log in again.
    Unauthenticated,
    /// The credential is valid but lacks the permission. Ask the administrator of the account.
    Forbidden,
    /// The vendor limits the rate of requests. [`TurnError::retry`](super::TurnError::retry) has the wait.
    RateLimited,
    /// The plan or the budget is used up. [`TurnError::retry`](super::TurnError::retry) has the time of its reset, if the
    /// vendor names one.
    UsageLimit,
    /// The vendor has no capacity. Try later, or elsewhere.
    Overloaded,
    /// The vendor does not offer the model, at least not to this account. Name another model.
    ModelUnavailable,
    /// The conversation exceeds the model's context window. Shorten it.
    ContextExceeded,
    /// The request is invalid. Fix it.
    InvalidRequest,
    /// The backend lacks an ability that the request needs. Use another backend, or request less.
    Unsupported,
    /// The model, or the vendor's filter, declined to answer.
    Refused,
    /// The answer broke off, for example at the output limit, or is missing. The partial result has the
    /// received part.
    Incomplete,
    /// The answer does not fit the output schema, even after all repairs.
    OutputInvalid,
    /// The conversation to resume no longer exists.
    ConversationLost,
    /// The caller's tools did not reach the agent.
    ToolsUnavailable,
    /// The agent needs an approval, and no approver exists.
    ApprovalRequired,
    /// The vendor would bill the credential differently from the configuration. Nothing was spent.
    BillingMismatch,
    /// A limit of the request was reached.
    LimitReached(Limit),
    /// The turn was silent for longer than the request allows in this phase.
    Starved(Phase),
    /// The caller cancelled the turn.
    Cancelled,
    /// The program ended without reporting the end of the turn. See [`TurnError::process`](super::TurnError::process).
    Crashed,
    /// The connection to the vendor failed.
    Transport,
    /// The vendor's data could not be read. Report it, with the cause.
    Protocol,
    /// The vendor reported a failure of no other kind.
    VendorFailure,
    /// Every backend of the chain was tried or skipped. See [`TurnError::skipped`](super::TurnError::skipped).
    Exhausted,
}

impl ErrorKind {
    /// Returns true if the backend could not run the turn, so that another backend may. The backend is not set up, refuses for
    /// now, lacks something, or failed. Returns false for answers, the caller's own limits, and requests that must change.
    pub fn could_not_run(self) -> bool {
        // No wildcard: each new kind needs a decision about fallback here.
        match self {
            Self::NotInstalled
            | Self::Unauthenticated
            | Self::Forbidden
            | Self::BillingMismatch
            | Self::RateLimited
            | Self::UsageLimit
            | Self::Overloaded
            | Self::ModelUnavailable
            | Self::Unsupported
            | Self::ToolsUnavailable
            | Self::Transport
            | Self::Crashed
            | Self::Protocol
            | Self::VendorFailure
            | Self::Exhausted
            | Self::Starved(Phase::Start | Phase::FirstByte | Phase::Model) => true,
            Self::ContextExceeded
            | Self::InvalidRequest
            | Self::Refused
            | Self::Incomplete
            | Self::OutputInvalid
            | Self::ConversationLost
            | Self::ApprovalRequired
            | Self::LimitReached(_)
            | Self::Starved(Phase::Tool)
            | Self::Cancelled => false,
        }
    }

    /// Returns the kind as a lowercase phrase that follows a backend's name.
    pub(super) fn phrase(self) -> &'static str {
        match self {
            Self::NotInstalled => "is not installed",
            Self::Unauthenticated => "is not logged in",
            Self::Forbidden => "does not permit this request",
            Self::RateLimited => "is rate limited",
            Self::UsageLimit => "has used up its plan or budget",
            Self::Overloaded => "is overloaded",
            Self::ModelUnavailable => "does not have the model",
            Self::ContextExceeded => "ran out of room for the conversation",
            Self::InvalidRequest => "cannot run the request in this form",
            Self::Unsupported => "does not support a feature that the request needs",
            Self::Refused => "declined to answer",
            Self::Incomplete => "gave no complete answer",
            Self::OutputInvalid => "did not answer in the requested format",
            Self::ConversationLost => "no longer has the conversation",
            Self::ToolsUnavailable => "did not get the caller's tools",
            Self::ApprovalRequired => "asked for an approval, but no approver is configured",
            Self::BillingMismatch => "would be billed differently than configured",
            Self::LimitReached(limit) => match limit {
                Limit::Deadline => "reached the deadline",
                Limit::ToolCalls => "reached the limit of tool calls",
                Limit::ModelCalls => "reached the limit of model calls",
                Limit::OutputTokens => "reached the limit of output tokens",
                Limit::Cost => "reached the cost limit",
                Limit::Budget => "reached the end of the budget",
                Limit::RepeatedCalls => "made the same call over and over",
            },
            Self::Starved(phase) => match phase {
                Phase::Start => "did not start in time",
                Phase::FirstByte => "got no answer from the model in time",
                Phase::Model => "received nothing from the model for too long",
                Phase::Tool => "received nothing from a tool for too long",
            },
            Self::Cancelled => "was cancelled",
            Self::Crashed => "ended without an outcome",
            Self::Transport => "lost its connection",
            Self::Protocol => "sent data that cannot be read",
            Self::VendorFailure => "reports a failure",
            Self::Exhausted => "has no backend left to run the turn",
        }
    }
}

/// Limit of [`Limits`](crate::Limits) that was reached.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Duration of the turn.
    Deadline,
    /// Number of tool calls.
    ToolCalls,
    /// Number of requests to the model.
    ModelCalls,
    /// Number of output tokens.
    OutputTokens,
    /// Cost of the turn.
    Cost,
    /// The rest of the [`Budget`](crate::Budget) that many turns share.
    Budget,
    /// Repetitions of one call with the same answer.
    RepeatedCalls,
}

/// A part of a turn with its own silence limit.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// From the start to the first sign of life of the program or server.
    Start,
    /// From a model call to the first sign of an answer.
    FirstByte,
    /// While the model answers.
    Model,
    /// While a tool runs.
    Tool,
}
