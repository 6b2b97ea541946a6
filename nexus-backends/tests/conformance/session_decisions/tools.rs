//! The caller's tools, which write down that they were asked.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use nexus_core::{Effects, PathAccess, ToolCall, ToolDefinition, ToolResult, ToolRouter};
use serde_json::{Value, json};

/// A tool that is there, and out of scope.
pub(crate) const HIDDEN: &str = "open_the_vault";

/// A tool that is nowhere.
pub(crate) const UNKNOWN: &str = "no_such_tool";

#[derive(Debug, Default)]
pub(crate) struct Recorder {
    asked: Mutex<Vec<String>>,
}

impl Recorder {
    /// The names of the tools that were asked.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl ToolRouter for Recorder {
    fn definitions(&self) -> Vec<ToolDefinition> {
        let takes = |name: &str| json!({ "type": "object", "properties": { name: { "type": "string" } } });
        vec![
            ToolDefinition::new("lookup", "Looks a word up.", takes("word")).with_effects(Effects::Read),
            ToolDefinition::new("open", "Opens a file.", takes("path"))
                .with_effects(Effects::Read)
                .with_path("/path", PathAccess::Read),
            ToolDefinition::new(HIDDEN, "Opens the vault.", takes("word")).with_effects(Effects::Wrote),
            ToolDefinition::new("submit", "Hands the answer in.", takes("answer")).terminal(),
        ]
    }

    fn check_arguments(&self, tool: &str, arguments: &Value) -> Result<(), String> {
        let wrong = arguments.as_object().into_iter().flatten().find(|(_, value)| !value.is_string());
        wrong.map_or(Ok(()), |(name, _)| Err(format!("{name:?} of {tool:?} must be text")))
    }

    async fn call(&self, call: ToolCall) -> ToolResult {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(call.name.clone());
        ToolResult::text(format!("{} was asked with {}", call.name, call.arguments))
    }
}
