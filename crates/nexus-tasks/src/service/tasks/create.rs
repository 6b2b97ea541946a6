//! Creating a task.

use std::{path::PathBuf, time::Duration};

use nexus_core::harness::try_blocking;
use nexus_mcp::page::{cut, cut_list, fitted};
use nexus_work::call_wait;
use tokio::time::Instant;

use super::{
    super::{
        answer::{BaselineOutcome, BaselineView, TaskCreated},
        creation::{CreationProgress, READ_BOUND, TaskCreation},
        inner::{JobKind, TasksCore, read},
        report::baseline_view,
        request::TaskCreateRequest,
        reviewing_vendors::check_addresses,
    },
    Tasks,
};
use crate::{
    store::Task,
    task_error::{TaskError, TaskErrorKind},
};

impl Tasks {
    /// Creates a task in a project below the configured roots. See [`Tasks::create_below`].
    pub async fn create(&self, request: TaskCreateRequest) -> Result<TaskCreated, TaskError> {
        self.create_below(request, &[]).await
    }

    /// Creates a task in a project below the configured roots or those of the client, and runs the project's tests before any change. If
    /// the tests fail, the task is created with a warning. A project with more than 50,000 files or 200 MiB outside of git is
    /// [rejected](TaskErrorKind::NeedsConsent), unless the request allows it.
    pub async fn create_below(
        &self,
        request: TaskCreateRequest,
        client_roots: &[PathBuf],
    ) -> Result<TaskCreated, TaskError> {
        self.create_with(request, client_roots, TaskCreation::default()).await
    }

    /// Creates a task like [`Tasks::create_below`], and can be cancelled. A creation that fails or is cancelled leaves no task. A killed
    /// process leaves a task that [is unfinished](Task::is_unfinished), and the next creation removes it.
    pub async fn create_with(
        &self,
        request: TaskCreateRequest,
        client_roots: &[PathBuf],
        creation: TaskCreation,
    ) -> Result<TaskCreated, TaskError> {
        let store = self.0.store.clone();
        try_blocking(move || {
            store.remove_unfinished();
            Ok::<_, TaskError>(())
        })
        .await?;
        self.0.sweep();
        let wait = call_wait(request.wait_s);
        let began = Instant::now();
        let admission = self.0.admission.clone();
        let mut configuration = admission.check_configuration(&request)?;
        configuration.extend(check_addresses(&self.0.router).await?);
        let (asked, roots) = (request.clone(), client_roots.to_vec());
        let (mut data, parent, links) = try_blocking(move || admission.new_data(asked, &roots)).await?;
        data.warnings.extend(configuration);
        self.0.admission.check_sandbox(&data.settings).await?;
        let (inner, labels) = (self.0.handle(), request.labels);
        let read_bound = (!request.allow_large).then_some(READ_BOUND);
        let making = creation.clone();
        let (task, mark) = try_blocking(move || {
            let task = inner.store.create(&data, parent, links, labels)?;
            let made = task.mark_unfinished().and_then(|mark| {
                inner.prepare_tree_with(&task, &making, read_bound)?;
                Ok(mark)
            });
            match made {
                Ok(mark) => Ok((task, mark)),
                Err(error) => {
                    // No caller knows of it yet. If it cannot be removed, it is listed and can be cancelled.
                    let _ = inner.store.remove(&task);
                    Err(error)
                }
            }
        })
        .await?;
        let tested = tokio::select! {
            tested = self.0.first_tests(&task, wait.saturating_sub(began.elapsed()), &creation) => tested,
            () = creation.cancel.cancelled() => Err(cancelled()),
        };
        // No caller knows of the task before its creation has ended, so it can be removed.
        let baseline = match tested {
            Ok(baseline) => baseline,
            Err(error) => {
                self.0.undo(task).await;
                return Err(error);
            }
        };
        // Without the mark the task counts as created, even if this process is killed before it answers.
        if let Some(mark) = mark {
            let folder = task.folder().to_owned();
            try_blocking(move || mark.remove().map_err(TaskError::at(&folder))).await?;
        }
        let snapshot = read(&task, Task::snapshot).await?;
        let data = &snapshot.data;
        Ok(fitted(|most| TaskCreated {
            task_id: task.id().to_string(),
            status: snapshot.state.status.word(),
            next: snapshot.state.status.next_call().to_owned(),
            base: data.head.as_ref().map(ToString::to_string).unwrap_or_default(),
            baseline: baseline.clone().map(|view| BaselineView { output: cut(&view.output, most), ..view }),
            warnings: cut_list(data.warnings.iter().map(String::as_str), most),
        }))
    }
}

fn cancelled() -> TaskError {
    TaskError::new(TaskErrorKind::Interrupted, "the creation of the task was cancelled", "create it anew")
}

impl TasksCore {
    /// Removes a task whose creation did not complete, and stops its job.
    async fn undo(&self, task: Task) {
        self.jobs.stop(&task).await;
        let inner = self.handle();
        // If it cannot be removed, it stays marked as unfinished, and the next creation tries again.
        let _ = try_blocking(move || inner.store.remove(&task)).await;
    }

    /// Runs the tests on the base, and waits up to `wait` for their end.
    async fn first_tests(
        &self,
        task: &Task,
        wait: Duration,
        creation: &TaskCreation,
    ) -> Result<Option<BaselineView>, TaskError> {
        let settings = read(task, Task::data).await?.1.settings;
        let Some(command) = settings.test_command else { return Ok(None) };
        creation.say(CreationProgress::Testing(command));
        let (inner, tested) = (self.handle(), task.clone());
        let run = move |cancel, _| async move { inner.baseline(&tested, &cancel).await.map(drop) };
        let job = self.jobs.start(task, JobKind::Baseline, "the project's own tests run", run)?;
        match self.jobs.outcome(task, &job, wait).await {
            None => Ok(Some(BaselineView { outcome: BaselineOutcome::Running, output: String::new() })),
            Some(Ok(())) => {
                let baseline = read(task, Task::data).await?.1.baseline;
                Ok(baseline.map(|baseline| baseline_view(&baseline, 3_000)))
            }
            // The task exists. The caller gets the reason why its tests do not run; framing tries them again.
            Some(Err(error)) => {
                Ok(Some(BaselineView { outcome: BaselineOutcome::DidNotStart, output: error.to_string() }))
            }
        }
    }
}
