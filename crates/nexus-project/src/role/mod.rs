//! Roles: their work, their access, and the choice of the agent that resumes a task.

mod capability;
mod catalog;
mod harness_map;
mod prompt;
pub(crate) mod resume;

pub use capability::{Capability, ToolClass};
pub use catalog::{Category, ModelTier, ResumeTier, Role};
pub use nexus_work::AgentType;

pub use harness_map::{HarnessMap, HarnessMapError, RoleTools};
pub use prompt::KnowledgeFile;
pub use resume::files_touched;
