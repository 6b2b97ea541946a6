//! Answers calls of the caller's tools.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use serde_json::Value;

use super::{ToolCall, ToolDefinition, ToolResult};
use crate::scope::Denial;

/// Lists the caller's tools and answers their calls.
///
/// A call never fails the turn: an error is a [`ToolResult::error`] that the model can read. Several calls may
/// run at once. Dropping the future of [`ToolRouter::call`] cancels the call.
///
/// Calls run on the turn's task. A call that blocks its thread, by waiting or by computing, also blocks the
/// turn, its deadline and concurrent calls. Run such work on another thread, for example with
/// `tokio::task::spawn_blocking`.
#[async_trait]
pub trait ToolRouter: fmt::Debug + Send + Sync + 'static {
    /// Returns the tools, in the order for the model.
    fn definitions(&self) -> Vec<ToolDefinition>;

    /// Returns the same tools as [`ToolRouter::definitions`], shared. As long as a router returns the same list, a backend
    /// prepares the tools for its requests once, not at every turn.
    ///
    /// Default: a new list each time.
    fn shared_definitions(&self) -> Arc<[ToolDefinition]> {
        self.definitions().into()
    }

    /// Checks arguments for `tool` without running it; `Err` is the fault, for the model. A session denies a
    /// call with faulty arguments, so that the call certainly has no effects.
    ///
    /// A router that cannot check before the call returns `Ok` and answers the call with an error. A wrapper
    /// delegates to the wrapped router.
    ///
    /// # Errors
    ///
    /// The fault, and its position.
    fn check_arguments(&self, tool: &str, arguments: &Value) -> Result<(), String>;

    /// Answers one call.
    async fn call(&self, call: ToolCall) -> ToolResult;
}

/// A router without tools.
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
