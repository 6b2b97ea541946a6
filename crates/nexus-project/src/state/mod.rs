//! The files below `.nexus/` that tools write. The types define the schemas of the files.

mod agent_files;
mod document;
mod history;
mod pending;
mod plan;
mod summary;
mod tasks;

pub(crate) use agent_files::AgentFilesLine;
pub use document::{Document, schema_of};
pub(crate) use document::{UPDATE, titled_schema};
pub use history::{Cycle, History};
pub(crate) use pending::Pending;
pub use plan::{Issue, IssueStatus, PlanDecision, ProjectPlan};
pub(crate) use summary::{PlanSummary, TasksSummary, summary_of, write_summarized};
pub use tasks::{OwnerReusePolicy, ProjectTask, ProjectTaskStatus, ProjectTasks};
