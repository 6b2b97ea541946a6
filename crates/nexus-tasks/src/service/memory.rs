//! Memory from one task to the next.

use std::{error::Error, fmt, path::Path};

use async_trait::async_trait;

/// A task that was completed.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletedTask {
    /// Its id.
    pub task_id: String,
    /// The project: its canonical root.
    pub project: std::path::PathBuf,
    /// The goal.
    pub goal: String,
    /// The problem, as written in the brief.
    pub problem: String,
    /// Outcomes of the steps that advanced, in order.
    pub outcomes: Vec<String>,
}

/// Memory from one task to the next. A failure fails no task. A failed [`remember`](Self::remember) is logged.
#[async_trait]
pub trait TaskMemory: fmt::Debug + Send + Sync {
    /// Recalls facts that may help with a goal. The orchestrator reads them as a quotation.
    ///
    /// # Errors
    ///
    /// Any; the goal is framed without them.
    async fn recall(
        &self,
        project: &Path,
        goal: &str,
    ) -> Result<Option<String>, Box<dyn Error + Send + Sync>>;

    /// Remembers a completed task: once for each completion. If a server is killed during this call, the next server repeats it. So the
    /// same task may come twice: store it by its `task_id`.
    ///
    /// # Errors
    ///
    /// Any; the task stays complete.
    async fn remember(&self, task: &CompletedTask) -> Result<(), Box<dyn Error + Send + Sync>>;
}

/// Remembers nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMemory;

#[async_trait]
impl TaskMemory for NoMemory {
    async fn recall(
        &self,
        _project: &Path,
        _goal: &str,
    ) -> Result<Option<String>, Box<dyn Error + Send + Sync>> {
        Ok(None)
    }

    async fn remember(&self, _task: &CompletedTask) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(())
    }
}
