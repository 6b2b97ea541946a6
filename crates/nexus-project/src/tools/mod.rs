//! The eleven tools. Each is a call of [`ProjectFolder`](crate::ProjectFolder), whose argument and result types define its
//! schemas.

mod argument;
mod artifact;
mod context;
mod descriptions;
mod history;
mod plan;
mod serve;
mod task;

pub(crate) use argument::{breaks_line, checked_text};
pub use artifact::{ArtifactWriteRequest, ArtifactWritten};
pub use context::{ContextRequest, ContextView, PlanInContext, TasksInContext};
pub use history::{CycleView, DecisionView, HistoryPage, HistorySearchRequest};
pub use plan::{
    IssueView, PlanAction, PlanArchived, PlanDecideRequest, PlanDecided, PlanStartRequest, PlanStarted,
    PlanState, PlanStatusRequest, PlanUpdateRequest, PlanUpdated, PlanView,
};
pub use serve::{ProjectTools, ToolPrefix};
pub use task::{
    TaskAddRequest, TaskAdded, TaskCloseRequest, TaskUpdateRequest, TaskUpdated, TaskView, TasksClosed,
    TasksRequest, TasksView,
};
