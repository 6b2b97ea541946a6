//! The caller's tools: their definitions, the router that answers their calls, and tools made from closures.

mod arguments;
mod bounded;
mod definition;
mod output;
mod reach;
mod router;
pub(crate) mod schema;
mod submission;
mod toolbox;
mod typed;

pub(crate) use arguments::shortened;
pub use bounded::MAX_ANSWER_BYTES;
pub use definition::{ToolCall, ToolContent, ToolDefinition, ToolResult};
pub use output::{IntoToolResult, Json, Picture, ToolFault};
pub use router::{NoTools, ToolRouter};
pub use submission::Submission;
pub use toolbox::{QuarantineReason, Quarantined, Toolbox};
pub use typed::Tool;
