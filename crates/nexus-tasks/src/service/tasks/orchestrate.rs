//! Framing a task.

use std::sync::Arc;

use nexus_core::{CancelToken, harness::try_blocking};
use nexus_mcp::page::cut;
use nexus_work::{call_wait, check_text};
use tokio::{sync::watch, time::Instant};

use super::{
    super::{
        answer::TaskFramed,
        inner::{JobKind, TaskJob, TasksCore, read},
        recovery::recover,
        report::ReportParts,
        request::TaskOrchestrateRequest,
    },
    Tasks,
};
use crate::{store::Task, task_error::TaskError, task_state::TaskStatus};

/// Longest answer, in bytes. Source: our own bound.
const MOST_ANSWER_BYTES: usize = 8 << 10;

impl Tasks {
    /// Frames a task, or joins the running framing. If the orchestrator asked questions, framing resumes when they are answered.
    pub async fn orchestrate(&self, request: TaskOrchestrateRequest) -> Result<TaskFramed, TaskError> {
        self.0.sweep();
        self.0.follow_up_all();
        let deadline = Instant::now() + call_wait(request.wait_s);
        let left = || deadline.saturating_duration_since(Instant::now());
        let task = self.0.open(&request.task_id).await?;
        if let Some(error) = self.0.jobs.take_failure(task.id()) {
            return Err(error);
        }
        let job = match self.0.jobs.of(task.id()) {
            Some(job) if matches!(job.kind, JobKind::Step { .. }) => {
                return Err(TaskError::wrong_status(
                    "a step of the task is running",
                    "call task_run_turn, which waits for the running step",
                ));
            }
            // The tests on the base come first; framing begins after them.
            Some(job) if job.kind == JobKind::Baseline => {
                if job.ended_within(left()).await.is_none() {
                    return self.0.framed(&task, Some(&job)).await;
                }
                None
            }
            job => job,
        };
        let job = match job {
            Some(job) => job,
            None => {
                let (answering, answers) = (task.clone(), request.answers);
                if !try_blocking(move || is_to_be_framed(&answering, answers)).await? {
                    return self.0.framed(&task, None).await;
                }
                self.0.start_framing(&task)?
            }
        };
        match self.0.jobs.outcome(&task, &job, left()).await {
            None => self.0.framed(&task, Some(&job)).await,
            Some(outcome) => {
                outcome?;
                self.0.framed(&task, None).await
            }
        }
    }
}

impl TasksCore {
    /// Starts to frame a task, or returns its running job.
    pub(in crate::service) fn start_framing(&self, task: &Task) -> Result<Arc<TaskJob>, TaskError> {
        let (inner, framed) = (self.handle(), task.clone());
        let run =
            move |cancel, progress| async move { inner.frame_if_due(&framed, &cancel, &progress).await };
        self.jobs.start(task, JobKind::Framing, "the task is prepared", run)
    }

    /// Frames a task, unless another process framed it meanwhile. The caller owns its lock.
    async fn frame_if_due(
        &self,
        task: &Task,
        cancel: &CancelToken,
        progress: &watch::Sender<String>,
    ) -> Result<(), TaskError> {
        let inner = self.handle();
        let state = read(task, move |task| {
            let tree = inner.prepare_tree(task)?;
            recover(task, &tree)?;
            Ok(task.data()?.0)
        })
        .await?;
        match state.status {
            TaskStatus::Framing | TaskStatus::ClarificationNeeded { .. } => {
                self.frame(task, cancel, progress).await
            }
            _ => {
                self.after_step(task).await;
                Ok(())
            }
        }
    }

    /// Returns the state of framing, with the task.
    async fn framed(&self, task: &Task, job: Option<&TaskJob>) -> Result<TaskFramed, TaskError> {
        let parts = read(task, ReportParts::read).await?;
        let progress = job.map(TaskJob::progress);
        let mut report = parts.report(progress.as_deref());
        // The answer has a field of its own for the progress, so leave it out of the report.
        report.progress = None;
        Ok(TaskFramed {
            running: job.is_some(),
            progress: progress.map(|line| cut(&line, 300)),
            task: report,
        })
    }
}

/// Stores the caller's answers, if any. Returns true if the task has to be framed.
fn is_to_be_framed(task: &Task, answers: Option<Vec<String>>) -> Result<bool, TaskError> {
    task.update(|state, data| {
        let questions = match &state.status {
            TaskStatus::Framing => {
                return match answers {
                    Some(_) => Err(TaskError::invalid(
                        "no questions were asked",
                        "call task_orchestrate without answers",
                    )),
                    None => Ok(true),
                };
            }
            TaskStatus::ClarificationNeeded { questions } => questions,
            TaskStatus::Active { .. } | TaskStatus::Escalated { entry: None, .. } => return Ok(false),
            status => {
                return Err(TaskError::wrong_status(
                    format!("the task is {}", status.name()),
                    status.next_call(),
                ));
            }
        };
        // Answers of an interrupted framing are already stored: then the call may repeat without them.
        let known = data.answers.len().saturating_sub(questions.len());
        let is_answered = data.answers[known..].iter().map(|(question, _)| question).eq(questions);
        let Some(answers) = answers else { return Ok(is_answered) };
        if answers.len() != questions.len() {
            let message = format!("{} answers do not match {} questions", answers.len(), questions.len());
            return Err(TaskError::invalid(message, "give one answer to each question, in their order"));
        }
        for answer in &answers {
            check_text("answers", answer, MOST_ANSWER_BYTES)?;
        }
        if is_answered {
            data.answers.truncate(known);
        }
        data.answers.extend(questions.iter().cloned().zip(answers));
        Ok(true)
    })
}
