//! Limits of a turn.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Usd;
use crate::error::Phase;

/// Limits of a turn, which end it with [`ErrorKind::LimitReached`](crate::ErrorKind::LimitReached).
///
/// `None` means unlimited. [`Capabilities::limits`](crate::Capabilities::limits) names the enforcer of each
/// limit on a given backend. A turn with a limit that the backend cannot enforce is rejected before it
/// starts.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Longest duration of the turn, from the first poll to the return.
    pub deadline: Option<Duration>,
    /// Longest silence, by phase.
    pub idle: IdleLimits,
    /// Maximum number of tool calls, without the caller's terminal tools.
    pub tool_calls: Option<u32>,
    /// Maximum number of requests to the model. A vendor's program may report a request only after the request and its
    /// tools have ended. The request above the limit has then already run, and the next one may be running.
    pub model_calls: Option<u32>,
    /// Maximum number of output tokens as the vendor counts them, including reasoning. Checked after each model call.
    pub output_tokens: Option<u64>,
    /// Highest cost. Checked after each model call, so a turn may exceed the limit by one call.
    pub cost: Option<Usd>,
}

/// Longest silence in each phase of a turn, which ends it with
/// [`ErrorKind::Starved`](crate::ErrorKind::Starved).
///
/// A running tool does not count as silence of the model. While a tool runs, only [`IdleLimits::tool`]
/// applies; by default only the deadline ends the turn.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IdleLimits {
    /// From the start to the first sign of life of the program or server. Default: 60 seconds.
    pub start: Option<Duration>,
    /// From a model call to the first sign of an answer. Default: 300 seconds.
    pub first_byte: Option<Duration>,
    /// Between two signs of an answer. Default: 300 seconds.
    pub model: Option<Duration>,
    /// While a tool runs. Default: no limit.
    pub tool: Option<Duration>,
}

impl Default for IdleLimits {
    fn default() -> Self {
        Self {
            start: Some(Duration::from_secs(60)),
            first_byte: Some(Duration::from_secs(300)),
            model: Some(Duration::from_secs(300)),
            tool: None,
        }
    }
}

impl IdleLimits {
    /// Returns limits that are disabled in every phase.
    pub fn none() -> Self {
        Self { start: None, first_byte: None, model: None, tool: None }
    }

    /// Sets the limit of one phase.
    #[must_use]
    pub fn with(mut self, phase: Phase, limit: impl Into<Option<Duration>>) -> Self {
        let limit = limit.into();
        match phase {
            Phase::Start => self.start = limit,
            Phase::FirstByte => self.first_byte = limit,
            Phase::Model => self.model = limit,
            Phase::Tool => self.tool = limit,
        }
        self
    }

    /// Returns the limit of one phase.
    pub fn of(&self, phase: Phase) -> Option<Duration> {
        match phase {
            Phase::Start => self.start,
            Phase::FirstByte => self.first_byte,
            Phase::Model => self.model,
            Phase::Tool => self.tool,
        }
    }
}

impl Limits {
    /// Returns limits with only the default idle limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Limits the duration of the turn.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Replaces the idle limits.
    #[must_use]
    pub fn with_idle(mut self, idle: IdleLimits) -> Self {
        self.idle = idle;
        self
    }

    /// Limits the number of tool calls.
    #[must_use]
    pub fn with_tool_calls(mut self, calls: u32) -> Self {
        self.tool_calls = Some(calls);
        self
    }

    /// Limits the number of requests to the model.
    #[must_use]
    pub fn with_model_calls(mut self, calls: u32) -> Self {
        self.model_calls = Some(calls);
        self
    }

    /// Limits the output tokens.
    #[must_use]
    pub fn with_output_tokens(mut self, tokens: u64) -> Self {
        self.output_tokens = Some(tokens);
        self
    }

    /// Limits the cost.
    #[must_use]
    pub fn with_cost(mut self, cost: Usd) -> Self {
        self.cost = Some(cost);
        self
    }
}
