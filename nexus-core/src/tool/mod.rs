//! The caller's own tools: what a tool is, and who answers a call.

mod definition;
mod router;

pub use definition::{ToolCall, ToolContent, ToolDefinition, ToolResult};
pub use router::{NoTools, ToolRouter};
