//! Who answers a tool call.

use std::fmt;

use async_trait::async_trait;
use serde_json::Value;

use super::{ToolCall, ToolDefinition, ToolResult};
use crate::scope::Denial;

/// Lists the caller's tools and answers calls of them.
///
/// A call never fails the turn: what went wrong is a [`ToolResult::error`] that the model can read. Several
/// calls may run at once. Dropping the future of [`ToolRouter::call`] gives the call up.
///
/// Calls run where the turn runs: one that blocks its thread, by waiting or by computing, holds up its turn, its
/// deadline and the calls beside it. Such work belongs on a thread of its own, as `tokio::task::spawn_blocking` gives.
#[async_trait]
pub trait ToolRouter: fmt::Debug + Send + Sync + 'static {
    /// The tools, in the order in which the model should see them.
    fn definitions(&self) -> Vec<ToolDefinition>;

    /// Whether `tool` could be asked with these arguments; `Err` is what is wrong with them, for the model. Nothing is
    /// run. A session refuses a call by it, so that it is known to have changed nothing.
    ///
    /// A router that cannot tell before the call returns `Ok` and answers the call with an error. One that wraps another asks
    /// that one.
    ///
    /// # Errors
    ///
    /// The problem, and where it is.
    fn check_arguments(&self, tool: &str, arguments: &Value) -> Result<(), String>;

    /// Answers one call.
    async fn call(&self, call: ToolCall) -> ToolResult;
}

/// No tools at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTools;

#[async_trait]
impl ToolRouter for NoTools {
    fn definitions(&self) -> Vec<ToolDefinition> {
        Vec::new()
    }

    fn check_arguments(&self, _tool: &str, _arguments: &Value) -> Result<(), String> {
        Ok(())
    }

    async fn call(&self, call: ToolCall) -> ToolResult {
        ToolResult::error(Denial::unknown(&call.name, std::iter::empty()).to_string())
    }
}
