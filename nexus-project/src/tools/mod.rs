//! The eleven tools, each a call of [`ProjectFolder`](crate::ProjectFolder): their arguments and results are their schemas.

mod artifact;
mod context;
mod descriptions;
mod history;
mod plan;
mod serve;
mod task;

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

use crate::error::ProjectError;

/// Longest title or topic, in bytes. Source: our own bound: lists of them are shown whole.
const MOST_TITLE: usize = 500;
/// Longest text of any other field, in bytes. Source: our own bound.
const MOST_TEXT: usize = 64 << 10;
/// Most numbers of an answer's list. Source: our own bound: with two lists there is room for a page beside them.
const MOST_NUMBERS: usize = 300;
/// Most numbers that an error names.
const MOST_NAMED: usize = 50;

/// A title is one line of text that says something.
fn checked_title(field: &str, text: &str) -> Result<String, ProjectError> {
    let text = text.trim();
    if text.is_empty() || text.len() > MOST_TITLE || text.chars().any(char::is_control) {
        let message = format!("`{field}` is not one line of 1 to {MOST_TITLE} bytes");
        return Err(ProjectError::invalid(
            message,
            "shorten it, and put the rest where longer texts are taken",
        ));
    }
    Ok(text.to_owned())
}

/// A text may be long. A blank one counts as left out.
pub(crate) fn checked_text(field: &str, text: Option<String>) -> Result<Option<String>, ProjectError> {
    match text {
        Some(text) if text.trim().is_empty() => Ok(None),
        Some(text) if text.len() > MOST_TEXT => {
            let message = format!("`{field}` has {} bytes, and {MOST_TEXT} are taken", text.len());
            Err(ProjectError::invalid(message, "write it to a file by artifact_write, and name that"))
        }
        text => Ok(text),
    }
}

/// The numbers that there are, for errors: the first of them.
fn numbers(ids: impl Iterator<Item = u32>) -> String {
    let mut ids: Vec<_> = ids.map(|id| id.to_string()).collect();
    let more = ids.len().saturating_sub(MOST_NAMED);
    ids.truncate(MOST_NAMED);
    match (ids.is_empty(), more) {
        (true, _) => "none".to_owned(),
        (false, 0) => ids.join(", "),
        (false, more) => format!("{}, and {more} more", ids.join(", ")),
    }
}
