//! Result of a task.

use nexus_mcp::page::{MOST_BYTES, cut, fitted_within, json_bytes, most_of, page};
use nexus_work::WorkspaceState as _;

use super::{
    super::{
        answer::{CommitView, TaskResult},
        inner::read,
        report::{ReportParts, outcome, reason_of},
        request::TaskResultRequest,
    },
    Tasks,
};
use crate::{store::Task, task_error::TaskError};

/// Maximum number of bytes of a changed file's path in an answer.
const MOST_PATH_BYTES: usize = 1_000;

impl Tasks {
    /// Returns the result of a task. Changes nothing.
    pub async fn result(&self, request: TaskResultRequest) -> Result<TaskResult, TaskError> {
        let task = self.0.open(&request.task_id).await?;
        read(&task, move |task| result_of(task, request.offset)).await
    }
}

fn result_of(task: &Task, offset: u64) -> Result<TaskResult, TaskError> {
    let parts = ReportParts::read(task)?;
    let (state, data) = (&parts.snapshot.state, &parts.snapshot.data);
    let (reason, _) = reason_of(state);
    let mut files = Vec::new();
    if let (Some(head), false) = (&data.head, data.commits.is_empty()) {
        let tree = task.tree()?;
        for change in tree.changes(&tree.base().commit, head)? {
            let word = match (&change.old, &change.new) {
                (None, _) => "added",
                (_, None) => "removed",
                _ => "modified",
            };
            files.push(cut(&format!("{word} {}", change.path.display()), MOST_PATH_BYTES));
        }
    }
    let landing = match (data.commits.is_empty(), state.is_final()) {
        (true, _) => "nothing was committed yet".to_owned(),
        (false, true) => format!(
            "`nexus task land {}` moves the project's branch to it; the artifact `patch` contains it as a \
            patch",
            task.id()
        ),
        (false, false) => {
            "the task is not finished; the artifact `patch` contains the commits so far".to_owned()
        }
    };
    let in_all = files.len() as u64;
    // Leave room so that every page has at least one file.
    let without_files = MOST_BYTES - 2 * MOST_PATH_BYTES - 100;
    let mut result = fitted_within(without_files, |most| TaskResult {
        task_id: parts.task_id.clone(),
        status: state.status.word(),
        reason: reason.as_deref().map(|reason| cut(reason, most)),
        criteria: parts.criteria(most.min(300)),
        // The newest commits; the artifact `patch` has the changes of all.
        commits: data.commits[data.commits.len().saturating_sub(most_of(48, most))..]
            .iter()
            .map(|commit| CommitView {
                id: commit.commit.to_string(),
                attempt: commit.attempt,
                outcome: data
                    .brief
                    .as_ref()
                    .map(|brief| cut(&outcome(brief, commit.entry), most.min(300)))
                    .unwrap_or_default(),
            })
            .collect(),
        files: Vec::new(),
        files_in_all: in_all,
        next_offset: None,
        landing: landing.clone(),
        spent: parts.spent,
    });
    let room = MOST_BYTES.saturating_sub(json_bytes(&result));
    (result.files, result.next_offset) = page(files, offset, room);
    Ok(result)
}
