//! The files below `.nexus/` that tools write. The types define the schemas of the files.

mod document;
mod history;
mod pending;
mod plan;
mod tasks;

pub use document::{Document, schema_of};
pub(crate) use document::{UPDATE, titled_schema};
pub use history::{Cycle, History};
pub(crate) use pending::Pending;
pub use plan::{Issue, IssueStatus, PlanDecision, ProjectPlan};
pub use tasks::{OwnerReusePolicy, ProjectTask, ProjectTaskStatus, ProjectTasks};
