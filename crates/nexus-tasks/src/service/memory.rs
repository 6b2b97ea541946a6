//! What is remembered from one task to the next.

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
    /// What was to be reached.
    pub goal: String,
    /// What was to be solved, as the brief has it.
    pub problem: String,
    /// What was to be true after each step that advanced, in order.
    pub outcomes: Vec<String>,
}

/// What is remembered from one task to the next. A failure of it is logged and fails no task.
#[async_trait]
pub trait TaskMemory: fmt::Debug + Send + Sync {
    /// What is known that may help with a goal: shown to the orchestrator as a quotation.
    ///
    /// # Errors
    ///
    /// Any; the goal is framed without it.
    async fn recall(
        &self,
        project: &Path,
        goal: &str,
    ) -> Result<Option<String>, Box<dyn Error + Send + Sync>>;

    /// Takes down what a task came to: once for each completion. A server that is killed in the middle of this call leaves it to the
    /// next one, so that the same task may come a second time: keep it by its `task_id`.
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
